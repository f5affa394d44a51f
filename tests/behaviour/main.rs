//! How the bridge behaves, one module a behaviour.

// Only the host reads its environment in one place; tests may look where they like.
#![allow(clippy::disallowed_methods)]

mod acceptance;
mod architecture;
mod asking;
mod asking_tasks;
mod cancelling;
mod cli;
mod compiled_cache;
mod confirmation;
mod confirming;
mod conformance;
mod cors_and_hosts;
mod crash;
mod docs;
mod drain;
mod errors;
mod floods;
mod forged_tokens;
mod fuzzed;
mod handshake;
mod hidden_tools;
mod host_imports;
mod http;
mod isolation;
mod limits;
mod oauth_metadata;
mod offers;
mod outages;
mod questions;
mod races;
mod rate_limits;
mod refused_components;
mod registry;
mod replicas;
mod scopes;
mod sdk_clients;
mod secrets;
mod sessions;
mod snapshot;
mod spans;
mod stdio;
mod store_audit;
mod store_files;
mod store_isolation;
mod store_letters;
mod store_sessions;
mod store_tasks;
mod streams;
mod tasks;
mod telemetry;
mod tenants;
mod tokens;
mod tools_call;
mod tools_list;
