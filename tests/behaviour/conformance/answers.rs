//! What went over the wire while the suite ran, whatever the suite made of it: each request was answered, with what the
//! fixture has to say.

use bridge_tests::recorder::Exchange;
use serde_json::{Value, json};
use std::collections::BTreeSet;

use super::REVISION;

/// What the suite asks the fixture for, and what must come back: members that are given here must be equal, others may
/// be there.
fn expected() -> Vec<(&'static str, &'static str, Value)> {
    let text = |text: &str| json!({ "content": [{ "type": "text", "text": text }], "isError": false });
    let image = json!({ "type": "image", "mimeType": "image/png", "data": PIXEL });
    let user = |content: Value| json!({ "role": "user", "content": content });
    let says = |text: &str| user(json!({ "type": "text", "text": text }));
    let one = |contents: Value| json!({ "contents": [contents] });
    vec![
        ("tools/call", "test_simple_text", text("This is a simple text response for testing.")),
        ("tools/call", "test_image_content", json!({ "content": [image], "isError": false })),
        (
            "tools/call",
            "test_audio_content",
            json!({ "isError": false, "content": [{ "type": "audio", "mimeType": "audio/wav",
            "data": "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQEAAACAAA==" }] }),
        ),
        (
            "tools/call",
            "test_embedded_resource",
            json!({ "isError": false, "content": [{ "type": "resource", "resource": {
            "uri": "test://embedded-resource", "mimeType": "text/plain", "text": "This is an embedded resource content." } }] }),
        ),
        (
            "tools/call",
            "test_multiple_content_types",
            json!({ "isError": false, "content": [
            { "type": "text", "text": "Multiple content types test:" },
            image,
            { "type": "resource", "resource": { "uri": "test://mixed-content-resource", "mimeType": "application/json",
                "text": r#"{"test":"data","value":123}"# } },
        ] }),
        ),
        (
            "tools/call",
            "test_error_handling",
            json!({ "isError": true,
            "content": [{ "type": "text", "text": "This tool intentionally returns an error for testing" }] }),
        ),
        ("tools/call", "test_tool_with_logging", text("Three messages were logged.")),
        ("tools/call", "test_tool_with_progress", text("Progress was reported three times.")),
        ("tools/call", "test_reconnection", text("This answer is for whoever came back for it.")),
        ("tools/call", "test_sampling", text("LLM response: This is a test response from the client")),
        (
            "tools/call",
            "test_elicitation",
            text(r#"User response: action=accept, content={"username":"testuser","email":"test@example.com"}"#),
        ),
        (
            "tools/call",
            "test_elicitation_sep1034_defaults",
            text(concat!(
                "Elicitation completed: action=accept, content=",
                r#"{"name":"Jane Smith","age":25,"score":88,"status":"inactive","verified":false}"#
            )),
        ),
        (
            "tools/call",
            "test_elicitation_sep1330_enums",
            text(concat!(
                "Elicitation completed: action=accept, content=",
                r#"{"untitledSingle":"option1","titledSingle":"value1","legacyEnum":"opt1","#,
                r#""untitledMulti":["option1","option2"],"titledMulti":["value1","value2"]}"#
            )),
        ),
        ("prompts/get", "test_simple_prompt", json!({ "messages": [says("This is a simple prompt for testing.")] })),
        (
            "prompts/get",
            "test_prompt_with_arguments",
            json!({ "messages": [says("Prompt with arguments: arg1='testValue1', arg2='testValue2'")] }),
        ),
        (
            "prompts/get",
            "test_prompt_with_embedded_resource",
            json!({ "messages": [
            user(json!({ "type": "resource", "resource": { "uri": "test://example-resource", "mimeType": "text/plain",
                "text": "Embedded resource content for testing." } })),
            says("Please process the embedded resource above."),
        ] }),
        ),
        (
            "prompts/get",
            "test_prompt_with_image",
            json!({ "messages": [user(image.clone()), says("Please analyze the image above.")] }),
        ),
        (
            "resources/read",
            "test://static-text",
            one(json!({ "uri": "test://static-text", "mimeType": "text/plain",
            "text": "This is the content of the static text resource." })),
        ),
        (
            "resources/read",
            "test://static-binary",
            one(json!({ "uri": "test://static-binary", "mimeType": "image/png", "blob": PIXEL })),
        ),
        (
            "resources/read",
            "test://template/123/data",
            one(json!({ "uri": "test://template/123/data",
            "mimeType": "application/json", "text": r#"{"data":"Data for ID: 123","id":"123","templateTest":true}"# })),
        ),
        (
            "completion/complete",
            "test_prompt_with_arguments",
            json!({ "completion": { "values": ["testValue1"], "total": 1, "hasMore": false } }),
        ),
        ("resources/subscribe", "test://watched-resource", json!({})),
        ("resources/unsubscribe", "test://watched-resource", json!({})),
        ("logging/setLevel", "", json!({})),
        ("ping", "", json!({})),
        ("initialize", "", json!({ "protocolVersion": REVISION })),
        ("tools/list", "", json!({})),
        ("prompts/list", "", json!({})),
        ("resources/list", "", json!({})),
    ]
}

/// One red pixel.
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC";

/// Requests to which the suite wants no answer: a foreign Host, and a session that was ended.
fn is_a_refusal_asked_for(exchange: &Exchange) -> bool {
    exchange.header("host").is_some_and(|host| host == "evil.example.com") || exchange.status == 404
}

pub fn answers_are_good(exchanges: &[Exchange], wrong: &mut Vec<String>) {
    let expected = expected();
    let mut seen = BTreeSet::new();
    let (mut refused, mut ended) = (0, 0);
    for (number, exchange) in exchanges.iter().enumerate() {
        for asked in exchange.asked() {
            let Some(method) = asked["method"].as_str() else { continue };
            if is_a_refusal_asked_for(exchange) {
                refused += usize::from(exchange.status == 403);
                ended += usize::from(exchange.status == 404);
                continue;
            }
            if asked.get("id").is_none() {
                if exchange.status != 202 {
                    wrong.push(format!("{method} was taken with status {}", exchange.status));
                }
                continue;
            }
            let params = &asked["params"];
            let of =
                [&params["name"], &params["uri"], &params["ref"]["name"]].iter().find_map(|v| v.as_str()).unwrap_or("");
            let Some(answer) = answer_to(exchanges, number, &asked["id"]) else {
                wrong.push(format!("{method} {of}: no answer, status {}", exchange.status));
                continue;
            };
            let Some((_, _, result)) = expected.iter().find(|(m, o, _)| (*m, *o) == (method, of)) else {
                wrong.push(format!("{method} {of}: the suite asks for it, and this test does not know it: {answer}"));
                continue;
            };
            seen.insert((method.to_owned(), of.to_owned()));
            if !holds(&answer["result"], result) {
                wrong.push(format!("{method} {of}: {answer}\n    is not {result}"));
            }
        }
    }
    for (method, of, _) in &expected {
        if !seen.contains(&(method.to_string(), of.to_string())) {
            wrong.push(format!("{method} {of}: nobody asked"));
        }
    }
    if (refused, ended) != (1, 1) {
        wrong.push(format!(
            "{refused} requests of a foreign host were refused and {ended} of ended sessions, not 1 and 1"
        ));
    }
}

/// On the reply itself, or on a stream that the same session took up later.
fn answer_to(exchanges: &[Exchange], number: usize, id: &Value) -> Option<Value> {
    let asking = &exchanges[number];
    let is_answer = |message: &Value| message["id"] == *id && message.get("method").is_none();
    let session = asking.header("mcp-session-id");
    let resumed = exchanges[number + 1..]
        .iter()
        .filter(|e| e.header("last-event-id").is_some() && e.header("mcp-session-id") == session);
    std::iter::once(asking).chain(resumed).flat_map(Exchange::answered).find(is_answer)
}

fn holds(value: &Value, expected: &Value) -> bool {
    match (value, expected) {
        (Value::Object(value), Value::Object(expected)) => {
            expected.iter().all(|(name, expected)| value.get(name).is_some_and(|value| holds(value, expected)))
        }
        (Value::Array(values), Value::Array(expected)) => {
            values.len() == expected.len()
                && values.iter().zip(expected).all(|(value, expected)| holds(value, expected))
        }
        _ => value == expected,
    }
}
