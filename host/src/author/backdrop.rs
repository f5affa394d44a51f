//! What stands behind a plugin that is tried: the sandbox, a store and a catalogue of its own, and a script in place of the
//! network. All of it is gone with it.

use anyhow::Context;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

use super::script::Script;
use crate::error::Error;
use crate::model::{PluginId, TenantId, UpdateSink};
use crate::runtime::{Runtime, Services};
use crate::store::{SqliteStore, Store};
use crate::telemetry::{Telemetry, TelemetrySettings};
use crate::upstreams::cuo::{Cuo, CuoCommand, CuoSettings};
use crate::upstreams::http::HttpUpstreams;
use crate::upstreams::memory::Memory;

pub struct Backdrop {
    pub place: TempDir,
    pub telemetry: Telemetry,
    pub store: Arc<dyn Store>,
    pub script: Arc<Script>,
    pub runtime: Runtime,
}

impl Backdrop {
    /// `cuo`: with the starter catalogue. `compiled`: where compiled components are kept; `None` compiles anew.
    pub async fn new(cuo: bool, compiled: Option<&Path>) -> anyhow::Result<Backdrop> {
        let place = TempDir::with_prefix("plugin-").context("no temporary directory can be made")?;
        let telemetry = Telemetry::start(&TelemetrySettings::default())?;
        let store = SqliteStore::open(&place.path().join("store.db")).await.map_err(told)?;
        let store: Arc<dyn Store> = Arc::new(store);
        let script = Arc::new(Script::default());
        let services = Services {
            cuo: cuo.then(|| catalogue(place.path())).transpose()?.map(Arc::new),
            http: HttpUpstreams::scripted(script.clone()),
            memory: Arc::new(Memory::embedded(store.clone())),
            updates: Arc::new(Nobody),
            metrics: telemetry.metrics.clone(),
        };
        let runtime =
            Runtime::new(services, compiled, true).map_err(|e| anyhow::anyhow!("the sandbox cannot start: {e:#}"))?;
        Ok(Backdrop { place, telemetry, store, script, runtime })
    }
}

/// Unpacked where it is gone with the rest.
fn catalogue(place: &Path) -> anyhow::Result<Cuo> {
    let executable = std::env::current_exe().context("this program's own path is not known")?;
    let settings = CuoSettings {
        root: None,
        state_dir: place.to_owned(),
        work_dir: Some(place.to_owned()),
        command: CuoCommand::Builtin { executable },
        extra_env: vec![],
    };
    Cuo::new(settings).context("the CUO catalogue cannot be opened")
}

/// Nobody subscribed.
struct Nobody;

impl UpdateSink for Nobody {
    fn resource_updated(&self, _tenant: TenantId, _plugin: &PluginId, _uri: &str) {}
}

fn told(error: Error) -> anyhow::Error {
    anyhow::anyhow!("{error} {}", error.log_detail().unwrap_or_default())
}
