//! Once per plugin: its component checked against its grants, pre-instantiated, and asked for what it offers.
//!
//! Everything that can be refused is refused here, at load, in words that tell the operator what to do; a plugin that
//! loaded cannot fail later for a missing import or an unusable schema.

use std::collections::HashSet;
use std::sync::Arc;
use wasmtime::Engine;
use wasmtime::component::{Component, Linker};
use wasmtime_wasi::{FsPerms, WasiCtx};

use super::bindings::PluginPre;
use super::bindings::completions::WithCompletionsPre;
use super::bindings::prompts::WithPromptsPre;
use super::bindings::resources::WithResourcesPre;
use super::call::CallState;
use super::circuit::Circuits;
use super::engine::Clock;
use super::lanes::Lanes;
use super::offered::{check_imports, uncompiled, unlinked};
use super::output::Capture;
use super::shares::{MemoryShare, Share};
use super::turns::Turns;
use super::typed::Typed;
use super::{Runtime, Services, imports};
use crate::config::Grants;
use crate::error::{Error, Reason, Result};
use crate::model::{Offers, PluginId, Tool};

/// A component that can be called. Kept behind an `Arc`: calls in flight keep the version that they started on.
pub struct Plugin {
    id: PluginId,
    /// SHA-256 of the component, in hex.
    digest: String,
    tools: Vec<Tool>,
    offers: Arc<Offers>,
    exports: Exports,
    grants: Arc<Grants>,
    services: Arc<Services>,
    engine: Engine,
    clock: Arc<Clock>,
    lanes: Arc<Lanes>,
    share: Share,
    circuits: Circuits,
}

/// What the component exports, ready to be instantiated.
pub(super) struct Exports {
    pub tools: ToolExports,
    pub prompts: Option<WithPromptsPre<CallState>>,
    pub resources: Option<WithResourcesPre<CallState>>,
    pub completions: Option<WithCompletionsPre<CallState>>,
    component: Component,
}

/// Where its tools are.
pub(super) enum ToolExports {
    /// In `cyberos:plugin/tools`.
    World(PluginPre<CallState>),
    /// Each function is one.
    Typed(Typed),
}

/// Why a component is not served. The text is for the operator.
#[derive(Debug, thiserror::Error)]
#[error("plugin {plugin}: {why}")]
pub struct Rejected {
    pub plugin: PluginId,
    pub why: Why,
}

#[derive(Debug, thiserror::Error)]
pub enum Why {
    #[error(
        "it is not a WebAssembly component ({0}). Build it with `cargo build --target wasm32-wasip2`, or make one of a core module with `wasm-tools component new`, with `--adapt` when it is for WASI 0.1."
    )]
    NotAComponent(String),
    #[error(
        "it is a component that this host does not run ({0}). Build it within what every plugin has: one memory of at most 256 MiB, tables of at most 100,000 elements, and nothing of the component model's async proposal."
    )]
    NotRunnable(String),
    #[error(
        "it imports {interface}, which its grants do not allow. Add `{grant}` to its entry in plugins.toml, or remove the import."
    )]
    NotGranted { interface: String, grant: &'static str },
    #[error(
        "it imports {interface}, found in version {found}, which this host does not offer. It offers {offered}. {remedy}"
    )]
    NotOffered { interface: String, found: String, offered: String, remedy: String },
    #[error(
        "it exports neither cyberos:plugin/tools@1.0.0, as the world cyberos:plugin/plugin asks, nor functions that can be tools ({0})"
    )]
    WrongWorld(String),
    #[error("its {list} did not answer: {why}. It may use no host function and only little fuel.")]
    NoAnswer { list: &'static str, why: String },
    #[error("{0}")]
    BadTool(String),
    /// A prompt, a resource or a template.
    #[error("{0}")]
    BadOffer(String),
    /// Another plugin has the name of something that it offers.
    #[error("{0}")]
    NameTaken(String),
}

impl Why {
    /// One word for metrics.
    pub fn word(&self) -> &'static str {
        match self {
            Why::NotAComponent(_) => "not_a_component",
            Why::NotRunnable(_) => "not_runnable",
            Why::NotGranted { .. } => "not_granted",
            Why::NotOffered { .. } => "not_offered",
            Why::WrongWorld(_) => "wrong_world",
            Why::NoAnswer { .. } => "no_tools",
            Why::BadTool(_) => "bad_tool",
            Why::BadOffer(_) => "bad_offer",
            Why::NameTaken(_) => "name_taken",
        }
    }
}

impl Plugin {
    /// Check, link and describe. Nothing of the component has run before its imports were found to be granted.
    pub async fn load(runtime: &Runtime, id: PluginId, wasm: &[u8], grants: Grants) -> Result<Plugin, Rejected> {
        let rejected = |why| Rejected { plugin: id.clone(), why };
        let component = runtime.compile(wasm).await.map_err(|e| rejected(uncompiled(wasm, &e)))?;
        let digest = super::cache::digest(wasm);
        Self::link(runtime, id.clone(), digest, (component, Some(wasm)), grants).await.map_err(rejected)
    }

    /// The same for a component that was compiled before. Its own bytes may hold documentation.
    pub(super) async fn link(
        runtime: &Runtime,
        id: PluginId,
        digest: String,
        (component, wasm): (Component, Option<&[u8]>),
        grants: Grants,
    ) -> Result<Plugin, Why> {
        let mut plugin = Self::silent(runtime, id, digest, (component, wasm), grants)?;
        plugin.tools = plugin.describe().await?;
        plugin.offers = Arc::new(plugin.describe_offers().await?);
        Ok(plugin)
    }

    /// Checked and linked, and not yet asked for what it offers: nothing of it has run.
    pub(super) fn silent(
        runtime: &Runtime,
        id: PluginId,
        digest: String,
        (component, wasm): (Component, Option<&[u8]>),
        grants: Grants,
    ) -> Result<Plugin, Why> {
        let engine = runtime.engine();
        check_imports(engine, &component, &grants)?;
        let mut linker = Linker::new(engine);
        let linked = wasmtime_wasi::p2::add_to_linker_async(&mut linker)
            .and_then(|()| imports::add_to_linker(&mut linker, &grants, may_say_updated(engine, &component, &grants)));
        linked.map_err(|e| Why::WrongWorld(format!("{e:#}")))?;
        let pre = linker
            .instantiate_pre(&component)
            .map_err(|e| unlinked(&e).unwrap_or_else(|| Why::WrongWorld(format!("{e:#}"))))?;
        let has = exported(engine, &component);
        let typed = |e: wasmtime::Error| Why::WrongWorld(format!("{e:#}"));
        let exports = Exports {
            tools: match has("tools") {
                true => ToolExports::World(PluginPre::new(pre.clone()).map_err(typed)?),
                false => ToolExports::Typed(Typed::new(&id, &pre, wasm.unwrap_or_default(), &grants)?),
            },
            prompts: has("prompts").then(|| WithPromptsPre::new(pre.clone())).transpose().map_err(typed)?,
            resources: has("resources").then(|| WithResourcesPre::new(pre.clone())).transpose().map_err(typed)?,
            completions: has("completions").then(|| WithCompletionsPre::new(pre.clone())).transpose().map_err(typed)?,
            component: component.clone(),
        };
        Ok(Plugin {
            share: runtime.shares().of(&id, &grants.limits),
            circuits: Circuits::new(grants.limits.failures_in_a_row),
            id,
            digest,
            tools: vec![],
            offers: Arc::default(),
            exports,
            grants: Arc::new(grants),
            services: runtime.services().clone(),
            engine: engine.clone(),
            clock: runtime.clock().clone(),
            lanes: runtime.lanes().clone(),
        })
    }

    /// False: its tools were made of its functions, and their annotations of its grants.
    pub fn declares_tools(&self) -> bool {
        matches!(self.exports.tools, ToolExports::World(_))
    }

    /// The built-in catalogue is unpacked in the background at the first start; a call that is earlier waits for it.
    pub(super) async fn directories_ready(&self) {
        if let Some(cuo) = &self.services.cuo
            && self.grants.directories.values().any(|directory| !directory.host_path.exists())
        {
            // Should it fail, opening the directory says so.
            let _ = cuo.root().await;
        }
    }

    /// Nothing inherited, nothing but what was granted.
    pub(super) fn wasi(&self, output: &Capture) -> Result<WasiCtx> {
        let mut wasi = WasiCtx::builder();
        wasi.stdout(output.clone()).stderr(output.clone()).max_random_size(max_random_bytes(&self.grants));
        for (name, value) in &self.grants.environment {
            wasi.env(name, value);
        }
        for (guest_path, directory) in &self.grants.directories {
            let permissions = if directory.writable { FsPerms::ReadWrite } else { FsPerms::ReadOnly };
            wasi.preopened_dir(&directory.host_path, guest_path, permissions).map_err(|e| {
                Error::new(Reason::Unreachable, "A directory that this tool needs is not there.")
                    .detail(format!("{}: {e:#}", directory.host_path.display()))
            })?;
        }
        Ok(wasi.build())
    }

    pub fn id(&self) -> &PluginId {
        &self.id
    }
    /// The interfaces that the component asks its host for.
    pub fn imports(&self) -> Vec<String> {
        let component = self.exports.component.component_type();
        component.imports(&self.engine).map(|(name, _)| name.to_string()).collect()
    }
    /// What its calls' spans say: components carry no version of their own, so the start of the digest stands for one.
    pub fn version(&self) -> &str {
        &self.digest[..12]
    }
    pub fn digest(&self) -> &str {
        &self.digest
    }
    pub fn tools(&self) -> &[Tool] {
        &self.tools
    }
    /// What it offers beside tools.
    pub fn offers(&self) -> &Arc<Offers> {
        &self.offers
    }
    pub fn grants(&self) -> &Arc<Grants> {
        &self.grants
    }
    pub(super) fn services(&self) -> &Arc<Services> {
        &self.services
    }
    pub(super) fn engine(&self) -> &Engine {
        &self.engine
    }
    pub(super) fn lanes(&self) -> &Lanes {
        &self.lanes
    }
    pub(super) fn clock(&self) -> &Arc<Clock> {
        &self.clock
    }
    pub(super) fn turns(&self) -> &Turns {
        &self.share.turns
    }
    pub(super) fn memory_share(&self) -> &MemoryShare {
        &self.share.memory
    }
    pub(super) fn circuits(&self) -> &Circuits {
        &self.circuits
    }
    pub(super) fn exports(&self) -> &Exports {
        &self.exports
    }
}

/// Most random bytes that one request for them gets. The host makes them in one go, some nanoseconds each, in which its
/// thread does nothing else: so much takes as long as a few of the clock's ticks.
const MAX_RANDOM_BYTES: usize = 1 << 20;

pub(super) fn max_random_bytes(grants: &Grants) -> u64 {
    grants.limits.host_call_bytes.min(MAX_RANDOM_BYTES) as u64
}

/// Does the component export this interface of ours?
fn exported(engine: &Engine, component: &Component) -> impl Fn(&str) -> bool {
    let names: HashSet<String> = component.component_type().exports(engine).map(|(name, _)| name.to_string()).collect();
    move |interface| names.contains(&format!("cyberos:plugin/{interface}@1.0.0"))
}

/// Who offers resources may say that one of them changed; others need the grant.
pub(super) fn may_say_updated(engine: &Engine, component: &Component, grants: &Grants) -> bool {
    grants.resource_updates || exported(engine, component)("resources")
}
