//! What is fuzzed: each target takes any bytes and must neither panic, nor overflow the stack, nor take long, nor break
//! what it promises. `make fuzz` looks for inputs that do; `tests/behaviour/fuzzed.rs` replays the seeds and everything
//! that was ever found.

mod entry;
mod plugin_requests;
mod requests;

use serde_json::Value;
use std::path::PathBuf;

use cyberos_plugin_host::broker::schema;
use cyberos_plugin_host::error::{Error, Reason};
use cyberos_plugin_host::model::TraceId;
use cyberos_plugin_host::protocol::{Message, RequestId, error_body, parse};

pub struct Target {
    /// Also the name of its directories in `tests/fuzz`.
    pub name: &'static str,
    pub run: fn(&[u8]),
    /// JSON that makes inputs interesting: members, values and whole objects.
    pub vocabulary: &'static [&'static str],
}

pub const TARGETS: &[Target] = &[
    Target {
        name: "json_rpc",
        run: json_rpc,
        vocabulary: &[
            r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":""}}"#,
            r#"{"jsonrpc":"2.0"}"#,
            r#"{"id":9223372036854775807}"#,
            r#"{"id":-9223372036854775808}"#,
            r#"{"id":18446744073709551616}"#,
            r#"{"id":1e2}"#,
            r#"{"id":1.0}"#,
            r#"{"id":""}"#,
            r#"{"id":null}"#,
            r#"{"method":"tools/call"}"#,
            r#"{"params":{"name":"cyberos.cuo.route","arguments":{}}}"#,
            r#"{"params":[]}"#,
            r#"{"result":null}"#,
            r#"{"error":null}"#,
            r#""\ud83d\ude00""#,
            r#""\u0000""#,
        ],
    },
    Target {
        name: "schema_compiler",
        run: schema_compiler,
        vocabulary: &[
            r##"{"$ref":"#"}"##,
            r##"{"$ref":"#/$defs/a"}"##,
            r##"{"$ref":"#a"}"##,
            r##"{"$ref":"https://example.com/x"}"##,
            r##"{"$ref":"file:///etc/passwd"}"##,
            r##"{"$dynamicRef":"#a"}"##,
            r##"{"$dynamicAnchor":"a"}"##,
            r##"{"$recursiveRef":"#"}"##,
            r##"{"$anchor":"a"}"##,
            r##"{"$id":"https://example.com/x"}"##,
            r##"{"$schema":"https://json-schema.org/draft/2020-12/schema"}"##,
            r##"{"$schema":"http://json-schema.org/draft-07/schema#"}"##,
            r##"{"$defs":{"a":{}}}"##,
            r##"{"definitions":{"a":{}}}"##,
            r##"{"type":"object"}"##,
            r##"{"type":["string","null"]}"##,
            r##"{"type":"integer"}"##,
            r##"{"properties":{"a":{}}}"##,
            r##"{"patternProperties":{"^a":{}}}"##,
            r##"{"additionalProperties":false}"##,
            r##"{"unevaluatedProperties":false}"##,
            r##"{"unevaluatedItems":false}"##,
            r##"{"propertyNames":{}}"##,
            r##"{"required":["a"]}"##,
            r##"{"dependentRequired":{"a":["b"]}}"##,
            r##"{"dependentSchemas":{"a":{}}}"##,
            r##"{"items":{}}"##,
            r##"{"prefixItems":[{}]}"##,
            r##"{"contains":{},"minContains":0,"maxContains":2}"##,
            r##"{"allOf":[{}]}"##,
            r##"{"anyOf":[{}]}"##,
            r##"{"oneOf":[{}]}"##,
            r##"{"not":{}}"##,
            r##"{"if":{},"then":{},"else":{}}"##,
            r##"{"enum":[1,"a",null]}"##,
            r##"{"const":{}}"##,
            r##"{"pattern":"^(a+)+$"}"##,
            r##"{"pattern":"\\p{L}{1000}{1000}"}"##,
            r##"{"format":"uri"}"##,
            r##"{"format":"regex"}"##,
            r##"{"format":"date-time"}"##,
            r##"{"minLength":18446744073709551615}"##,
            r##"{"maxItems":-1}"##,
            r##"{"multipleOf":0}"##,
            r##"{"multipleOf":1e-300}"##,
            r##"{"minimum":1e308}"##,
            r##"{"uniqueItems":true}"##,
            r##"{"contentEncoding":"base64","contentMediaType":"application/json"}"##,
            "true",
            "false",
            "[1,1.0]",
            r#""a""#,
        ],
    },
    requests::TARGET,
    entry::SESSION_IDS,
    entry::EVENT_IDS,
    plugin_requests::TARGET,
];

pub fn target(name: &str) -> &'static Target {
    TARGETS.iter().find(|target| target.name == name).unwrap_or_else(|| panic!("there is no fuzz target {name}"))
}

/// The inputs that a target is always given: what a person wrote, and what the fuzzer found.
pub fn kept_inputs(target: &Target) -> Vec<PathBuf> {
    let directories = ["seeds", "found"].map(|kind| crate::root().join("tests/fuzz").join(kind).join(target.name));
    let entries = directories.iter().filter_map(|directory| std::fs::read_dir(directory).ok()).flatten();
    let mut files: Vec<_> = entries.map(|entry| entry.expect("a directory can be read").path()).collect();
    files.sort();
    files
}

/// One line of stdio, or one body of HTTP.
fn json_rpc(bytes: &[u8]) {
    let (messages, is_batch) = match parse(bytes) {
        Ok(parsed) => parsed,
        Err(error) => {
            let is_json = serde_json::from_slice::<Value>(bytes).is_ok();
            let expected = if is_json { Reason::InvalidRequest } else { Reason::ParseError };
            assert_eq!(error.reason(), expected);
            return assert_readable(None, &error);
        }
    };
    assert!(!messages.is_empty() && messages.len() <= 100 && (is_batch || messages.len() == 1));
    for message in &messages {
        match message {
            Message::Request { id, .. } => assert_echoed(id),
            Message::Response { id, .. } => assert_echoed(id),
            Message::Notification { .. } => {}
            Message::Invalid { id, error } => assert_readable(id.as_ref(), error),
        }
    }
}

/// A client finds its own id in the answer, with its type.
fn assert_echoed(id: &RequestId) {
    let answer = serde_json::json!({ "jsonrpc": "2.0", "id": id.to_json(), "result": {} }).to_string();
    let (mut again, _) = parse(answer.as_bytes()).expect("our own answer is a message");
    let Message::Response { id: echoed, .. } = again.remove(0) else { panic!("our own answer is a response") };
    assert_eq!(&echoed, id);
}

fn assert_readable(id: Option<&RequestId>, error: &Error) {
    let body = error_body(id, error, &TraceId::random());
    assert_eq!(body.get("id").is_some(), id.is_some());
    assert!(matches!(body["error"]["code"].as_i64(), Some(-32700 | -32600)), "{body}");
    assert!(body.to_string().len() < 2_000, "an error does not repeat what it was sent");
}

/// `{"schema": …, "value": …}`: what a plugin declares, and what a caller sends.
fn schema_compiler(bytes: &[u8]) {
    let Ok(Value::Object(input)) = serde_json::from_slice(bytes) else { return };
    let Some(declared) = input.get("schema") else { return };
    let schema = match schema::compile(declared) {
        Ok(schema) => schema,
        Err(why) => return assert!(!why.is_empty() && why.chars().count() < 400),
    };
    let value = input.get("value").unwrap_or(&Value::Null);
    if let Err(violation) = schema::check(&schema, value) {
        assert!(value.pointer(&violation.pointer).is_some(), "{:?} leads nowhere", violation.pointer);
        assert!(!violation.message.is_empty() && violation.message.chars().count() <= 300);
    }
}
