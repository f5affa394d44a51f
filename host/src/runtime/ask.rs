//! What a plugin can be asked for: a tool's result, a prompt, a resource, completions. Each says which export answers it
//! and what its answer becomes; everything around them (`call`) is the same.

use std::future::Future;
use wasmtime::Store;

use super::bindings::completions::exports::cyberos::plugin::completions as wit_completions;
use super::bindings::cyberos::plugin::types as wit;
use super::bindings::prompts::exports::cyberos::plugin::prompts as wit_prompts;
use super::bindings::resources::exports::cyberos::plugin::resources as wit_resources;
use super::call::CallState;
use super::convert;
use super::plugin::{Plugin, ToolExports};
use crate::error::{Error, Reason, Result};
use crate::model::{Laps, PromptResult, ReadResult, Reference, Suggestions, ToolResult};

/// One question to one export.
pub trait Ask: Send + 'static {
    /// What callers get.
    type Answer: Send;
    /// What the guest returns.
    type Returned: Send;

    /// Instantiate, and run the export. The outer error is a trap; the inner one is the guest's.
    fn run(
        self,
        plugin: &Plugin,
        store: &mut Store<CallState>,
        laps: &mut Laps,
    ) -> impl Future<Output = wasmtime::Result<Result<Self::Returned, wit::ToolError>>> + Send;

    /// Guests are not trusted: within `limit` bytes, and well-formed.
    fn answer(returned: Self::Returned, limit: usize) -> Result<Self::Answer>;
}

/// `tools.call-tool`.
pub struct AskTool {
    pub name: String,
    /// JSON text, already checked against the input schema.
    pub arguments: String,
}

impl Ask for AskTool {
    type Answer = ToolResult;
    type Returned = wit::ToolResult;

    async fn run(
        self,
        plugin: &Plugin,
        store: &mut Store<CallState>,
        laps: &mut Laps,
    ) -> wasmtime::Result<Result<wit::ToolResult, wit::ToolError>> {
        let exports = match &plugin.exports().tools {
            ToolExports::World(exports) => exports,
            // Boxed, so that the ordinary call does not carry its future.
            ToolExports::Typed(typed) => return Box::pin(typed.call(&self.name, &self.arguments, store, laps)).await,
        };
        let guest = laps.lap("instantiate", exports.instantiate_async(&mut *store).await)?;
        laps.lap("run", guest.cyberos_plugin_tools().call_call_tool(&mut *store, &self.name, &self.arguments).await)
    }

    fn answer(returned: wit::ToolResult, limit: usize) -> Result<ToolResult> {
        convert::tool_result(returned, limit)
    }
}

/// `prompts.get-prompt`.
pub struct AskPrompt {
    pub name: String,
    /// JSON text: an object of strings, already checked against the declaration.
    pub arguments: String,
}

impl Ask for AskPrompt {
    type Answer = PromptResult;
    type Returned = wit_prompts::PromptResult;

    async fn run(
        self,
        plugin: &Plugin,
        store: &mut Store<CallState>,
        laps: &mut Laps,
    ) -> wasmtime::Result<Result<wit_prompts::PromptResult, wit::ToolError>> {
        let exports = plugin.exports().prompts.as_ref().ok_or_else(|| not_exported("prompts"))?;
        let guest = laps.lap("instantiate", exports.instantiate_async(&mut *store).await)?;
        laps.lap("run", guest.cyberos_plugin_prompts().call_get_prompt(&mut *store, &self.name, &self.arguments).await)
    }

    fn answer(returned: wit_prompts::PromptResult, limit: usize) -> Result<PromptResult> {
        convert::prompt_result(returned, limit)
    }
}

/// `resources.read-resource`.
pub struct AskResource {
    pub uri: String,
    /// The template that it matched.
    pub template: Option<String>,
    /// JSON text: the template's variables.
    pub variables: String,
}

impl Ask for AskResource {
    type Answer = ReadResult;
    /// `None`: there is nothing at that URI.
    type Returned = Option<wit_resources::ReadResult>;

    async fn run(
        self,
        plugin: &Plugin,
        store: &mut Store<CallState>,
        laps: &mut Laps,
    ) -> wasmtime::Result<Result<Option<wit_resources::ReadResult>, wit::ToolError>> {
        let exports = plugin.exports().resources.as_ref().ok_or_else(|| not_exported("resources"))?;
        let guest = laps.lap("instantiate", exports.instantiate_async(&mut *store).await)?;
        let request = wit_resources::Request { uri: self.uri, template: self.template, variables: self.variables };
        let read = guest.cyberos_plugin_resources().call_read_resource(&mut *store, &request).await;
        Ok(match laps.lap("run", read)? {
            Ok(read) => Ok(Some(read)),
            Err(wit_resources::ReadError::NotFound) => Ok(None),
            Err(wit_resources::ReadError::Failed(error)) => Err(error),
        })
    }

    fn answer(returned: Option<wit_resources::ReadResult>, limit: usize) -> Result<ReadResult> {
        match returned {
            Some(read) => convert::read_result(read, limit),
            None => Err(Error::new(Reason::ResourceNotFound, "There is no such resource.")),
        }
    }
}

/// `completions.complete`.
pub struct AskCompletion {
    pub reference: Reference,
    pub argument: String,
    pub value: String,
    /// JSON text: an object of strings.
    pub chosen: String,
}

impl Ask for AskCompletion {
    type Answer = Suggestions;
    type Returned = wit_completions::Suggestions;

    async fn run(
        self,
        plugin: &Plugin,
        store: &mut Store<CallState>,
        laps: &mut Laps,
    ) -> wasmtime::Result<Result<wit_completions::Suggestions, wit::ToolError>> {
        let exports = plugin.exports().completions.as_ref().ok_or_else(|| not_exported("completions"))?;
        let guest = laps.lap("instantiate", exports.instantiate_async(&mut *store).await)?;
        let request = wit_completions::Request {
            reference: match self.reference {
                Reference::Prompt(name) => wit_completions::Reference::Prompt(name),
                Reference::Template(template) => wit_completions::Reference::Template(template),
            },
            argument: self.argument,
            value: self.value,
            context: self.chosen,
        };
        laps.lap("run", guest.cyberos_plugin_completions().call_complete(&mut *store, &request).await)
    }

    fn answer(returned: wit_completions::Suggestions, limit: usize) -> Result<Suggestions> {
        convert::suggestions(returned, limit)
    }
}

/// Only what a plugin offers is asked for, and it offers nothing that it does not export.
fn not_exported(interface: &str) -> wasmtime::Error {
    wasmtime::Error::msg(format!("the component does not export cyberos:plugin/{interface}"))
}
