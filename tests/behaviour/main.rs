//! How the bridge behaves, one module a behaviour.

// Only the host reads its environment in one place; tests may look where they like.
#![allow(clippy::disallowed_methods)]

mod cli;
mod store_audit;
mod store_files;
mod store_isolation;
mod store_tasks;
mod telemetry;
