//! What people who write plugins use: a new project, its build, what a host would say of it, and its cases, run as a host
//! would run them.
//!
//! Building works on a directory with a `plugin.toml` and the language's own tools; checking and testing on the component
//! that comes of it, in the real sandbox, without serving it. Nothing here knows the command line or a terminal, and
//! nothing grants what a file does not name.

mod adapter_area;
pub mod asked;
mod backdrop;
mod build;
pub mod case;
pub mod check;
mod component;
mod create;
mod error;
mod judge;
mod language;
mod progress;
mod project;
pub mod run;
mod sample;
mod script;
mod sources;
mod stage;
mod stand_in;
mod templates;
mod tools;

pub use create::{NewPlugin, tool_name};
pub use error::{Error, Result};
pub use language::Language;
pub use progress::{Progress, Step};
pub use project::{Built, Project};
pub use sources::{Fingerprint, Sources};
pub use stage::{Failure, Stage};
