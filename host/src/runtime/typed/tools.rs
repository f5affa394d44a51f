//! Which exported functions are tools, and how they are declared: name, description, schemas, scope, annotations.
//!
//! A component that was not written for us says nothing of what it does, so its annotations follow from what it can
//! reach: who reaches nothing can change nothing.

use serde_json::json;
use std::collections::HashMap;
use wasmtime::component::types::{ComponentFunc, ComponentItem, Type};
use wasmtime::component::{Component, ComponentExportIndex};

use super::Function;
use super::docs::Docs;
use super::names::{in_json, short, title};
use super::schema::{Schemas, in_wit};
use super::wit;
use crate::config::Grants;
use crate::model::PluginId;
use crate::runtime::describe::MAX_TOOLS;
use crate::runtime::plugin::Why;

/// Longest description of a tool.
const MAX_DESCRIPTION: usize = 2_000;

/// A function that is exported, by the world itself or in an interface.
struct Found {
    interface: Option<String>,
    name: String,
    ty: ComponentFunc,
    index: ComponentExportIndex,
}

/// Every exported function with the tool that it is.
pub fn all(
    id: &PluginId,
    component: &Component,
    wasm: &[u8],
    grants: &Grants,
) -> Result<Vec<(Function, wit::Tool)>, Why> {
    let found = functions(component)?;
    let module: String = id.as_str().split('-').collect();
    if !module.starts_with(|first: char| first.is_ascii_lowercase()) {
        return Err(Why::BadTool(format!(
            "its tools would be named cyberos.{module}.*, and a module starts with a letter. Rename the file."
        )));
    }
    // Before there is a schema for each: functions share types, so a small component can have very many large ones.
    if found.len() > MAX_TOOLS {
        return Err(Why::BadTool(format!("it exports {} functions; at most {MAX_TOOLS} can be tools", found.len())));
    }
    let docs = Docs::of(wasm);
    let annotations = annotations(grants);
    let mut of_name = HashMap::<String, usize>::new();
    found.iter().for_each(|function| *of_name.entry(in_json(&function.name)).or_default() += 1);
    let tool = |function: Found| {
        let name = match &function.interface {
            // Two interfaces have it.
            Some(interface) if of_name[&in_json(&function.name)] > 1 => {
                format!("{}_{}", in_json(short(interface)), in_json(&function.name))
            }
            _ => in_json(&function.name),
        };
        let doc = docs.function(function.interface.as_deref().map(short), &function.name);
        let described = Described { name: format!("cyberos.{module}.{name}"), module: &module, doc, annotations };
        described.tool(&function).map_err(|why| Why::BadTool(format!("function {}: {why}", function.full_name())))
    };
    found.into_iter().map(tool).collect()
}

/// What callers could call. Exports for other hosts, such as `wasi:http/incoming-handler`, are passed over.
fn functions(component: &Component) -> Result<Vec<Found>, Why> {
    let engine = component.engine();
    let mut found = vec![];
    let mut passed_over = vec![];
    let exports = component.component_type();
    for (export, item) in exports.exports(engine) {
        if let Some(own) = export.strip_prefix("cyberos:plugin/") {
            match own {
                "prompts@1.0.0" | "resources@1.0.0" | "completions@1.0.0" => continue,
                _ => return Err(Why::WrongWorld(format!("it exports {export}; this host serves version 1.0.0"))),
            }
        }
        let Some(index) = component.get_export_index(None, export) else { continue };
        match item.ty {
            _ if export.starts_with("wasi:") => passed_over.push(export.to_owned()),
            ComponentItem::ComponentFunc(ty) => {
                found.push(Found { interface: None, name: export.to_owned(), ty, index });
            }
            ComponentItem::ComponentInstance(instance) => {
                for (name, item) in instance.exports(engine) {
                    let ComponentItem::ComponentFunc(ty) = item.ty else { continue };
                    let Some(index) = component.get_export_index(Some(&index), name) else { continue };
                    found.push(Found { interface: Some(export.to_owned()), name: name.to_owned(), ty, index });
                }
            }
            _ => {}
        }
    }
    match (found.is_empty(), passed_over.is_empty()) {
        (false, _) => Ok(found),
        (true, true) => Err(Why::WrongWorld("it exports no function".into())),
        (true, false) => Err(Why::WrongWorld(format!("it exports only {}", passed_over.join(", ")))),
    }
}

impl Found {
    fn full_name(&self) -> String {
        match &self.interface {
            Some(interface) => format!("{} of {interface}", self.name),
            None => self.name.clone(),
        }
    }

    /// As WIT writes it.
    fn signature(&self) -> String {
        let parameters: Vec<String> = self.ty.params().map(|(name, ty)| format!("{name}: {}", in_wit(&ty))).collect();
        let result = self.ty.results().next().map_or(String::new(), |ty| format!(" -> {}", in_wit(&ty)));
        format!("{}({}){result}", self.name, parameters.join(", "))
    }
}

struct Described<'a> {
    name: String,
    module: &'a str,
    doc: Option<String>,
    annotations: wit::Annotations,
}

impl Described<'_> {
    fn tool(self, function: &Found) -> Result<(Function, wit::Tool), String> {
        if function.name.starts_with('[') {
            return Err("it belongs to a resource, which has no JSON".into());
        }
        if function.ty.async_() {
            return Err("it is async, which this host does not offer".into());
        }
        let mut schemas = Schemas::new();
        let fields = || function.ty.params().map(|(name, ty)| (name.to_owned(), ty));
        let input = schemas.object(fields(), false).map_err(|why| format!("parameter {why}"))?;
        let result = function.ty.results().next();
        let output = self.output(&mut schemas, result.as_ref()).map_err(|why| format!("its result {why}"))?;
        let description = self.description(function);
        let tool = wit::Tool {
            title: title(&function.name),
            description,
            input_schema: input.to_string(),
            output_schema: output,
            annotations: self.annotations,
            scopes: vec![format!("cyberos:{}:call", self.module)],
            task_support: wit::TaskSupport::Forbidden,
            idempotent_task: false,
            icons: None,
            meta: None,
            name: self.name,
        };
        let parameters = fields().map(|(name, ty)| (in_json(&name), ty)).collect();
        Ok((Function { index: function.index, parameters, result }, tool))
    }

    /// A `result` at the top is not part of the schema: its `err` is a failure of the tool.
    fn output(&self, schemas: &mut Schemas, result: Option<&Type>) -> Result<Option<String>, String> {
        let returned = match result {
            Some(Type::Result(either)) => {
                if let Some(err) = either.err() {
                    schemas.of(&err, true)?;
                }
                either.ok()
            }
            other => other.cloned(),
        };
        let Some(returned) = returned else { return Ok(None) };
        let schema = json!({
            "type": "object",
            "properties": { "result": schemas.of(&returned, true)? },
            "required": ["result"],
            "additionalProperties": false
        });
        Ok(Some(schema.to_string()))
    }

    fn description(&self, function: &Found) -> String {
        let signature = format!("Runs the function {} of the component {}.", function.signature(), self.module);
        let text = match &self.doc {
            Some(doc) => format!("{doc} ({signature})"),
            None => signature,
        };
        text.chars().take(MAX_DESCRIPTION).collect()
    }
}

/// The operator grants what a component may reach; that says what a call can do at worst.
fn annotations(grants: &Grants) -> wit::Annotations {
    let safe = |method: &String| matches!(method.as_str(), "GET" | "HEAD");
    let asks_others = grants.upstreams.values().any(|upstream| !upstream.methods.iter().all(safe));
    let changes = asks_others
        || grants.directories.values().any(|directory| directory.writable)
        || grants.cuo
        || grants.audit_append
        || grants.elicit
        || grants.sample
        || grants.resource_updates;
    wit::Annotations {
        read_only: !changes,
        destructive: changes,
        idempotent: !changes,
        open_world: !grants.upstreams.is_empty() || grants.sample,
        write: changes,
        external_effect: asks_others,
    }
}
