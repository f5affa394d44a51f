//! Tools that report progress as no tool should.

use cyberos_plugin_sdk::prelude::*;
use cyberos_plugin_sdk::progress;
use std::thread::sleep;
use std::time::Duration;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reports {
    /// Reported in this order, also backwards.
    values: Vec<f64>,
    total: Option<f64>,
    /// Length of each message; none when absent.
    message_chars: Option<usize>,
    /// Between two reports.
    #[serde(default)]
    pause_ms: u64,
}

#[derive(Serialize, JsonSchema)]
pub struct Reported {
    reports: usize,
}

behaviour!(ReportsProgress, "reports_progress", "reports the given values, fast, backwards or with huge messages.",
READ_ONLY, Reports => Reported, |Reports { values, total, message_chars, pause_ms }| {
    let message = message_chars.map(|chars| "m".repeat(chars));
    for value in &values {
        progress::report(*value, total, message.as_deref());
        sleep(Duration::from_millis(pause_ms));
    }
    Ok(Reported { reports: values.len() })
});

behaviour!(ReportsNoNumber, "reports_no_number", "reports progress that is not a number, or is infinite.", READ_ONLY,
NoArguments => Reported, |_| {
    progress::report(f64::NAN, None, None);
    progress::report(f64::INFINITY, None, None);
    progress::report(1.0, Some(f64::NAN), None);
    Ok(Reported { reports: 3 })
});
