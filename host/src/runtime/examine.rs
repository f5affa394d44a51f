//! A component looked at and not served: what it imports and exports, what it says of itself, and everything that a host
//! would refuse, not just the first thing. Nothing is granted to it: it is linked as if it had what it imports, and asked
//! for its lists alone, while every host function refuses.

use std::sync::Arc;
use std::time::{Duration, Instant};
use wasmtime::component::Component;

use super::describe::{DESCRIBE_FUEL, Used};
use super::offered::{check_name, uncompiled};
use super::plugin::{Plugin, Why};
use super::{Runtime, cache, convert, imports};
use crate::config::{Grants, UpstreamGrant};
use crate::model::{Offers, PluginId, Tool};

/// What was found.
pub struct Examination {
    pub digest: String,
    /// With an empty cache.
    pub compile: Duration,
    pub imports: Vec<Import>,
    pub exports: Vec<String>,
    /// Why a host refuses it before it asks for its lists.
    pub refused: Vec<Why>,
    /// What `list-tools` took, of [`Examination::DESCRIBE_FUEL`].
    pub describing: Used,
    pub tools: Vec<Declared>,
    pub offers: Offers,
    /// As a host would hold it; `None` when no host would.
    pub plugin: Option<Arc<Plugin>>,
}

/// One interface that the component asks its host for.
pub struct Import {
    /// With its version, such as `wasi:io/streams@0.2.6`.
    pub name: String,
    /// What an operator writes into `plugins.toml` so that it is there. `None`: it is there for everybody, or for nobody.
    pub grant: Option<&'static str>,
}

/// One tool as it was declared.
pub struct Declared {
    pub name: String,
    /// Or the sentence that says what a host cannot serve.
    pub tool: Result<Tool, String>,
}

impl Examination {
    pub const DESCRIBE_FUEL: u64 = DESCRIBE_FUEL;

    /// The grants without which the component does not load.
    pub fn needs_grants(&self) -> bool {
        self.imports.iter().any(|import| import.grant.is_some())
    }
}

impl Runtime {
    /// Errors: it does not compile as a component.
    pub async fn examine(&self, id: &PluginId, wasm: &[u8]) -> Result<Examination, Why> {
        let started = Instant::now();
        let component = self.compile(wasm).await.map_err(|e| uncompiled(wasm, &e))?;
        let compile = started.elapsed();
        let component_type = component.component_type();
        let names: Vec<String> = component_type.imports(self.engine()).map(|(name, _)| name.to_string()).collect();
        let exports: Vec<String> = component_type.exports(self.engine()).map(|(name, _)| name.to_string()).collect();
        let offers_resources = exports.iter().any(|export| export == "cyberos:plugin/resources@1.0.0");
        let mut found = Examination {
            digest: cache::digest(wasm),
            compile,
            imports: vec![],
            exports,
            refused: vec![],
            describing: Used::default(),
            tools: vec![],
            offers: Offers::default(),
            plugin: None,
        };
        for name in names {
            let mut grant = None;
            match check_name(&name) {
                Ok(Some("resource-updates")) if offers_resources => {}
                Ok(own) => grant = own.and_then(imports::missing_grant),
                Err(why) => found.refused.push(why),
            }
            found.imports.push(Import { name, grant });
        }
        if found.refused.is_empty()
            && let Err(why) = self.ask(id, (component, wasm), &mut found).await
        {
            found.refused.push(why);
        }
        Ok(found)
    }

    /// Everything that the component says of itself.
    async fn ask(
        &self,
        id: &PluginId,
        (component, wasm): (Component, &[u8]),
        found: &mut Examination,
    ) -> Result<(), Why> {
        let silent =
            || Plugin::silent(self, id.clone(), found.digest.clone(), (component.clone(), Some(wasm)), as_if_granted());
        let (declared, used) = silent()?.declared_tools().await?;
        found.describing = used;
        found.tools =
            declared.into_iter().map(|tool| Declared { name: tool.name.clone(), tool: convert::tool(tool) }).collect();
        let plugin =
            Plugin::link(self, id.clone(), found.digest.clone(), (component, Some(wasm)), as_if_granted()).await;
        match plugin {
            Ok(plugin) => {
                found.offers = (**plugin.offers()).clone();
                found.plugin = Some(Arc::new(plugin));
                Ok(())
            }
            // Said of each tool already.
            Err(Why::BadTool(_)) if found.tools.iter().any(|declared| declared.tool.is_err()) => Ok(()),
            Err(why) => Err(why),
        }
    }
}

/// Every interface is linked, and describing may use none of them.
fn as_if_granted() -> Grants {
    let upstream = UpstreamGrant {
        url: "https://upstream.invalid".into(),
        methods: vec![],
        paths: vec![],
        allow_private: false,
        max_response_bytes: 0,
        max_request_bytes: 0,
        credential: None,
    };
    Grants {
        upstreams: [("none".to_owned(), upstream)].into(),
        config: [("none".to_owned(), String::new())].into(),
        cuo: true,
        audit_append: true,
        audit_read: true,
        elicit: true,
        sample: true,
        resource_updates: true,
        any_tool_name: true,
        ..Grants::default()
    }
}
