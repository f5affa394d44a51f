//! Two bridges on one Postgres behind a proxy that sends each request to the next one: no client can tell.

use bridge_tests::bridge::tenant_id;
use bridge_tests::caller::Caller;
use bridge_tests::{Bridge, Recorder};
use cyberos_plugin_host::store::Letter;
use serde_json::{Value, json};
use std::time::Duration;

use crate::questions::GRANTS;

struct Pair {
    first: Bridge,
    second: Bridge,
    proxy: Recorder,
}

impl Pair {
    async fn start() -> Pair {
        let setup = Bridge::http().postgres().await.guests(&["guest_offers", "guest_misbehaves"], &grants());
        let (first, second) = futures::join!(setup.start(), setup.start());
        let proxy = Recorder::before(&[first.address(), second.address()]).await;
        Pair { first, second, proxy }
    }

    async fn client(&self, capabilities: Value) -> Caller<'_> {
        self.first.caller("alice").via(self.proxy.address).in_session(capabilities).await
    }

    /// The same client, straight to one of the two.
    fn at<'a>(&self, alice: &Caller<'a>, bridge: &Bridge) -> Caller<'a> {
        alice.clone().via(bridge.address())
    }
}

fn grants() -> String {
    format!("{GRANTS}[plugins.guest-misbehaves]\nany_tool_name = true\n")
}

fn asks() -> Value {
    json!({ "elicitation": {}, "sampling": {} })
}

fn steps(count: u32, ms: u64) -> Value {
    json!({ "name": "test.inline_steps", "arguments": { "steps": count, "ms": ms }, "_meta": { "progressToken": "p" } })
}

fn numbers(messages: &[Value]) -> Vec<i64> {
    messages.iter().filter_map(|m| m["params"]["progress"].as_f64()).map(|n| n as i64).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_that_one_replica_asks_is_answered_at_the_other() {
    let pair = Pair::start().await;
    let alice = pair.client(asks()).await;
    for (asked, answered) in [(&pair.first, &pair.second), (&pair.second, &pair.first), (&pair.first, &pair.first)] {
        let call = alice.message("tools/call", json!({ "name": "test.asks_form", "arguments": {} }));
        let mut events = pair.at(&alice, asked).open(&call).await;
        let question = events.message().await;
        // and not by somebody else, there either
        let forged = json!({ "action": "accept", "content": { "city": "forged", "express": true } });
        pair.second.caller("mallory").answer(&question, forged).await;
        let own = json!({ "action": "accept", "content": { "city": "own", "express": true } });
        pair.at(&alice, answered).answer(&question, own).await;
        let answer = events.rest().await.pop().unwrap();
        assert!(answer["result"]["structuredContent"]["says"].as_str().unwrap().contains("own"), "{answer:#}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_one_replica_began_is_read_on_at_the_other() {
    // given
    let pair = Pair::start().await;
    let alice = pair.client(json!({})).await;
    let mut events = pair.at(&alice, &pair.first).open(&alice.message("tools/call", steps(5, 250))).await;
    assert_eq!(events.message().await["params"]["progress"], 1.0);
    let last = events.last_id.clone().unwrap();
    drop(events);
    // when
    let mut there = pair.at(&alice, &pair.second).listen(Some(&last)).await;
    // then
    assert_eq!(there.message().await["params"]["progress"], 2.0);
    let last = there.last_id.clone().unwrap();
    drop(there);
    // and once more, back where it began
    let rest = pair.at(&alice, &pair.first).listen(Some(&last)).await.rest().await;
    assert_eq!(numbers(&rest), [3, 4, 5], "{rest:#?}");
    assert_eq!(rest.last().unwrap()["result"]["structuredContent"]["steps_executed"], 5);
    // and not by somebody else
    let mallory = pair.second.caller("mallory").in_session(json!({})).await;
    assert_eq!(mallory.listen(Some(&last)).await.status, 400);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_at_one_replica_is_cancelled_through_the_other() {
    let pair = Pair::start().await;
    let alice = pair.client(json!({})).await;
    let call = alice.message("tools/call", steps(200, 110));
    let mut events = pair.at(&alice, &pair.first).open(&call).await;
    events.message().await;
    pair.at(&alice, &pair.second).notify("notifications/cancelled", json!({ "requestId": call["id"] })).await;
    let messages = events.rest().await;
    assert!(messages.iter().all(|message| message.get("result").is_none()), "{messages:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_session_changed_at_one_replica_holds_at_the_other() {
    let pair = Pair::start().await;
    let alice = pair.client(json!({})).await;
    let (here, there) = (pair.at(&alice, &pair.first), pair.at(&alice, &pair.second));
    // Both have met the session before it changes.
    for replica in [&here, &there] {
        replica.request("ping", json!({})).await.result();
    }
    let logs = async |caller: &Caller<'_>| {
        let call = caller.message(
            "tools/call",
            json!({ "name": "test.logs", "arguments": { "level": "info", "message": "hello" } }),
        );
        caller.open(&call).await.is_stream()
    };
    assert!(logs(&there).await);
    here.request("logging/setLevel", json!({ "level": "error" })).await.result();
    eventually(async || !logs(&there).await).await;
    // and its end
    assert_eq!(here.ask("DELETE", &[], vec![]).await.status, 204);
    let ping = || json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }).to_string().into_bytes();
    eventually(async || there.post(ping()).await.status == 404).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_listens_at_one_replica_and_hears_of_what_happens_at_the_other() {
    // given
    let pair = Pair::start().await;
    let alice = pair.client(json!({})).await;
    let (here, there) = (pair.at(&alice, &pair.first), pair.at(&alice, &pair.second));
    let uris = here.request("resources/list", json!({})).await.result()["resources"].clone();
    let uri = uris[0]["uri"].clone();
    let mut older = here.listen(None).await;
    older.next().await.unwrap();
    let mut events = there.listen(None).await;
    events.next().await.unwrap();
    assert_eq!(older.next().await, None, "a session listens at one place");
    // when
    here.request("resources/subscribe", json!({ "uri": uri })).await.result();
    tokio::time::sleep(Duration::from_millis(200)).await;
    here.call("test.tells_updated", json!({ "uris": [uri] })).await.structured();
    // then
    let heard = events.message().await;
    let expected = json!({ "jsonrpc": "2.0", "method": "notifications/resources/updated", "params": { "uri": uri } });
    assert_eq!(heard, expected);
    // and nobody who did not subscribe, or may not read it
    let bob = pair.first.caller("bob").in_session(json!({})).await;
    let mut silent = bob.listen(None).await;
    silent.next().await.unwrap();
    here.request("resources/unsubscribe", json!({ "uri": uri })).await.result();
    tokio::time::sleep(Duration::from_millis(200)).await;
    here.call("test.tells_updated", json!({ "uris": [uri] })).await.structured();
    assert!(events.next_within(Duration::from_millis(300)).await.is_err());
    assert!(silent.next_within(Duration::from_millis(10)).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_word_of_an_older_stream_elsewhere_does_not_end_the_newer_one() {
    // given: a session that listens, and a replica at which it listened before
    let pair = Pair::start().await;
    let alice = pair.first.caller("alice");
    let opened = alice.initialize_with("2025-11-25", json!({})).await;
    let session = opened.headers["mcp-session-id"].to_str().unwrap().to_owned();
    let (tenant, subject) = alice.identity();
    let (tenant, key) = (tenant_id(tenant), format!("{tenant}/{session}/{subject}"));
    let store = pair.first.store().await;
    let before = store.shared_clock_us().await.unwrap();
    let word = async |at_us: i64| {
        let body = json!({ "kind": "listening", "key": key, "at_us": at_us });
        store.send_letter(&Letter { to: None, from: "0123456789ab".into(), tenant, body }).await.unwrap();
    };
    let mut events = alice.clone().header("mcp-session-id", &session).listen(None).await;
    events.next().await.unwrap();
    // when: its word comes late
    word(before).await;
    // then
    assert!(events.next_within(Duration::from_millis(500)).await.is_err(), "it was ended");
    // and word of a newer one ends it
    word(store.shared_clock_us().await.unwrap()).await;
    assert_eq!(events.next().await, None);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_alternate_between_replicas_are_one_conversation() {
    let pair = Pair::start().await;
    let alice = pair.client(asks()).await;
    let tools = alice.list().await.result()["tools"].as_array().unwrap().len();
    for _ in 0..4 {
        assert_eq!(alice.list().await.result()["tools"].as_array().unwrap().len(), tools);
    }
    let created = alice.call_as_task("test.long_task", json!({ "steps": 3, "ms": 100 })).await;
    let task = created.result()["task"]["taskId"].as_str().unwrap().to_owned();
    let result = alice.task_result(&task).await;
    assert_eq!(result.result()["structuredContent"]["steps_executed"], 3);
    let used: std::collections::BTreeSet<usize> = pair.proxy.exchanges().iter().map(|e| e.bridge).collect();
    assert_eq!(used.len(), 2, "both replicas were asked");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_of_any_size_is_read_at_the_other_replica() {
    let pair = Pair::start().await;
    let alice = pair.client(json!({})).await;
    // A string of quotes takes many times its size on its way.
    let text = "\"".repeat(200 << 10);
    let big = alice.message("tools/call", json!({ "name": "test.echoes", "arguments": { "text": text } }));
    let batch = json!([alice.message("tools/call", steps(3, 250)), big]);
    let mut events = pair.at(&alice, &pair.first).open(&batch).await;
    events.message().await;
    let last = events.last_id.clone().unwrap();
    drop(events);
    let messages = pair.at(&alice, &pair.second).listen(Some(&last)).await.rest().await;
    let answer = messages.iter().find(|message| message["id"] == big["id"]).expect("both answers");
    assert_eq!(answer["result"]["structuredContent"]["text"], text.as_str());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_through_which_streams_are_read_ends_without_them() {
    // given
    let pair = Pair::start().await;
    let alice = pair.client(json!({})).await;
    let (here, there) = (pair.at(&alice, &pair.first), pair.at(&alice, &pair.second));
    let mut listening = here.listen(None).await;
    listening.next().await.unwrap();
    let listened = listening.last_id.clone().unwrap();
    drop(listening);
    let mut through = there.listen(Some(&listened)).await;
    assert_eq!(through.status, 200);
    through.next().await.unwrap();
    // when
    pair.second.signal(rustix::process::Signal::TERM);
    // then
    assert!(pair.second.exit_within(Duration::from_secs(4)).await.success());
    assert_eq!(through.next().await, None);
    assert_eq!(here.listen(Some(&listened)).await.status, 200, "it is read on where it is");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_whose_replica_has_died_is_said_to_be_gone() {
    let pair = Pair::start().await;
    let alice = pair.client(json!({})).await;
    let mut events = pair.at(&alice, &pair.first).open(&alice.message("tools/call", steps(100, 200))).await;
    events.message().await;
    let last = events.last_id.clone().unwrap();
    pair.first.signal(rustix::process::Signal::KILL);
    let there = pair.at(&alice, &pair.second);
    let gone = there.listen(Some(&last)).await;
    assert_eq!(gone.status, 400);
    assert!(gone.text().await.contains("stream_not_found"));
    there.request("ping", json!({})).await.result();
}

async fn eventually(mut is_so: impl AsyncFnMut() -> bool) {
    for _ in 0..100 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("it did not come to be so in five seconds");
}
