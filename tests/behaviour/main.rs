//! How the bridge behaves, one module a behaviour.

mod cli;
mod store_audit;
mod store_files;
mod store_isolation;
mod store_tasks;
mod telemetry;
