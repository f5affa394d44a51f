//! Until when a call may run. The time in which it waits for a person does not count: the clock stands still, so that a
//! guest which asks a question keeps what it had left.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Shared by the call's timer and its host imports. Cheap to clone.
#[derive(Clone)]
pub struct Deadline(Arc<Inner>);

struct Inner {
    clock: Mutex<Clock>,
    moves_again: Notify,
}

struct Clock {
    until: Instant,
    /// Since when it stands still.
    stopped: Option<Instant>,
}

impl Deadline {
    pub fn at(until: Instant) -> Deadline {
        Deadline(Arc::new(Inner { clock: Mutex::new(Clock { until, stopped: None }), moves_again: Notify::new() }))
    }

    /// What the call has left.
    pub fn left(&self) -> Duration {
        let clock = self.lock();
        clock.until.saturating_duration_since(clock.stopped.unwrap_or_else(Instant::now))
    }

    /// The clock stands still for as long as the guard lives. A call waits for one thing at a time.
    pub fn stand_still(&self) -> StandingStill {
        self.lock().stopped = Some(Instant::now());
        StandingStill(self.clone())
    }

    /// Returns when the time is over.
    pub async fn passed(&self) {
        loop {
            // Enabled before the clock is read, so that a restart in between is not missed.
            let moves_again = self.0.moves_again.notified();
            tokio::pin!(moves_again);
            moves_again.as_mut().enable();
            let (until, stopped) = {
                let clock = self.lock();
                (clock.until, clock.stopped.is_some())
            };
            match stopped {
                true => moves_again.await,
                false if until <= Instant::now() => return,
                false => tokio::time::sleep_until(until.into()).await,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Clock> {
        self.0.clock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub struct StandingStill(Deadline);

impl Drop for StandingStill {
    fn drop(&mut self) {
        let mut clock = self.0.lock();
        if let Some(since) = clock.stopped.take() {
            clock.until += since.elapsed();
        }
        drop(clock);
        self.0.0.moves_again.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(60);

    #[tokio::test]
    async fn the_time_that_a_person_takes_is_given_back() {
        // given: a call with little time left, which asks somebody
        let deadline = Deadline::at(Instant::now() + SHORT);
        let passed = tokio::spawn({
            let deadline = deadline.clone();
            async move { deadline.passed().await }
        });
        let waiting = deadline.stand_still();
        // when: the answer takes longer than that
        tokio::time::sleep(SHORT * 3).await;
        // then
        assert!(!passed.is_finished());
        assert!(deadline.left() > SHORT / 3, "{:?}", deadline.left());
        drop(waiting);
        assert!(deadline.left() > SHORT / 3);
        tokio::time::timeout(SHORT * 20, passed).await.expect("it passes once nobody is waited for").unwrap();
        assert_eq!(deadline.left(), Duration::ZERO);
    }
}
