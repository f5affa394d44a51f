//! `prompts/list` and `prompts/get`. Source: MCP 2025-11-25, prompts.

use serde_json::{Map, Value, json};

use super::shapes::{insert_meta, insert_some, shown};
use super::{Request, cursor, invalid};
use crate::error::Result;
use crate::model::{Prompt, PromptCall, PromptResult};

pub fn list(request: Request<'_>) -> Result<Value> {
    let prompts = request.protocol.broker.catalog().prompts_for(&request.peer.caller);
    cursor::page(&request, "prompts", &prompts, |prompt| wire_prompt(&prompt.declared))
}

fn wire_prompt(prompt: &Prompt) -> Value {
    let arguments = prompt.arguments.iter().map(|argument| {
        let mut wire = Map::new();
        wire.insert("name".into(), argument.name.as_str().into());
        insert_some(&mut wire, "title", argument.title.clone());
        insert_some(&mut wire, "description", argument.description.clone());
        wire.insert("required".into(), argument.required.into());
        Value::Object(wire)
    });
    let mut wire = shown(&prompt.name, &prompt.shown);
    wire.insert("arguments".into(), arguments.collect());
    Value::Object(wire)
}

pub async fn get(request: Request<'_>) -> Result<Value> {
    let name = request.text("name")?.ok_or_else(|| invalid("params.name is missing.".into()))?.to_owned();
    let arguments = request.object("arguments")?;
    let call = PromptCall { name, arguments, context: request.context()? };
    request.protocol.broker.get_prompt(&request.peer.caller, call).await.map(wire_result)
}

fn wire_result(result: PromptResult) -> Value {
    let messages = result.messages.into_iter();
    let messages = messages.map(|(role, content)| json!({ "role": role.as_str(), "content": content }));
    let mut wire = Map::new();
    insert_some(&mut wire, "description", result.description);
    wire.insert("messages".into(), messages.collect());
    insert_meta(&mut wire, result.meta);
    Value::Object(wire)
}
