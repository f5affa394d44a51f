//! What one plugin does to the others, and one tenant to another tenant's use of the same plugin.

use bridge_tests::{Bridge, Setup};
use serde_json::json;
use std::time::Duration;

use crate::limits::limited;

const ACME: &str = "00000000-0000-4000-8000-00000000ac3e";

/// A plugin that fails three times in a row rests.
fn resting_after_three(setup: Setup) -> Setup {
    limited(setup, "limits = { failures_in_a_row = 3 }\n")
}

#[tokio::test]
async fn a_plugin_that_keeps_failing_rests_for_that_tenant_and_tells_when_to_come_back() {
    // given
    let bridge = resting_after_three(Bridge::http().unlimited()).start().await;
    let mallory = bridge.caller("mallory");
    for tool in ["test.panics", "test.recurses_forever", "test.panics"] {
        mallory.call(tool, json!({})).await.assert_code(-32603);
    }
    // when
    let refused = mallory.call("test.echoes", json!({})).await;
    // then
    let error = refused.assert_code(-32002).assert_error("upstream_unavailable", "busy");
    let wait = error["retry_after_ms"].as_u64().expect("when to come back");
    assert!((1..=1_000).contains(&wait), "{wait}");
    assert!(error["hint"].as_str().is_some_and(|hint| hint.contains("retry_after_ms")));
    bridge.logged("a plugin that keeps failing rests").await;
    let other = bridge.caller("alice").tenant(ACME);
    other.call("test.echoes", json!({ "n": 1 })).await.structured();
    // and when it has rested
    tokio::time::sleep(Duration::from_millis(wait + 20)).await;
    mallory.call("test.echoes", json!({ "n": 2 })).await.structured();
    mallory.call("test.echoes", json!({ "n": 3 })).await.structured();
    let metrics = bridge.get("/metrics").await.text;
    assert!(metrics.contains(r#"cyberos_bridge_plugins_rests_total{plugin="guest-misbehaves"} 1"#), "{metrics}");
}

#[tokio::test]
async fn failures_that_alternate_with_good_answers_do_not_stop_a_plugin() {
    let bridge = resting_after_three(Bridge::stdio()).start().await;
    let alice = bridge.caller("alice");
    for n in 0..8 {
        alice.call("test.panics", json!({})).await.assert_error("internal_error", "plugin_trapped");
        alice.call("test.panics", json!({})).await.assert_error("internal_error", "plugin_trapped");
        assert_eq!(alice.call("test.echoes", json!({ "n": n })).await.structured()["n"], n);
    }
}

#[tokio::test]
async fn a_plugins_calls_share_a_memory_limit_and_give_back_what_they_took() {
    // given
    let limits = "limits = { memory_bytes = 67108864, memory_share_bytes = 67108864 }\n";
    let bridge = limited(Bridge::http(), limits).start().await;
    let (alice, bob) = (bridge.caller("alice"), bridge.caller("bob"));
    let much = |ms| json!({ "bytes": 40 << 20, "ms": ms });
    // when
    let holding = alice.call("test.holds_memory", much(1_500));
    let refused = async {
        tokio::time::sleep(Duration::from_millis(700)).await;
        bob.call("test.holds_memory", much(0)).await
    };
    let (held, refused) = futures::join!(holding, refused);
    // then
    assert_eq!(held.structured()["bytes"], 40 << 20);
    let error = refused.assert_code(-32002).assert_error("upstream_unavailable", "busy");
    assert!(error["retry_after_ms"].is_u64());
    assert_eq!(bob.call("test.holds_memory", much(0)).await.structured()["bytes"], 40 << 20);
}

#[tokio::test]
async fn fuel_and_time_are_counted_by_tool_and_tenant() {
    let bridge = limited(Bridge::http(), "").start().await;
    for tenant in [ACME, "00000000-0000-4000-8000-0000000b0b0b"] {
        bridge.caller("alice").tenant(tenant).call("test.echoes", json!({})).await.structured();
    }
    let metrics = bridge.get("/metrics").await.text;
    for name in ["cyberos_bridge_fuel_total", "cyberos_bridge_time_seconds_total"] {
        let lines = metrics.lines().filter(|line| line.starts_with(name) && line.contains(r#"tool="test.echoes""#));
        let amounts: Vec<f64> = lines.map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect();
        assert!(amounts.len() == 2 && amounts.iter().all(|amount| *amount > 0.0), "{name}: {amounts:?}");
    }
    assert!(metrics.contains(&format!("tenant=\"{ACME}\"")));
}
