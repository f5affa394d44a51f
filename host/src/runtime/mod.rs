//! The sandbox. Three lifetimes in three places: process (`engine`), plugin (`plugin`), call (`call`).
//!
//! This module knows wasmtime and the WIT, and nothing of transports, JSON-RPC, scopes or confirmation: by the time it
//! is asked to run a call, the broker has cleared it.

mod ask;
mod bindings;
mod cache;
mod call;
mod circuit;
mod convert;
mod deadline;
mod describe;
mod embedded;
mod engine;
mod examine;
mod failure;
mod imports;
mod lanes;
mod limiter;
mod offered;
mod output;
mod plugin;
mod shares;
mod turns;
mod typed;

pub use ask::{Ask, AskCompletion, AskPrompt, AskResource, AskTool};
pub use call::{Ended, PluginCall};
pub use describe::Used;
pub use embedded::{Code, Embedded};
pub use engine::{MAX_CALLS, has_pagemap_scan};
pub use examine::{Declared, Examination, Import};
pub use imports::missing_grant;
pub use offered::check_name as check_import;
pub use plugin::{Plugin, Rejected, Why};

use std::path::Path;
use std::sync::Arc;
use wasmtime::Engine;
use wasmtime::component::Component;

use crate::config::Grants;
use crate::model::{PluginId, UpdateSink};
use crate::telemetry::Metrics;
use crate::upstreams::cuo::Cuo;
use crate::upstreams::http::HttpUpstreams;
use crate::upstreams::memory::Memory;

/// What host imports reach, under each plugin's grants.
pub struct Services {
    pub cuo: Option<Arc<Cuo>>,
    pub http: HttpUpstreams,
    pub memory: Arc<Memory>,
    /// Where plugins say that a resource changed.
    pub updates: Arc<dyn UpdateSink>,
    /// Counts what is refused.
    pub metrics: Arc<Metrics>,
}

pub use cache::digest;

/// Can compiled components be kept in this directory? It is created if need be.
pub fn check_compiled_cache(directory: &Path) -> std::io::Result<()> {
    cache::Cache::open(directory).map(|_| ())
}

/// One per process.
pub struct Runtime {
    engine: Engine,
    clock: Arc<engine::Clock>,
    cache: Option<Arc<cache::Cache>>,
    services: Arc<Services>,
    shares: shares::Shares,
    lanes: Arc<lanes::Lanes>,
}

impl Runtime {
    /// `cache`: a private directory for compiled components; `None` compiles at every start. `scan`: clean instance slots
    /// by scanning the page map, where the kernel can.
    pub fn new(services: Services, cache: Option<&Path>, scan: bool) -> wasmtime::Result<Runtime> {
        let cache = cache.and_then(|directory| match cache::Cache::open(directory) {
            Ok(cache) => Some(Arc::new(cache)),
            Err(error) => {
                tracing::warn!(%error, "components are compiled at every start, because their cache cannot be used");
                None
            }
        });
        let (engine, clock) = engine::engine(scan)?;
        Ok(Runtime {
            engine,
            clock,
            cache,
            services: Arc::new(services),
            shares: shares::Shares::new(),
            lanes: Arc::default(),
        })
    }

    /// Load a first-party component.
    pub async fn load_embedded(&self, embedded: &Embedded, code: &Code, grants: Grants) -> Result<Plugin, Rejected> {
        let id = PluginId::parse(embedded.id).expect("build.rs names components after their crates");
        match embedded.component(code, &self.engine) {
            Some(component) => Plugin::link(self, id.clone(), embedded.digest.to_owned(), (component, None), grants)
                .await
                .map_err(|why| Rejected { plugin: id, why }),
            None => Plugin::load(self, id, &embedded.wasm(), grants).await,
        }
    }

    /// Compile, or load what an earlier start compiled. Never on the executor: it can take seconds.
    async fn compile(&self, wasm: &[u8]) -> wasmtime::Result<Component> {
        let (engine, cache, wasm) = (self.engine.clone(), self.cache.clone(), wasm.to_vec());
        tokio::task::spawn_blocking(move || {
            let digest = cache::digest(&wasm);
            if let Some(component) = cache.as_ref().and_then(|cache| cache.get(&engine, &digest)) {
                return Ok(component);
            }
            let component = Component::new(&engine, &wasm)?;
            if let Some(Err(error)) = cache.map(|cache| cache.put(&engine, &digest, &component)) {
                tracing::warn!(%error, "a compiled component could not be kept");
            }
            Ok(component)
        })
        .await
        .unwrap_or_else(|panic| Err(wasmtime::Error::msg(format!("the compiler panicked: {panic}"))))
    }

    /// A version that will not come back: its compiled code is not kept for a next start.
    pub fn forget_compiled(&self, wasm_digest: &str) {
        if let Some(cache) = &self.cache {
            cache.forget(wasm_digest);
        }
    }

    fn engine(&self) -> &Engine {
        &self.engine
    }
    fn clock(&self) -> &Arc<engine::Clock> {
        &self.clock
    }
    fn services(&self) -> &Arc<Services> {
        &self.services
    }
    fn lanes(&self) -> &Arc<lanes::Lanes> {
        &self.lanes
    }
    fn shares(&self) -> &shares::Shares {
        &self.shares
    }
}
