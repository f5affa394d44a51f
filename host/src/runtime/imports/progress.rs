//! `cyberos:plugin/progress`: how far the call is. Values that do not grow are dropped and fast reports are merged, so
//! that a guest can flood neither a client nor a task row (MCP 2025-11-25, progress: values must increase).

use std::time::{Duration, Instant};

use crate::model::Progress;
use crate::runtime::bindings::cyberos::plugin::progress::Host;
use crate::runtime::call::CallState;

/// At most ten reports a second reach the caller.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const MAX_MESSAGE_CHARS: usize = 500;

/// What was let through last.
#[derive(Default)]
pub struct ProgressGate {
    last: Option<(f64, Instant)>,
}

impl ProgressGate {
    /// A final report (`progress == total`) passes even when it comes early: it would otherwise never be seen.
    pub fn admit(&mut self, report: &Progress) -> bool {
        if !report.progress.is_finite() || report.total.is_some_and(|t| !t.is_finite()) {
            return false;
        }
        let now = Instant::now();
        if let Some((value, at)) = self.last {
            let is_last = report.total == Some(report.progress);
            if report.progress <= value || (!is_last && now - at < SHORTEST_PAUSE) {
                return false;
            }
        }
        self.last = Some((report.progress, now));
        true
    }
}

impl Host for CallState {
    async fn report(&mut self, progress: f64, total: Option<f64>, message: Option<String>) -> wasmtime::Result<()> {
        self.enter()?;
        let message = message.map(|m| m.chars().take(MAX_MESSAGE_CHARS).collect());
        let report = Progress { progress, total, message };
        if self.progress.admit(&report) {
            self.call.progress.report(report);
        }
        Ok(())
    }
}
