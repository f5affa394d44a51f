//! `tools/call`: arguments checked first, results that keep their schema, calls that do not wait for each other.

use bridge_tests::{Bridge, Setup, on_both_transports};
use futures::future::join_all;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

on_both_transports! {
    each_of_the_eight_tools_answers_by_its_own_schema
    arguments_outside_the_schema_are_refused_with_a_pointer
    an_unknown_tool_is_refused
    a_request_that_is_no_tool_call_is_refused
    a_waiting_call_does_not_hold_up_others
    many_calls_at_once_each_get_their_own_answer
    a_cancelled_call_is_stopped_at_once
    a_tool_that_fails_by_itself_is_a_result
}

async fn each_of_the_eight_tools_answers_by_its_own_schema(setup: Setup) {
    let bridge = setup.start().await;
    let alice = bridge.caller("alice");
    let list = alice.list().await;
    let note = json!({ "kind": "decision.recorded", "body": { "text": "use Postgres" } });
    let calls = [
        ("cyberos.cuo.list_personas", json!({})),
        ("cyberos.cuo.list_workflows", json!({ "persona": "chief-technology-officer" })),
        ("cyberos.cuo.route", json!({ "query": "Architect a new payment routing system" })),
        (
            "cyberos.cuo.execute_workflow",
            json!({ "persona": "chief-technology-officer", "workflow": "adr-quick-capture",
            "inputs": { "decision_context": "One service or two?" } }),
        ),
        ("cyberos.memory.append_audit", note),
        ("cyberos.memory.read_audit", json!({})),
        ("cyberos.skill.list_catalog", json!({ "filter": "adr" })),
        ("cyberos.skill.invoke_skill", json!({ "skill": "adr-author", "inputs": { "decision_context": "x" } })),
    ];
    for (tool, arguments) in calls {
        let listed = list.result()["tools"].as_array().unwrap().iter().find(|t| t["name"] == tool).expect(tool);
        let reply = match tool {
            "cyberos.memory.append_audit" => alice.call_confirmed(tool, arguments).await,
            _ => alice.call(tool, arguments).await,
        };
        let structured = reply.structured();
        let errors: Vec<String> = jsonschema::validator_for(&listed["outputSchema"])
            .unwrap()
            .iter_errors(structured)
            .map(|e| format!("{}: {e}", e.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{tool}: {errors:?} in {structured:#}");
        if structured.get("task_id").is_some() {
            let task = alice.follow(&reply.task_id()).await;
            assert_eq!(task["status"], "completed", "{tool}: {task:#}");
        }
    }
}

async fn arguments_outside_the_schema_are_refused_with_a_pointer(setup: Setup) {
    // given: a supervisor that leaves a trace as soon as anybody starts it
    let setup = setup.supervisor("touch \"$0.was-started\"; exit 1");
    let trace = setup.home().join("supervisor.sh.was-started");
    let bridge = setup.start().await;
    let alice = bridge.caller("alice");
    let execute = "cyberos.cuo.execute_workflow";
    let cases = [
        (json!({ "workflow": "adr-quick-capture", "inputs": {} }), "", "persona"),
        (json!({ "persona": 7, "workflow": "x" }), "/persona", ""),
        (json!({ "persona": "a", "workflow": "b", "inputs": [] }), "/inputs", ""),
        (json!({ "persona": "a", "workflow": "b", "timeout_seconds": 0 }), "/timeout_seconds", ""),
        (json!({ "persona": "a", "workflow": "b", "timeout_seconds": 3601 }), "/timeout_seconds", ""),
        (json!({ "persona": "a", "workflow": "b", "more": 1 }), "", "more"),
    ];
    for (arguments, pointer, named) in cases {
        let reply = alice.call(execute, arguments.clone()).await;
        let data = reply.assert_code(-32602).assert_error("input_validation", "schema_violation");
        assert_eq!(data["pointer"], pointer, "{arguments}: {data:?}");
        assert!(reply.error().to_string().contains(named), "{arguments}: {:?}", reply.error());
    }
    let reply = alice.request("tools/call", json!({ "name": execute, "arguments": [1] })).await;
    reply.assert_code(-32602).assert_error("input_validation", "invalid_params");
    // then
    assert!(!trace.exists(), "nothing behind the check was touched");
}

async fn an_unknown_tool_is_refused(setup: Setup) {
    let bridge = setup.start().await;
    for name in ["cyberos.cuo.nothing", "", "../../etc/passwd", "list_personas"] {
        let reply = bridge.caller("alice").call(name, json!({})).await;
        reply.assert_code(-32602).assert_error("input_validation", "tool_not_found");
    }
}

async fn a_request_that_is_no_tool_call_is_refused(setup: Setup) {
    let bridge = setup.start().await;
    for params in [json!({}), json!({ "name": 7 }), json!({ "name": "cyberos.cuo.list_personas", "_meta": 3 })] {
        let reply = bridge.caller("alice").request("tools/call", params).await;
        reply.assert_code(-32602).assert_error("input_validation", "invalid_params");
    }
}

async fn a_waiting_call_does_not_hold_up_others(setup: Setup) {
    let bridge = setup.misbehaving_guest().start().await;
    let alice = bridge.caller("alice");
    let sleeping = async {
        let reply = alice.call("test.sleeps", json!({ "ms": 700 })).await;
        (Instant::now(), reply)
    };
    let pinging = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        alice.request("ping", json!({})).await.result();
        alice.call("test.echoes", json!({ "n": 1 })).await.structured();
        Instant::now()
    };
    let ((slept, reply), answered) = futures::join!(sleeping, pinging);
    assert_eq!(reply.structured()["slept_ms"], 700);
    assert!(answered < slept, "the later requests were answered first");
}

async fn many_calls_at_once_each_get_their_own_answer(setup: Setup) {
    let bridge = setup.misbehaving_guest().start().await;
    let alice = bridge.caller("alice");
    let calls = (0..40).map(|n| {
        let alice = alice.clone();
        async move { (n, alice.call("test.echoes", json!({ "n": n })).await) }
    });
    for (n, reply) in join_all(calls).await {
        assert_eq!(reply.structured()["n"], n);
    }
}

async fn a_cancelled_call_is_stopped_at_once(setup: Setup) {
    // given: more fuel than the guest burns before it is cancelled
    let grants = "[plugins.guest-misbehaves]\nany_tool_name = true\nlimits.fuel = 500_000_000_000\n";
    let bridge = setup.guests(&["guest_misbehaves"], grants).start().await;
    let alice = bridge.caller("alice");
    for (tool, arguments) in [("test.sleeps", json!({ "ms": 20_000 })), ("test.spins_forever", json!({}))] {
        alice.call("test.echoes", json!({})).await.structured();
        let message = alice.message("tools/call", json!({ "name": tool, "arguments": arguments }));
        let before = completed(&bridge).await;
        let calling = async {
            match bridge.is_stdio() {
                true => Some(bridge.line().begin(&message).await),
                false => {
                    let answer = alice.post(message.to_string().into_bytes()).await;
                    assert_eq!((answer.status, answer.text.as_str()), (202, ""), "a cancelled request has no answer");
                    None
                }
            }
        };
        let cancelling = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            let asked = Instant::now();
            alice.notify("notifications/cancelled", json!({ "requestId": message["id"], "reason": "enough" })).await;
            // The closing audit row is written when the guest has been stopped.
            while completed(&bridge).await == before {
                assert!(asked.elapsed() < Duration::from_secs(10), "{tool} was not stopped");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            asked.elapsed()
        };
        let (answer, took) = futures::join!(calling, cancelling);
        // 100 ms for the guest; the rest is for the row and for a busy machine.
        assert!(took < Duration::from_millis(600), "{tool} took {took:?} to stop");
        if let Some(answer) = answer {
            let answer = tokio::time::timeout(Duration::from_millis(200), answer).await;
            assert!(answer.is_err(), "{tool}: a cancelled request has no answer, not {answer:?}");
        }
        alice.call("test.echoes", json!({ "healthy": true })).await.structured();
    }
    // Unknown and finished requests are ignored.
    alice.notify("notifications/cancelled", json!({ "requestId": 999_999 })).await;
    alice.notify("notifications/cancelled", json!({})).await;
    alice.request("ping", json!({})).await.result();
}

/// How many calls ended in a cancellation so far, by the audit log.
async fn completed(bridge: &Bridge) -> usize {
    let alice = bridge.caller("alice");
    let rows = bridge.audit(alice.identity().0).await;
    rows.iter()
        .filter(|row| row.kind == "mcp.tool_call_completed" && row.body.to_string().contains("cancelled"))
        .count()
}

async fn a_tool_that_fails_by_itself_is_a_result(setup: Setup) {
    let bridge = setup.misbehaving_guest().start().await;
    let alice = bridge.caller("alice");
    let reply = alice.call("test.fails_politely", json!({ "how": "is_error", "text": "no such city" })).await;
    let result = reply.result();
    assert_eq!(result["isError"], Value::Bool(true));
    assert_eq!(result["content"][0]["text"], "no such city");
}
