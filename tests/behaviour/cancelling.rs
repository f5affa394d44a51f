//! A cancelled call, and one whose client is gone, leaves nothing running.

use bridge_tests::caller::local_tenant;
use bridge_tests::{Bridge, Setup, on_both_transports};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

use crate::limits::{STUCK, assert_healthy, both_guests, limited, silent_upstream};

on_both_transports! { a_cancelled_guest_is_gone_within_100_ms }

async fn a_cancelled_guest_is_gone_within_100_ms(setup: Setup) {
    let (_silent, reaches) = silent_upstream();
    let bridge = both_guests(setup, &reaches, "fuel = 1000000000000\ndeadline_ms = 30000").start().await;
    let alice = bridge.caller("alice");
    assert_healthy(&alice).await;
    for (n, (tool, arguments)) in STUCK.iter().enumerate() {
        let arguments: Value = serde_json::from_str(arguments).unwrap();
        let call = alice.message("tools/call", json!({ "name": tool, "arguments": arguments }));
        let calling = async {
            match bridge.is_stdio() {
                true => drop(bridge.line().begin(&call).await),
                false => drop(alice.post(call.to_string().into_bytes()).await),
            }
        };
        let cancelling = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            let asked = Timestamp::now();
            alice.notify("notifications/cancelled", json!({ "requestId": call["id"] })).await;
            asked
        };
        let ((), asked) = futures::join!(calling, cancelling);
        let took = cancelled(&bridge, alice.identity().0, n + 1).await.duration_since(asked);
        eprintln!("{tool}: its instance was gone {took:#} after the cancellation was sent");
        assert!(took.as_millis() < 400, "{tool} took {took:#}");
        assert_healthy(&alice).await;
    }
    if !bridge.is_stdio() {
        let metrics = bridge.get("/metrics").await.text;
        let running = metrics.lines().filter(|line| line.starts_with("cyberos_bridge_calls_running{"));
        let running: Vec<&str> = running.filter(|line| !line.ends_with(" 0")).collect();
        assert_eq!(running, Vec::<&str>::new(), "nothing runs any more");
    }
}

#[tokio::test]
async fn guests_of_a_stdio_client_that_is_gone_are_stopped() {
    // given
    let (_silent, reaches) = silent_upstream();
    let limits = "fuel = 1000000000000\ndeadline_ms = 30000";
    let bridge = both_guests(Bridge::stdio(), &reaches, limits).start().await;
    let alice = bridge.caller("alice");
    assert_healthy(&alice).await;
    for (tool, arguments) in STUCK {
        let arguments: Value = serde_json::from_str(arguments).unwrap();
        let call = alice.message("tools/call", json!({ "name": tool, "arguments": arguments }));
        drop(bridge.line().begin(&call).await);
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    // when: the client dies, and with it its end of the pipe
    let gone = Timestamp::now();
    bridge.line().close().await;
    bridge.exit_within(Duration::from_secs(5)).await;
    // then: after the half second that answers which are nearly done may take, all are stopped and recorded
    let took = cancelled(&bridge, local_tenant(), STUCK.len()).await.duration_since(gone);
    eprintln!("three guests were gone {took:#} after their client, 500 ms of it grace");
    assert!(took.as_millis() < 900, "{took:#}");
}

#[tokio::test]
async fn a_call_that_waits_for_its_turn_is_cancelled_as_fast() {
    // given: the only turn is taken
    let bridge = limited(Bridge::stdio(), "limits = { concurrency = 1 }\n").start().await;
    let alice = bridge.caller("alice");
    assert_healthy(&alice).await;
    let sleeping = alice.message("tools/call", json!({ "name": "test.sleeps", "arguments": { "ms": 1_800 } }));
    let waiting = alice.message("tools/call", json!({ "name": "test.echoes", "arguments": {} }));
    let slept = bridge.line().begin(&sleeping).await;
    drop(bridge.line().begin(&waiting).await);
    tokio::time::sleep(Duration::from_millis(200)).await;
    // when
    let asked = Timestamp::now();
    alice.notify("notifications/cancelled", json!({ "requestId": waiting["id"] })).await;
    // then
    let took = cancelled(&bridge, local_tenant(), 1).await.duration_since(asked);
    assert!(took.as_millis() < 400, "{took:#}");
    assert!(bridge.line().finish(&sleeping, slept).await.get("result").is_some());
}

/// When the n-th cancelled call had ended: its closing audit row is made once its instance was dropped.
async fn cancelled(bridge: &Bridge, tenant: &str, n: usize) -> Timestamp {
    let give_up = Instant::now() + Duration::from_secs(10);
    loop {
        let rows = bridge.audit(tenant).await;
        let ended = rows.iter().filter(|row| row.kind == "mcp.tool_call_completed");
        let ended: Vec<_> = ended.filter(|row| row.body["reason"] == "cancelled").collect();
        if ended.len() >= n {
            return ended[n - 1].ts.parse().unwrap();
        }
        assert!(Instant::now() < give_up, "it was not stopped: {rows:#?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
