//! What a collector gets of a call, and what a call notices of a collector that is away: nothing.

use bridge_tests::otlp::{Collector, attribute};
use cyberos_plugin_host::error::Reason;
use cyberos_plugin_host::model::Trace;
use cyberos_plugin_host::telemetry::{CallRecord, CallSpan, Outcome, Telemetry, TelemetrySettings, Tracer};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const CALLER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn settings(endpoint: String) -> TelemetrySettings {
    TelemetrySettings {
        otlp_endpoint: Some(endpoint),
        resource_attributes: vec![("deployment.environment.name".into(), "test".into())],
        ..TelemetrySettings::default()
    }
}

fn record(tracer: &Tracer, trace: &Trace, outcome: Outcome, steps: &[(&'static str, Instant, Instant)]) {
    let end = Instant::now();
    tracer.call(&CallSpan {
        method: "tools/call",
        trace,
        start: end.checked_sub(Duration::from_millis(25)).unwrap(),
        end,
        tool: "cyberos.cuo.ask",
        plugin_id: Some("cuo-ask"),
        plugin_version: Some("1.2.3"),
        tenant: Some("acme"),
        outcome,
        fuel: 12_345,
        request_id: Some("7"),
        task_id: Some("task-1"),
        protocol_version: Some("2025-11-25"),
        steps,
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_arrives_as_one_span_with_its_ids_and_attributes() {
    // given
    let collector = Collector::start().await;
    let telemetry = Telemetry::start(&settings(collector.endpoint())).unwrap();
    let trace = Trace::continue_from(Some(CALLER));
    // when
    let now = Instant::now();
    let steps = [("authorize", now, now + Duration::from_millis(1))];
    record(&telemetry.tracer, &trace, Outcome::Failed(Reason::OutOfFuel), &steps);
    let spans = collector.wait_for_spans(2).await;
    // then
    let span = spans.iter().find(|s| s.name == "tools/call cyberos.cuo.ask").expect("the call's span");
    assert_eq!(span.trace_id, trace.id.as_bytes());
    assert_eq!(span.span_id, trace.span);
    assert_eq!(span.parent_span_id, trace.parent.unwrap());
    assert_eq!(span.kind, 2, "a server span");
    assert_eq!(span.status.as_ref().unwrap().code, 2, "an error");
    assert_eq!(span.end_time_unix_nano - span.start_time_unix_nano, 25_000_000);
    let expected = [
        ("cyberos.plugin_id", "cuo-ask"),
        ("cyberos.plugin_version", "1.2.3"),
        ("cyberos.tool_name", "cyberos.cuo.ask"),
        ("cyberos.tenant_id", "acme"),
        ("cyberos.trace_id", "4bf92f3577b34da6a3ce929d0e0e4736"),
        ("cyberos.duration_ms", "25"),
        ("cyberos.outcome", "internal_error"),
        ("cyberos.fuel", "12345"),
        ("cyberos.task_id", "task-1"),
        ("mcp.method.name", "tools/call"),
        ("mcp.protocol.version", "2025-11-25"),
        ("gen_ai.tool.name", "cyberos.cuo.ask"),
        ("gen_ai.operation.name", "execute_tool"),
        ("jsonrpc.request.id", "7"),
        ("error.type", "out_of_fuel"),
    ];
    for (key, value) in expected {
        assert_eq!(attribute(&span.attributes, key).as_deref(), Some(value), "{key}");
    }
    let step = spans.iter().find(|s| s.name == "authorize").expect("the step's span");
    assert_eq!((&step.trace_id, &step.parent_span_id), (&span.trace_id, &span.span_id));
    let resource = collector.resource().unwrap();
    assert_eq!(attribute(&resource.attributes, "service.name").as_deref(), Some("cyberos-mcp-bridge"));
    assert_eq!(attribute(&resource.attributes, "deployment.environment.name").as_deref(), Some("test"));
    telemetry.shutdown(Duration::from_secs(2)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_sends_the_last_spans_and_metrics() {
    // given
    let collector = Collector::start().await;
    let telemetry = Telemetry::start(&settings(collector.endpoint())).unwrap();
    // when
    telemetry.metrics.know_tool("cyberos.cuo.ask", "cuo-ask");
    for _ in 0..1_000 {
        record(&telemetry.tracer, &Trace::start(), Outcome::Failed(Reason::Panic), &[]);
    }
    telemetry.metrics.call_ended(&CallRecord {
        tool: "cyberos.cuo.ask",
        tenant: Some("acme"),
        outcome: Outcome::Success,
        duration: Duration::from_millis(1),
        fuel: 5,
    });
    telemetry.shutdown(Duration::from_secs(5)).await;
    // then
    let spans = collector.spans();
    assert_eq!(spans.len(), 1_000);
    assert_eq!(attribute(&spans[0].attributes, "cyberos.outcome").as_deref(), Some("panic"));
    assert!(spans[0].parent_span_id.is_empty(), "a trace that starts here has no parent");
    assert!(collector.metric("cyberos.bridge.calls").is_some());
    assert_eq!(collector.metric("cyberos.bridge.call.duration").unwrap().unit, "s");
}

#[tokio::test(flavor = "multi_thread")]
async fn spans_wait_for_a_collector_that_comes_back() {
    // given: the collector's address, and nobody there
    let address = Collector::start().await.address;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let telemetry = Telemetry::start(&settings(format!("http://{address}"))).unwrap();
    for _ in 0..50 {
        record(&telemetry.tracer, &Trace::start(), Outcome::Success, &[]);
    }
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    // when
    let collector = Collector::start_at(address).await;
    // then
    collector.wait_for_spans(50).await;
    assert_eq!(telemetry.tracer.counts().unwrap().lost.load(Ordering::Relaxed), 0);
    telemetry.shutdown(Duration::from_secs(2)).await;
}

/// 10,000 calls against a collector that is no use: none waits, what does not fit is counted, shutdown keeps its time.
async fn calls_notice_nothing(endpoint: String) {
    let telemetry = Telemetry::start(&settings(endpoint)).unwrap();
    let (tracer, trace) = (telemetry.tracer.clone(), Trace::start());
    let before = Instant::now();
    for _ in 0..10_000 {
        record(&tracer, &trace, Outcome::Success, &[]);
    }
    let took = before.elapsed();
    assert!(took < Duration::from_secs(5), "10,000 spans took {took:?}");
    let counts = tracer.counts().unwrap();
    let dropped = counts.dropped.load(Ordering::Relaxed);
    assert!(dropped > 0, "the queue holds fewer than 10,000 spans");
    assert!(telemetry.metrics.render().contains(&format!("cyberos_bridge_spans_total{{fate=\"dropped\"}} {dropped}")));

    let before = Instant::now();
    telemetry.shutdown(Duration::from_millis(500)).await;
    let took = before.elapsed();
    assert!(took < Duration::from_secs(2), "a shutdown with a budget of 500 ms took {took:?}");
    assert_eq!(counts.exported.load(Ordering::Relaxed), 0);
    assert_eq!(dropped + counts.lost.load(Ordering::Relaxed), 10_000, "every span is accounted for");
    record(&tracer, &trace, Outcome::Success, &[]);
    assert!(counts.dropped.load(Ordering::Relaxed) > dropped, "a late span is counted, not kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_collector_costs_calls_nothing() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = listener.local_addr().unwrap();
    drop(listener);
    calls_notice_nothing(format!("http://{closed}")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_never_answers_costs_calls_nothing() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let black_hole = tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((socket, _)) = listener.accept().await {
            held.push(socket);
        }
    });
    calls_notice_nothing(format!("http://{address}")).await;
    black_hole.abort();
}
