//! Components that were not written for us: each function that they export becomes a tool, with schemas of its WIT types.
//!
//! `tools` says which functions are tools and how they are declared, `schema` and `value` how a type and a value of it
//! look in JSON, `docs` what the component says about itself. Source: `docs/plugin-authors/other-components.md`.

mod docs;
mod names;
mod schema;
mod tools;
mod value;

use serde_json::{Map, Value, json};
use std::collections::HashMap;
use wasmtime::Store;
use wasmtime::component::types::Type;
use wasmtime::component::{ComponentExportIndex, Instance, InstancePre, Val};

use super::bindings::cyberos::plugin::types as wit;
use super::call::CallState;
use super::plugin::Why;
use crate::config::Grants;
use crate::model::{Laps, PluginId};

/// What a result may take while it is read: some hundred thousand values, as a value takes 32 bytes and more.
const RESULT_BYTES: usize = 16 << 20;

/// The functions of one component.
pub struct Typed {
    exports: InstancePre<CallState>,
    functions: HashMap<String, Function>,
    declared: Vec<wit::Tool>,
}

struct Function {
    index: ComponentExportIndex,
    /// In order; the names are those in JSON.
    parameters: Vec<(String, Type)>,
    result: Option<Type>,
}

impl Typed {
    /// `wasm`: the component's own bytes, for its documentation.
    pub fn new(id: &PluginId, exports: &InstancePre<CallState>, wasm: &[u8], grants: &Grants) -> Result<Typed, Why> {
        let mut typed = Typed { exports: exports.clone(), functions: HashMap::new(), declared: vec![] };
        for (function, tool) in tools::all(id, exports.component(), wasm, grants)? {
            typed.functions.insert(tool.name.clone(), function);
            typed.declared.push(tool);
        }
        Ok(typed)
    }

    /// Its tools, as a component of our world would declare them.
    pub fn declared(&self) -> &[wit::Tool] {
        &self.declared
    }

    pub async fn instantiate(&self, store: &mut Store<CallState>) -> wasmtime::Result<Instance> {
        self.exports.instantiate_async(store).await
    }

    /// `arguments`: JSON text, already checked against the input schema. The outer error is a trap.
    pub async fn call(
        &self,
        name: &str,
        arguments: &str,
        store: &mut Store<CallState>,
        laps: &mut Laps,
    ) -> wasmtime::Result<Result<wit::ToolResult, wit::ToolError>> {
        let Some(function) = self.functions.get(name) else {
            return Err(wasmtime::Error::msg(format!("there is no function for the tool {name}")));
        };
        let arguments = match function.arguments(arguments) {
            Ok(arguments) => arguments,
            Err(why) => return Ok(Err(wit::ToolError::InvalidInput(why))),
        };
        store.set_hostcall_fuel(store.hostcall_fuel().max(RESULT_BYTES));
        let guest = laps.lap("instantiate", self.instantiate(store).await)?;
        let called = guest
            .get_func(&mut *store, function.index)
            .ok_or_else(|| wasmtime::Error::msg(format!("the function of the tool {name} is not exported")))?;
        let mut results = vec![Val::Bool(false); usize::from(function.result.is_some())];
        laps.lap("run", called.call_async(&mut *store, &arguments, &mut results).await)?;
        Ok(function.answer(results.pop()).map_err(wit::ToolError::Internal))
    }
}

impl Function {
    fn arguments(&self, text: &str) -> Result<Vec<Val>, String> {
        let arguments: Map<String, Value> = serde_json::from_str(text).map_err(|why| why.to_string())?;
        let mut reading = value::Reading::new();
        let read = |(name, ty): &(String, Type)| {
            let given = arguments.get(name).unwrap_or(&Value::Null);
            reading.read(ty, given).map_err(|why| format!("Argument {name} {why}."))
        };
        self.parameters.iter().map(read).collect()
    }

    /// An `err` is the tool's own failure; everything else is the structured result.
    fn answer(&self, returned: Option<Val>) -> Result<wit::ToolResult, String> {
        let payload = match (&self.result, returned) {
            (Some(Type::Result(ty)), Some(Val::Result(Ok(value)))) => ty.ok().zip(value.map(|value| *value)),
            (Some(Type::Result(ty)), Some(Val::Result(Err(value)))) => {
                let failure = ty.err().zip(value.map(|value| *value)).map(|(ty, value)| value::write(&ty, value));
                return Ok(failed(failure.transpose()?));
            }
            (Some(ty), Some(value)) => Some((ty.clone(), value)),
            _ => None,
        };
        Ok(match payload {
            Some((ty, value)) => wit::ToolResult {
                content: vec![],
                structured: Some(json!({ "result": value::write(&ty, value)? }).to_string()),
                is_error: false,
                meta: None,
            },
            None => said("Done.".into(), false),
        })
    }
}

/// A text is shown as it is.
fn failed(why: Option<Value>) -> wit::ToolResult {
    let text = match why {
        Some(Value::String(text)) => text,
        Some(other) => other.to_string(),
        None => "The tool failed.".into(),
    };
    said(text, true)
}

fn said(text: String, is_error: bool) -> wit::ToolResult {
    let content = vec![wit::Content::Text(wit::TextContent { text, extra: None })];
    wit::ToolResult { content, structured: None, is_error, meta: None }
}
