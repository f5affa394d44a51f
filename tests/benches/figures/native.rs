//! The yardsticks: the echo tool as a native handler in the same server, twice.
//!
//! [`BARE`] parses the same message, checks the arguments against the same compiled schema, builds and writes the same
//! reply, in a task of its own as the bridge does; no identity, no scopes, no telemetry. [`GATED`] also does what the
//! bridge does around the sandbox: what is left between the two sides is the sandbox alone.

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, header};
use axum::response::IntoResponse;
use axum::routing::post;
use cyberos_plugin_host::app::Bridge;
use cyberos_plugin_host::auth::{Caller, Identifier};
use cyberos_plugin_host::broker::{Catalog, Entry, schema};
use cyberos_plugin_host::model::{Trace, arguments_sha256};
use cyberos_plugin_host::protocol::{Answer, InFlight, Message, RequestId, parse};
use cyberos_plugin_host::telemetry::{CallRecord, Metrics, Outcome};
use serde_json::{Map, Value, json};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

pub const BARE: &str = "/bare";
pub const GATED: &str = "/gated";

#[derive(Clone)]
struct Gates {
    identifier: Arc<Identifier>,
    catalog: Arc<Catalog>,
    metrics: Arc<Metrics>,
    in_flight: InFlight,
}

pub fn routes(bridge: &Bridge, entry: Arc<Entry>) -> Router {
    let gates = Gates {
        identifier: bridge.identifier.clone(),
        catalog: bridge.catalog.clone(),
        metrics: bridge.telemetry.metrics.clone(),
        in_flight: InFlight::default(),
    };
    let bare = async move |body: Bytes| {
        let reply = tokio::spawn(async move { bare(&entry, &body) }).await.expect("the handler does not panic");
        ([(header::CONTENT_TYPE, "application/json")], reply).into_response()
    };
    let gated = async move |headers: HeaderMap, body: Bytes| {
        let caller = gates.identifier.for_http(&headers, None).await.expect("the load may come in");
        let reply = tokio::spawn(async move { gates.pass(&caller, &body) }).await.expect("the handler does not panic");
        ([(header::CONTENT_TYPE, "application/json")], reply).into_response()
    };
    Router::new().route(BARE, post(bare)).route(GATED, post(gated))
}

fn request(body: &[u8]) -> (RequestId, Map<String, Value>) {
    match parse(body).expect("the load sends JSON").0.pop() {
        Some(Message::Request { id, params, .. }) => (id, params),
        _ => panic!("the load sends requests"),
    }
}

fn bare(entry: &Entry, body: &[u8]) -> String {
    let (id, mut params) = request(body);
    assert_eq!(params.get("name").and_then(Value::as_str), Some(entry.tool.name.as_str()));
    let arguments = params.remove("arguments").unwrap_or_default();
    reply(&id, echo(entry, &arguments))
}

fn echo(entry: &Entry, arguments: &Value) -> Value {
    if let Err(violation) = schema::check(&entry.input, arguments) {
        panic!("the load sends good arguments: {violation:?}");
    }
    json!({ "text": arguments["text"] })
}

fn reply(id: &RequestId, echo: Value) -> String {
    let content = json!([{ "type": "text", "text": echo.to_string() }]);
    Answer::result(id, json!({ "content": content, "structuredContent": echo, "isError": false })).body.to_string()
}

impl Gates {
    fn pass(&self, caller: &Caller, body: &[u8]) -> String {
        let received = Instant::now();
        let (id, mut params) = request(body);
        let key: Arc<str> = format!("{}/{}", caller.tenant(), caller.subject()).into();
        let _entered = self.in_flight.enter(&key, &id);
        black_box(Trace::start());
        let entry = self.catalog.find(params["name"].as_str().unwrap_or_default()).expect("the load calls a tool");
        assert!(entry.tool.scopes.iter().all(|scope| caller.has_scope(scope)), "the load may call it");
        let arguments = params.remove("arguments").unwrap_or_default();
        black_box(arguments.as_object().map(arguments_sha256));
        let running = self.metrics.running(entry.tool.name.as_str());
        let echo = echo(&entry, &arguments);
        drop(running);
        let output = entry.output.as_ref().expect("the echo tool has an output schema");
        assert!(schema::check(output, &echo).is_ok(), "the echo matches it");
        self.metrics.call_ended(&CallRecord {
            tool: entry.tool.name.as_str(),
            tenant: Some(&caller.tenant().to_string()),
            outcome: Outcome::Success,
            duration: received.elapsed(),
            fuel: 1,
        });
        reply(&id, echo)
    }
}
