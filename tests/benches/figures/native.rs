//! The yardstick: the echo tool as a native handler in the same server. It parses the same message, checks the arguments
//! against the same compiled schema, builds and writes the same reply, in a task of its own as the bridge does, and has
//! no sandbox, no identity, no scopes and no telemetry.

use axum::Router;
use axum::body::Bytes;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::post;
use cyberos_plugin_host::broker::Entry;
use cyberos_plugin_host::protocol::{Answer, Message, parse};
use serde_json::{Value, json};
use std::sync::Arc;

pub const PATH: &str = "/native";

pub fn route(entry: Arc<Entry>) -> Router {
    Router::new().route(
        PATH,
        post(async move |body: Bytes| {
            let reply = tokio::spawn(async move { answer(&entry, &body) }).await.expect("the handler does not panic");
            ([(header::CONTENT_TYPE, "application/json")], reply).into_response()
        }),
    )
}

fn answer(entry: &Entry, body: &[u8]) -> String {
    let (mut messages, _) = parse(body).expect("the load sends JSON");
    let Some(Message::Request { id, mut params, .. }) = messages.pop() else { panic!("the load sends requests") };
    assert_eq!(params.get("name").and_then(Value::as_str), Some(entry.tool.name.as_str()));
    let arguments = params.remove("arguments").unwrap_or_default();
    if let Some(violation) = entry.input.iter_errors(&arguments).next() {
        panic!("the load sends good arguments: {violation}");
    }
    let echo = json!({ "text": arguments["text"] });
    let content = json!([{ "type": "text", "text": echo.to_string() }]);
    Answer::result(&id, json!({ "content": content, "structuredContent": echo, "isError": false })).body.to_string()
}
