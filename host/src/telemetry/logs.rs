//! Log lines on stderr, as text for people or JSON for machines, and panics among them.
//!
//! Never writes to stdout, which belongs to the stdio transport. One event is one line whatever it holds: a value
//! from outside cannot forge a line or steer a terminal. A closed stderr is no reason to fail.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::str::FromStr;
use std::sync::Once;
use tracing::Subscriber;
use tracing::field::Field;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::{Writer, debug_fn};

use super::StartError;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people; coloured when stderr is a terminal.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

impl FromStr for LogFormat {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "text" => Ok(LogFormat::Text),
            "json" => Ok(LogFormat::Json),
            other => Err(format!("the log format must be text or json, not {other:?}")),
        }
    }
}

/// Set up logs for the whole process, panics included. Once per process.
pub fn install(format: LogFormat, filter: &str) -> Result<(), StartError> {
    let colours = format == LogFormat::Text && io::stderr().is_terminal();
    let subscriber = subscriber(format, filter, colours, io::stderr)?;
    tracing::subscriber::set_global_default(subscriber).map_err(|_| StartError::LogsTaken)?;
    log_panics();
    Ok(())
}

fn subscriber<W>(
    format: LogFormat,
    filter: &str,
    colours: bool,
    out: W,
) -> Result<Box<dyn Subscriber + Send + Sync>, StartError>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let filter = EnvFilter::builder()
        .parse(filter)
        .map_err(|e| StartError::LogFilter { filter: filter.into(), why: e.to_string() })?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(OneLine { out, colours });
    Ok(match format {
        LogFormat::Text => {
            Box::new(builder.with_ansi(colours).fmt_fields(debug_fn(write_field).delimited(" ")).finish())
        }
        LogFormat::Json => Box::new(builder.json().flatten_event(true).with_ansi(false).finish()),
    })
}

/// The crate's own field formatter lets escape sequences in `%values` through to the terminal.
fn write_field(out: &mut Writer<'_>, field: &Field, value: &dyn fmt::Debug) -> fmt::Result {
    if field.name() != "message" {
        write!(out, "{}=", field.name())?;
    }
    for c in format!("{value:?}").chars() {
        if is_steering(c) { escape_into(out, c)? } else { out.write_char(c)? }
    }
    Ok(())
}

/// A panic is logged like everything else; by default it would be several raw lines.
fn log_panics() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| std::panic::set_hook(Box::new(log_panic)));
}

fn log_panic(panic: &std::panic::PanicHookInfo<'_>) {
    let thread = std::thread::current();
    let location = panic.location().map(ToString::to_string);
    // Captured only when RUST_BACKTRACE asks for it, as by default.
    let backtrace = std::backtrace::Backtrace::capture();
    let backtrace = (backtrace.status() == std::backtrace::BacktraceStatus::Captured).then(|| backtrace.to_string());
    tracing::error!(
        thread = thread.name(),
        location,
        backtrace,
        panic = panic.payload_as_str().unwrap_or("(no message)"),
        "a panic was caught"
    );
}

/// Makes writers that keep an event on its one line.
struct OneLine<W> {
    out: W,
    colours: bool,
}

impl<'a, W: MakeWriter<'a>> MakeWriter<'a> for OneLine<W> {
    type Writer = OneLineWriter<W::Writer>;
    fn make_writer(&'a self) -> Self::Writer {
        OneLineWriter { out: self.out.make_writer(), colours: self.colours }
    }
}

struct OneLineWriter<W> {
    out: W,
    colours: bool,
}

impl<W: Write> Write for OneLineWriter<W> {
    /// The formatter hands over one whole event per call, ended by a newline.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let line = text.strip_suffix('\n').unwrap_or(&text);
        let mut safe = String::with_capacity(line.len() + 1);
        for c in line.chars() {
            // With colours on, the formatter's own escape sequences pass; those in values are escaped already.
            if is_steering(c) && !(c == '\x1b' && self.colours) {
                escape_into(&mut safe, c).expect("a string takes every character");
            } else {
                safe.push(c);
            }
        }
        safe.push('\n');
        // A log that cannot be written has nowhere to complain: the formatter would print to stderr, and panic.
        let _ = self.out.write_all(safe.as_bytes());
        Ok(event.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        let _ = self.out.flush();
        Ok(())
    }
}

/// Written so that the result is as good inside a JSON string as in text.
fn escape_into(out: &mut impl fmt::Write, c: char) -> fmt::Result {
    match c {
        '\n' => out.write_str("\\n"),
        '\r' => out.write_str("\\r"),
        '\t' => out.write_str("\\t"),
        c => write!(out, "\\u{:04x}", u32::from(c)),
    }
}

/// Characters that end a line, drive a terminal, or show text in another order than it was written.
fn is_steering(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);
    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(format: LogFormat, colours: bool, filter: &str, act: impl FnOnce()) -> String {
        let page = Page::default();
        let out = page.clone();
        let subscriber = subscriber(format, filter, colours, move || out.clone()).unwrap();
        tracing::subscriber::with_default(subscriber, act);
        String::from_utf8(page.0.lock().unwrap().clone()).unwrap()
    }

    const FORGED: &str = "x\n2026-01-01T00:00:00Z  INFO audit: all is well\r\x1b[2Jgone\u{2028}\u{202e}\u{9b}31m";

    #[test]
    fn a_value_cannot_forge_a_line_or_steer_the_terminal() {
        for (format, colours) in [(LogFormat::Text, false), (LogFormat::Text, true), (LogFormat::Json, false)] {
            let text = logged(format, colours, "info", || {
                tracing::warn!(name = %FORGED, quoted = FORGED, debug = ?FORGED, "{FORGED}");
            });
            assert_eq!(text.lines().count(), 1, "{format:?}: {text:?}");
            assert!(text.ends_with('\n'));
            assert!(!text.contains("\x1b[2J"), "{text:?}");
            assert!(!text.contains(['\r', '\u{2028}', '\u{202e}', '\u{9b}']), "{text:?}");
            assert_eq!(text.contains('\x1b'), colours, "{text:?}");
        }
    }

    #[test]
    fn a_json_line_parses_and_keeps_its_fields() {
        let text = logged(LogFormat::Json, false, "info", || tracing::info!(tool = FORGED, fuel = 7, "call ended"));
        let line: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(line["message"], "call ended");
        assert_eq!(line["tool"], FORGED);
        assert_eq!(line["fuel"], 7);
    }

    #[test]
    fn the_filter_decides_what_is_written_and_a_broken_one_is_named() {
        let text = logged(LogFormat::Text, false, "warn", || {
            tracing::info!("quiet");
            tracing::warn!("loud");
        });
        assert!(text.contains("loud") && !text.contains("quiet"), "{text}");
        let error = subscriber(LogFormat::Text, "info,,=what=", false, io::sink).err().unwrap();
        assert!(error.to_string().contains("info,,=what="), "{error}");
    }

    #[test]
    fn a_panic_becomes_one_log_line() {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(log_panic));
        let text = logged(LogFormat::Text, false, "info", || {
            let _ = std::panic::catch_unwind(|| panic!("first\nsecond"));
        });
        std::panic::set_hook(before);
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.contains("ERROR") && text.contains("logs.rs") && text.contains("second"), "{text}");
    }

    #[test]
    fn a_closed_stderr_is_not_an_error() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
        }
        let mut writer = OneLineWriter { out: Closed, colours: false };
        assert_eq!(writer.write(b"hello\n").unwrap(), 6);
        assert!(writer.flush().is_ok());
    }
}
