//! Tools that say something before they answer. Over HTTP that is what makes a reply a stream.

use cyberos_plugin_sdk::prelude::*;
use cyberos_plugin_sdk::{log, progress, text};
use std::thread::sleep;
use std::time::Duration;

use crate::content::answer;

const PAUSE: Duration = Duration::from_millis(50);

/// The host passes on ten reports a second, and the suite counts them.
const PAUSE_BETWEEN_REPORTS: Duration = Duration::from_millis(120);

/// Longer than the host keeps a connection open where it is told to let clients poll (SEP-1699), which is for a second;
/// and shorter than two of them, because the suite comes back at once and only once.
const WORK: Duration = Duration::from_millis(1_500);

fixture!(WithLogging, "test_tool_with_logging", "Logging", "Writes three messages to the log while it runs.",
NoArguments => ToolResult, |_| {
    log::write(log::Level::Info, "Tool execution started");
    sleep(PAUSE);
    log::write(log::Level::Info, "Tool processing data");
    sleep(PAUSE);
    log::write(log::Level::Info, "Tool execution completed");
    Ok(answer(vec![text("Three messages were logged.")]))
});

fixture!(WithProgress, "test_tool_with_progress", "Progress", "Reports progress three times: none, half and all.",
NoArguments => ToolResult, |_| {
    for (number, done) in [0.0, 50.0, 100.0].into_iter().enumerate() {
        if number > 0 {
            sleep(PAUSE_BETWEEN_REPORTS);
        }
        progress::report(done, Some(100.0), None);
    }
    Ok(answer(vec![text("Progress was reported three times.")]))
});

fixture!(Reconnection, "test_reconnection", "Reconnection",
    "Starts to answer and then takes its time, so that the connection may be closed and taken up again.",
NoArguments => ToolResult, |_| {
    log::write(log::Level::Info, "The client may hang up and ask again for the rest.");
    sleep(WORK);
    Ok(answer(vec![text("This answer is for whoever came back for it.")]))
});
