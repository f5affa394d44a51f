//! What the commands print: tables for people, JSON for scripts, refusals for both. It knows no command.

use comfy_table::{Cell, ContentArrangement, Table, presets};
use serde::Serialize;
use serde_json::Value;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use crate::app;
use crate::error::{Error, PublicError};
use crate::model::TraceId;

/// It ran, and the answer is no.
pub const NO: u8 = 1;
/// It could not be done.
pub const REFUSED: u8 = 2;
/// Stopped by ^C, as shells count it.
pub const INTERRUPTED: u8 = 130;

#[derive(Clone, Copy, Debug, clap::Args)]
pub struct OutputArgs {
    /// JSON for scripts instead of text for people.
    #[arg(long, global = true)]
    pub json: bool,
}

/// One line or block on stdout. Errors when nobody reads any more.
#[allow(clippy::explicit_write)]
pub fn text(text: &str) -> anyhow::Result<()> {
    Ok(writeln!(io::stdout().lock(), "{}", text.trim_end_matches('\n'))?)
}

/// Indented for a terminal, one line for a pipe.
pub fn json(value: &impl Serialize) -> anyhow::Result<()> {
    let written = match io::stdout().is_terminal() {
        true => serde_json::to_string_pretty(value)?,
        false => serde_json::to_string(value)?,
    };
    text(&written)
}

pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.root_cause().downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
}

/// Borderless, so that `awk` and a mouse both work on it.
pub fn table<const N: usize>(header: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header.map(|title| Cell::new(title.to_uppercase())));
    for row in rows {
        table.add_row(row.map(|cell| Cell::new(printable(&cell).replace('\n', " "))));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt()
}

/// `name  value` lines, the names in one column; further lines of a value are indented under its first.
pub fn fields(fields: &[(&str, String)]) -> String {
    let width = fields.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let indent = format!("\n{:width$}  ", "");
    let line = |(name, value): &(&str, String)| format!("{name:width$}  {}", printable(value).replace('\n', &indent));
    fields.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Text of tools, tokens and upstreams must not move a terminal's cursor or paint it.
pub fn printable(text: &str) -> String {
    let show = |c: char| if c.is_control() && c != '\n' && c != '\t' { '\u{fffd}' } else { c };
    text.chars().map(show).collect()
}

/// A word for a shell, whatever is in it.
pub fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%".contains(c);
    match !text.is_empty() && text.chars().all(plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// The first line, cut to what a table row can hold.
pub fn short(text: &str, most: usize) -> String {
    let line = text.lines().next().unwrap_or_default();
    match line.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line.to_owned(),
    }
}

/// The broker's refusal: the sentence, and what a script or an operator needs beside it.
pub fn refused(error: &Error, trace: &TraceId, output: OutputArgs) -> ExitCode {
    refused_publicly(&error.public_view(trace), error.log_detail(), output)
}

/// The same for an error that was stored. `detail` is the operator's part: whoever runs this command is the operator.
pub fn refused_publicly(error: &PublicError, detail: Option<&str>, output: OutputArgs) -> ExitCode {
    if output.json {
        let mut shown = error.data.clone();
        shown.insert("message".into(), error.message.as_str().into());
        eprintln!("{}", Value::Object(shown));
        return ExitCode::from(REFUSED);
    }
    let field = |key: &str| error.data.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    eprintln!("{}: {}", app::NAME, printable(&error.message));
    let mut lines = vec![("hint", field("hint")), ("class", field("class")), ("reason", field("reason"))];
    lines.push(("trace", field("trace_id")));
    if let Some(detail) = detail {
        lines.push(("detail", detail.to_owned()));
    }
    eprintln!("{}", fields(&lines));
    ExitCode::from(REFUSED)
}

/// How long ago or how long, in at most two units: `3m 12s`.
pub fn duration(milliseconds: i64) -> String {
    let seconds = milliseconds.max(0) / 1000;
    match seconds {
        0 => format!("{} ms", milliseconds.max(0)),
        1..60 => format!("{seconds}s"),
        60..3600 => format!("{}m {}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h {}m", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{}d {}h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_cannot_steer_the_terminal() {
        let evil = "fine\u{1b}[2J\u{7}\nnext\tcolumn";
        assert_eq!(printable(evil), "fine\u{fffd}[2J\u{fffd}\nnext\tcolumn");
        assert!(!table(["a"], [[evil.to_owned()]]).contains('\u{1b}'));
    }

    #[test]
    fn a_duration_has_at_most_two_units() {
        let shown: Vec<String> = [-5, 42, 59_000, 192_000, 90_000_000].into_iter().map(duration).collect();
        assert_eq!(shown, ["0 ms", "42 ms", "59s", "3m 12s", "1d 1h"]);
    }
}
