//! How the bridge behaves, one module a behaviour.

// Only the host reads its environment in one place; tests may look where they like.
#![allow(clippy::disallowed_methods)]

mod acceptance;
mod cli;
mod confirmation;
mod cors_and_hosts;
mod crash;
mod drain;
mod errors;
mod floods;
mod handshake;
mod http;
mod outages;
mod races;
mod scopes;
mod sdk_clients;
mod secrets;
mod snapshot;
mod spans;
mod stdio;
mod store_audit;
mod store_files;
mod store_isolation;
mod store_tasks;
mod tasks;
mod telemetry;
mod tenants;
mod tokens;
mod tools_call;
mod tools_list;
