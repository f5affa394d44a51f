//! The bridge as a library: everything behind `cyberos-mcp-bridge`, so that the command line, the tests and the
//! benchmarks use the same code.
//!
//! Arrows between modules go one way: `cli → author, plugins, transport → protocol → broker → auth, runtime → upstreams, store`.
//! `model`, `error`, `config` and `telemetry` are known to all and know none of them.

pub mod app;
pub mod auth;
pub mod author;
pub mod broker;
pub mod cli;
pub mod config;
pub mod error;
pub mod model;
pub mod plugins;
pub mod protocol;
pub mod runtime;
pub mod store;
pub mod telemetry;
pub mod transport;
pub mod upstreams;
