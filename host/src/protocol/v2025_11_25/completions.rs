//! `completion/complete`. Source: MCP 2025-11-25, completion.

use serde_json::{Map, Value, json};

use super::{Request, invalid};
use crate::error::Result;
use crate::model::{CompleteCall, Reference};

pub async fn complete(request: Request<'_>) -> Result<Value> {
    let argument = request.object("argument")?;
    let chosen = match request.object("context")?.remove("arguments") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(chosen)) => chosen,
        Some(_) => return Err(invalid("params.context.arguments must be an object.".into())),
    };
    let call = CompleteCall {
        reference: reference(&request.object("ref")?)?,
        argument: text(&argument, "params.argument", "name")?,
        value: text(&argument, "params.argument", "value")?,
        chosen,
        context: request.context()?,
    };
    let suggested = request.protocol.broker.complete(&request.peer.caller, call).await?;
    let mut completion = json!({ "values": suggested.values, "hasMore": suggested.has_more });
    if let Some(total) = suggested.total {
        completion["total"] = total.into();
    }
    Ok(json!({ "completion": completion }))
}

fn reference(reference: &Map<String, Value>) -> Result<Reference> {
    match reference.get("type").and_then(Value::as_str) {
        Some("ref/prompt") => text(reference, "params.ref", "name").map(Reference::Prompt),
        Some("ref/resource") => text(reference, "params.ref", "uri").map(Reference::Template),
        _ => Err(invalid("params.ref.type must be ref/prompt or ref/resource.".into())),
    }
}

fn text(object: &Map<String, Value>, place: &str, name: &str) -> Result<String> {
    let text = object.get(name).and_then(Value::as_str).map(str::to_owned);
    text.ok_or_else(|| invalid(format!("{place}.{name} must be a string.")))
}
