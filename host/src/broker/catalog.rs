//! Every tool that can be called, with its plugin and its compiled schemas, and what else plugins offer. Read without
//! locks; replaced as a whole.

mod lists;
mod offered;

pub use lists::{Changed, Lists};
pub use offered::{Found, Kinds, Offered};

use arc_swap::ArcSwap;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;

use self::offered::Shelf;
use super::schema;
use crate::auth::Caller;
use crate::model::{Prompt, Resource, ResourceTemplate, TaskSupport, Tool, ToolName};
use crate::runtime::{Plugin, Rejected, Why};

/// One tool, ready to be called.
pub struct Entry {
    pub tool: Tool,
    pub plugin: Arc<Plugin>,
    pub input: schema::Schema,
    pub output: Option<schema::Schema>,
    /// The output schema as clients see it. A long-running tool answers a plain call with a task handle first, so its
    /// schema allows that, too: clients check what they get.
    pub advertised_output: Option<Value>,
}

/// A plugin that can be served beside the others.
pub struct Checked {
    plugin: Arc<Plugin>,
    /// The others with it.
    tools: Tools,
}

impl Checked {
    pub fn plugin(&self) -> &Arc<Plugin> {
        &self.plugin
    }
}

#[derive(Default)]
pub struct Catalog {
    tools: ArcSwap<Tools>,
}

#[derive(Default)]
struct Tools {
    plugins: Vec<Arc<Plugin>>,
    /// In the order in which plugins were given: first-party first. The order of every list.
    entries: Vec<Arc<Entry>>,
    /// By canonical and by underscored name.
    by_name: HashMap<String, Arc<Entry>>,
    shelf: Shelf,
}

impl Catalog {
    /// Put what these plugins offer in place of what was there. A plugin that cannot be served as a whole is left out and
    /// returned.
    pub fn replace(&self, plugins: Vec<Arc<Plugin>>) -> Vec<Rejected> {
        let (tools, rejected) = Tools::of(plugins, &self.tools.load());
        self.tools.store(Arc::new(tools));
        rejected
    }

    /// Could this plugin be served beside the others, in place of an older version of its own? What others have is
    /// theirs: nothing is taken from one that is served.
    pub fn check(&self, plugin: Arc<Plugin>) -> Result<Checked, Rejected> {
        let now = self.tools.load();
        let others = now.plugins.iter().filter(|other| other.id() != plugin.id()).cloned();
        let (tools, rejected) = Tools::of(others.chain([plugin.clone()]), &now);
        match rejected.into_iter().find(|one| one.plugin == *plugin.id()) {
            Some(rejected) => Err(rejected),
            None => Ok(Checked { plugin, tools }),
        }
    }

    /// The same as [`Catalog::replace`] with a newcomer that was checked, whose schemas are then not compiled again.
    pub fn replace_with(&self, plugins: Vec<Arc<Plugin>>, newcomer: &Checked) -> Vec<Rejected> {
        let (tools, rejected) = Tools::of(plugins, &newcomer.tools);
        self.tools.store(Arc::new(tools));
        rejected
    }

    /// What is listed now.
    pub fn lists(&self) -> Lists {
        Lists::new(self.tools.load_full())
    }

    /// By dotted or underscored name.
    pub fn find(&self, name: &str) -> Option<Arc<Entry>> {
        self.tools.load().by_name.get(name).cloned()
    }

    /// What this caller may call, in a fixed order.
    pub fn visible_to(&self, caller: &Caller) -> Vec<Arc<Entry>> {
        self.tools.load().visible_to(caller).cloned().collect()
    }

    /// The prompts, resources and templates that this caller may get, each in a fixed order.
    pub fn prompts_for(&self, caller: &Caller) -> Vec<Arc<Offered<Prompt>>> {
        self.tools.load().shelf.prompts_for(caller)
    }
    pub fn resources_for(&self, caller: &Caller) -> Vec<Arc<Offered<Resource>>> {
        self.tools.load().shelf.resources_for(caller)
    }
    pub fn templates_for(&self, caller: &Caller) -> Vec<Arc<Offered<ResourceTemplate>>> {
        self.tools.load().shelf.templates_for(caller)
    }

    pub fn find_prompt(&self, name: &str) -> Option<Arc<Offered<Prompt>>> {
        self.tools.load().shelf.find_prompt(name)
    }
    /// The resource with this URI, or the template that it fits.
    pub fn find_resource(&self, uri: &str) -> Option<Found> {
        self.tools.load().shelf.find_resource(uri)
    }
    /// By its text, as it was listed.
    pub fn find_template(&self, text: &str) -> Option<Arc<Offered<ResourceTemplate>>> {
        self.tools.load().shelf.find_template(text)
    }

    pub fn kinds(&self) -> Kinds {
        self.tools.load().shelf.kinds()
    }

    /// Every scope that something needs, for `scopes_supported` and for minting development tokens.
    pub fn scopes(&self) -> Vec<String> {
        let tools = self.tools.load();
        let mut scopes: Vec<_> = tools.entries.iter().flat_map(|e| e.tool.scopes.clone()).collect();
        scopes.extend(tools.shelf.scopes());
        scopes.sort();
        scopes.dedup();
        scopes
    }

    pub fn all(&self) -> Vec<Arc<Entry>> {
        self.tools.load().entries.clone()
    }
}

impl Tools {
    /// A plugin that was served `before` keeps its compiled schemas.
    fn of(plugins: impl IntoIterator<Item = Arc<Plugin>>, before: &Tools) -> (Tools, Vec<Rejected>) {
        let (mut tools, mut rejected) = (Tools::default(), vec![]);
        for plugin in plugins {
            let compiled = before.entries_of(&plugin).map_or_else(|| entries(&plugin), Ok).map_err(Why::BadTool);
            let checked = compiled
                .and_then(|entries| tools.check(&entries).map(|()| entries))
                .and_then(|entries| tools.shelf.check(&plugin).map(|()| entries).map_err(Why::NameTaken));
            match checked {
                Ok(entries) => tools.add(entries, &plugin),
                Err(why) => rejected.push(Rejected { plugin: plugin.id().clone(), why }),
            }
        }
        (tools, rejected)
    }

    /// `None` when it was not served.
    fn entries_of(&self, plugin: &Arc<Plugin>) -> Option<Vec<Arc<Entry>>> {
        self.plugins.iter().find(|served| Arc::ptr_eq(served, plugin))?;
        Some(self.entries.iter().filter(|entry| Arc::ptr_eq(&entry.plugin, plugin)).cloned().collect())
    }

    fn visible_to(&self, caller: &Caller) -> impl Iterator<Item = &Arc<Entry>> {
        self.entries.iter().filter(|e| e.tool.scopes.iter().all(|s| caller.has_scope(s)))
    }

    /// A name that is taken, in either spelling, refuses the newcomer with all that it offers.
    fn check(&self, entries: &[Arc<Entry>]) -> Result<(), Why> {
        for entry in entries {
            let name = &entry.tool.name;
            let taken = [name.as_str(), &name.underscored()].into_iter().find_map(|n| self.by_name.get(n));
            if let Some(other) = taken {
                let by = other.plugin.id();
                return Err(Why::NameTaken(format!("tool {name} would shadow {} of plugin {by}", other.tool.name)));
            }
        }
        Ok(())
    }

    fn add(&mut self, entries: Vec<Arc<Entry>>, plugin: &Arc<Plugin>) {
        for entry in entries {
            self.by_name.insert(entry.tool.name.underscored(), entry.clone());
            self.by_name.insert(entry.tool.name.to_string(), entry.clone());
            self.entries.push(entry);
        }
        self.shelf.add(plugin);
        self.plugins.push(plugin.clone());
    }
}

fn entries(plugin: &Arc<Plugin>) -> Result<Vec<Arc<Entry>>, String> {
    let entry = |tool: &Tool| {
        let says = |what: &str, why: String| format!("tool {}: {what} {why}", tool.name);
        let input = schema::compile(&tool.input_schema).map_err(|why| says("inputSchema", why))?;
        let output =
            tool.output_schema.as_ref().map(schema::compile).transpose().map_err(|why| says("outputSchema", why))?;
        Ok(Arc::new(Entry {
            advertised_output: tool.output_schema.as_ref().map(|s| advertised(tool.task_support, s)),
            tool: tool.clone(),
            plugin: plugin.clone(),
            input,
            output,
        }))
    };
    plugin.tools().iter().map(entry).collect()
}

fn advertised(task_support: TaskSupport, schema: &Value) -> Value {
    match task_support {
        TaskSupport::Forbidden | TaskSupport::Required => schema.clone(),
        TaskSupport::Optional => json!({
            "type": "object",
            "anyOf": [
                moved(schema.clone()),
                {
                    "type": "object",
                    "description": "A task handle: follow it with tasks/get.",
                    "properties": { "task_id": { "type": "string" }, "status": { "type": "string" } },
                    "required": ["task_id", "status"],
                    "additionalProperties": false,
                },
            ],
        }),
    }
}

/// The schema as it has to read where [`advertised`] puts it: references to its own parts follow it there.
fn moved(mut schema: Value) -> Value {
    match &mut schema {
        Value::Object(members) => {
            for (key, value) in members.iter_mut() {
                match (key.as_str(), value.as_str()) {
                    ("$ref" | "$dynamicRef", Some("#")) => *value = NEW_PLACE.into(),
                    ("$ref" | "$dynamicRef", Some(own)) if own.starts_with("#/") => {
                        *value = format!("{NEW_PLACE}{}", &own[1..]).into();
                    }
                    // Data, not schemas.
                    ("const" | "enum" | "default" | "examples", _) => {}
                    _ => *value = moved(value.take()),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = moved(item.take())),
        _ => {}
    }
    schema
}

const NEW_PLACE: &str = "#/anyOf/0";

impl ToolName {
    /// The name that a client which refuses dots gets.
    pub fn for_client(&self, underscored: bool) -> String {
        if underscored { self.underscored() } else { self.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_schema_with_references_still_means_the_same_beside_the_task_handle() {
        let own = json!({
            "type": "object",
            "properties": { "next": { "$ref": "#" }, "size": { "$ref": "#/$defs/size" } },
            "additionalProperties": false,
            "$defs": { "size": { "type": "integer" } },
        });
        let shown = jsonschema::validator_for(&advertised(TaskSupport::Optional, &own)).unwrap();
        assert!(shown.is_valid(&json!({ "next": { "size": 1 } })));
        assert!(!shown.is_valid(&json!({ "next": { "size": "1" } })));
        assert!(shown.is_valid(&json!({ "task_id": "t-1", "status": "running" })));
    }
}
