//! Where `auth` reads the time, so that expiry can be tested without waiting for it.

use jiff::Timestamp;
use std::sync::Arc;

/// Wall-clock time, as tokens use it. Cheap to clone.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    pub fn system() -> Self {
        Clock(Arc::new(Timestamp::now))
    }

    /// A clock that answers what `now` returns.
    pub fn from_fn(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Clock(Arc::new(now))
    }

    pub fn now(&self) -> Timestamp {
        (self.0)()
    }
}

impl Default for Clock {
    fn default() -> Self {
        Clock::system()
    }
}

/// A clock that moves when a test moves it.
#[cfg(test)]
#[derive(Clone)]
pub(super) struct TestClock(Arc<std::sync::atomic::AtomicI64>);

#[cfg(test)]
impl TestClock {
    /// Starts at 2030-01-01T00:00:00Z.
    pub(super) fn start() -> Self {
        TestClock(Arc::new(std::sync::atomic::AtomicI64::new(1_893_456_000)))
    }
    pub(super) fn seconds(&self) -> i64 {
        self.0.load(std::sync::atomic::Ordering::SeqCst)
    }
    pub(super) fn advance(&self, seconds: i64) {
        self.0.fetch_add(seconds, std::sync::atomic::Ordering::SeqCst);
    }
    pub(super) fn clock(&self) -> Clock {
        let this = self.clone();
        Clock::from_fn(move || Timestamp::from_second(this.seconds()).unwrap())
    }
}
