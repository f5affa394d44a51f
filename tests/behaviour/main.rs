//! How the bridge behaves, one module a behaviour.

// Only the host reads its environment in one place; tests may look where they like.
#![allow(clippy::disallowed_methods)]

mod acceptance;
mod architecture;
mod asking;
mod cancelling;
mod cli;
mod compiled_cache;
mod confirmation;
mod cors_and_hosts;
mod crash;
mod docs;
mod drain;
mod errors;
mod floods;
mod handshake;
mod host_imports;
mod http;
mod isolation;
mod limits;
mod offers;
mod outages;
mod races;
mod refused_components;
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
