//! Kill -9 at the worst moments: nothing that was answered is lost, nothing stays stuck, the next start says what it did.

use bridge_tests::bridge::audit;
use bridge_tests::caller::{TENANT_A, local_tenant};
use bridge_tests::setup::processes_of;
use bridge_tests::{Bridge, Setup};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::time::Duration;

#[tokio::test]
async fn a_task_whose_bridge_was_killed_is_failed_with_a_reason_on_sqlite() {
    a_task_whose_bridge_was_killed_is_failed(Bridge::http()).await;
}

#[tokio::test]
async fn a_task_whose_bridge_was_killed_is_failed_with_a_reason_on_postgres() {
    a_task_whose_bridge_was_killed_is_failed(Bridge::http().postgres().await).await;
}

async fn a_task_whose_bridge_was_killed_is_failed(setup: Setup) {
    // given: two tasks that run, one of which may be run again
    let setup = setup.misbehaving_guest().flag("--task-lease-seconds=2");
    let first = setup.start().await;
    let alice = first.caller("alice");
    let lost = alice.call("test.long_task", json!({ "steps": 1, "ms": 20_000 })).await.task_id();
    let again = alice.call("test.idempotent_task", json!({ "steps": 2, "ms": 700 })).await.task_id();
    tokio::time::sleep(Duration::from_millis(300)).await;
    first.kill().await;
    // when
    let second = setup.start().await;
    let alice = second.caller("alice");
    // then: after its lease
    let task = alice.follow(&lost).await;
    assert_eq!(task["status"], "failed", "{task:#}");
    assert_eq!(task["error"]["reason"], "worker_lost", "{task:#}");
    assert_eq!(alice.follow(&again).await["status"], "completed");
    second.logged("recovered tasks").await;
    // Both brackets are closed, once.
    let rows = second.audit(TENANT_A).await;
    for id in [&lost, &again] {
        for kind in ["mcp.tool_call_started", "mcp.tool_call_completed"] {
            let count = rows.iter().filter(|row| row.kind == kind && row.body["task_id"] == id.as_str()).count();
            assert_eq!(count, 1, "{kind} of {id}");
        }
    }
}

#[tokio::test]
async fn a_task_whose_own_process_was_killed_is_failed_with_a_reason() {
    // given: over stdio a task runs in a process of its own
    let setup = Bridge::stdio().misbehaving_guest().flag("--task-lease-seconds=2");
    let bridge = setup.start().await;
    let alice = bridge.caller("alice");
    let id = alice.call("test.long_task", json!({ "steps": 1, "ms": 20_000 })).await.task_id();
    let own = bridge.pid.as_raw_nonzero().get();
    tokio::time::sleep(Duration::from_millis(700)).await;
    for pid in processes_of(setup.home()).into_iter().filter(|pid| *pid != own) {
        let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
    }
    let task = alice.follow(&id).await;
    assert_eq!((&task["status"], &task["error"]["reason"]), (&json!("failed"), &json!("worker_lost")), "{task:#}");
}

#[tokio::test]
async fn every_answered_call_keeps_its_audit_rows_on_sqlite() {
    every_answered_call_keeps_its_audit_rows(Bridge::http()).await;
}

#[tokio::test]
async fn every_answered_call_keeps_its_audit_rows_on_postgres() {
    every_answered_call_keeps_its_audit_rows(Bridge::http().postgres().await).await;
}

async fn every_answered_call_keeps_its_audit_rows(setup: Setup) {
    let mut answered: Vec<i64> = vec![];
    for round in 0..3 {
        let bridge = setup.start().await;
        let alice = bridge.caller("alice");
        alice.call("cyberos.cuo.list_personas", json!({})).await.structured();
        let killing = async {
            tokio::time::sleep(Duration::from_millis(150 + 90 * round)).await;
            bridge.signal(Signal::KILL);
        };
        let calling = async {
            let mut mine = vec![];
            for n in 0.. {
                let id = round as i64 * 1_000_000 + n;
                let body = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call",
                    "params": { "name": "cyberos.cuo.list_personas", "arguments": {} } });
                let sent = reqwest::Client::builder().no_proxy().build().unwrap().post(bridge.url("/mcp"));
                let sent = sent.bearer_auth(alice.mint()).header("content-type", "application/json");
                let Ok(answer) = sent.body(body.to_string()).send().await else { break };
                let Ok(text) = answer.text().await else { break };
                let answer: Value = serde_json::from_str(&text).unwrap();
                assert!(answer.get("result").is_some(), "{answer:#}");
                mine.push(id);
            }
            mine
        };
        let (_, mine) = futures::join!(killing, calling);
        assert!(!mine.is_empty(), "some calls were answered before the kill");
        answered.extend(mine);
        bridge.exit_within(Duration::from_secs(5)).await;
    }
    // The chain is whole (`audit` checks it), and whoever got an answer is in it.
    let bridge = setup.start().await;
    bridge.caller("alice").call("cyberos.cuo.list_personas", json!({})).await.structured();
    let rows = audit(&setup, TENANT_A).await;
    for id in answered {
        let id = json!(id.to_string());
        let has = |kind: &str| rows.iter().any(|row| row.kind == kind && row.body["request_id"] == id);
        assert!(has("mcp.tool_call_started") && has("mcp.tool_call_completed"), "request {id} was answered");
    }
}

#[tokio::test]
async fn a_start_that_was_killed_does_no_harm_to_the_next() {
    let setup = Bridge::stdio().misbehaving_guest().flag("--task-lease-seconds=2");
    // given: starts that are killed at different moments of the first one's work
    for millis in [1, 5, 15, 40, 80, 150] {
        let bridge = setup.start().await;
        tokio::time::sleep(Duration::from_millis(millis)).await;
        bridge.kill().await;
    }
    // then
    let bridge = setup.start().await;
    let alice = bridge.caller("alice");
    assert!(alice.list().await.result()["tools"].as_array().unwrap().len() > 8);
    alice.call("test.echoes", json!({ "n": 1 })).await.structured();
    let confirmed = json!({ "kind": "note.taken", "body": {} });
    alice.call_confirmed("cyberos.memory.append_audit", confirmed).await.structured();
    bridge.audit(local_tenant()).await;
    assert!(!bridge.log().to_lowercase().contains("panicked"), "{}", bridge.log());
}
