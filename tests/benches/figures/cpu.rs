//! Processor time of a process: what a call costs whoever else is on the machine.

use anyhow::Context;
use std::time::Duration;

/// User and system time of all threads so far; `process` is a number or `self`. In steps of 10 ms.
pub fn used(process: &str) -> anyhow::Result<Duration> {
    let path = format!("/proc/{process}/stat");
    let text = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    // The second field is a name that may hold anything but ends in the last parenthesis (proc(5)).
    let after_name = text.rsplit_once(')').context("a name in parentheses")?.1;
    let ticks: u64 = after_name
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(str::parse::<u64>)
        .sum::<Result<u64, _>>()
        .with_context(|| path)?;
    Ok(Duration::from_millis(ticks * 10))
}
