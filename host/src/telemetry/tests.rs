//! Telemetry as an operator meets it, as far as no collector is needed; `tests/behaviour/telemetry.rs` has the rest.

use std::time::{Duration, Instant};

use super::{CallRecord, CallSpan, Outcome, StartError, Telemetry, TelemetrySettings, Tracer};
use crate::error::Reason;
use crate::model::Trace;

fn started() -> Telemetry {
    Telemetry::start(&TelemetrySettings::default()).unwrap()
}

fn call<'a>(tool: &'a str, tenant: &'a str, outcome: Outcome) -> CallRecord<'a> {
    CallRecord { tool, tenant: Some(tenant), outcome, duration: Duration::from_micros(180), fuel: 1_000 }
}

#[tokio::test]
async fn prometheus_text_holds_the_recorded_numbers() {
    // given
    let metrics = started().metrics;
    metrics.know_tool("cyberos.cuo.ask", "cuo-ask");
    // when
    metrics.call_ended(&call("cyberos.cuo.ask", "acme", Outcome::Success));
    metrics.call_ended(&call("cyberos.cuo.ask", "acme", Outcome::Failed(Reason::OutOfFuel)));
    let guard = metrics.running("cyberos.cuo.ask");
    metrics.task_opened();
    metrics.task_opened();
    metrics.task_ended("completed");
    metrics.audit_appended(Duration::from_micros(700));
    metrics.audit_committed(3);
    metrics.watch_outbox(|| 42);
    metrics.host_call_denied("http-fetch", "host-not-allowed");
    metrics.plugin_loaded("cuo-ask");
    metrics.plugin_rejected("bad_signature");
    metrics.http_request("/mcp", 200);
    let text = metrics.render();
    drop(guard);
    // then
    for line in [
        r#"cyberos_bridge_calls_total{outcome="success",plugin="cuo-ask",reason="none",tool="cyberos.cuo.ask"} 1"#,
        r#"cyberos_bridge_calls_total{outcome="internal_error",plugin="cuo-ask",reason="out_of_fuel",tool="cyberos.cuo.ask"} 1"#,
        r#"cyberos_bridge_call_duration_seconds_bucket{outcome="success",tool="cyberos.cuo.ask",le="0.0001"} 0"#,
        r#"cyberos_bridge_call_duration_seconds_bucket{outcome="success",tool="cyberos.cuo.ask",le="0.00025"} 1"#,
        r#"cyberos_bridge_fuel_total{tenant="acme",tool="cyberos.cuo.ask"} 2000"#,
        r#"cyberos_bridge_time_seconds_total{tenant="acme",tool="cyberos.cuo.ask"} 0.00036"#,
        r#"cyberos_bridge_call_fuel_count{tool="cyberos.cuo.ask"} 2"#,
        r#"cyberos_bridge_calls_running{tool="cyberos.cuo.ask"} 1"#,
        "cyberos_bridge_tasks_open 1",
        r#"cyberos_bridge_tasks_ended_total{status="completed"} 1"#,
        r#"cyberos_bridge_audit_append_duration_seconds_bucket{le="0.001"} 1"#,
        "cyberos_bridge_audit_batch_size_sum 3",
        "cyberos_bridge_audit_outbox_depth 42",
        r#"cyberos_bridge_host_call_denials_total{import="http-fetch",why="host-not-allowed"} 1"#,
        r#"cyberos_bridge_plugins_loaded_total{plugin="cuo-ask"} 1"#,
        r#"cyberos_bridge_plugins_rejected_total{why="bad_signature"} 1"#,
        r#"cyberos_bridge_http_requests_total{route="/mcp",status="200"} 1"#,
        concat!("cyberos_bridge_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1"),
    ] {
        assert!(text.lines().any(|l| l == line), "missing {line}\n{text}");
    }
    let after = metrics.render();
    assert!(after.contains(r#"cyberos_bridge_calls_running{tool="cyberos.cuo.ask"} 0"#), "{after}");
}

#[tokio::test]
async fn names_that_callers_choose_do_not_grow_the_number_of_series() {
    let metrics = started().metrics;
    metrics.know_tool("known", "plugin");
    for n in 0..3_000 {
        metrics.call_ended(&call(&format!("guess-{n}"), "acme", Outcome::Failed(Reason::ToolNotFound)));
        metrics.call_ended(&call("known", &format!("tenant-{n}"), Outcome::Success));
    }
    let text = metrics.render();
    assert!(!text.contains("guess-"), "an unknown tool's name became a label");
    let tenants = text.lines().filter(|l| l.starts_with("cyberos_bridge_fuel_total")).count();
    assert!((1_000..=2_001).contains(&tenants), "{tenants}");
    assert!(text.contains(r#"reason="tool_not_found",tool="unknown"} 3000"#), "{text}");
    let by_tenant = ["cyberos_bridge_fuel_total", "cyberos_bridge_time_seconds_total"];
    assert!(text.lines().all(|l| !l.contains("tenant=") || by_tenant.iter().any(|name| l.starts_with(name))));
}

#[tokio::test]
async fn a_wrong_setting_is_named() {
    let with = |change: fn(&mut TelemetrySettings)| {
        let mut settings = TelemetrySettings::default();
        change(&mut settings);
        Telemetry::start(&settings).err().expect("must be refused")
    };
    assert!(matches!(with(|s| s.sample_ratio = f64::NAN), StartError::SampleRatio(_)));
    assert!(matches!(with(|s| s.span_queue = 0), StartError::SpanQueue));
    let error = with(|s| s.otlp_endpoint = Some("not a url".into()));
    assert!(error.to_string().contains("not a url"), "{error}");
}

#[tokio::test]
async fn sampling_follows_the_caller_first_and_the_ratio_for_new_traces() {
    // given
    let settings = TelemetrySettings {
        otlp_endpoint: Some("http://127.0.0.1:9".into()),
        sample_ratio: 0.25,
        ..TelemetrySettings::default()
    };
    let telemetry = Telemetry::start(&settings).unwrap();
    let caller =
        |flags| Trace::continue_from(Some(&format!("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-{flags}")));
    // then
    assert!(telemetry.tracer.samples(&caller("01")));
    assert!(!telemetry.tracer.samples(&caller("00")));
    let kept = (0..4_000).filter(|_| telemetry.tracer.samples(&Trace::start())).count();
    assert!((800..1_200).contains(&kept), "{kept} of 4000 at a ratio of 0.25");
    telemetry.shutdown(Duration::from_millis(500)).await;
}

#[test]
fn without_a_collector_a_span_costs_nothing_and_goes_nowhere() {
    let (tracer, trace, now) = (Tracer::off(), Trace::start(), Instant::now());
    tracer.call(&CallSpan {
        method: "tools/call",
        trace: &trace,
        start: now,
        end: now,
        tool: "t",
        plugin_id: None,
        plugin_version: None,
        tenant: None,
        outcome: Outcome::Success,
        fuel: 0,
        request_id: None,
        task_id: None,
        protocol_version: None,
        steps: &[],
    });
    assert!(tracer.counts().is_none() && !tracer.samples(&trace));
}
