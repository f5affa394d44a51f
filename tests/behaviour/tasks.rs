//! Long-running calls: a handle at once, followed, stopped and found again on both wires and both stores.

use bridge_tests::reply::{assert_complete, assert_trace_id};
use bridge_tests::setup::{Transport, processes_of};
use bridge_tests::{Bridge, Setup, on_both_transports};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

on_both_transports! {
    a_long_call_answers_at_once_and_its_task_completes
    a_task_shows_its_progress_while_it_runs
    a_task_that_passes_its_timeout_is_failed
    a_failing_task_says_why
    both_wires_tell_of_the_same_task
    the_result_waits_for_the_end_and_names_its_task
    tasks_are_listed_newest_first_page_by_page
    a_tool_without_tasks_refuses_to_be_one
    a_task_that_has_ended_cannot_be_cancelled
}

const EXECUTE: &str = "cyberos.cuo.execute_workflow";

/// A supervisor that never answers, with a child of its own that ignores SIGTERM.
const STUBBORN: &str = "
trap '' TERM
sh -c 'trap \"\" TERM; while :; do sleep 60; done' &
echo \"$$ $!\" > \"$0.pids\"
wait";

fn adr() -> Value {
    json!({ "persona": "chief-technology-officer", "workflow": "adr-quick-capture",
        "inputs": { "title": "One store", "decision_context": "We need one." } })
}

async fn a_long_call_answers_at_once_and_its_task_completes(setup: Setup) {
    let bridge = setup.start().await;
    let alice = bridge.caller("alice");
    alice.list().await.result();
    let asked = Instant::now();
    let reply = alice.call(EXECUTE, adr()).await;
    let took = asked.elapsed();
    let id = reply.task_id();
    assert!(id.starts_with("t-"), "{id}");
    // 100 ms is the bound; tests share their machine.
    assert!(took < Duration::from_millis(500), "the handle took {took:?}");
    let first = alice.task_get(&id).await.result().clone();
    assert!(["running", "completed"].contains(&first["status"].as_str().unwrap()), "{first:#}");
    let task = alice.follow(&id).await;
    assert_eq!(task["status"], "completed", "{task:#}");
    assert_eq!(task["task_id"], id.as_str());
    assert_eq!(task["output"]["steps_executed"], 2, "{task:#}");
    assert!(task["output"]["final_artifacts"].to_string().contains("One store"), "{task:#}");
    assert!(task["duration_ms"].is_u64());
}

async fn a_task_shows_its_progress_while_it_runs(setup: Setup) {
    let bridge = setup.misbehaving_guest().start().await;
    let alice = bridge.caller("alice");
    let id = alice.call("test.long_task", json!({ "steps": 8, "ms": 120 })).await.task_id();
    let task = alice.follow_until(&id, |task| task["progress"]["progress"].as_f64() >= Some(1.0)).await;
    assert_eq!(task["status"], "running", "{task:#}");
    assert_eq!(task["progress"]["total"], 8.0, "{task:#}");
    assert!(task["progress"]["message"].as_str().unwrap().starts_with("step"), "{task:#}");
    assert_eq!(alice.follow(&id).await["output"]["steps_executed"], 8);
}

async fn a_task_that_passes_its_timeout_is_failed(setup: Setup) {
    let bridge = setup.misbehaving_guest().start().await;
    let alice = bridge.caller("alice");
    let started = Instant::now();
    let arguments = json!({ "steps": 1, "ms": 60_000, "timeout_seconds": 1 });
    let id = alice.call("test.long_task", arguments).await.task_id();
    let task = alice.follow(&id).await;
    assert_eq!(task["status"], "failed", "{task:#}");
    assert_eq!((&task["error"]["class"], &task["error"]["reason"]), (&json!("internal_error"), &json!("deadline")));
    assert!(task["error"]["message"].as_str().unwrap().contains("time"), "{task:#}");
    assert!(task["error"]["hint"].as_str().unwrap().contains("timeout"), "{task:#}");
    assert_trace_id(task["error"]["trace_id"].as_str().unwrap());
    assert!((1_000..4_000).contains(&task["duration_ms"].as_u64().unwrap()), "{task:#}");
    assert!(started.elapsed() < Duration::from_secs(10));
}

async fn a_failing_task_says_why(setup: Setup) {
    let bridge = setup.misbehaving_guest().start().await;
    let alice = bridge.caller("alice");
    let id = alice.call("test.long_task", json!({ "steps": 3, "ms": 1, "fail_at": 2 })).await.task_id();
    let task = alice.follow(&id).await;
    assert_eq!(task["status"], "failed", "{task:#}");
    assert_eq!(task["error"]["class"], "upstream_unavailable", "{task:#}");
    let reply = alice.task_result(&id).await;
    let data = assert_complete(reply.error());
    assert_eq!(data["trace_id"], task["error"]["trace_id"], "the task's trace, not the question's");
}

async fn both_wires_tell_of_the_same_task(setup: Setup) {
    let bridge = setup.misbehaving_guest().start().await;
    let alice = bridge.caller("alice");
    let reply = alice.call_as_task("test.long_task", json!({ "steps": 2, "ms": 150 })).await;
    let task = &reply.result()["task"];
    assert_eq!(task["status"], "working", "{task:#}");
    assert_eq!(task["ttl"], 600_000);
    assert!(task["pollInterval"].is_u64() && task["createdAt"].is_string() && task["lastUpdatedAt"].is_string());
    let id = task["taskId"].as_str().unwrap();
    assert_eq!(alice.task_get(id).await.result()["status"], "running");
    assert_eq!(alice.follow(id).await["status"], "completed");
    let wire = alice.request("tasks/get", json!({ "taskId": id })).await;
    assert_eq!((&wire.result()["status"], &wire.result()["taskId"]), (&json!("completed"), &json!(id)));
}

async fn the_result_waits_for_the_end_and_names_its_task(setup: Setup) {
    let bridge = setup.misbehaving_guest().start().await;
    let alice = bridge.caller("alice");
    let reply = alice.call_as_task("test.long_task", json!({ "steps": 1, "ms": 400 })).await;
    let id = reply.result()["task"]["taskId"].as_str().unwrap().to_owned();
    let asked = Instant::now();
    let result = alice.task_result(&id).await;
    assert!(asked.elapsed() > Duration::from_millis(150), "it waits");
    assert_eq!(result.structured()["steps_executed"], 1);
    assert_eq!(result.result()["_meta"]["io.modelcontextprotocol/related-task"]["taskId"], id.as_str());
}

async fn tasks_are_listed_newest_first_page_by_page(setup: Setup) {
    let bridge = setup.misbehaving_guest().flag("--max-open-tasks=100").start().await;
    let alice = bridge.caller("alice");
    let mut ids = vec![];
    for _ in 0..53 {
        ids.push(alice.call("test.long_task", json!({ "steps": 0, "ms": 0 })).await.task_id());
    }
    ids.reverse();
    let first = alice.request("tasks/list", json!({})).await;
    let cursor = first.result()["nextCursor"].as_str().expect("more than one page");
    let second = alice.request("tasks/list", json!({ "cursor": cursor })).await;
    assert!(second.result().get("nextCursor").is_none());
    let of = |page: &Value| page["tasks"].as_array().unwrap().clone();
    let listed: Vec<String> = [of(first.result()), of(second.result())]
        .concat()
        .iter()
        .map(|task| task["taskId"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(listed, ids);
    alice.request("tasks/list", json!({ "cursor": "nonsense" })).await.assert_error("input_validation", "bad_cursor");
}

async fn a_tool_without_tasks_refuses_to_be_one(setup: Setup) {
    let bridge = setup.misbehaving_guest().start().await;
    let alice = bridge.caller("alice");
    let reply = alice.call_as_task("cyberos.cuo.list_personas", json!({})).await;
    reply.assert_code(-32601).assert_error("input_validation", "task_unsupported");
    let reply = alice.call("test.required_task", json!({ "steps": 0, "ms": 0 })).await;
    reply.assert_code(-32601).error();
    let reply = alice.call_as_task("test.required_task", json!({ "steps": 0, "ms": 0 })).await;
    assert!(reply.result()["task"]["taskId"].is_string());
}

async fn a_task_that_has_ended_cannot_be_cancelled(setup: Setup) {
    let bridge = setup.misbehaving_guest().start().await;
    let alice = bridge.caller("alice");
    let id = alice.call("test.long_task", json!({ "steps": 0, "ms": 0 })).await.task_id();
    alice.follow(&id).await;
    let reply = alice.task_cancel(&id).await;
    reply.assert_code(-32602).assert_error("input_validation", "task_ended");
    assert_eq!(alice.task_get(&id).await.result()["status"], "completed");
}

// Cancelling: on both stores, because the word has to travel through them.

#[tokio::test]
async fn cancelling_kills_the_supervisors_whole_process_group_over_http() {
    cancelling_kills_the_whole_process_group(Bridge::http()).await;
}

#[tokio::test]
async fn cancelling_kills_the_supervisors_whole_process_group_over_stdio() {
    cancelling_kills_the_whole_process_group(Bridge::stdio()).await;
}

#[tokio::test]
async fn cancelling_kills_the_supervisors_whole_process_group_on_postgres() {
    cancelling_kills_the_whole_process_group(Bridge::http().postgres().await).await;
}

async fn cancelling_kills_the_whole_process_group(setup: Setup) {
    let setup = setup.supervisor(STUBBORN);
    let pids = setup.home().join("supervisor.sh.pids");
    let bridge = setup.start().await;
    let alice = bridge.caller("alice");
    let id = alice.call(EXECUTE, adr()).await.task_id();
    let mut children: Vec<i32> = vec![];
    until("the supervisor runs", || {
        let text = std::fs::read_to_string(&pids).unwrap_or_default();
        children = text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect();
        children.len() == 2
    })
    .await;
    assert!(children.iter().all(|pid| is_alive(*pid)));
    let cancelled = alice.task_cancel(&id).await;
    assert_eq!(cancelled.result()["status"], "cancelled");
    // SIGTERM, which they ignore, then SIGKILL.
    until("the whole group is gone", || !children.iter().any(|pid| is_alive(*pid))).await;
    let task = alice.task_get(&id).await;
    assert_eq!(task.result()["status"], "cancelled", "and it stays cancelled");
    alice.task_result(&id).await.assert_error("internal_error", "cancelled");
}

#[tokio::test]
async fn a_supervisor_that_crashes_fails_its_task_and_not_the_next() {
    let setup = Bridge::http();
    let broken = setup.clone().supervisor("read request; exit 3").start().await;
    let alice = broken.caller("alice");
    let id = alice.call(EXECUTE, adr()).await.task_id();
    let task = alice.follow(&id).await;
    assert_eq!(task["status"], "failed", "{task:#}");
    assert_eq!(task["error"]["class"], "upstream_unavailable", "{task:#}");
    // A fresh one is started for the next call.
    let id = alice.call(EXECUTE, adr()).await.task_id();
    assert_eq!(alice.follow(&id).await["error"]["class"], "upstream_unavailable");
    alice.call("cyberos.cuo.list_personas", json!({})).await.structured();
}

// A task belongs to the store, not to the connection or the process that started it.

#[tokio::test]
async fn a_task_is_found_again_after_a_reconnect_on_sqlite() {
    a_task_is_found_again_after_a_reconnect(Bridge::http()).await;
}

#[tokio::test]
async fn a_task_is_found_again_after_a_reconnect_on_postgres() {
    a_task_is_found_again_after_a_reconnect(Bridge::http().postgres().await).await;
}

async fn a_task_is_found_again_after_a_reconnect(setup: Setup) {
    // given: two replicas on one store
    let setup = setup.misbehaving_guest();
    let first = setup.start().await;
    let second = setup.start().await;
    let id = first.caller("alice").call("test.long_task", json!({ "steps": 6, "ms": 100 })).await.task_id();
    // when the client comes back to the other one
    let alice = second.caller("alice");
    let state = alice.task_get(&id).await.result().clone();
    assert_eq!(state["status"], "running", "{state:#}");
    let waited = alice.task_result(&id).await;
    assert_eq!(waited.structured()["steps_executed"], 6);
    assert_eq!(first.caller("alice").task_get(&id).await.result()["status"], "completed");
}

#[tokio::test]
async fn a_task_is_cancelled_through_another_replica_on_postgres() {
    let setup = Bridge::http().postgres().await.misbehaving_guest();
    let (first, second) = (setup.start().await, setup.start().await);
    let id = first.caller("alice").call("test.long_task", json!({ "steps": 1, "ms": 20_000 })).await.task_id();
    tokio::time::sleep(Duration::from_millis(200)).await;
    second.caller("alice").task_cancel(&id).await.result();
    assert_eq!(first.caller("alice").task_get(&id).await.result()["status"], "cancelled");
}

#[tokio::test]
async fn a_task_outlives_the_stdio_client_that_started_it() {
    let setup = Bridge::stdio().misbehaving_guest();
    let first = setup.start().await;
    let id = first.caller("alice").call("test.long_task", json!({ "steps": 10, "ms": 150 })).await.task_id();
    // when the client goes
    first.line().close().await;
    assert!(first.exit_within(Duration::from_secs(5)).await.success());
    // then a later process sees it run, and complete
    let second = setup.start().await;
    let alice = second.caller("alice");
    assert_eq!(alice.task_get(&id).await.result()["status"], "running");
    let task = alice.follow(&id).await;
    assert_eq!((&task["status"], &task["output"]["steps_executed"]), (&json!("completed"), &json!(10)), "{task:#}");
    until("its worker is gone", || {
        processes_of(setup.home()).iter().all(|pid| *pid == second.pid.as_raw_nonzero().get())
    })
    .await;
}

#[tokio::test]
async fn a_task_outlives_the_sigterm_of_its_stdio_bridge() {
    let setup = Bridge::stdio().misbehaving_guest();
    let first = setup.start().await;
    let id = first.caller("alice").call("test.long_task", json!({ "steps": 8, "ms": 150 })).await.task_id();
    first.signal(rustix::process::Signal::TERM);
    assert!(first.exit_within(Duration::from_secs(5)).await.success());
    // A bridge of another kind on the same state finds it, too: the row is the truth.
    let second = setup.over(Transport::Http).auth_none().start().await;
    let task = second.caller("alice").follow(&id).await;
    assert_eq!((&task["status"], &task["output"]["steps_executed"]), (&json!("completed"), &json!(8)), "{task:#}");
}

#[tokio::test]
async fn a_tenant_has_a_limit_of_open_tasks() {
    let bridge = Bridge::http().misbehaving_guest().flag("--max-open-tasks=2").start().await;
    let alice = bridge.caller("alice");
    let slow = json!({ "steps": 1, "ms": 20_000 });
    let ids = [alice.call("test.long_task", slow.clone()).await, alice.call("test.long_task", slow.clone()).await];
    let reply = alice.call("test.long_task", slow.clone()).await;
    let data = reply.assert_code(-32002).assert_error("upstream_unavailable", "busy");
    assert!(data["retry_after_ms"].is_u64());
    bridge
        .caller("bob")
        .tenant(bridge_tests::TENANT_B)
        .call("test.long_task", json!({ "steps": 0, "ms": 0 }))
        .await
        .task_id();
    alice.task_cancel(&ids[0].task_id()).await.result();
    alice.call("test.long_task", slow).await.task_id();
}

/// Wait for something that must come.
pub async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let give_up = Instant::now() + Duration::from_secs(15);
    while !is_so() {
        assert!(Instant::now() < give_up, "it never came that {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Zombies are dead: their parent has only not looked yet.
fn is_alive(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.trim().is_empty() && !rest.trim_start().starts_with('Z'))
}
