//! Things that happen at the same time: a limit and those who pass it, a worker and its successor, an end and a cancel.
//! Whoever wins, a call has one opening and one closing row, and they tell of the same end as the task.

use bridge_tests::caller::TENANT_A;
use bridge_tests::{Bridge, Setup};
use cyberos_plugin_host::store::AuditRow;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

fn long_task(id: i64, arguments: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call",
        "params": { "name": "test.long_task", "arguments": arguments } })
}

fn rows_of<'a>(rows: &'a [AuditRow], kind: &str, task: &str) -> Vec<&'a AuditRow> {
    let is_its = |row: &&AuditRow| row.kind == kind && row.body["task_id"] == task;
    rows.iter().filter(is_its).collect()
}

#[tokio::test]
async fn a_storm_of_calls_at_once_does_not_get_past_the_limit_of_open_tasks_on_sqlite() {
    a_storm_does_not_get_past_the_limit(Bridge::http()).await;
}

#[tokio::test]
async fn a_storm_of_calls_at_once_does_not_get_past_the_limit_of_open_tasks_on_postgres() {
    a_storm_does_not_get_past_the_limit(Bridge::http().postgres().await).await;
}

async fn a_storm_does_not_get_past_the_limit(setup: Setup) {
    // given: two replicas, and a limit of three
    let setup = setup.misbehaving_guest().flag("--max-open-tasks=3");
    let (first, second) = (setup.start().await, setup.start().await);
    let storm = |from: i64| {
        let calls = (from..from + 40).map(|id| long_task(id, json!({ "steps": 1, "ms": 20_000 }))).collect::<Vec<_>>();
        Value::from(calls).to_string().into_bytes()
    };
    // when forty calls reach each of them at once
    let (one, other) = (first.caller("alice"), second.caller("alice"));
    let (answered, also) = futures::join!(one.post(storm(1)), other.post(storm(100)));
    // then
    let answers: Vec<Value> = [answered, also]
        .iter()
        .flat_map(|answer| serde_json::from_str::<Vec<Value>>(&answer.text).expect("a batch"))
        .collect();
    let begun: Vec<&Value> = answers.iter().filter(|a| a["result"].is_object()).collect();
    assert_eq!((answers.len(), begun.len()), (80, 3));
    assert!(answers.iter().all(|a| a["result"].is_object() || a["error"]["data"]["reason"] == "busy"), "{answers:#?}");
    for task in begun {
        let id = task["result"]["structuredContent"]["task_id"].as_str().unwrap();
        first.caller("alice").task_cancel(id).await.result();
    }
    // Everybody who was turned away is in the log, once as a refusal or twice as a call that ended.
    let rows = first.audit(TENANT_A).await;
    let count = |kind: &str| rows.iter().filter(|row| row.kind == kind).count();
    let (started, completed) = (count("mcp.tool_call_started"), count("mcp.tool_call_completed"));
    assert_eq!((started, started + count("mcp.tool_call_refused")), (completed, 80));
}

#[tokio::test]
async fn a_worker_that_was_only_slow_leaves_the_task_to_its_successor() {
    // given: a process that stops in the middle of a task, as a laptop does when it sleeps
    let setup = Bridge::http().misbehaving_guest();
    let first = setup.start().await;
    let arguments = json!({ "steps": 20, "ms": 400 });
    let id = first.caller("alice").call("test.idempotent_task", arguments).await.task_id();
    let second = setup.start().await;
    let alice = second.caller("alice");
    alice.follow_until(&id, |task| task["progress"]["progress"].as_f64() >= Some(1.0)).await;
    first.signal(Signal::STOP);
    second.logged("recovered tasks whose worker had ended").await;
    // when it wakes up, while the other runs the task again
    first.signal(Signal::CONT);
    // then
    let task = alice.follow(&id).await;
    assert_eq!((&task["status"], &task["output"]["steps_executed"]), (&json!("completed"), &json!(20)), "{task:#}");
    let rows = second.audit(TENANT_A).await;
    let closing = rows_of(&rows, "mcp.tool_call_completed", &id);
    assert_eq!(closing.len(), 1);
    assert_eq!(closing[0].body["outcome"], "success", "{:#}", closing[0].body);
    assert_eq!(rows.iter().filter(|row| row.kind == "plugin.invoked").count(), 1);
}

#[tokio::test]
async fn the_closing_row_of_a_cancelled_task_says_how_long_it_ran() {
    let bridge = Bridge::http().misbehaving_guest().start().await;
    let alice = bridge.caller("alice");
    let id = alice.call("test.long_task", json!({ "steps": 1, "ms": 20_000 })).await.task_id();
    tokio::time::sleep(Duration::from_millis(400)).await;
    alice.task_cancel(&id).await.result();
    let rows = bridge.audit(TENANT_A).await;
    let closing = rows_of(&rows, "mcp.tool_call_completed", &id);
    let [closing] = closing.as_slice() else { panic!("one closing row, not {closing:?}") };
    assert_eq!(closing.body["reason"], "cancelled");
    assert!((400.0..10_000.0).contains(&closing.body["duration_ms"].as_f64().unwrap()), "{:#}", closing.body);
}

#[tokio::test]
async fn cancels_that_race_with_ends_leave_one_closing_row_each() {
    let bridge = Bridge::http().misbehaving_guest().flag("--max-open-tasks=100").start().await;
    let alice = bridge.caller("alice");
    let mut ids = vec![];
    for round in 0..40 {
        let id = alice.call("test.long_task", json!({ "steps": 1, "ms": round % 8 })).await.task_id();
        tokio::time::sleep(Duration::from_millis(round % 13)).await;
        let reply = alice.task_cancel(&id).await;
        assert!(reply.body["result"]["status"] == "cancelled" || reply.error()["data"]["reason"] == "task_ended");
        ids.push(id);
    }
    // Workers may still be on their way out.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let rows = bridge.audit(TENANT_A).await;
    for id in &ids {
        assert_eq!(rows_of(&rows, "mcp.tool_call_started", id).len(), 1);
        assert_eq!(rows_of(&rows, "mcp.tool_call_completed", id).len(), 1);
        let status = alice.task_get(id).await.result()["status"].clone();
        assert!(status == "completed" || status == "cancelled", "{status}");
    }
    assert_eq!(rows.iter().filter(|row| row.kind == "plugin.invoked").count(), ids.len());
}

#[tokio::test]
async fn a_call_whose_client_has_gone_is_waited_for_when_the_bridge_is_told_to_end() {
    let bridge = Bridge::http().misbehaving_guest().start().await;
    let alice = bridge.caller("alice");
    let body = alice.message("tools/call", json!({ "name": "test.sleeps", "arguments": { "ms": 1_200 } })).to_string();
    let mut socket = TcpStream::connect(bridge.address()).await.unwrap();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAuthorization: Bearer {}\r\n\
         Content-Length: {}\r\n\r\n{body}",
        alice.mint(),
        body.len()
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    drop(socket);
    tokio::time::sleep(Duration::from_millis(100)).await;
    bridge.signal(Signal::TERM);
    assert!(bridge.exit_within(Duration::from_secs(8)).await.success());
    let rows = bridge.audit(TENANT_A).await;
    let kinds: Vec<&str> = rows.iter().map(|row| row.kind.as_str()).collect();
    assert_eq!(kinds, ["mcp.tool_call_started", "mcp.tool_call_completed"]);
    assert_eq!(rows[1].body["outcome"], "success");
}

#[tokio::test]
async fn a_connection_that_says_nothing_does_not_hold_up_the_end() {
    let bridge = Bridge::http().start().await;
    let silent = TcpStream::connect(bridge.address()).await.unwrap();
    bridge.get("/healthz").await;
    let asked = Instant::now();
    bridge.signal(Signal::TERM);
    assert!(bridge.exit_within(Duration::from_secs(8)).await.success());
    assert!(asked.elapsed() < Duration::from_secs(3), "{:?}", asked.elapsed());
    drop(silent);
}
