//! What a collector gets of calls through the real bridge, and that a missing one costs nothing.

use bridge_tests::otlp::{Collector, attribute};
use bridge_tests::{Bridge, Setup, TENANT_A};
use serde_json::json;
use std::time::{Duration, Instant};

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

#[tokio::test(flavor = "multi_thread")]
async fn each_tool_call_is_a_span_in_its_callers_trace_over_http() {
    let collector = Collector::start().await;
    let bridge = Bridge::http().flag(format!("--otlp-endpoint={}", collector.endpoint())).start().await;
    let alice = bridge.caller("alice").header("traceparent", PARENT);
    alice.call("cyberos.cuo.list_personas", json!({})).await.structured();
    assert_span(&collector, TENANT_A).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_tool_call_is_a_span_in_its_callers_trace_over_stdio() {
    let collector = Collector::start().await;
    let bridge = Bridge::stdio().flag(format!("--otlp-endpoint={}", collector.endpoint())).start().await;
    let meta = json!({ "traceparent": PARENT });
    bridge.caller("alice").call_with("cyberos.cuo.list_personas", json!({}), meta).await.structured();
    assert_span(&collector, bridge_tests::caller::local_tenant()).await;
}

async fn assert_span(collector: &Collector, tenant: &str) {
    let give_up = Instant::now() + Duration::from_secs(15);
    let span = loop {
        let found = collector.spans().into_iter().find(|s| s.name.contains("cyberos.cuo.list_personas"));
        if let Some(span) = found {
            break span;
        }
        assert!(Instant::now() < give_up, "no span came");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!(hex::encode(&span.trace_id), "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_eq!(hex::encode(&span.parent_span_id), "00f067aa0ba902b7");
    let said = |key: &str| attribute(&span.attributes, key).unwrap_or_else(|| panic!("{key} in {:?}", span.attributes));
    assert_eq!(said("cyberos.tool_name"), "cyberos.cuo.list_personas");
    assert_eq!(said("cyberos.plugin_id"), "cuo-list-personas");
    assert_eq!(said("cyberos.tenant_id"), tenant);
    assert_eq!(said("cyberos.trace_id"), "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_eq!(said("cyberos.outcome"), "success");
    assert!(said("cyberos.fuel").parse::<u64>().unwrap() > 0);
    said("cyberos.duration_ms");
    said("cyberos.plugin_version");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_call_is_a_span_too() {
    let collector = Collector::start().await;
    let bridge = Bridge::http().flag(format!("--otlp-endpoint={}", collector.endpoint())).start().await;
    let reply = bridge.caller("bob").scopes(&[]).call("cyberos.cuo.route", json!({ "query": "x" })).await;
    let trace_id = reply.assert_error("authz_denied", "insufficient_scope")["trace_id"].clone();
    let spans = collector.wait_for_spans(1).await;
    let span = spans.iter().find(|s| s.name.contains("cyberos.cuo.route")).expect("its span");
    assert_eq!(json!(hex::encode(&span.trace_id)), trace_id, "the error leads to the span");
    assert_eq!(attribute(&span.attributes, "cyberos.outcome").as_deref(), Some("authz_denied"));
}

#[tokio::test]
async fn a_collector_that_is_not_there_costs_a_call_nothing() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let setup: Setup = Bridge::http().flag(format!("--otlp-endpoint=http://{nobody}"));
    let bridge = setup.start().await;
    let alice = bridge.caller("alice");
    alice.call("cyberos.cuo.list_personas", json!({})).await.structured();
    let asked = Instant::now();
    for _ in 0..20 {
        alice.call("cyberos.cuo.list_personas", json!({})).await.structured();
    }
    assert!(asked.elapsed() < Duration::from_secs(3), "20 calls took {:?}", asked.elapsed());
    // Nor does it hold up the end.
    bridge.signal(rustix::process::Signal::TERM);
    assert!(bridge.exit_within(Duration::from_secs(8)).await.success());
}
