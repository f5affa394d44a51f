//! What must stay where it is: tokens and passwords in no log at any level, in no answer, and in no child that can do
//! without.

use bridge_tests::Bridge;
use bridge_tests::caller::{ALL_SCOPES, TENANT_A};
use bridge_tests::setup::processes_of;
use bridge_tests::stdio::PATIENCE;
use bridge_tests::tokens::claims;
use serde_json::json;
use std::time::Duration;

const CANARY: &str = "hunter2-canary";

#[tokio::test]
async fn no_secret_is_in_the_log_at_its_most_talkative() {
    // given
    let bridge = Bridge::http().postgres().await.flag("--log=trace").start().await;
    let alice = bridge.caller("alice");
    let token = alice.mint();
    let signature = token.rsplit('.').next().unwrap().to_owned();
    // when: good and bad tokens, confirmations and arguments
    let asked = alice.clone().token(token.clone());
    asked.initialize().await.result();
    asked.call("cyberos.cuo.route", json!({ "query": CANARY })).await.structured();
    let arguments = json!({ "kind": "note.taken", "body": { "text": CANARY } });
    let confirmation = alice.confirmation("cyberos.memory.append_audit", &arguments);
    let meta = json!({ "cyberos/confirmation_token": confirmation });
    asked.call_with("cyberos.memory.append_audit", arguments.clone(), meta).await.structured();
    asked.clone().token(format!("{token}{CANARY}")).list().await.error();
    bridge.get(&format!("/mcp?access_token={CANARY}")).await;
    // then
    let log = bridge.log();
    assert!(log.contains(" DEBUG "), "it is talkative:\n{log}");
    for secret in [CANARY, &token, &signature, &confirmation, "password"] {
        let line = log.lines().find(|line| line.contains(secret));
        assert_eq!(line, None, "{secret}");
    }
}

#[tokio::test]
async fn a_task_worker_and_its_supervisor_do_not_get_the_callers_token() {
    // given: identity in the environment, and a supervisor that stays a while
    let scopes: Vec<String> = ALL_SCOPES.map(str::to_owned).into();
    let setup = Bridge::stdio();
    let token = setup.sign(&claims("alice", TENANT_A, &scopes));
    let setup = setup.token(&token).supervisor("read request; sleep 60; exit 1");
    let bridge = setup.start().await;
    // when
    let call = json!({ "persona": "chief-technology-officer", "workflow": "adr-quick-capture",
        "inputs": { "title": "One store", "decision_context": "We need one." } });
    bridge.caller("alice").call("cyberos.cuo.execute_workflow", call).await.task_id();
    // then
    let own = bridge.pid.as_raw_nonzero().get();
    let environment = |pid: i32| {
        String::from_utf8_lossy(&std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default()).into_owned()
    };
    assert!(environment(own).contains(&token), "or this could not fail");
    let children = || processes_of(setup.home()).into_iter().filter(|pid| *pid != own).collect::<Vec<i32>>();
    let patience = std::time::Instant::now() + PATIENCE;
    while children().len() < 2 && std::time::Instant::now() < patience {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let children = children();
    assert!(children.len() >= 2, "a worker and its supervisor: {children:?}");
    for pid in children {
        assert!(!environment(pid).contains(&token), "process {pid} holds the token");
    }
}
