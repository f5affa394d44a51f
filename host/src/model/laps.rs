//! The steps of one call and how long each took: child spans of the call's own. Costs nothing where nobody looks.

use std::time::Instant;

/// A step, when it began and when it ended.
pub type Lap = (&'static str, Instant, Instant);

pub struct Laps(Option<Vec<Lap>>, Instant);

impl Laps {
    /// The first step begins at `start`.
    pub fn kept(start: Instant) -> Laps {
        Laps(Some(Vec::with_capacity(16)), start)
    }

    pub fn none() -> Laps {
        Laps(None, Instant::now())
    }

    /// `step` ended with `result`; the next one begins.
    pub fn lap<T>(&mut self, step: &'static str, result: T) -> T {
        if let Some(laps) = &mut self.0 {
            let now = Instant::now();
            laps.push((step, std::mem::replace(&mut self.1, now), now));
        }
        result
    }

    pub fn all(&self) -> &[Lap] {
        self.0.as_deref().unwrap_or_default()
    }
}
