//! Medians and percentiles; a mean would follow whatever else the machine was doing.

use std::time::Duration;

/// `share` of 0.5 is the median. Panics on an empty list: nothing was measured then.
pub fn percentile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[((sorted.len() - 1) as f64 * share).round() as usize]
}

pub fn median(values: &[f64]) -> f64 {
    percentile(values, 0.5)
}

pub fn micros(times: &[Duration]) -> Vec<f64> {
    times.iter().map(|t| t.as_secs_f64() * 1e6).collect()
}

pub fn millis(times: &[Duration]) -> Vec<f64> {
    times.iter().map(|t| t.as_secs_f64() * 1e3).collect()
}
