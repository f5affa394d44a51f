//! What a component says that it offers, asked once when it is loaded. Nothing may be reached meanwhile: describing is not
//! calling. What cannot be served is refused here, in words for the operator.

use std::collections::HashSet;
use std::time::Duration;
use wasmtime::Store;
use wasmtime_wasi::WasiCtx;

use super::bindings::cyberos::plugin::types as wit;
use super::bindings::prompts::WithPromptsPre;
use super::bindings::resources::WithResourcesPre;
use super::call::{CallState, describing_call};
use super::convert;
use super::lanes::Pace;
use super::output::Capture;
use super::plugin::{Plugin, ToolExports, Why, max_random_bytes};
use crate::model::{Offers, Prompt, Resource, ResourceTemplate, Tool, ToolName};

/// What `list-tools`, `list-prompts`, `list-resources` and `list-templates` may use, each.
///
/// Fuel bounds what it computes, some hundredths of a second; an engine of JavaScript or Python needs a thirtieth of it. The
/// time bounds how long it can make others wait by sleeping, and must be enough for that fuel on a busy machine.
pub(super) const DESCRIBE_FUEL: u64 = 100_000_000;
const DESCRIBE_TIME: Duration = Duration::from_secs(5);
pub(super) const MAX_TOOLS: usize = 64;
const MAX_PROMPTS: usize = 64;
const MAX_RESOURCES: usize = 256;
const MAX_TEMPLATES: usize = 64;

/// What describing took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Used {
    pub fuel: u64,
    pub memory_bytes: usize,
}

impl Plugin {
    /// Its tools.
    pub(super) async fn describe(&self) -> Result<Vec<Tool>, Why> {
        let (declared, _used) = self.declared_tools().await?;
        if declared.is_empty() || declared.len() > MAX_TOOLS {
            return Err(Why::BadTool(format!("it declares {} tools; 1 to {MAX_TOOLS} are served", declared.len())));
        }
        let tools = declared.into_iter().map(convert::tool).collect::<Result<Vec<_>, _>>().map_err(Why::BadTool)?;
        for (n, tool) in tools.iter().enumerate() {
            if !self.grants().any_tool_name && !tool.name.is_federated() {
                return Err(Why::BadTool(foreign_name("tool", tool.name.as_str())));
            }
            // Clients that refuse dots see underscores, and could not tell such names apart.
            let alike = |other: &&Tool| other.name.underscored() == tool.name.underscored();
            match tools[..n].iter().find(alike) {
                Some(other) if other.name == tool.name => {
                    return Err(Why::BadTool(format!("it declares {} twice", tool.name)));
                }
                Some(other) => {
                    return Err(Why::BadTool(format!(
                        "{} and {} are one name with underscores",
                        other.name, tool.name
                    )));
                }
                None => {}
            }
        }
        Ok(tools)
    }

    /// As it declares them, unchecked, and what that took.
    pub(super) async fn declared_tools(&self) -> Result<(Vec<wit::Tool>, Used), Why> {
        let mut store = self.describing_store();
        let declared = match &self.exports().tools {
            ToolExports::World(exports) => {
                self.listing("list-tools", async {
                    let plugin = exports.instantiate_async(&mut store).await?;
                    plugin.cyberos_plugin_tools().call_list_tools(&mut store).await
                })
                .await?
            }
            ToolExports::Typed(typed) => {
                self.listing("instantiation", typed.instantiate(&mut store)).await?;
                typed.declared().to_vec()
            }
        };
        let fuel = DESCRIBE_FUEL - store.get_fuel().unwrap_or(0);
        Ok((declared, Used { fuel, memory_bytes: store.data().limiter.memory_used() }))
    }

    /// The rest of what it exports.
    pub(super) async fn describe_offers(&self) -> Result<Offers, Why> {
        let mut offers = Offers { completes: self.exports().completions.is_some(), ..Offers::default() };
        if let Some(exports) = &self.exports().prompts {
            offers.prompts = self.describe_prompts(exports).await?;
        }
        if let Some(exports) = &self.exports().resources {
            (offers.resources, offers.templates) = self.describe_resources(exports).await?;
        }
        Ok(offers)
    }

    async fn describe_prompts(&self, exports: &WithPromptsPre<CallState>) -> Result<Vec<Prompt>, Why> {
        let mut store = self.describing_store();
        let declared = self
            .listing("list-prompts", async {
                let guest = exports.instantiate_async(&mut store).await?;
                guest.cyberos_plugin_prompts().call_list_prompts(&mut store).await
            })
            .await?;
        let count = declared.len();
        if !(1..=MAX_PROMPTS).contains(&count) {
            return Err(Why::BadOffer(format!("it declares {count} prompts; 1 to {MAX_PROMPTS} are served")));
        }
        let prompts = all(declared, convert::prompt)?;
        let foreign = |name: &str| !ToolName::parse(name).is_some_and(|name| name.is_federated());
        if let Some(prompt) = prompts.iter().find(|p| !self.grants().any_tool_name && foreign(&p.name)) {
            return Err(Why::BadOffer(foreign_name("prompt", &prompt.name)));
        }
        no_twins("prompt", prompts.iter().map(|prompt| prompt.name.as_str()))?;
        Ok(prompts)
    }

    async fn describe_resources(
        &self,
        exports: &WithResourcesPre<CallState>,
    ) -> Result<(Vec<Resource>, Vec<ResourceTemplate>), Why> {
        let mut store = self.describing_store();
        let listed = self
            .listing("list-resources", async {
                let guest = exports.instantiate_async(&mut store).await?;
                guest.cyberos_plugin_resources().call_list_resources(&mut store).await
            })
            .await?;
        let mut store = self.describing_store();
        let families = self
            .listing("list-templates", async {
                let guest = exports.instantiate_async(&mut store).await?;
                guest.cyberos_plugin_resources().call_list_templates(&mut store).await
            })
            .await?;
        let (count, of_families) = (listed.len(), families.len());
        if count + of_families == 0 || count > MAX_RESOURCES || of_families > MAX_TEMPLATES {
            return Err(Why::BadOffer(format!(
                "it declares {count} resources and {of_families} templates; at least one, and at most {MAX_RESOURCES} and {MAX_TEMPLATES} are served"
            )));
        }
        let (resources, templates) = (all(listed, convert::resource)?, all(families, convert::template)?);
        no_twins("resource", resources.iter().map(|resource| resource.uri.as_str()))?;
        no_twins("template", templates.iter().map(|template| template.uri.as_str()))?;
        Ok((resources, templates))
    }

    /// Ask for a list, within what describing may use.
    async fn listing<T>(
        &self,
        list: &'static str,
        asking: impl Future<Output = wasmtime::Result<T>>,
    ) -> Result<T, Why> {
        let _running = self.clock().run();
        tokio::time::timeout(DESCRIBE_TIME, asking)
            .await
            .map_err(|_| Why::NoAnswer { list, why: "it took longer than five seconds".into() })?
            .map_err(|e| Why::NoAnswer { list, why: e.root_cause().to_string() })
    }

    /// A store in which every host function refuses and nothing is granted: describing is not calling.
    fn describing_store(&self) -> Store<CallState> {
        let wasi = WasiCtx::builder().max_random_size(max_random_bytes(self.grants())).build();
        let output = Capture::new(self.grants().limits.log_bytes);
        let mut store = self.store_with(describing_call(DESCRIBE_TIME), wasi, output, Pace::default());
        store.data_mut().host_calls_left = 0;
        store.set_fuel(DESCRIBE_FUEL).expect("the engine counts fuel");
        store
    }
}

fn foreign_name(what: &str, name: &str) -> String {
    format!(
        "{what} name {name} does not match cyberos.<module>.<verb_noun>. Add `any_tool_name = true` to its entry in plugins.toml to allow it."
    )
}

/// Every declaration, or what is wrong with the first bad one.
fn all<D, T>(declared: Vec<D>, convert: fn(D) -> Result<T, String>) -> Result<Vec<T>, Why> {
    declared.into_iter().map(convert).collect::<Result<_, _>>().map_err(Why::BadOffer)
}

fn no_twins<'a>(what: &str, names: impl Iterator<Item = &'a str>) -> Result<(), Why> {
    let mut seen = HashSet::new();
    match names.into_iter().find(|name| !seen.insert(*name)) {
        Some(name) => Err(Why::BadOffer(format!("it declares the {what} {name} twice"))),
        None => Ok(()),
    }
}
