//! What the behaviour tests stand on: a real bridge, its callers, a real Postgres, a collector.

// Only the host reads its environment in one place; tests may look where they like.
#![allow(clippy::disallowed_methods)]

pub mod asking;
pub mod bridge;
pub mod caller;
pub mod encoded;
pub mod events;
pub mod fuzzing;
pub mod gate;
pub mod inside;
pub mod oci_registry;
pub mod otlp;
pub mod postgres;
pub mod recorder;
pub mod reply;
pub mod setup;
pub mod shell;
pub mod stdio;
pub mod stores;
pub mod tokens;
mod warm;

pub use bridge::Bridge;
pub use caller::{Caller, TENANT_A, TENANT_B};
pub use recorder::Recorder;
pub use reply::Reply;
pub use setup::{Setup, bridge_binary};

/// The top of the repository.
pub fn root() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ is in it").to_owned()
}
