//! What the bridge stands on goes away and comes back: the memory service, Postgres.

use axum::Router;
use axum::routing::get;
use bridge_tests::gate::Gate;
use bridge_tests::postgres::Database;
use bridge_tests::{Bridge, Setup, TENANT_A};
use serde_json::json;
use std::time::Duration;

fn remembering_at(address: impl std::fmt::Display) -> Setup {
    Bridge::http().env("MEMORY_ENDPOINT", format!("http://{address}"))
}

#[tokio::test]
async fn a_memory_service_that_is_away_is_unavailable_and_no_bug_of_ours() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let bridge = remembering_at(nobody).start().await;
    let alice = bridge.caller("alice");
    let reading = alice.call("cyberos.memory.read_audit", json!({}));
    let appending = alice.call_confirmed("cyberos.memory.append_audit", json!({ "kind": "note.taken", "body": {} }));
    let (read, appended) = futures::join!(reading, appending);
    for reply in [read, appended] {
        reply.assert_code(-32001).assert_error("upstream_unavailable", "unreachable");
        assert!(!reply.body.to_string().contains(&nobody.to_string()), "no address: {:?}", reply.body);
    }
    // Everything else works.
    alice.call("cyberos.cuo.list_personas", json!({})).await.structured();
}

#[tokio::test]
async fn a_memory_service_that_never_answers_is_a_timeout() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let bridge = remembering_at(silent.local_addr().unwrap()).start().await;
    let holding = tokio::spawn(async move {
        let mut held = vec![];
        while let Ok((socket, _)) = silent.accept().await {
            held.push(socket);
        }
    });
    let reply = bridge.caller("alice").call("cyberos.memory.read_audit", json!({})).await;
    reply.assert_code(-32001).assert_error("upstream_unavailable", "timeout");
    holding.abort();
}

#[tokio::test]
async fn a_memory_service_that_answers_nonsense_is_a_bad_response() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = Router::new().route("/v1/audit", get(async || "<html>a proxy's page</html>"));
    tokio::spawn(async move { axum::serve(listener, app).await });
    let bridge = remembering_at(address).start().await;
    let reply = bridge.caller("alice").call("cyberos.memory.read_audit", json!({})).await;
    reply.assert_code(-32001).assert_error("upstream_unavailable", "bad_response");
    assert!(!reply.body.to_string().contains("proxy"), "{:?}", reply.body);
}

#[tokio::test]
async fn without_postgres_tasks_wait_and_short_tools_go_on() {
    // given
    let database = Database::migrated().await;
    let gate = Gate::before(&database).await;
    let url = database.url_through(gate.address);
    let bridge = Bridge::http().env("CYBEROS_DATABASE_URL", url).flag("--database-connections=4").start().await;
    let alice = bridge.caller("alice");
    let task = json!({ "persona": "chief-technology-officer", "workflow": "adr-quick-capture" });
    let before = alice.call("cyberos.cuo.execute_workflow", task.clone()).await.task_id();
    alice.follow(&before).await;
    // when
    gate.shut();
    // then: what needs the store says so
    let (call, ask) = futures::join!(alice.call("cyberos.cuo.execute_workflow", task.clone()), alice.task_get(&before));
    for reply in [call, ask] {
        let data = reply.assert_code(-32001).assert_error("upstream_unavailable", "store_unavailable");
        assert!(!format!("{data:?}").contains("postgres"), "{data:?}");
    }
    assert_eq!(bridge.get("/readyz").await.status, 503);
    assert_eq!(bridge.get("/healthz").await.status, 200);
    // and what only reads goes on
    for _ in 0..3 {
        alice.call("cyberos.cuo.list_personas", json!({})).await.structured();
    }
    // when it is back
    gate.open();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let after = alice.call("cyberos.cuo.execute_workflow", task).await.task_id();
    assert_eq!(alice.follow(&after).await["status"], "completed");
    assert_eq!(bridge.get("/readyz").await.status, 200);
    // then the rows of the calls in between are in the log, too
    let setup = bridge.setup.clone().on(database);
    let spooled = async || {
        let rows = bridge_tests::bridge::audit(&setup, TENANT_A).await;
        rows.iter()
            .filter(|row| row.kind == "mcp.tool_call_completed" && row.body["tool_name"] == "cyberos.cuo.list_personas")
            .count()
    };
    for _ in 0..200 {
        if spooled().await == 3 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{} of 3 rows came", spooled().await);
}
