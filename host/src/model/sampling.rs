//! What a plugin may ask a client's model: MCP's `sampling/createMessage` params, checked before they leave.
//! Source: MCP 2025-11-25, sampling.

use serde_json::{Map, Value};

use super::meta::without_reserved;

const MAX_MESSAGES: usize = 200;
/// What MCP knows, less `task` (a plugin waits for its answer), `_meta` (the host's to set) and `includeContext` (a
/// plugin has no business with other servers' context).
const FIELDS: [&str; 9] = [
    "messages",
    "maxTokens",
    "systemPrompt",
    "modelPreferences",
    "temperature",
    "stopSequences",
    "metadata",
    "tools",
    "toolChoice",
];

/// The request as it may be sent, or the sentence that says what is wrong. `tools`: the client can give its model tools.
pub fn check_sampling(mut request: Map<String, Value>, tools: bool) -> Result<Map<String, Value>, String> {
    request.retain(|field, _| FIELDS.contains(&field.as_str()));
    if request.get("maxTokens").and_then(Value::as_u64).is_none_or(|most| most == 0) {
        return Err("maxTokens must be a positive integer".into());
    }
    let is = |field: &str, is: fn(&Value) -> bool, what: &str| match request.get(field) {
        Some(value) if !is(value) => Err(format!("{field} must be {what}")),
        _ => Ok(()),
    };
    is("systemPrompt", Value::is_string, "a string")?;
    is("temperature", Value::is_number, "a number")?;
    is("modelPreferences", Value::is_object, "an object")?;
    is("metadata", Value::is_object, "an object")?;
    let texts = |value: &Value| value.as_array().is_some_and(|all| all.iter().all(Value::is_string));
    is("stopSequences", texts, "a list of strings")?;
    if !tools && (request.contains_key("tools") || request.contains_key("toolChoice")) {
        return Err("this client's model cannot be given tools".into());
    }
    let named = |value: &Value| {
        let is_tool = |tool: &Value| tool["name"].is_string() && tool["inputSchema"].is_object();
        value.as_array().is_some_and(|all| all.iter().all(is_tool))
    };
    is("tools", named, "a list of tools with name and inputSchema")?;
    let choice = |value: &Value| {
        matches!(value["mode"].as_str(), None | Some("auto" | "required" | "none")) && value.is_object()
    };
    is("toolChoice", choice, "an object whose mode is auto, required or none")?;

    let messages = request.get_mut("messages").and_then(Value::as_array_mut);
    let messages = messages.filter(|all| !all.is_empty() && all.len() <= MAX_MESSAGES);
    let Some(messages) = messages else { return Err(format!("messages must be a list of 1 to {MAX_MESSAGES}")) };
    for (at, message) in messages.iter_mut().enumerate() {
        check_message(message, tools).map_err(|what| format!("messages[{at}]: {what}"))?;
    }
    Ok(request)
}

fn check_message(message: &mut Value, tools: bool) -> Result<(), String> {
    let Some(message) = message.as_object_mut() else { return Err("is not an object".into()) };
    if !matches!(message.get("role").and_then(Value::as_str), Some("user" | "assistant")) {
        return Err("role must be user or assistant".into());
    }
    message.retain(|field, _| matches!(field.as_str(), "role" | "content" | "_meta"));
    tidy_meta(message);
    match message.get_mut("content") {
        Some(Value::Array(blocks)) if !blocks.is_empty() => {
            let is_answer = |block: &Value| block["type"] == "tool_result";
            if blocks.iter().any(is_answer) && !blocks.iter().all(is_answer) {
                return Err("a message with a tool_result holds nothing else".into());
            }
            blocks.iter_mut().try_for_each(|block| check_block(block, tools))
        }
        Some(block @ Value::Object(_)) => check_block(block, tools),
        _ => Err("content must be a block or a list of blocks".into()),
    }
}

fn check_block(block: &mut Value, tools: bool) -> Result<(), String> {
    let Some(block) = block.as_object_mut() else { return Err("a block must be an object".into()) };
    tidy_meta(block);
    let has = |fields: &[&str]| match fields.iter().find(|field| !block.get(**field).is_some_and(Value::is_string)) {
        Some(field) => Err(format!("{field} must be a string")),
        None => Ok(()),
    };
    match block.get("type").and_then(Value::as_str) {
        Some("text") => has(&["text"]),
        Some("image" | "audio") => has(&["data", "mimeType"]),
        Some("tool_use" | "tool_result") if !tools => Err("this client's model cannot be given tools".into()),
        Some("tool_use") if !block.get("input").is_some_and(Value::is_object) => Err("input must be an object".into()),
        Some("tool_use") => has(&["id", "name"]),
        Some("tool_result") if !block.get("content").is_some_and(Value::is_array) => {
            Err("content must be a list".into())
        }
        Some("tool_result") => {
            has(&["toolUseId"])?;
            block.get_mut("content").and_then(Value::as_array_mut).into_iter().flatten().for_each(|inner| {
                if let Some(inner) = inner.as_object_mut() {
                    tidy_meta(inner);
                }
            });
            Ok(())
        }
        _ => Err("type must be text, image, audio, tool_use or tool_result".into()),
    }
}

fn tidy_meta(object: &mut Map<String, Value>) {
    if let Some(Value::Object(meta)) = object.remove("_meta") {
        let meta = without_reserved(meta);
        if !meta.is_empty() {
            object.insert("_meta".into(), meta.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(request: Value, tools: bool) -> Result<Value, String> {
        check_sampling(request.as_object().unwrap().clone(), tools).map(Value::Object)
    }

    fn asking(content: Value) -> Value {
        json!({ "maxTokens": 10, "messages": [{ "role": "user", "content": content }] })
    }

    #[test]
    fn a_well_formed_request_passes_and_what_is_not_the_plugins_to_say_is_left_out() {
        let mut request =
            asking(json!({ "type": "text", "text": "Hi", "_meta": { "a": 1, "io.modelcontextprotocol/x": 2 } }));
        let mut sent = request.clone();
        sent["messages"][0]["content"]["_meta"] = json!({ "a": 1 });
        for (field, value) in [
            ("_meta", json!({ "progressToken": 1 })),
            ("includeContext", json!("allServers")),
            ("task", json!({})),
            ("made_up", json!(1)),
        ] {
            request[field] = value;
        }
        assert_eq!(check(request, false).unwrap(), sent);
    }

    #[test]
    fn tools_go_only_to_a_client_that_has_them() {
        let mut request = asking(json!([{ "type": "text", "text": "Hi" }]));
        request["tools"] = json!([{ "name": "look", "inputSchema": {} }]);
        request["toolChoice"] = json!({ "mode": "auto" });
        check(request.clone(), false).unwrap_err();
        check(request, true).unwrap();
        let used = json!([{ "type": "tool_use", "id": "1", "name": "look", "input": {} }]);
        check(asking(used.clone()), false).unwrap_err();
        check(asking(used), true).unwrap();
        let mixed =
            json!([{ "type": "tool_result", "toolUseId": "1", "content": [] }, { "type": "text", "text": "x" }]);
        check(asking(mixed), true).unwrap_err();
    }

    #[test]
    fn what_is_malformed_is_refused() {
        let text = json!({ "type": "text", "text": "Hi" });
        let with = |field: &str, value: Value| {
            let mut request = asking(text.clone());
            request[field] = value;
            request
        };
        for bad in [
            with("maxTokens", json!(0)),
            with("maxTokens", json!(1.5)),
            with("messages", json!([])),
            with("messages", json!([{ "role": "system", "content": text }])),
            with("systemPrompt", json!(1)),
            with("stopSequences", json!([1])),
            asking(json!({ "type": "text" })),
            asking(json!({ "type": "image", "data": "aa" })),
            asking(json!({ "type": "resource_link", "uri": "a:b" })),
            asking(json!([])),
            asking(json!("Hi")),
        ] {
            check(bad.clone(), true).expect_err(&bad.to_string());
        }
    }
}
