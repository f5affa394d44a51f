//! Why a project could not be made or built, in words for its author. Paths may be shown: they are the author's own.

use std::path::{Path, PathBuf};

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The name that was asked for cannot be a plugin's.
    #[error("{name:?} cannot be the name of a plugin: {why}")]
    BadName { name: String, why: String },
    /// There is something already.
    #[error("{} exists and is not empty; name another directory with --dir, or empty this one", .0.display())]
    NotEmpty(PathBuf),
    /// No project is here.
    #[error("{} has no plugin.toml; run this in a plugin's directory, or make one with `cyberos-mcp-bridge plugin new NAME --lang rust`", .0.display())]
    NoProject(PathBuf),
    /// `plugin.toml` is wrong. The text holds line and column.
    #[error("{}: {what}", path.display())]
    BadFile { path: PathBuf, what: String },
    /// `grants.toml` cannot be asked for as it is. The text names the file, with lines.
    #[error("{0}")]
    BadRequest(String),
    /// A tool is not on this machine. One line: what, and the command that installs it.
    #[error("{what} is missing. Install it: {install}")]
    Missing { what: String, install: String },
    /// A tool ran and failed: the author's code is wrong. The text is what the tool said.
    #[error("{program} failed ({status})\n{said}")]
    Failed { program: String, status: String, said: String },
    /// What came out is not a component of our world.
    #[error("the compiled module cannot be made a component: {0}")]
    NotAComponent(String),
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: std::io::Error },
}

impl Error {
    /// For `map_err` on what was done with this path.
    pub(super) fn at(path: &Path) -> impl FnOnce(std::io::Error) -> Error + use<'_> {
        |source| Error::Io { path: path.to_owned(), source }
    }

    /// The tools did their work and the answer is no, as opposed to work that could not begin.
    pub fn is_verdict(&self) -> bool {
        matches!(self, Error::Failed { .. } | Error::NotAComponent(_))
    }
}
