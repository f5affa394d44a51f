//! How far long work is, on the terminal's stderr; nothing at all where stderr is not a terminal.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;

use super::out::printable;
use crate::model::{Progress, ProgressSink};

/// Gone from the screen when it is dropped.
pub struct Bar(ProgressBar);

impl Bar {
    pub fn for_call(what: &str) -> Bar {
        let bar = match std::io::stderr().is_terminal() {
            true => ProgressBar::new_spinner(),
            false => ProgressBar::hidden(),
        };
        bar.set_style(ProgressStyle::with_template("{spinner} {prefix} {msg} {elapsed}").expect("it is well formed"));
        bar.set_prefix(printable(what));
        // A call that answers at once shows nothing: the first tick comes late.
        bar.enable_steady_tick(Duration::from_millis(200));
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

fn show(bar: &ProgressBar, progress: &Progress) {
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
