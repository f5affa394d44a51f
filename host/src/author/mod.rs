//! What people who write plugins use: a new project, its build, and what a build leaves.
//!
//! It works on a directory with a `plugin.toml` and the language's own tools. It must not know the command line, which
//! tells it how to show progress, nor a running bridge.

mod adapter_area;
mod build;
mod component;
mod create;
mod error;
mod language;
mod progress;
mod project;
mod templates;
mod tools;

pub use create::{NewPlugin, tool_name};
pub use error::{Error, Result};
pub use language::Language;
pub use progress::{Progress, Step};
pub use project::{Built, Project};
