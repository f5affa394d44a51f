//! Errors as clients see them: complete, stable, and silent about what is not theirs.

use bridge_tests::inside::Inside;
use bridge_tests::reply::assert_complete;
use bridge_tests::{Bridge, Setup, on_both_transports};
use cyberos_plugin_host::error::{Error, Reason};
use cyberos_plugin_host::model::TraceId;
use cyberos_plugin_host::protocol::error_body;
use serde_json::{Map, Value, json};
use std::path::Path;
use std::sync::atomic::Ordering;

on_both_transports! {
    an_error_of_each_class_carries_a_trace_id
    an_error_about_the_audit_log_says_nothing_of_its_rows
    a_plugin_that_crashes_leaves_the_next_call_healthy
    the_callers_trace_is_the_errors_trace
}

#[test]
fn every_reason_keeps_its_code_class_and_hint() {
    let reasons: Map<String, Value> = Reason::ALL
        .iter()
        .map(|reason| {
            let body = error_body(None, &Error::new(*reason, "A sentence."), &TraceId::random());
            let data = assert_complete(&body["error"]);
            let kept = json!({ "code": body["error"]["code"], "class": data["class"], "hint": data["hint"] });
            (reason.as_str().to_owned(), kept)
        })
        .collect();
    crate::snapshot::check(Path::new("errors.json"), &Value::Object(reasons));
}

async fn an_error_of_each_class_carries_a_trace_id(setup: Setup) {
    let bridge = setup.misbehaving_guest().start().await;
    let alice = bridge.caller("alice");
    let note = json!({ "kind": "x", "body": {} });
    let replies = [
        ("input_validation", alice.call("cyberos.cuo.route", json!({})).await),
        ("authz_denied", alice.call("cyberos.memory.append_audit", note).await),
        (
            "upstream_unavailable",
            alice.call("test.fails_politely", json!({ "how": "unavailable", "text": "The sky is away." })).await,
        ),
        ("internal_error", alice.call("test.panics", json!({})).await),
    ];
    let mut traces = vec![];
    for (class, reply) in &replies {
        let data = assert_complete(reply.error());
        assert_eq!(data["class"], *class, "{:?}", reply.error());
        traces.push(data["trace_id"].clone());
        // The operator finds it by this id.
        let rows = bridge.audit(alice.identity().0).await;
        assert!(rows.iter().any(|row| json!(row.trace_id) == data["trace_id"]), "{class}: no audit row");
    }
    traces.dedup();
    assert_eq!(traces.len(), 4, "each call has a trace of its own");
}

async fn an_error_about_the_audit_log_says_nothing_of_its_rows(setup: Setup) {
    let bridge = setup.start().await;
    let alice = bridge.caller("alice");
    let secret = json!({ "kind": "decision.recorded", "body": { "text": "the secret of row one" } });
    let appended = alice.call_confirmed("cyberos.memory.append_audit", secret).await;
    let anchor = appended.structured()["chain_anchor"].as_str().unwrap().to_owned();
    // A row that is not there is an empty page, not an error.
    let page = alice.call("cyberos.memory.read_audit", json!({ "since_seq": 999_999 })).await;
    assert_eq!(page.structured()["rows"], json!([]));
    // when reading fails
    let wrong = [
        json!({ "since_seq": -1 }),
        json!({ "since_seq": "the secret of row one' OR 1=1" }),
        json!({ "kind": "decision.recorded\u{0}" }),
        json!({ "limit": 0 }),
        json!({ "row": 1 }),
    ];
    for arguments in wrong {
        let reply = alice.call("cyberos.memory.read_audit", arguments.clone()).await;
        let text = reply.error().to_string();
        assert_complete(reply.error());
        for leak in ["the secret of row one", "SELECT", "sqlite", "bridge.db", "audit (", &anchor] {
            let said = arguments.to_string().contains(leak);
            assert!(said || !text.contains(leak), "{leak:?} in {text}");
        }
    }
}

async fn a_plugin_that_crashes_leaves_the_next_call_healthy(setup: Setup) {
    let bridge = setup.misbehaving_guest().start().await;
    let alice = bridge.caller("alice");
    for (tool, reason) in [
        ("test.panics", "plugin_trapped"),
        ("test.exits", "plugin_trapped"),
        ("test.spins_forever", "out_of_fuel"),
        ("test.recurses_forever", "stack_overflow"),
        ("test.allocates_without_end", "out_of_memory"),
        ("test.breaks_output_schema", "invalid_result"),
        ("test.calls_host_without_end", "host_call_limit"),
    ] {
        let reply = alice.call(tool, json!({})).await;
        reply.assert_code(-32603).assert_error("internal_error", reason);
        let text = reply.body.to_string();
        assert!(!text.contains("hunter2") && !text.contains("wasm"), "{text}");
        assert_eq!(alice.call("test.counts_itself", json!({})).await.structured()["count"], 1, "after {tool}");
    }
}

async fn the_callers_trace_is_the_errors_trace(setup: Setup) {
    let bridge = setup.start().await;
    let meta = json!({ "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01" });
    let reply = bridge.caller("alice").call_with("cyberos.cuo.nothing", json!({}), meta).await;
    let data = reply.assert_error("input_validation", "tool_not_found");
    assert_eq!(data["trace_id"], "4bf92f3577b34da6a3ce929d0e0e4736");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_in_a_handler_is_an_error_and_the_server_lives() {
    // given
    let bridge = Inside::start(&[]).await;
    let get = json!({ "jsonrpc": "2.0", "id": 1, "method": "tasks/get",
        "params": { "id": "t-01a2287e-27fe-7701-8ded-0d3f01fd2251" } });
    bridge.store.panics.store(true, Ordering::SeqCst);
    // when
    let (status, answer) = bridge.send(&get).await;
    // then
    assert_eq!(status, 200);
    assert_eq!(answer["error"]["code"], -32603);
    let data = assert_complete(&answer["error"]);
    assert_eq!((&data["class"], &data["reason"]), (&json!("internal_error"), &json!("panic")));
    assert!(!answer.to_string().contains("hunter2"), "{answer:#}");
    // and the next one is healthy
    bridge.store.panics.store(false, Ordering::SeqCst);
    let (_, answer) = bridge.send(&get).await;
    assert_eq!(answer["error"]["data"]["reason"], "task_not_found");
    let call = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call",
        "params": { "name": "cyberos.cuo.list_personas", "arguments": {} } });
    let (_, answer) = bridge.send(&call).await;
    assert_eq!(answer["result"]["isError"], false);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_id_that_is_taken_is_made_anew_and_not_for_ever() {
    let bridge = Inside::start(&[]).await;
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "cyberos.cuo.execute_workflow",
        "arguments": { "persona": "chief-technology-officer", "workflow": "adr-quick-capture" } } });
    bridge.store.taken.store(2, Ordering::SeqCst);
    let (_, answer) = bridge.send(&call).await;
    assert_eq!(answer["result"]["structuredContent"]["status"], "running", "{answer:#}");
    bridge.store.taken.store(1_000, Ordering::SeqCst);
    let (_, answer) = bridge.send(&call).await;
    assert_eq!(assert_complete(&answer["error"])["class"], "internal_error");
}

#[tokio::test]
async fn a_file_error_names_no_path_to_the_caller() {
    // given: a token file that is not there
    let setup = Bridge::stdio().trusting_the_issuer();
    let path = setup.home().join("nowhere/token");
    let bridge = setup.flag(format!("--token-file={}", path.display())).start().await;
    let reply = bridge.caller("alice").call("cyberos.cuo.list_personas", json!({})).await;
    let data = reply.assert_error("authz_denied", "token_missing");
    assert!(!data["hint"].to_string().contains("nowhere") && !reply.body.to_string().contains("nowhere"));
}
