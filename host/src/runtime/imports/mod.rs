//! Host imports: one file for each WIT interface, linked only when the operator granted it.
//!
//! Every function first pays for the call ([`CallState::enter`]); what it refuses is a WIT error that the plugin may
//! handle, what breaks a limit is a [`Stop`] that ends the guest. All of them may be dropped at any await point: that is
//! how a call is cancelled.

mod audit;
mod call_context;
mod client_gate;
mod config;
mod elicit;
mod http_fetch;
mod log;
mod progress;
mod resource_updates;
mod sample;
mod spawn_cuo;
mod wasi_http;

pub use client_gate::ClientGate;
pub use progress::ProgressGate;
pub use wasi_http::WasiHttp;

use wasmtime::component::{HasSelf, Linker};

use super::Services;
use super::bindings::cyberos::plugin as interfaces;
use super::call::CallState;
use super::failure::Stop;
use crate::config::Grants;
use crate::model::{PluginId, Trace};

/// The interfaces of this package that a plugin with these grants may import. `updates`: it may say that resources changed.
pub fn add_to_linker(linker: &mut Linker<CallState>, grants: &Grants, updates: bool) -> wasmtime::Result<()> {
    fn state(state: &mut CallState) -> &mut CallState {
        state
    }
    type Own = HasSelf<CallState>;

    interfaces::types::add_to_linker::<_, Own>(linker, state)?;
    interfaces::call_context::add_to_linker::<_, Own>(linker, state)?;
    interfaces::progress::add_to_linker::<_, Own>(linker, state)?;
    interfaces::log::add_to_linker::<_, Own>(linker, state)?;
    // Always: engines of other languages import it, used or not. Without an upstream it denies everything.
    wasi_http::add_to_linker(linker)?;
    if !grants.config.is_empty() {
        interfaces::config::add_to_linker::<_, Own>(linker, state)?;
    }
    if !grants.upstreams.is_empty() {
        interfaces::http_fetch::add_to_linker::<_, Own>(linker, state)?;
    }
    if grants.cuo {
        interfaces::spawn_cuo::add_to_linker::<_, Own>(linker, state)?;
    }
    if grants.audit_append {
        interfaces::audit_append::add_to_linker::<_, Own>(linker, state)?;
    }
    if grants.audit_read {
        interfaces::audit_read::add_to_linker::<_, Own>(linker, state)?;
        // `audit-read` shares its error type with `audit-append`; the type alone grants nothing.
    }
    if grants.elicit {
        interfaces::elicit::add_to_linker::<_, Own>(linker, state)?;
    }
    if grants.sample {
        interfaces::sample::add_to_linker::<_, Own>(linker, state)?;
    }
    if updates {
        interfaces::resource_updates::add_to_linker::<_, Own>(linker, state)?;
    }
    Ok(())
}

/// The grant that an import of this package needs, for the refusal's text.
pub fn missing_grant(interface: &str) -> Option<&'static str> {
    Some(match interface {
        "config" => "config = { name = \"value\" }",
        "http-fetch" => "upstreams.<name> = { url = …, paths = […] }",
        "spawn-cuo" => "cuo = true",
        "audit-append" => "audit_append = true",
        "audit-read" => "audit_read = true",
        "elicit" => "elicit = true",
        "sample" => "sample = true",
        "resource-updates" => "resource_updates = true",
        _ => return None,
    })
}

impl CallState {
    /// Every host function starts here.
    pub(super) fn enter(&mut self) -> wasmtime::Result<()> {
        match self.host_calls_left.checked_sub(1) {
            Some(left) => {
                self.host_calls_left = left;
                Ok(())
            }
            None => Err(Stop::TooManyHostCalls.into()),
        }
    }
}

impl CallState {
    /// The plugin reached for something that it may not have; the operator sees how often.
    fn denied(&self, import: &'static str, why: &'static str) {
        say_denied(&self.services, &self.plugin, &self.call.trace, (import, why));
    }
}

fn say_denied(services: &Services, plugin: &PluginId, trace: &Trace, (import, why): (&'static str, &'static str)) {
    services.metrics.host_call_denied(import, why);
    let (plugin, trace_id) = (plugin.as_str(), trace.id);
    tracing::warn!(plugin, %trace_id, import, why, "a host call was refused by policy");
}

impl interfaces::types::Host for CallState {}
