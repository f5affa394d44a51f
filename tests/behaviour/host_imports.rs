//! What a tool reaches through its imports is what its grants name; a refusal is an answer that it can handle.

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{AppendHeaders, IntoResponse, Redirect, Response};
use bridge_tests::caller::Caller;
use bridge_tests::{Bridge, Setup, on_both_transports};
use serde_json::{Value, json};
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SECRET: &str = "s3cr3t-of-the-operator";

on_both_transports! {
    a_granted_request_carries_what_the_guest_never_sees
    what_is_not_granted_is_an_error_that_the_guest_can_handle
    an_append_needs_a_confirmation_and_is_signed_by_the_host
}

/// A service on loopback that remembers who asked for what.
#[derive(Clone, Default)]
pub struct Upstream(Arc<Mutex<Vec<(String, HeaderMap)>>>);

impl Upstream {
    pub async fn start(&self) -> SocketAddr {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let this = self.clone();
        let routes = axum::Router::new().fallback(async move |request: Request| this.answer(request).await);
        tokio::spawn(async move { axum::serve(listener, routes).await });
        address
    }

    async fn answer(&self, request: Request) -> Response {
        let path = request.uri().path().to_owned();
        self.0.lock().unwrap().push((format!("{} {path}", request.method()), request.headers().clone()));
        match path.as_str() {
            "/v1/echo" => {
                let headers = request.headers().iter();
                let all: String =
                    headers.map(|(name, value)| format!("{name}: {}\n", value.to_str().unwrap())).collect();
                ([("x-echo", all.replace('\n', " ")), ("set-cookie", "session=1".into())], all).into_response()
            }
            "/v1/mirror" => {
                (AppendHeaders([("x-twice", "one"), ("x-twice", "two")]), request.into_body()).into_response()
            }
            "/v1/megabyte" => Body::from("x".repeat(1 << 20)).into_response(),
            "/v1/large" => Body::from("x".repeat(2000)).into_response(),
            "/v1/slow" => {
                tokio::time::sleep(Duration::from_secs(20)).await;
                StatusCode::OK.into_response()
            }
            // To another port, to what is not granted here, and to where it is.
            "/v1/away" => Redirect::temporary("http://127.0.0.1:1/v1/echo").into_response(),
            "/v1/metadata" => Redirect::temporary("http://169.254.169.254/latest/meta-data").into_response(),
            "/v1/astray" => Redirect::temporary("/admin").into_response(),
            "/v1/moved" => Redirect::temporary("/v1/echo").into_response(),
            _ => StatusCode::NOT_FOUND.into_response(),
        }
    }

    pub fn clear(&self) {
        self.0.lock().unwrap().clear();
    }

    pub fn seen(&self) -> Vec<(String, HeaderMap)> {
        self.0.lock().unwrap().clone()
    }
}

fn reaching(setup: Setup, upstream: SocketAddr) -> Setup {
    let grants = format!(
        r#"
        [plugins.guest-reaches]
        any_tool_name = true
        cuo = true
        audit_append = true
        audit_read = true
        config = {{ colour = "green" }}
        [plugins.guest-reaches.upstreams.notes]
        url = "http://{upstream}"
        methods = ["GET", "POST"]
        paths = ["/v1/*"]
        allow_private = true
        max_response_bytes = 1000
        max_request_bytes = 500
        credential = {{ scheme = "Bearer", secret = "env:NOTES_TOKEN" }}
        [plugins.guest-reaches.upstreams.public]
        url = "http://{upstream}"
        paths = ["/v1/*"]
        [plugins.guest-reaches.upstreams.nobody]
        url = "http://127.0.0.1:1"
        paths = ["/v1/*"]
        allow_private = true
        [plugins.guest-misbehaves]
        any_tool_name = true
        "#
    );
    setup.guests(&["guest_reaches", "guest_misbehaves"], &grants).env("NOTES_TOKEN", SECRET)
}

async fn a_granted_request_carries_what_the_guest_never_sees(setup: Setup) {
    // given
    let upstream = Upstream::default();
    let bridge = reaching(setup, upstream.start().await).start().await;
    let alice = bridge.caller("alice");
    // when
    let trace = json!({ "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01" });
    let arguments = json!({ "upstream": "notes", "path": "/v1/echo?limit=3", "headers": { "X-Colour": "green" } });
    let reply = alice.call_with("test.fetches", arguments, trace).await;
    // then: the upstream knows the host and the trace
    let (asked, headers) = upstream.seen().pop().unwrap();
    assert_eq!(asked, "GET /v1/echo");
    assert_eq!(headers["authorization"], format!("Bearer {SECRET}"));
    assert_eq!(headers["x-colour"], "green");
    let traceparent = headers["traceparent"].to_str().unwrap();
    assert!(traceparent.starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-"), "{traceparent}");
    assert!(!traceparent.contains("00f067aa0ba902b7"), "its parent is the call, not the caller: {traceparent}");
    // and the guest an answer in which an echo of the credential is blotted out, in body and headers
    let fetched = reply.structured();
    assert_eq!(fetched["status"], 200);
    let body = fetched["body"].as_str().unwrap();
    assert!(body.contains("authorization: Bearer ***") && body.contains("x-colour: green"), "{body}");
    assert!(fetched["headers"].to_string().contains("***"), "{fetched:#}");
    assert!(!fetched["headers"].to_string().contains("set-cookie"), "{fetched:#}");
    assert!(!reply.body.to_string().contains(SECRET) && !bridge.log().contains(SECRET));
    // A redirect is followed to where the guest could have gone itself.
    let moved = alice.call("test.fetches", json!({ "upstream": "notes", "path": "/v1/moved" })).await;
    assert_eq!(moved.structured()["status"], 200);
    let missing = alice.call("test.fetches", json!({ "upstream": "notes", "path": "/v1/missing" })).await;
    assert_eq!(missing.structured()["status"], 404, "an upstream's own refusal is an answer");
}

async fn what_is_not_granted_is_an_error_that_the_guest_can_handle(setup: Setup) {
    // given
    let upstream = Upstream::default();
    let bridge = reaching(setup, upstream.start().await).start().await;
    let alice = bridge.caller("alice");
    let to = |path: &str, more: Value| {
        let mut request = json!({ "upstream": "notes", "path": path });
        request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        request
    };
    let cases = [
        (json!({ "upstream": "unheard-of", "path": "/v1/echo" }), "not-granted", "unheard-of"),
        (to("/v1/echo", json!({ "method": "DELETE" })), "not-granted", "DELETE"),
        (to("/admin", json!({})), "not-granted", "/admin"),
        (to("/v1/echo/deeper", json!({})), "not-granted", "/v1/echo/deeper"),
        (to("/v1/../admin", json!({})), "invalid-request", ""),
        (to("//evil.example/v1/echo", json!({})), "invalid-request", ""),
        (to("http://evil.example/", json!({})), "invalid-request", ""),
        (to("/v1/echo", json!({ "method": "TRACE" })), "invalid-request", "method"),
        (to("/v1/echo", json!({ "headers": { "Authorization": "Bearer mine" } })), "invalid-request", "authorization"),
        (to("/v1/echo", json!({ "headers": { "Host": "evil.example" } })), "invalid-request", "host"),
        (to("/v1/echo", json!({ "headers": { "traceparent": "00" } })), "invalid-request", "traceparent"),
        (to("/v1/echo", json!({ "headers": { "x-a": "b\r\nx-c: d" } })), "invalid-request", "x-a"),
        (to("/v1/echo", json!({ "method": "POST", "body_bytes": 501 })), "invalid-request", "500 bytes"),
        (to("/v1/echo", json!({ "body": "a GET has none" })), "invalid-request", "body"),
        // These reach it, and what comes back is not for the guest.
        (to("/v1/away", json!({})), "address-refused", ""),
        (to("/v1/metadata", json!({})), "address-refused", ""),
        (to("/v1/astray", json!({})), "address-refused", ""),
        (to("/v1/large", json!({})), "too-large", ""),
        (to("/v1/slow", json!({ "timeout_ms": 200 })), "timeout", ""),
        (json!({ "upstream": "public", "path": "/v1/echo" }), "address-refused", ""),
        (json!({ "upstream": "nobody", "path": "/v1/echo" }), "unreachable", ""),
    ];
    for (request, error, says) in cases {
        // when
        let reply = alice.call("test.fetches", request.clone()).await;
        // then: an ordinary result of a guest that went on
        let fetched = reply.structured();
        assert_eq!(fetched["error"], error, "{request}: {fetched:#}");
        assert!(fetched["says"].as_str().unwrap_or_default().contains(says), "{request}: {fetched:#}");
    }
    let paths: Vec<String> = upstream.seen().into_iter().map(|(asked, _)| asked).collect();
    let expected = ["away", "metadata", "astray", "large", "slow"].map(|path| format!("GET /v1/{path}"));
    assert_eq!(paths, expected, "nothing else left the host");
    if !bridge.is_stdio() {
        let metrics = bridge.get("/metrics").await.text;
        let denied = |why: &str| {
            let labels = ["import=\"http-fetch\"".to_owned(), format!("why=\"{why}\"")];
            let line = metrics.lines().find(|line| {
                line.starts_with("cyberos_bridge_host_call_denials_total") && labels.iter().all(|l| line.contains(l))
            });
            line.and_then(|line| line.rsplit(' ').next()?.parse::<u32>().ok())
        };
        assert_eq!((denied("not-granted"), denied("address-refused")), (Some(4), Some(4)), "{metrics}");
    }
}

async fn an_append_needs_a_confirmation_and_is_signed_by_the_host(setup: Setup) {
    // given
    let bridge = reaching(setup, Upstream::default().start().await).start().await;
    let alice = bridge.caller("alice");
    let note =
        json!({ "kind": "note.taken", "body": r#"{"text":"hello","actor":"mallory","tenant":"other"}"#, "times": 2 });
    // when: a tool that is not declared destructive has nobody's word
    let reply = alice.call("test.appends_audit", note.clone()).await;
    assert_eq!(reply.structured()["error"], "not-cleared");
    alice
        .call("test.appends_audit_confirmed", note.clone())
        .await
        .assert_error("authz_denied", "confirmation_required");
    let noted = async || {
        let rows = bridge.audit(alice.identity().0).await;
        rows.into_iter().filter(|row| row.kind == "note.taken").collect::<Vec<_>>()
    };
    assert!(noted().await.is_empty());
    let reply = alice.call_confirmed("test.appends_audit_confirmed", note).await;
    // then
    let seqs: Vec<i64> = serde_json::from_value(reply.structured()["seqs"].clone()).unwrap();
    let rows = noted().await;
    assert_eq!(rows.iter().map(|row| row.seq).collect::<Vec<_>>(), seqs, "in the caller's own chain");
    let actor = alice.identity().1;
    assert!(rows.iter().all(|row| row.actor_id == actor), "whatever the body says: {rows:#?}");
    // Kinds and bodies that nobody may write are refused, and the call goes on.
    let object = r#"{"a":1}"#;
    for (kind, body) in [
        ("mcp.tool_call_completed", object),
        ("plugin.invoked", object),
        ("No Kind", object),
        ("a.b", "[1]"),
        ("a.b", "{"),
    ] {
        let reply = alice.call_confirmed("test.appends_audit_confirmed", json!({ "kind": kind, "body": body })).await;
        assert_eq!(reply.structured()["error"], "invalid", "{kind} {body}");
    }
    // Reading is bounded, and of this tenant only.
    for limit in [0, 1001] {
        let reply = alice.call("test.reads_audit", json!({ "limit": limit })).await;
        assert_eq!(reply.structured()["error"], "invalid");
    }
    let read = async |who: &Caller<'_>| {
        let reply = who.call("test.reads_audit", json!({ "limit": 10, "kind": "note.taken" })).await;
        reply.structured()["page"]["rows"].as_array().unwrap().len()
    };
    assert_eq!(read(&alice).await, 2);
    if !bridge.is_stdio() {
        assert_eq!(read(&bridge.caller("bob").tenant(bridge_tests::TENANT_B)).await, 0);
    }
}

#[tokio::test]
async fn settings_and_the_supervisor_answer_what_was_granted() {
    let bridge = reaching(Bridge::stdio(), Upstream::default().start().await).start().await;
    let alice = bridge.caller("alice");
    for (name, value) in [("colour", json!("green")), ("NOTES_TOKEN", json!(null)), ("PATH", json!(null))] {
        assert_eq!(alice.call("test.reads_config", json!({ "name": name })).await.structured()["value"], value);
    }
    let ask = async |method: &str, params: &str| {
        let reply = alice.call("test.asks_cuo", json!({ "method": method, "params": params })).await;
        reply.structured().clone()
    };
    assert!(ask("cuo.list_personas", "{}").await["answer"].to_string().contains("chief-technology-officer"));
    assert_eq!(ask("cuo.shutdown", "{}").await["error"], "unknown-method");
    assert_eq!(ask("cuo.list_workflows", "{").await["error"], "invalid-params");
    assert_eq!(ask("cuo.list_workflows", r#"{"persona":"; rm -rf /"}"#).await["error"], "invalid-params");
}

#[tokio::test]
async fn a_guest_is_told_of_its_call_and_nothing_that_names_the_caller() {
    let setup = Bridge::http().guests(
        &["guest_misbehaves"],
        "[plugins.guest-misbehaves]\nany_tool_name = true\nlimits = { deadline_ms = 7000 }\n",
    );
    let bridge = setup.start().await;
    let alice = bridge.caller("alice");
    let trace = json!({ "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01" });
    let context = alice.call_with("test.tells_context", json!({}), trace).await;
    let context = context.structured();
    assert_eq!(context["tenant"], bridge_tests::TENANT_A);
    assert_eq!(context["trace_id"], "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_eq!(context["task_id"], Value::Null);
    assert!((5000..=7000).contains(&context["remaining_ms"].as_u64().unwrap()), "{context}");
    let subject = context["subject"].as_str().unwrap();
    assert!(subject.len() == 16 && subject.bytes().all(|b| b.is_ascii_hexdigit()), "{subject}");
    let other = bridge.caller("bob").call("test.tells_context", json!({})).await;
    assert_ne!(other.structured()["subject"], subject);
}

#[tokio::test]
async fn an_ungranted_guest_finds_no_environment_no_files_and_no_network() {
    // given: somebody who would notice
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let bridge = Bridge::stdio().misbehaving_guest().env("SECRET_OF_THE_HOST", SECRET).start().await;
    let alice = bridge.caller("alice");
    // then
    let found = alice.call("test.reads_environment", json!({})).await;
    assert_eq!((&found.structured()["variables"], &found.structured()["arguments"]), (&json!({}), &json!([])));
    for (tool, arguments) in [("test.reads_files", json!({})), ("test.opens_socket", json!({ "port": port }))] {
        let reply = alice.call(tool, arguments).await;
        let tried = reply.structured()["tried"].as_object().unwrap();
        assert!(tried.len() >= 6 && tried.values().all(is_refused), "{tool}: {tried:#?}");
    }
    let nobody = tokio::time::timeout(Duration::from_millis(50), listener.accept()).await;
    assert!(nobody.is_err(), "somebody connected: {nobody:?}");
}

fn is_refused(outcome: &Value) -> bool {
    outcome.as_str().is_some_and(|text| text.starts_with("refused: "))
}

#[tokio::test]
async fn a_granted_directory_is_read_only_and_has_no_way_out() {
    // given
    let setup = Bridge::stdio();
    let (granted, outside) = (setup.home().join("granted"), setup.home().join("outside"));
    for directory in [&granted, &outside] {
        fs::create_dir(directory).unwrap();
    }
    fs::write(granted.join("inside.txt"), "what was granted").unwrap();
    fs::write(outside.join("secret.txt"), SECRET).unwrap();
    symlink(&outside, granted.join("escape")).unwrap();
    let grants = format!(
        "[plugins.guest-misbehaves]\nany_tool_name = true\nenvironment = {{ COLOUR = \"green\" }}\n\
         directories = {{ \"/data\" = {{ host_path = {:?} }} }}\n",
        granted.display().to_string()
    );
    let bridge = setup.guests(&["guest_misbehaves"], &grants).start().await;
    let alice = bridge.caller("alice");
    // when
    let reply = alice.call("test.reads_files", json!({ "directory": "/data" })).await;
    // then
    let tried = reply.structured()["tried"].as_object().unwrap();
    for (what, outcome) in tried {
        match what.as_str() {
            "list directory" => assert_eq!(outcome, "ok: escape inside.txt"),
            "read inside.txt" => assert_eq!(outcome, "ok: what was granted"),
            _ => assert!(is_refused(outcome), "{what}: {outcome}"),
        }
    }
    assert!(tried.contains_key("read escape") && tried.contains_key("write inside") && tried.len() > 14, "{tried:#?}");
    let left: Vec<_> = fs::read_dir(&granted).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "nothing was written: {left:?}");
    assert_eq!(fs::read_to_string(granted.join("inside.txt")).unwrap(), "what was granted");
    // The environment is what was granted, to the letter.
    let found = alice.call("test.reads_environment", json!({})).await;
    assert_eq!(found.structured()["variables"], json!({ "COLOUR": "green" }));
}
