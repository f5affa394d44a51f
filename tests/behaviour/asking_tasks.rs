//! Tasks that need somebody: a destructive one asks before it begins, through `tasks/result`, wherever that is served;
//! and clients are told what becomes of the tasks that they created.

use bridge_tests::asking::Said;
use bridge_tests::{Bridge, Caller, Setup, on_both_transports};
use serde_json::{Value, json};
use std::time::Duration;

on_both_transports! {
    a_destructive_task_asks_first_and_runs_once_when_its_user_agrees
    a_destructive_task_that_is_declined_never_runs
    a_task_that_nobody_answers_ends_and_never_runs
    a_task_that_is_cancelled_while_it_asks_never_runs
    a_client_that_cannot_be_asked_gets_no_destructive_task
    a_client_is_told_what_becomes_of_its_task
    a_time_to_live_is_a_number_of_milliseconds
    a_guest_asks_its_user_and_its_model_from_a_task
    a_guest_whose_question_nobody_answers_goes_on
    a_guest_is_told_what_the_client_of_its_task_cannot_do
}

const TOOL: &str = "test.destructive_task";

fn asks_forms() -> Value {
    json!({ "elicitation": { "form": {} } })
}

fn yes() -> Value {
    json!({ "action": "accept", "content": { "confirm": true } })
}

/// A task that asks, once it does.
async fn asking_task(alice: &Caller<'_>) -> String {
    let reply = alice.call_as_task(TOOL, json!({ "steps": 2, "ms": 10 })).await;
    let task = &reply.result()["task"];
    assert_eq!(task["status"], "working", "every task begins so: {task:#}");
    let id = task["taskId"].as_str().unwrap().to_owned();
    alice.follow_until(&id, |task| task["status"] == "input_required").await;
    id
}

fn result_of(alice: &Caller<'_>, id: &str) -> Value {
    alice.message("tasks/result", json!({ "taskId": id }))
}

/// Of one task: what the log holds.
async fn log_of(bridge: &Bridge, alice: &Caller<'_>) -> Vec<(String, String, String)> {
    let word =
        |row: &cyberos_plugin_host::store::AuditRow, key: &str| row.body[key].as_str().unwrap_or_default().to_owned();
    let rows = bridge.audit(alice.identity().0).await;
    rows.iter().map(|row| (row.kind.clone(), word(row, "confirmation"), word(row, "reason"))).collect()
}

fn log(rows: &[(&str, &str, &str)]) -> Vec<(String, String, String)> {
    rows.iter().map(|(a, b, c)| ((*a).into(), (*b).into(), (*c).into())).collect()
}

async fn a_destructive_task_asks_first_and_runs_once_when_its_user_agrees(setup: Setup) {
    // given
    let bridge = setup.misbehaving_guest().start().await;
    let alice = bridge.caller("alice").in_session(asks_forms()).await;
    let id = asking_task(&alice).await;
    let task = alice.request("tasks/get", json!({ "taskId": id })).await.result().clone();
    let needs = task["statusMessage"].as_str().unwrap();
    assert!(needs.contains("tasks/result") && needs.contains(TOOL), "{needs}");
    assert!(task.get("_meta").is_none());
    // when
    let (reply, asked) = alice.send_answering(result_of(&alice, &id), &yes()).await;
    // then
    assert_eq!(asked.len(), 1, "{asked:#?}");
    assert_eq!(asked[0]["params"]["_meta"]["io.modelcontextprotocol/related-task"]["taskId"], id.as_str());
    assert!(asked[0]["params"]["message"].as_str().unwrap().contains("- steps: 2"), "{asked:#?}");
    assert_eq!(reply.structured()["steps_executed"], 2);
    assert_eq!(reply.result()["_meta"]["io.modelcontextprotocol/related-task"]["taskId"], id.as_str());
    let task = alice.task_get(&id).await.result().clone();
    assert_eq!(task["status"], "completed");
    assert_eq!(
        log_of(&bridge, &alice).await,
        log(&[
            ("mcp.tool_call_started", "pending", ""),
            ("mcp.tool_call_completed", "elicited", ""),
            ("plugin.invoked", "", ""),
        ])
    );
}

async fn a_destructive_task_that_is_declined_never_runs(setup: Setup) {
    let bridge = setup.misbehaving_guest().start().await;
    let alice = bridge.caller("alice").in_session(asks_forms()).await;
    let id = asking_task(&alice).await;
    let (reply, _) = alice.send_answering(result_of(&alice, &id), &json!({ "action": "decline" })).await;
    let data = reply.assert_code(-32000).assert_error("authz_denied", "user_declined");
    assert_eq!(data["_meta"]["io.modelcontextprotocol/related-task"]["taskId"], id.as_str());
    let task = alice.task_get(&id).await.result().clone();
    assert_eq!((&task["status"], &task["error"]["reason"]), (&json!("failed"), &json!("user_declined")));
    assert_eq!(
        log_of(&bridge, &alice).await,
        log(&[("mcp.tool_call_started", "pending", ""), ("mcp.tool_call_completed", "pending", "user_declined")])
    );
}

async fn a_task_that_nobody_answers_ends_and_never_runs(setup: Setup) {
    let bridge = setup.misbehaving_guest().flag("--ask-timeout-seconds=1").start().await;
    let alice = bridge.caller("alice").in_session(asks_forms()).await;
    let id = asking_task(&alice).await;
    let task = alice.follow_until(&id, |task| task["status"] == "failed").await;
    assert_eq!(task["error"]["reason"], "confirmation_required", "{task:#}");
    assert!(task["error"]["hint"].as_str().unwrap().contains("Nothing was done"), "{task:#}");
    assert!(!log_of(&bridge, &alice).await.iter().any(|row| row.0 == "plugin.invoked"));
}

async fn a_task_that_is_cancelled_while_it_asks_never_runs(setup: Setup) {
    let bridge = setup.misbehaving_guest().start().await;
    let alice = bridge.caller("alice").in_session(asks_forms()).await;
    let id = asking_task(&alice).await;
    let mut waiting = alice.begin(result_of(&alice, &id)).await;
    let question = waiting.question().await;
    // when
    let cancelled = alice.request("tasks/cancel", json!({ "taskId": id })).await;
    assert_eq!(cancelled.result()["status"], "cancelled");
    // then
    let withdrawn = waiting.notification("notifications/cancelled").await;
    assert_eq!(withdrawn["params"]["requestId"], question["id"]);
    waiting.reply().await.assert_error("internal_error", "cancelled");
    alice.answer(&question, yes()).await;
    assert_eq!(alice.task_get(&id).await.result()["status"], "cancelled", "and it stays cancelled");
    assert_eq!(
        log_of(&bridge, &alice).await,
        log(&[("mcp.tool_call_started", "pending", ""), ("mcp.tool_call_completed", "pending", "cancelled")])
    );
}

async fn a_client_that_cannot_be_asked_gets_no_destructive_task(setup: Setup) {
    let bridge = setup.misbehaving_guest().start().await;
    let alice = bridge.caller("alice").in_session(json!({})).await;
    let reply = alice.call_as_task(TOOL, json!({ "steps": 1, "ms": 1 })).await;
    reply.assert_code(-32000).assert_error("authz_denied", "confirmation_required");
    // A token lets it begin at once.
    let arguments = json!({ "steps": 1, "ms": 1 });
    let meta = json!({ "cyberos/confirmation_token": alice.confirmation(TOOL, &arguments) });
    let params = json!({ "name": TOOL, "arguments": arguments, "task": {}, "_meta": meta });
    let id = alice.request("tools/call", params).await.result()["task"]["taskId"].as_str().unwrap().to_owned();
    assert_eq!(alice.task_result(&id).await.structured()["steps_executed"], 1);
}

async fn a_client_is_told_what_becomes_of_its_task(setup: Setup) {
    // given: a client that listens
    let bridge = setup.misbehaving_guest().start().await;
    let alice = bridge.caller("alice").in_session(json!({})).await;
    let mut ear = match bridge.is_stdio() {
        true => None,
        false => Some(alice.listen(None).await),
    };
    // when
    let params = json!({ "name": "test.long_task", "arguments": { "steps": 4, "ms": 400 }, "task": { "ttl": 60_000 },
        "_meta": { "progressToken": "p-1" } });
    let id = alice.request("tools/call", params).await.result()["task"]["taskId"].as_str().unwrap().to_owned();
    // then: progress, then the end, then nothing
    let mut progress = vec![];
    let ended = loop {
        let message = match &mut ear {
            Some(events) => events.message().await,
            None => bridge.line().next().await,
        };
        match message["method"].as_str() {
            Some("notifications/progress") => {
                let params = &message["params"];
                assert_eq!(params["progressToken"], "p-1");
                assert_eq!(params["_meta"]["io.modelcontextprotocol/related-task"]["taskId"], id.as_str());
                progress.push(params["progress"].as_f64().unwrap());
            }
            Some("notifications/tasks/status") => break message["params"].clone(),
            _ => panic!("{message:#}"),
        }
    };
    assert!(!progress.is_empty() && progress.is_sorted_by(|a, b| a < b), "{progress:?}");
    let task = alice.request("tasks/get", json!({ "taskId": id })).await.result().clone();
    assert_eq!(ended, task, "the whole task, and nothing else");
    assert_eq!(ended["status"], "completed");
    let more = match &mut ear {
        Some(events) => {
            events.next_within(Duration::from_millis(400)).await.ok().flatten().map(|event| event.message())
        }
        None => bridge.line().next_within(Duration::from_millis(400)).await,
    };
    assert_eq!(more, None);
}

async fn a_time_to_live_is_a_number_of_milliseconds(setup: Setup) {
    let bridge = setup.misbehaving_guest().start().await;
    let alice = bridge.caller("alice");
    let call = async |task: Value| {
        let arguments = json!({ "steps": 0, "ms": 0, "timeout_seconds": 1 });
        alice.request("tools/call", json!({ "name": "test.long_task", "arguments": arguments, "task": task })).await
    };
    for (ttl, given) in
        [(json!(90_000), 90_000), (json!(90_000.0), 90_000), (json!(0), 1_000), (json!(1e300), 604_800_000)]
    {
        assert_eq!(call(json!({ "ttl": ttl })).await.result()["task"]["ttl"], given, "{ttl}");
    }
    assert_eq!(call(json!({ "ttl": null })).await.result()["task"]["ttl"], 86_400_000);
    for bad in [json!({ "ttl": -1 }), json!({ "ttl": "90000" }), json!({ "ttl": true }), json!([]), json!("yes")] {
        call(bad).await.assert_code(-32602).assert_error("input_validation", "invalid_params");
    }
}

// A guest that asks while it runs as a task.

const GRANTS: &str = "[plugins.guest-offers]\nany_tool_name = true\nelicit = true\nsample = true\n";

async fn started(alice: &Caller<'_>, tool: &str) -> String {
    let reply = alice.call_as_task(tool, json!({})).await;
    reply.result()["task"]["taskId"].as_str().unwrap().to_owned()
}

async fn a_guest_asks_its_user_and_its_model_from_a_task(setup: Setup) {
    let bridge = setup.guests(&["guest_offers"], GRANTS).start().await;
    let alice = bridge.caller("alice").in_session(json!({ "elicitation": {}, "sampling": {} })).await;
    let delivery = json!({ "city": "Hue", "express": true });
    let said = json!({ "role": "assistant", "model": "m", "content": { "type": "text", "text": "Because." } });
    for (tool, method, answer, says) in [
        ("test.asks_form_as_task", "elicitation/create", json!({ "action": "accept", "content": delivery }), "Hue"),
        ("test.asks_model_as_task", "sampling/createMessage", said, "Because."),
    ] {
        // given: a task that asks
        let id = started(&alice, tool).await;
        let asking = alice.follow_until(&id, |task| task["status"] == "input_required").await;
        assert!(asking["message"].as_str().unwrap().contains("tasks/result"), "{asking:#}");
        tokio::time::sleep(Duration::from_millis(300)).await;
        // when
        let (reply, asked) = alice.send_answering(result_of(&alice, &id), &answer).await;
        // then
        assert_eq!((asked.len(), &asked[0]["method"]), (1, &json!(method)), "{asked:#?}");
        assert_eq!(asked[0]["params"]["_meta"]["io.modelcontextprotocol/related-task"]["taskId"], id.as_str());
        let came = reply.structured();
        assert_eq!(came["answer"], "accept", "{came:#}");
        assert!(came["says"].as_str().unwrap().contains(says), "{came:#}");
        let (before, after) = (came["left"][0].as_u64().unwrap(), came["left"][1].as_u64().unwrap());
        assert!(before - after < 300, "the time that a person takes is given back: {came:#}");
        let task = alice.task_get(&id).await.result().clone();
        assert_eq!(task["status"], "completed", "{task:#}");
    }
}

async fn a_guest_whose_question_nobody_answers_goes_on(setup: Setup) {
    let bridge = setup.guests(&["guest_offers"], GRANTS).flag("--ask-timeout-seconds=1").start().await;
    let alice = bridge.caller("alice").in_session(asks_forms()).await;
    let id = started(&alice, "test.asks_form_as_task").await;
    let task = alice.follow_until(&id, |task| task["status"] == "completed").await;
    assert_eq!(task["output"]["answer"], "timed-out", "{task:#}");
}

async fn a_guest_is_told_what_the_client_of_its_task_cannot_do(setup: Setup) {
    let bridge = setup.guests(&["guest_offers"], GRANTS).start().await;
    let alice = bridge.caller("alice").in_session(json!({})).await;
    for tool in ["test.asks_form_as_task", "test.asks_model_as_task"] {
        let id = started(&alice, tool).await;
        let came = alice.task_result(&id).await.structured().clone();
        assert_eq!((&came["answer"], &came["can"]), (&json!("unsupported"), &json!([])), "{came:#}");
    }
}

#[tokio::test]
async fn of_two_that_wait_the_first_answer_counts_and_the_other_question_is_withdrawn() {
    // given
    let bridge = Bridge::http().misbehaving_guest().start().await;
    let desk = bridge.caller("alice").in_session(asks_forms()).await;
    let phone = bridge.caller("alice").in_session(asks_forms()).await;
    let id = asking_task(&desk).await;
    let mut at_the_desk = desk.begin(result_of(&desk, &id)).await;
    let mut on_the_phone = phone.begin(result_of(&phone, &id)).await;
    let (first, second) = (at_the_desk.question().await, on_the_phone.question().await);
    assert_ne!(first["id"], second["id"]);
    // when
    phone.answer(&second, yes()).await;
    // then
    let withdrawn = at_the_desk.notification("notifications/cancelled").await;
    assert_eq!(withdrawn["params"]["requestId"], first["id"]);
    desk.answer(&first, json!({ "action": "decline" })).await;
    for waiting in [&mut at_the_desk, &mut on_the_phone] {
        assert_eq!(waiting.reply().await.structured()["steps_executed"], 2);
    }
    let invoked = log_of(&bridge, &desk).await.iter().filter(|row| row.0 == "plugin.invoked").count();
    assert_eq!(invoked, 1);
}

#[tokio::test]
async fn who_cannot_be_asked_waits_and_leaves_the_question_to_others() {
    let bridge = Bridge::http().misbehaving_guest().start().await;
    let alice = bridge.caller("alice").in_session(asks_forms()).await;
    let id = asking_task(&alice).await;
    let waiting = bridge.caller("alice").in_session(json!({})).await;
    let only_waits = async {
        let mut result = waiting.begin(result_of(&waiting, &id)).await;
        loop {
            match result.next().await {
                Said::Answer(reply) => return reply,
                Said::Message(message) => assert!(message.get("id").is_none(), "it was asked: {message:#}"),
            }
        }
    };
    let answers = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        alice.send_answering(result_of(&alice, &id), &yes()).await.0
    };
    let (first, second) = tokio::join!(only_waits, answers);
    assert_eq!(first.structured(), second.structured());
}

#[tokio::test]
async fn a_task_is_answered_through_another_replica_on_postgres() {
    // given: two replicas on one store, and a task that runs in the first
    let setup = Bridge::http().postgres().await.misbehaving_guest();
    let (first, second) = (setup.start().await, setup.start().await);
    let here = first.caller("alice").in_session(asks_forms()).await;
    let there = second.caller("alice").in_session(asks_forms()).await;
    let id = asking_task(&here).await;
    // when
    let (reply, asked) = there.send_answering(result_of(&there, &id), &yes()).await;
    // then
    assert_eq!(asked.len(), 1);
    assert_eq!(reply.structured()["steps_executed"], 2);
    assert_eq!(here.task_get(&id).await.result()["status"], "completed");
}

#[tokio::test]
async fn a_task_whose_bridge_died_while_it_asked_asks_again() {
    // given
    let setup = Bridge::http().misbehaving_guest().flag("--task-lease-seconds=2");
    let first = setup.start().await;
    let alice = first.caller("alice").in_session(asks_forms()).await;
    let id = asking_task(&alice).await;
    first.kill().await;
    // when
    let second = setup.start().await;
    let alice = second.caller("alice").in_session(asks_forms()).await;
    let (reply, asked) = alice.send_answering(result_of(&alice, &id), &yes()).await;
    // then: it had done nothing, so it could begin; who answers before the death is noticed is asked again
    assert!((1..=2).contains(&asked.len()), "{asked:#?}");
    assert_eq!(reply.structured()["steps_executed"], 2);
}

#[tokio::test]
async fn a_task_asks_on_after_its_stdio_client_has_gone() {
    let setup = Bridge::stdio().misbehaving_guest();
    let first = setup.start().await;
    let alice = first.caller("alice").in_session(asks_forms()).await;
    let id = asking_task(&alice).await;
    first.line().close().await;
    assert!(first.exit_within(Duration::from_secs(5)).await.success());
    let second = setup.start().await;
    let alice = second.caller("alice").in_session(asks_forms()).await;
    let (reply, asked) = alice.send_answering(result_of(&alice, &id), &yes()).await;
    assert_eq!((asked.len(), &reply.structured()["steps_executed"]), (1, &json!(2)));
}
