//! Sessions over HTTP: what opens, carries and ends one, and that an id is worth nothing to anybody else.

use bridge_tests::reply::assert_complete;
use bridge_tests::{Bridge, TENANT_B};
use serde_json::{Value, json};
use uuid::Uuid;

#[track_caller]
fn assert_session_fault(answer: &bridge_tests::bridge::Answer, status: u16) {
    assert_eq!(answer.status, status, "{answer:?}");
    let body: Value = serde_json::from_str(&answer.text).expect("a JSON-RPC error");
    assert_eq!(assert_complete(&body["error"])["reason"], "session_not_found", "{body:#}");
}

fn ping() -> Vec<u8> {
    json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }).to_string().into_bytes()
}

#[tokio::test]
async fn initialize_opens_a_session_that_its_caller_can_use() {
    let bridge = Bridge::http().start().await;
    let opened = bridge.caller("alice").initialize().await;
    let id = opened.headers["mcp-session-id"].to_str().unwrap();
    assert_eq!(Uuid::parse_str(id).unwrap().get_version_num(), 8);
    let alice = bridge.caller("alice").header("mcp-session-id", id);
    alice.call("cyberos.cuo.list_personas", json!({})).await.structured();
    // and a plain call needs none
    bridge.caller("alice").call("cyberos.cuo.list_personas", json!({})).await.structured();
}

#[tokio::test]
async fn a_stolen_session_id_is_unknown_to_who_stole_it() {
    let bridge = Bridge::http().start().await;
    let opened = bridge.caller("alice").initialize().await;
    let id = opened.headers["mcp-session-id"].to_str().unwrap();
    for thief in [bridge.caller("bob"), bridge.caller("alice").tenant(TENANT_B)] {
        let thief = thief.header("mcp-session-id", id);
        assert_session_fault(&thief.post(ping()).await, 404);
        assert_session_fault(&thief.ask("GET", &[], vec![]).await, 404);
        assert_session_fault(&thief.ask("DELETE", &[], vec![]).await, 404);
    }
    let nobody = bridge.caller("alice").no_token().header("mcp-session-id", id);
    assert_eq!(nobody.call("cyberos.cuo.list_personas", json!({})).await.status, Some(401), "an id is no token");
    let alice = bridge.caller("alice").header("mcp-session-id", id);
    assert_eq!(alice.post(ping()).await.status, 200, "the thief's DELETE did nothing");
}

#[tokio::test]
async fn ids_that_are_none_get_400_and_unknown_ones_404() {
    let bridge = Bridge::http().start().await;
    for not_an_id in ["x", "1234", "00000000-0000-8000-8000-00000000000", "../../etc/passwd", &"a".repeat(4000)] {
        let alice = bridge.caller("alice").header("mcp-session-id", not_an_id);
        assert_session_fault(&alice.post(ping()).await, 400);
    }
    let made_up = bridge.caller("alice").header("mcp-session-id", &Uuid::new_v8([7; 16]).to_string());
    assert_session_fault(&made_up.post(ping()).await, 404);
    let old = bridge.caller("alice").header("mcp-session-id", &Uuid::new_v4().to_string());
    assert_session_fault(&old.post(ping()).await, 404);
}

#[tokio::test]
async fn a_deleted_session_is_gone() {
    let bridge = Bridge::http().start().await;
    let alice = bridge.caller("alice").in_session(json!({})).await;
    assert_eq!(alice.ask("DELETE", &[], vec![]).await.status, 204);
    assert_session_fault(&alice.post(ping()).await, 404);
    assert_session_fault(&alice.ask("DELETE", &[], vec![]).await, 404);
    // a new one is another one
    let again = bridge.caller("alice").in_session(json!({})).await;
    assert_eq!(again.post(ping()).await.status, 200);
}

#[tokio::test]
async fn get_and_delete_need_a_session() {
    let bridge = Bridge::http().start().await;
    let alice = bridge.caller("alice");
    for method in ["GET", "DELETE"] {
        let answer = alice.ask(method, &[], vec![]).await;
        assert_eq!(answer.status, 400, "{method}: {answer:?}");
        assert!(answer.text.contains("Mcp-Session-Id"), "{answer:?}");
    }
    let alice = alice.in_session(json!({})).await;
    let answer = bridge.ask("GET", "/mcp", &[("accept", "application/json")], vec![]).await;
    assert_eq!(answer.status, 406, "{answer:?}");
    assert_eq!(alice.listen(None).await.status, 200);
}

#[tokio::test]
async fn a_session_that_was_opened_before_signing_in_goes_on_with_a_token() {
    let bridge = Bridge::http().start().await;
    let opened = bridge.caller("alice").no_token().initialize().await;
    let id = opened.headers["mcp-session-id"].to_str().unwrap();
    let alice = bridge.caller("alice").header("mcp-session-id", id);
    alice.call("cyberos.cuo.list_personas", json!({})).await.structured();
}

#[tokio::test]
async fn the_log_level_is_the_sessions_own() {
    let bridge = Bridge::http().start().await;
    let alice = bridge.caller("alice").in_session(json!({})).await;
    alice.request("logging/setLevel", json!({ "level": "error" })).await.result();
    for bad in [json!({ "level": "loud" }), json!({ "level": 3 }), json!({})] {
        alice.request("logging/setLevel", bad).await.assert_code(-32602);
    }
    let without = bridge.caller("alice").request("logging/setLevel", json!({ "level": "error" })).await;
    without.assert_error("input_validation", "invalid_request");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_idle_sessions_cost_no_memory() {
    let bridge = Bridge::http().start().await;
    let alice = bridge.caller("alice");
    let open = async |count: usize| {
        for _ in 0..count / 50 {
            let init = alice.message("initialize", json!({
                "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "idle", "version": "1" },
            }));
            let body = init.to_string().into_bytes();
            let opened = futures::future::join_all((0..50).map(|_| alice.post(body.clone()))).await;
            assert!(opened.iter().all(|answer| answer.headers.contains_key("mcp-session-id")));
        }
    };
    open(1_000).await;
    let before = bridge.memory_kib("VmRSS");
    open(10_000).await;
    let grown = bridge.memory_kib("VmRSS").saturating_sub(before);
    eprintln!("10,000 idle sessions grew the process by {grown} KiB");
    assert!(grown < 10 << 10, "10,000 idle sessions grew the process by {grown} KiB");
}

#[tokio::test]
async fn initialize_within_a_session_opens_another_and_leaves_the_first_as_it_was() {
    // given
    let bridge = Bridge::http().start().await;
    let first = bridge.caller("alice").in_session(json!({})).await;
    // when
    let opened = first.initialize().await;
    // then
    let second = opened.headers["mcp-session-id"].to_str().unwrap();
    assert_eq!(bridge.caller("alice").header("mcp-session-id", second).post(ping()).await.status, 200);
    let answer = first.post(ping()).await;
    assert_eq!(answer.status, 200);
    assert!(!answer.headers.contains_key("mcp-session-id"), "a ping opens no session: {:?}", answer.headers);
}
