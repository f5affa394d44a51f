//! What people who write plugins use: a new project, its build, what a host would say of it, its cases, run as a host
//! would run them, and its way to those who take it.
//!
//! Building works on a directory with a `plugin.toml` and the language's own tools; checking and testing on the component
//! that comes of it, in the real sandbox, without serving it. Nothing here knows the command line or a terminal, and
//! nothing grants what a file does not name.

mod adapter_area;
pub mod add;
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
pub mod login;
pub mod outside;
mod pins;
mod progress;
mod project;
pub mod publish;
pub mod registry;
pub mod run;
mod sample;
mod script;
pub mod source;
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

/// `sha256:` and 64 hex digits, as OCI writes it.
pub fn digest(bytes: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    format!("sha256:{}", hex::encode(Sha256::digest(bytes)))
}

/// Is this `sha256:` and 64 lower-case hex digits?
pub fn is_digest(text: &str) -> bool {
    let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    text.strip_prefix("sha256:").is_some_and(|digits| digits.len() == 64 && digits.bytes().all(hex))
}
