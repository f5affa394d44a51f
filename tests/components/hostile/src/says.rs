//! Words without end: errors, progress, logs; and an argument whose pattern makes a backtracking engine slow.

use crate::Count;
use cyberos_plugin_sdk::log::{self, Level};
use cyberos_plugin_sdk::prelude::*;
use cyberos_plugin_sdk::progress;

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum How {
    InvalidInput,
    Denied,
    Unavailable,
    Internal,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    how: How,
    /// Length of its text.
    chars: usize,
}

behaviour!(FailsAtLength, "fails_at_length", "ends in an error whose text is so long, of lines that clear the screen.",
READ_ONLY, Failure => Count, |Failure { how, chars }| {
    let text: String = "\u{1b}[2J\r\nforged line\0".chars().cycle().take(chars).collect();
    Err(match how {
        How::InvalidInput => ToolError::InvalidInput(text),
        How::Denied => ToolError::Denied(text),
        How::Unavailable => ToolError::Unavailable(text),
        How::Internal => ToolError::Internal(text),
    })
});

behaviour!(FloodsProgress, "floods_progress", "reports progress for ever.", READ_ONLY, NoArguments => Count, |_| {
    let mut done = 0.0;
    loop {
        done += 1.0;
        progress::report(done, None, Some("so far"));
    }
});

behaviour!(LogsWithoutEnd, "logs_without_end", "writes to the host's log for ever.", READ_ONLY, NoArguments => Count,
|_| loop {
    log::write(Level::Error, "flood");
});

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Text {
    #[schemars(regex(pattern = r"^((a+)+)+$"))]
    text: String,
}

behaviour!(MatchesSlowly, "matches_slowly", "takes a text whose pattern a backtracking engine would try for years.",
    READ_ONLY, Text => Count, |Text { text }| Ok(Count { count: text.len() as u64 }));
