//! How far long work is, on the terminal's stderr; nothing at all where stderr is not a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;

use super::out::printable;
use crate::model::{Progress, ProgressSink};

/// Gone from the screen when it is dropped.
pub struct Bar(ProgressBar);

impl Bar {
    /// For work that is known to be long.
    pub fn at_once(what: &str) -> Bar {
        let bar = Bar::when_reported(what);
        appear(&bar.0);
        bar
    }

    /// For work that may be over at once: nothing is drawn until it reports how far it is.
    pub fn when_reported(what: &str) -> Bar {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        bar.set_style(ProgressStyle::with_template("{spinner} {prefix} {msg} {elapsed}").expect("it is well formed"));
        bar.set_prefix(printable(what));
        Bar(bar)
    }

    pub fn show(&self, progress: &Progress) {
        show(&self.0, progress);
    }

    pub fn sink(&self) -> ProgressSink {
        let bar = self.0.clone();
        ProgressSink::new(move |progress| show(&bar, &progress))
    }
}

fn appear(bar: &ProgressBar) {
    if bar.is_hidden() && std::io::stderr().is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::stderr());
        bar.enable_steady_tick(Duration::from_millis(200));
    }
}

fn show(bar: &ProgressBar, progress: &Progress) {
    appear(bar);
    if let Some(total) = progress.total.filter(|total| *total > 0.0) {
        if bar.length().is_none() {
            let style = ProgressStyle::with_template("{spinner} {prefix} [{bar:24}] {pos}/{len} {msg} {elapsed}");
            bar.set_style(style.expect("it is well formed").progress_chars("=> "));
        }
        bar.set_length(total as u64);
        bar.set_position(progress.progress as u64);
    }
    if let Some(message) = &progress.message {
        bar.set_message(printable(message).replace('\n', " "));
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
