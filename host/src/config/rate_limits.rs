//! How an operator writes a rate limit: `60,1/s` for a bucket, `100/min,200/30s` for a window, `off` for none.
//!
//! Only the words and their bounds; what they mean to a call is `broker::limits`.

use std::str::FromStr;
use std::time::Duration;

/// So many calls in so much time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// 1 to 1,000,000.
    pub calls: u32,
    /// 1 s to 1 h.
    pub period: Duration,
}

/// `burst` calls at once, and then as many as `refill` gives back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketRate {
    pub burst: u32,
    pub refill: Rate,
}

/// `sustained` over time. With a `burst`, a rush of so many within its period is let through first; without one, no
/// window of `sustained.period` ever holds more than `sustained.calls`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowRate {
    pub sustained: Rate,
    pub burst: Option<Rate>,
}

/// A limit, or none (`off`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateSetting<T>(pub Option<T>);

const MOST_CALLS: u32 = 1_000_000;
const LONGEST: Duration = Duration::from_secs(3600);

impl FromStr for RateSetting<BucketRate> {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        unless_off(text, |text| {
            let (burst, refill) = text.split_once(',').ok_or("write BURST,CALLS/PERIOD, such as 60,1/s, or off")?;
            Ok(BucketRate { burst: calls(burst)?, refill: rate(refill)? })
        })
    }
}

impl FromStr for RateSetting<WindowRate> {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        unless_off(text, |text| {
            let (sustained, burst) = match text.split_once(',') {
                Some((sustained, burst)) => (rate(sustained)?, Some(rate(burst)?)),
                None => (rate(text)?, None),
            };
            if burst.is_some_and(|burst| burst.calls < sustained.calls) {
                return Err("the burst must be at least as many calls as the rate before it".into());
            }
            Ok(WindowRate { sustained, burst })
        })
    }
}

fn unless_off<T>(text: &str, parse: impl FnOnce(&str) -> Result<T, String>) -> Result<RateSetting<T>, String> {
    match text.trim() {
        "off" => Ok(RateSetting(None)),
        text => parse(text).map(|limit| RateSetting(Some(limit))),
    }
}

fn rate(text: &str) -> Result<Rate, String> {
    let (number, period) =
        text.split_once('/').ok_or_else(|| format!("{text:?} must be CALLS/PERIOD, such as 100/min or 200/30s"))?;
    let wrong = || format!("{period:?} must be a period of 1 s to 1 h, such as s, min, h, 30s or 5min");
    let digits = period.trim().bytes().take_while(u8::is_ascii_digit).count();
    let (count, unit) = period.trim().split_at(digits);
    let count: u64 = if count.is_empty() { 1 } else { count.parse().map_err(|_| wrong())? };
    let seconds = match unit {
        "s" => 1,
        "min" => 60,
        "h" => 3600,
        _ => return Err(wrong()),
    };
    let period = Duration::from_secs(count.checked_mul(seconds).ok_or_else(wrong)?);
    if period.is_zero() || period > LONGEST {
        return Err(wrong());
    }
    Ok(Rate { calls: calls(number)?, period })
}

fn calls(text: &str) -> Result<u32, String> {
    text.trim()
        .parse()
        .ok()
        .filter(|calls| (1..=MOST_CALLS).contains(calls))
        .ok_or_else(|| format!("{text:?} must be a number of calls from 1 to {MOST_CALLS}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every(calls: u32, seconds: u64) -> Rate {
        Rate { calls, period: Duration::from_secs(seconds) }
    }

    #[test]
    fn limits_are_written_as_people_say_them() {
        assert_eq!("off".parse(), Ok(RateSetting::<BucketRate>(None)));
        assert_eq!("60,1/s".parse(), Ok(RateSetting(Some(BucketRate { burst: 60, refill: every(1, 1) }))));
        let burst = Some(every(200, 30));
        assert_eq!("100/min,200/30s".parse(), Ok(RateSetting(Some(WindowRate { sustained: every(100, 60), burst }))));
        assert_eq!("5/1h".parse(), Ok(RateSetting(Some(WindowRate { sustained: every(5, 3600), burst: None }))));
    }

    #[test]
    fn mistakes_are_named() {
        for wrong in
            ["", "60", "0,1/s", "60,1", "60,1/day", "60,1/0s", "60,1/2h", "-1,1/s", "1000001,1/s", "60,1/s,2/s"]
        {
            assert!(wrong.parse::<RateSetting<BucketRate>>().is_err(), "{wrong}");
        }
        for wrong in ["100", "100/min,", "100/min,50/30s", "100/99999999999999999999s", "1e3/min"] {
            assert!(wrong.parse::<RateSetting<WindowRate>>().is_err(), "{wrong}");
        }
    }
}
