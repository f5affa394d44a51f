//! Nobody sees, stops or lists what belongs to another tenant or another subject.

use bridge_tests::{Bridge, Setup, TENANT_A, TENANT_B};
use serde_json::json;

#[tokio::test]
async fn another_tenants_task_does_not_exist_on_sqlite() {
    another_tenants_task_does_not_exist(Bridge::http()).await;
}

#[tokio::test]
async fn another_tenants_task_does_not_exist_on_postgres() {
    another_tenants_task_does_not_exist(Bridge::http().postgres().await).await;
}

async fn another_tenants_task_does_not_exist(setup: Setup) {
    // given: a task that runs, and one that has ended
    let bridge = setup.misbehaving_guest().start().await;
    let alice = bridge.caller("alice").tenant(TENANT_A);
    let running = alice.call("test.long_task", json!({ "steps": 1, "ms": 20_000 })).await.task_id();
    let ended = alice.call("test.long_task", json!({ "steps": 1, "ms": 1 })).await.task_id();
    alice.follow(&ended).await;
    let strangers =
        [bridge.caller("alice").tenant(TENANT_B), bridge.caller("bob").tenant(TENANT_B), bridge.caller("bob")];
    // when others ask for it, it is as unknown to them as one that never was
    for id in [&running, &ended, &"t-00000000000000000000000000".to_owned(), &"' OR 1=1 --".to_owned()] {
        for stranger in &strangers {
            let answers = [
                stranger.task_get(id).await,
                stranger.request("tasks/get", json!({ "taskId": id })).await,
                stranger.task_result(id).await,
                stranger.task_cancel(id).await,
            ];
            for reply in answers {
                reply.assert_code(-32602).assert_error("input_validation", "task_not_found");
                assert_eq!(reply.error()["message"], "Task not found.", "the same text whatever the reason");
            }
        }
    }
    for stranger in &strangers {
        assert_eq!(stranger.request("tasks/list", json!({})).await.result()["tasks"], json!([]));
    }
    // then it is untouched
    assert_eq!(alice.task_get(&running).await.result()["status"], "running");
    assert_eq!(alice.request("tasks/list", json!({})).await.result()["tasks"].as_array().unwrap().len(), 2);
    alice.task_cancel(&running).await.result();
}

#[tokio::test]
async fn a_tenant_reads_its_own_audit_log_on_postgres() {
    let bridge = Bridge::http().postgres().await.start().await;
    let (alice, bob) = (bridge.caller("alice"), bridge.caller("bob").tenant(TENANT_B));
    let note = json!({ "kind": "note.taken", "body": { "text": "only for tenant A" } });
    alice.call_confirmed("cyberos.memory.append_audit", note).await.structured();
    let seen = bob.call("cyberos.memory.read_audit", json!({})).await;
    assert!(!seen.body.to_string().contains("only for tenant A"), "{:?}", seen.body);
    let seen = alice.call("cyberos.memory.read_audit", json!({})).await;
    assert!(seen.structured().to_string().contains("only for tenant A"));
}
