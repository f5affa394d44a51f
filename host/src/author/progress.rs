//! How far a build is. Whoever asks for a build decides how that is shown.

/// Hears of each step as it begins, and of what a tool says meanwhile. Called from the thread that builds and from those
/// that read a tool's output.
pub struct Progress(Box<dyn Fn(Step<'_>) + Send + Sync>);

/// What a build reports.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// The next step begins.
    Begins(&'a str),
    /// A line of a tool's output: worth a glance while it is there.
    Says(&'a str),
}

impl Progress {
    pub fn new(show: impl Fn(Step<'_>) + Send + Sync + 'static) -> Progress {
        Progress(Box::new(show))
    }

    pub fn silent() -> Progress {
        Progress::new(|_| {})
    }

    pub(super) fn begins(&self, what: &str) {
        (self.0)(Step::Begins(what));
    }

    pub(super) fn says(&self, line: &str) {
        (self.0)(Step::Says(line));
    }
}
