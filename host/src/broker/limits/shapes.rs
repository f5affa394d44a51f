//! The two shapes of a limit, as arithmetic on one moment (nanoseconds since the process began to count). Nothing here
//! knows callers, locks or clocks, so every answer can be checked to the nanosecond.

use std::collections::VecDeque;
use std::time::Duration;

use crate::config::{BucketRate, WindowRate};

/// A token bucket, kept as the one moment at which it will be full again (GCRA; its state is a number and it cannot
/// drift).
#[derive(Clone, Copy)]
pub struct Bucket {
    /// One token.
    every: u64,
    /// All tokens but one.
    depth: u64,
}

impl Bucket {
    pub fn new(rate: &BucketRate) -> Bucket {
        let every = nanos(rate.refill.period) / u64::from(rate.refill.calls);
        Bucket { every, depth: every * u64::from(rate.burst - 1) }
    }

    /// How long until there is a token; 0: now.
    pub fn wait(&self, full_at: u64, now: u64) -> u64 {
        full_at.saturating_sub(self.depth).saturating_sub(now)
    }

    pub fn take(&self, full_at: u64, now: u64) -> u64 {
        full_at.max(now) + self.every
    }
}

/// A sliding window over the last calls, and beside it the pace that a burst has to be earned back at.
pub struct Window {
    calls: usize,
    period: u64,
    pace: Option<Bucket>,
}

/// Calls that were let through, the last `calls` of them.
#[derive(Default)]
pub struct Passed {
    at: VecDeque<u64>,
    full_at: u64,
}

impl Window {
    pub fn new(rate: &WindowRate) -> Window {
        let most = rate.burst.unwrap_or(rate.sustained);
        let pace = rate.burst.map(|burst| Bucket::new(&BucketRate { burst: burst.calls, refill: rate.sustained }));
        Window { calls: most.calls as usize, period: nanos(most.period), pace }
    }

    pub fn wait(&self, passed: &Passed, now: u64) -> u64 {
        // The one that has to leave the window before another may enter.
        let oldest = passed.at.len().checked_sub(self.calls).and_then(|n| passed.at.get(n));
        let window = oldest.map_or(0, |at| (at + self.period).saturating_sub(now));
        window.max(self.pace.map_or(0, |pace| pace.wait(passed.full_at, now)))
    }

    pub fn take(&self, passed: &mut Passed, now: u64) {
        // Two threads may come with their moments the wrong way round.
        let now = passed.at.back().map_or(now, |last| now.max(*last));
        if passed.at.len() == self.calls {
            passed.at.pop_front();
        }
        passed.at.push_back(now);
        if let Some(pace) = self.pace {
            passed.full_at = pace.take(passed.full_at, now);
        }
    }

    /// Would a newcomer be treated the same?
    pub fn is_idle(&self, passed: &Passed, now: u64) -> bool {
        passed.full_at <= now && passed.at.back().is_none_or(|last| last + self.period <= now)
    }
}

fn nanos(period: Duration) -> u64 {
    u64::try_from(period.as_nanos()).expect("settings allow an hour at most")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Rate;

    const SECOND: u64 = 1_000_000_000;

    fn per(calls: u32, seconds: u64) -> Rate {
        Rate { calls, period: Duration::from_secs(seconds) }
    }

    /// Calls as often as it may from `from` to `to`; how many got through.
    fn greedy(window: &Window, passed: &mut Passed, from: u64, to: u64) -> usize {
        let (mut now, mut count) = (from, 0);
        while now < to {
            match window.wait(passed, now) {
                0 => {
                    window.take(passed, now);
                    count += 1;
                }
                wait => now += wait,
            }
        }
        count
    }

    #[test]
    fn a_bucket_gives_its_burst_and_then_one_token_at_a_time() {
        let bucket = Bucket::new(&BucketRate { burst: 60, refill: per(1, 1) });
        let (mut full_at, now) = (0, 1000 * SECOND);
        for _ in 0..60 {
            assert_eq!(bucket.wait(full_at, now), 0);
            full_at = bucket.take(full_at, now);
        }
        assert_eq!(bucket.wait(full_at, now), SECOND);
        assert_eq!(bucket.wait(full_at, now + SECOND - 1), 1);
        assert_eq!(bucket.wait(full_at, now + SECOND), 0);
        assert_eq!(bucket.wait(full_at, now + 3600 * SECOND), 0);
    }

    #[test]
    fn a_window_without_a_burst_slides_exactly() {
        let window = Window::new(&WindowRate { sustained: per(100, 60), burst: None });
        let mut passed = Passed::default();
        for n in 0..100 {
            assert_eq!(window.wait(&passed, n * SECOND / 10), 0, "call {n}");
            window.take(&mut passed, n * SECOND / 10);
        }
        // The hundred and first waits until the first is a minute ago, and so on, one by one.
        assert_eq!(window.wait(&passed, 30 * SECOND), 30 * SECOND);
        assert_eq!(window.wait(&passed, 60 * SECOND - 1), 1);
        assert_eq!(window.wait(&passed, 60 * SECOND), 0);
        window.take(&mut passed, 60 * SECOND);
        assert_eq!(window.wait(&passed, 60 * SECOND), SECOND / 10);
    }

    #[test]
    fn a_burst_is_let_through_and_earned_back_at_the_sustained_rate() {
        let window = Window::new(&WindowRate { sustained: per(100, 60), burst: Some(per(200, 30)) });
        let mut passed = Passed::default();
        let begun = 500 * SECOND;
        assert_eq!(greedy(&window, &mut passed, begun, begun + 30 * SECOND), 200, "no 30 s see more than the burst");
        // What 30 s earned back, then 100 a minute.
        greedy(&window, &mut passed, begun + 30 * SECOND, begun + 60 * SECOND);
        for minute in 1..10 {
            let from = begun + minute * 60 * SECOND;
            assert_eq!(greedy(&window, &mut passed, from, from + 60 * SECOND), 100, "minute {minute}");
        }
        // And a full burst again after two minutes of rest.
        let rested = begun + 720 * SECOND;
        assert!(window.is_idle(&passed, rested));
        assert_eq!(greedy(&window, &mut passed, rested, rested + 30 * SECOND), 200);
        assert!(!window.is_idle(&passed, rested + 31 * SECOND));
    }
}
