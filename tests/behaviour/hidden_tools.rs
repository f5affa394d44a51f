//! What a caller may not call it does not see, and cannot reach by any route or spelling.

use bridge_tests::{Bridge, Caller, Reply, TENANT_A};
use serde_json::{Value, json};

const HIDDEN: &str = "cyberos.cuo.execute_workflow";
const NEEDED: [&str; 2] = ["cyberos:cuo:execute", "cyberos:memory:write"];
/// Hidden as well, and a tool that runs inline.
const HIDDEN_INLINE: &str = "cyberos.skill.list_catalog";

fn names(reply: &Reply) -> Vec<String> {
    let tools = reply.result()["tools"].as_array().expect("a list");
    tools.iter().map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
}

fn reader<'b>(bridge: &'b Bridge, scopes: &[&str]) -> Caller<'b> {
    bridge.caller("rita").scopes(scopes)
}

#[tokio::test]
async fn a_list_holds_exactly_what_its_caller_may_call() {
    let bridge = Bridge::http().start().await;
    for (scopes, listed) in [
        (vec![], vec![]),
        (vec!["cyberos:cuo:route"], vec!["cyberos.cuo.route"]),
        // One of two scopes is none.
        (vec!["cyberos:cuo:execute"], vec![]),
        (vec!["cyberos:memory:write"], vec!["cyberos.memory.append_audit"]),
        (NEEDED.to_vec(), vec![HIDDEN, "cyberos.memory.append_audit"]),
        // Scopes are words, not patterns.
        (vec!["cyberos:*", "cyberos:cuo:", "CYBEROS:CUO:ROUTE", "cyberos:cuo:route2"], vec![]),
    ] {
        assert_eq!(names(&reader(&bridge, &scopes).list().await), listed, "{scopes:?}");
    }
}

#[tokio::test]
async fn a_hidden_tool_says_which_scopes_it_needs_by_every_route() {
    let bridge = Bridge::http().start().await;
    let rita = reader(&bridge, &["cyberos:cuo:list", "cyberos:memory:write"]);
    let task = json!({ "ttl": 60_000 });
    let confirmed = json!({ "cyberos/confirmation_token": "x", "mcp/sampling/elicit_confirm": true });
    for name in [HIDDEN, "cyberos_cuo_execute_workflow"] {
        for params in [
            json!({ "name": name }),
            json!({ "name": name, "arguments": { "persona": "x", "workflow": "y" } }),
            json!({ "name": name, "arguments": { "wrong": true } }),
            json!({ "name": name, "task": task }),
            json!({ "name": name, "_meta": confirmed }),
        ] {
            let reply = rita.request("tools/call", params).await;
            assert_steps_up(&reply, &["cyberos:cuo:execute"], &NEEDED);
        }
    }
    // Also where the tool would refuse the route itself.
    for name in [HIDDEN_INLINE, "cyberos_skill_list_catalog"] {
        let reply = rita.request("tools/call", json!({ "name": name, "task": task })).await;
        assert_steps_up(&reply, &["cyberos:skill:list"], &["cyberos:skill:list"]);
    }
}

#[track_caller]
fn assert_steps_up(reply: &Reply, missing: &[&str], needed: &[&str]) {
    let data = reply.assert_code(-32000).assert_status(403).assert_error("authz_denied", "insufficient_scope");
    assert_eq!((&data["missing_scopes"], &data["required_scopes"]), (&json!(missing), &json!(needed)));
    let challenge = reply.header("www-authenticate").expect("a challenge");
    assert!(challenge.contains(&format!("scope=\"{}\"", needed.join(" "))), "{challenge}");
}

#[tokio::test]
async fn a_hidden_tool_in_a_batch_is_refused_and_its_neighbours_are_not() {
    let bridge = Bridge::http().start().await;
    let rita = reader(&bridge, &["cyberos:cuo:list"]);
    let call = |name: &str| rita.message("tools/call", json!({ "name": name, "arguments": {} }));
    let batch = json!([call("cyberos.cuo.list_personas"), call(HIDDEN), call("cyberos_skill_list_catalog")]);
    let answer = rita.post(batch.to_string().into_bytes()).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let answers: Vec<Value> = serde_json::from_str(&answer.text).unwrap();
    assert_eq!(answers[0]["result"]["isError"], false);
    for (answer, needed) in [(&answers[1], json!(NEEDED)), (&answers[2], json!(["cyberos:skill:list"]))] {
        assert_eq!(answer["error"]["data"]["reason"], "insufficient_scope", "{answer:#}");
        assert_eq!(answer["error"]["data"]["required_scopes"], needed);
    }
}

#[tokio::test]
async fn a_name_has_two_spellings_and_no_third() {
    let bridge = Bridge::http().start().await;
    let everything = bridge.caller("alice");
    let powerless = reader(&bridge, &[]);
    for spelling in [
        "Cyberos.Cuo.Execute_Workflow",
        "CYBEROS_CUO_EXECUTE_WORKFLOW",
        "cyberos.cuo.execute_workflow ",
        " cyberos.cuo.execute_workflow",
        "cyberos.cuo.execute_workflow\t",
        "cyberos.cuo.execute_workflow\u{0}",
        "cyberos.cuo.execute_workflow\u{200b}",
        "cyberos.cuo_execute_workflow",
        "cyberos_cuo.execute_workflow",
        "cyberos-cuo-execute_workflow",
        "cyberos.cuo.execute-workflow",
        "cyberos/cuo/execute_workflow",
        "cyberos%2Ecuo%2Eexecute_workflow",
        "cyberos.cuo.execute_workflow.",
        "../cyberos.cuo.execute_workflow",
        "cyberos.cuo.execute\u{ff3f}workflow",
        "\u{441}yberos.cuo.execute_workflow",
        "",
    ] {
        for caller in [&everything, &powerless] {
            let reply = caller.call(spelling, json!({})).await;
            reply.assert_code(-32602).assert_error("input_validation", "tool_not_found");
        }
    }
    // A name that is no text is no name.
    for name in [json!(null), json!(7), json!([HIDDEN]), json!({ "name": HIDDEN })] {
        let reply = powerless.request("tools/call", json!({ "name": name })).await;
        reply.assert_code(-32602).assert_error("input_validation", "invalid_params");
    }
}

#[tokio::test]
async fn both_spellings_are_one_tool_to_confirmations_and_in_the_audit_log() {
    let bridge = Bridge::http().start().await;
    let alice = bridge.caller("alice");
    let arguments = json!({ "kind": "note.taken", "body": { "text": "x" } });
    let token = alice.confirmation("cyberos.memory.append_audit", &arguments);
    let meta = json!({ "cyberos/confirmation_token": token });
    alice.call_with("cyberos_memory_append_audit", arguments.clone(), meta.clone()).await.structured();
    // Spent in one spelling is spent in the other.
    let again = alice.call_with("cyberos.memory.append_audit", arguments.clone(), meta).await;
    again.assert_error("authz_denied", "confirmation_invalid");
    alice.call("cyberos_memory_append_audit", arguments).await.assert_error("authz_denied", "confirmation_required");
    let rows = bridge.audit(TENANT_A).await;
    let calls = rows.iter().filter(|row| row.kind.starts_with("mcp.tool_call_"));
    let named: Vec<&Value> = calls.map(|row| &row.body["tool_name"]).collect();
    assert_eq!(named.len(), 4, "one that ran and two that were refused: {rows:?}");
    assert!(named.iter().all(|name| **name == "cyberos.memory.append_audit"), "{named:?}");
}

#[tokio::test]
async fn somebody_elses_task_is_no_way_to_a_hidden_tool() {
    let bridge = Bridge::http().misbehaving_guest().start().await;
    let alice = bridge.caller("alice");
    let task = alice.call("test.long_task", json!({ "steps": 1, "ms": 1 })).await.task_id();
    alice.follow(&task).await;
    let rita = reader(&bridge, &[]);
    for reply in [rita.task_get(&task).await, rita.task_result(&task).await, rita.task_cancel(&task).await] {
        reply.assert_error("input_validation", "task_not_found");
    }
}

#[tokio::test]
async fn underscored_lists_hide_the_same_and_their_names_can_be_called() {
    let bridge = Bridge::http().flag("--tool-names=underscore").start().await;
    let reply = reader(&bridge, &["cyberos:cuo:list", "cyberos:cuo:route"]).list().await;
    let listed = names(&reply);
    assert_eq!(listed, ["cyberos_cuo_list_personas", "cyberos_cuo_list_workflows", "cyberos_cuo_route"]);
    let caller = reader(&bridge, &["cyberos:cuo:list"]);
    for name in ["cyberos_cuo_list_personas", "cyberos.cuo.list_personas"] {
        caller.call(name, json!({})).await.structured();
    }
    let reply = caller.call("cyberos_cuo_route", json!({ "query": "x" })).await;
    assert_steps_up(&reply, &["cyberos:cuo:route"], &["cyberos:cuo:route"]);
}
