//! Both places behind the same interface, a service that misbehaves, and the outbox on its way.

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::{HeaderMap, StatusCode, Uri};
use jiff::Timestamp;
use serde_json::json;
use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use uuid::Uuid;

use super::*;
use crate::error::Reason;
use crate::model::TenantId;
use crate::store::{Durability, NewAuditRow, SqliteStore, TaskOwner};

const TOKEN: &str = "canary-token-77";

fn alice() -> Caller {
    let owner = TaskOwner { tenant: TenantId(Uuid::from_u128(7)), subject: "alice".into() };
    Caller::of_task(&owner, Some(BTreeSet::new()))
}

fn row(key: &str) -> Append {
    Append {
        caller: alice(),
        bearer: Some(Arc::new(SecretString::from(TOKEN))),
        kind: "note.added".into(),
        body: json!({ "private": "words of alice" }),
        trace: Trace::start(),
        idempotency_key: key.into(),
    }
}

fn query(limit: u32) -> ReadQuery {
    ReadQuery {
        caller: alice(),
        bearer: Some(Arc::new(SecretString::from(TOKEN))),
        actor: None,
        kind: None,
        since_seq: None,
        limit,
        trace: Trace::start(),
    }
}

async fn store() -> (tempfile::TempDir, Arc<dyn Store>) {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&directory.path().join("store.db")).await.unwrap();
    (directory, Arc::new(store))
}

/// A memory service that answers from a script (the last answer ever after) and keeps what it was sent.
#[derive(Clone, Default)]
struct Fake(Arc<Mutex<FakeState>>);

#[derive(Default)]
struct FakeState {
    script: Vec<Answer>,
    seen: Vec<Seen>,
}

#[derive(Clone)]
enum Answer {
    Reply(u16, Value),
    Wait(u64),
    Raw(&'static str),
    RetryAfter(u16, &'static str),
    Redirect(&'static str),
}

#[derive(Clone)]
struct Seen {
    headers: HashMap<String, String>,
    uri: String,
    body: Value,
}

impl Fake {
    async fn start(script: Vec<Answer>) -> (Fake, SocketAddr) {
        let fake = Fake::default();
        fake.0.lock().unwrap().script = script;
        let router = Router::new().route("/base/v1/audit", get(answer).post(answer)).with_state(fake.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        (fake, address)
    }
    fn seen(&self) -> Vec<Seen> {
        self.0.lock().unwrap().seen.clone()
    }
    fn script(&self, script: Vec<Answer>) {
        self.0.lock().unwrap().script = script;
    }
}

async fn answer(State(fake): State<Fake>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let answer = {
        let mut state = fake.0.lock().unwrap();
        let text = |v: &http::HeaderValue| v.to_str().unwrap().to_owned();
        let headers = headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
        let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
        state.seen.push(Seen { headers, uri: uri.to_string(), body });
        if state.script.len() > 1 { state.script.remove(0) } else { state.script[0].clone() }
    };
    let status = |code: u16| StatusCode::from_u16(code).unwrap();
    match answer {
        Answer::Reply(code, value) => (status(code), value.to_string()).into_response(),
        Answer::Wait(ms) => {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            StatusCode::OK.into_response()
        }
        Answer::Raw(text) => text.into_response(),
        Answer::RetryAfter(code, seconds) => (status(code), [("retry-after", seconds)]).into_response(),
        Answer::Redirect(to) => (StatusCode::TEMPORARY_REDIRECT, [("location", to)]).into_response(),
    }
}

fn at(seq: i64) -> Answer {
    Answer::Reply(201, json!({ "seq": seq, "chain_anchor": "ab".repeat(32), "prev_anchor": "00".repeat(32) }))
}

fn settings(address: SocketAddr) -> RestSettings {
    RestSettings {
        attempt_timeout: Duration::from_millis(400),
        retry_after: [10, 20, 40].map(Duration::from_millis).to_vec(),
        ..RestSettings::at(&format!("http://{address}/base/")).unwrap()
    }
}

fn remote(address: SocketAddr) -> Memory {
    Memory::Remote { service: Arc::new(RestMemory::new(settings(address)).unwrap()), wake: Arc::default() }
}

#[tokio::test]
async fn an_embedded_append_is_a_row_of_the_caller_and_its_key_counts_once() {
    let (_directory, store) = store().await;
    let memory = Memory::embedded(store);
    let first = memory.append(row("k1")).await.unwrap();
    let again = memory.append(row("k1")).await.unwrap();
    let second = memory.append(row("k2")).await.unwrap();
    assert_eq!(first, again);
    assert_eq!((first.seq, second.seq, &second.prev_anchor), (1, 2, &first.chain_anchor));

    let mut other = row("k1");
    other.body = json!({ "other": 1 });
    assert_eq!(memory.append(other).await.unwrap_err().reason(), Reason::InvalidRequest);

    let page = memory.read(query(1)).await.unwrap();
    assert_eq!(page["next_since_seq"], 1);
    let shown = &page["rows"][0];
    assert_eq!(
        (&shown["actor_id"], &shown["kind"], &shown["body"]["private"]),
        (&json!("alice"), &json!("note.added"), &json!("words of alice"))
    );
    assert_eq!(shown["tenant_id"], alice().tenant().to_string());

    let last = memory.read(ReadQuery { since_seq: Some(1), ..query(1) }).await.unwrap();
    assert_eq!((last["rows"][0]["seq"].as_i64(), &last["next_since_seq"]), (Some(2), &Value::Null));
    let nobody = memory.read(ReadQuery { actor: Some("bob".into()), ..query(10) }).await.unwrap();
    assert_eq!(nobody, json!({ "rows": [], "next_since_seq": null }));
    let stranger = ReadQuery { caller: Caller::local(), ..query(10) };
    assert_eq!(memory.read(stranger).await.unwrap()["rows"], json!([]), "rows of another tenant");
}

#[tokio::test]
async fn a_page_of_large_rows_ends_early_and_says_where_to_go_on() {
    let (_directory, store) = store().await;
    let memory = Memory::embedded(store);
    for n in 0..12 {
        let large = Append { body: json!({ "text": "x".repeat(60 << 10) }), ..row(&format!("k{n}")) };
        memory.append(large).await.unwrap();
    }
    let (mut seen, mut since) = (0, None);
    loop {
        let page = memory.read(ReadQuery { since_seq: since, ..query(1000) }).await.unwrap();
        assert!(page.to_string().len() <= MAX_PAGE_BYTES + 1024);
        seen += page["rows"].as_array().unwrap().len();
        since = page["next_since_seq"].as_i64();
        if since.is_none() {
            break;
        }
    }
    assert_eq!(seen, 12);
}

#[tokio::test]
async fn a_remote_append_speaks_the_contract_as_the_caller() {
    let (fake, address) = Fake::start(vec![at(41)]).await;
    let sent = row("key-1");
    let traceparent = sent.trace.traceparent();
    assert_eq!(remote(address).append(sent).await.unwrap().seq, 41);
    let seen = &fake.seen()[0];
    assert_eq!(seen.headers["idempotency-key"], "key-1");
    assert_eq!(seen.headers["authorization"], format!("Bearer {TOKEN}"));
    assert_eq!(seen.headers["traceparent"], traceparent);
    let expected = json!({
        "kind": "note.added", "actor_id": "alice", "tenant_id": alice().tenant(),
        "body": { "private": "words of alice" },
    });
    assert_eq!(seen.body, expected);
}

#[tokio::test]
async fn a_remote_read_passes_the_filter_on_and_returns_the_page() {
    let tenant = alice().tenant();
    let page =
        json!({ "rows": [{ "seq": 3, "tenant_id": tenant }, { "seq": 5, "tenant_id": tenant }], "next_since_seq": 5 });
    let (fake, address) = Fake::start(vec![Answer::Reply(200, page.clone())]).await;
    let query =
        ReadQuery { actor: Some("a&b".into()), kind: Some("note.added".into()), since_seq: Some(2), ..query(2) };
    assert_eq!(remote(address).read(query).await.unwrap(), page);
    assert_eq!(fake.seen()[0].uri, "/base/v1/audit?limit=2&actor=a%26b&kind=note.added&since_seq=2");
}

#[tokio::test]
async fn what_may_work_later_is_repeated_with_the_same_key_and_the_rest_is_not() {
    for (failure, attempts) in [
        (Answer::Reply(503, json!({})), 2),
        (Answer::Reply(500, json!({})), 2),
        (Answer::RetryAfter(429, "0"), 2),
        (Answer::Wait(1500), 2),
        (Answer::Reply(400, json!({})), 1),
        (Answer::Reply(401, json!({})), 1),
        (Answer::Reply(404, json!({})), 1),
        (Answer::Reply(409, json!({})), 1),
        (Answer::Redirect("/elsewhere"), 1),
        (Answer::RetryAfter(429, "60"), 1),
    ] {
        let (fake, address) = Fake::start(vec![failure, at(1)]).await;
        let outcome = remote(address).append(row("same")).await;
        let seen = fake.seen();
        assert_eq!((outcome.is_ok(), seen.len()), (attempts == 2, attempts), "{outcome:?}");
        assert!(seen.iter().all(|seen| seen.headers["idempotency-key"] == "same"));
    }
}

#[tokio::test]
async fn every_failure_has_its_reason_and_none_repeats_the_row_or_the_token() {
    let gossip = json!({ "error": "words of alice", "token": TOKEN });
    for (answer, reason) in [
        (Answer::Reply(500, gossip.clone()), Reason::Unreachable),
        (Answer::Reply(503, gossip.clone()), Reason::Unreachable),
        (Answer::Wait(1500), Reason::Timeout),
        (Answer::Reply(200, gossip.clone()), Reason::BadResponse),
        (Answer::Reply(200, json!({ "seq": -1, "chain_anchor": "a", "prev_anchor": "b" })), Reason::BadResponse),
        (Answer::Raw("<html>words of alice"), Reason::BadResponse),
        (Answer::Reply(204, gossip.clone()), Reason::BadResponse),
        (Answer::Reply(404, gossip.clone()), Reason::BadResponse),
        (Answer::Reply(401, gossip.clone()), Reason::TokenInvalid),
        (Answer::Reply(403, gossip.clone()), Reason::InsufficientScope),
        (Answer::Reply(409, gossip.clone()), Reason::InvalidRequest),
        (Answer::Reply(413, gossip.clone()), Reason::PayloadTooLarge),
        (Answer::Reply(422, gossip.clone()), Reason::InvalidParams),
        (Answer::RetryAfter(429, "60"), Reason::RateLimited),
    ] {
        let (_fake, address) = Fake::start(vec![answer]).await;
        let error = remote(address).append(row("k")).await.unwrap_err();
        assert_eq!(error.reason(), reason, "{error:?}");
        for secret in [TOKEN, "words of alice", "127.0.0.1"] {
            let public = serde_json::to_string(&error.public_view(&Trace::start().id)).unwrap();
            assert!(!public.contains(secret), "{public}");
        }
        assert!(!format!("{error:?}").contains(TOKEN));
    }
    let (_fake, address) = Fake::start(vec![Answer::Reply(401, json!({}))]).await;
    let tokenless = Append { bearer: None, ..row("k") };
    assert_eq!(remote(address).append(tokenless).await.unwrap_err().reason(), Reason::TokenMissing);
}

#[tokio::test]
async fn a_service_that_is_not_there_is_unreachable() {
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    assert_eq!(remote(free).append(row("k")).await.unwrap_err().reason(), Reason::Unreachable);
    assert_eq!(remote(free).read(query(1)).await.unwrap_err().reason(), Reason::Unreachable);
}

#[tokio::test]
async fn a_page_with_foreign_disordered_or_too_many_rows_reaches_nobody() {
    let tenant = alice().tenant();
    let other = TenantId(Uuid::from_u128(8));
    for rows in [
        json!([{ "seq": 1, "tenant_id": tenant }, { "seq": 2, "tenant_id": other }]),
        json!([{ "seq": 1 }]),
        json!([{ "seq": 2, "tenant_id": tenant }, { "seq": 1, "tenant_id": tenant }]),
        json!([{ "tenant_id": tenant }]),
        json!([1, 2, 3].map(|seq| json!({ "seq": seq, "tenant_id": tenant }))),
        json!("rows"),
    ] {
        let (_fake, address) =
            Fake::start(vec![Answer::Reply(200, json!({ "rows": rows, "next_since_seq": null }))]).await;
        let error = remote(address).read(query(2)).await.unwrap_err();
        assert_eq!(error.reason(), Reason::BadResponse, "{rows}");
    }
}

#[test]
fn an_endpoint_that_cannot_work_is_told_at_the_start() {
    for bad in
        ["", "memory", "ftp://m.example", "https://u:p@m.example", "https://m.example/?x=1", "https://m.example/#x"]
    {
        assert!(RestSettings::at(bad).is_err(), "{bad}");
    }
    assert!(RestSettings::at("http://10.0.0.7:7800/api").is_ok());
}

// The shipper.

struct Shipping {
    _directory: tempfile::TempDir,
    store: Arc<dyn Store>,
    fake: Fake,
    wake: Arc<Notify>,
    stop: CancellationToken,
    events: Arc<Mutex<Vec<ShipEvent>>>,
    worker: tokio::task::JoinHandle<()>,
}

/// `waits_ms`: the retry schedule; `give_up_ms`: the age at which a row may be given up.
async fn shipping(script: Vec<Answer>, waits_ms: &[u64], give_up_ms: u64) -> Shipping {
    let (directory, store) = store().await;
    let (fake, address) = Fake::start(script).await;
    let (wake, stop, events) = (Arc::new(Notify::new()), CancellationToken::new(), Arc::new(Mutex::new(Vec::new())));
    let told = events.clone();
    let settings = ShipperSettings {
        service_token: Some(SecretString::from("service-token")),
        poll: Duration::from_millis(20),
        hold: Duration::from_secs(4),
        waits: waits_ms.iter().map(|ms| Duration::from_millis(*ms)).collect(),
        give_up_after: Duration::from_millis(give_up_ms),
        on_event: Arc::new(move |event| told.lock().unwrap().push(event)),
    };
    let service = Arc::new(RestMemory::new(self::settings(address)).unwrap());
    let shipper = Shipper::new(store.clone(), service, wake.clone(), settings);
    let worker = tokio::spawn(shipper.run(stop.clone()));
    Shipping { _directory: directory, store, fake, wake, stop, events, worker }
}

impl Shipping {
    async fn put(&self, tenant: u128, kinds: &[&str]) {
        let rows: Vec<_> = kinds
            .iter()
            .map(|kind| NewAuditRow {
                tenant: TenantId(Uuid::from_u128(tenant)),
                kind: (*kind).to_owned(),
                actor: "5ab1ec70".into(),
                body: json!({}).into(),
                ts: Timestamp::now(),
                trace_id: "4bf92f3577b34da6a3ce929d0e0e4736".into(),
                idempotency_key: Some(format!("{tenant}-{kind}")),
                ship: true,
            })
            .collect();
        self.store.append_audit(&rows, Durability::Written).await.unwrap();
        self.wake.notify_one();
    }

    async fn until(&self, depth: (u64, u64)) {
        let patience = Instant::now() + Duration::from_secs(20);
        loop {
            let now = self.store.outbox_depth().await.unwrap();
            if now == depth {
                return;
            }
            assert!(Instant::now() < patience, "the outbox stays at {now:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    fn kinds(&self) -> Vec<String> {
        self.fake.seen().iter().map(|seen| seen.body["kind"].as_str().unwrap().to_owned()).collect()
    }

    async fn end(self) -> Vec<ShipEvent> {
        self.stop.cancel();
        tokio::time::timeout(Duration::from_secs(5), self.worker).await.expect("it stops").unwrap();
        self.events.lock().unwrap().clone()
    }
}

#[tokio::test]
async fn rows_are_shipped_in_order_with_their_keys_traces_and_the_service_token() {
    let shipping = shipping(vec![at(1)], &[10], 60_000).await;
    shipping.put(1, &["a", "b", "c"]).await;
    shipping.until((0, 0)).await;
    assert_eq!(shipping.kinds(), ["a", "b", "c"]);
    let seen = shipping.fake.seen();
    assert_eq!(seen[1].headers["idempotency-key"], "1-b");
    assert_eq!(seen[1].headers["authorization"], "Bearer service-token");
    assert!(seen[1].headers["traceparent"].starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-"));
    assert_eq!(seen[1].body["actor_id"], "5ab1ec70");
    assert_eq!(shipping.end().await, [ShipEvent::Shipped; 3]);
}

#[tokio::test]
async fn a_remote_memory_ships_the_outbox_by_itself_and_at_once_when_told() {
    let (fake, address) = Fake::start(vec![at(1)]).await;
    let (_directory, store) = store().await;
    let stop = CancellationToken::new();
    let memory =
        Memory::remote(&format!("http://{address}/base"), None, store.clone(), stop.clone(), Arc::new(|_| {})).unwrap();
    // given a shipper that has just looked, and found nothing
    tokio::time::sleep(Duration::from_millis(200)).await;
    let row = NewAuditRow {
        tenant: TenantId::LOCAL,
        kind: "a".into(),
        actor: "5ab1ec70".into(),
        body: json!({}).into(),
        ts: Timestamp::now(),
        trace_id: "4bf92f3577b34da6a3ce929d0e0e4736".into(),
        idempotency_key: None,
        ship: true,
    };
    store.append_audit(&[row], Durability::Written).await.unwrap();
    // when it is told
    let told = Instant::now();
    memory.outbox_filled();
    // then the row is there long before the next look, without a token, under a key of its own
    while fake.seen().is_empty() {
        assert!(told.elapsed() < Duration::from_millis(700), "the shipper did not wake up");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let seen = fake.seen();
    assert!(!seen[0].headers.contains_key("authorization"));
    assert!(seen[0].headers["idempotency-key"].len() >= 32);
    stop.cancel();
}

#[tokio::test]
async fn a_failing_row_is_tried_again_before_the_rows_behind_it() {
    let down = Answer::Reply(503, json!({}));
    let shipping = shipping(vec![down.clone(), down, at(1)], &[10, 20], 60_000).await;
    shipping.put(1, &["a", "b"]).await;
    shipping.until((0, 0)).await;
    assert_eq!(shipping.kinds(), ["a", "a", "a", "b"]);
    assert_eq!(shipping.end().await.iter().filter(|event| **event == ShipEvent::Retried).count(), 2);
}

#[tokio::test]
async fn a_rejected_row_is_given_up_at_once_and_the_next_one_goes_out() {
    let shipping = shipping(vec![Answer::Reply(422, json!({})), at(1)], &[10], 60_000).await;
    shipping.put(1, &["bad", "good"]).await;
    shipping.until((0, 1)).await;
    assert_eq!(shipping.kinds(), ["bad", "good"]);
    assert_eq!(shipping.end().await, [ShipEvent::GivenUp, ShipEvent::Shipped]);
}

#[tokio::test]
async fn a_row_is_given_up_when_its_tries_and_its_time_are_over() {
    let shipping = shipping(vec![Answer::Reply(503, json!({}))], &[10, 20], 1).await;
    shipping.put(1, &["a"]).await;
    shipping.until((0, 1)).await;
    assert_eq!(shipping.kinds(), ["a", "a", "a"]);
    assert_eq!(shipping.end().await, [ShipEvent::Retried, ShipEvent::Retried, ShipEvent::GivenUp]);
}

#[tokio::test]
async fn one_tenants_trouble_is_not_anothers() {
    // given tenant 1 whose row the service cannot take for a long while
    let shipping = shipping(vec![Answer::Reply(503, json!({})), at(1)], &[60_000], 600_000).await;
    shipping.put(1, &["stuck", "behind"]).await;
    while shipping.fake.seen().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // when another tenant has a row
    shipping.put(2, &["free"]).await;
    // then that goes out, and the first tenant's second row still waits its turn
    shipping.until((2, 0)).await;
    assert_eq!(shipping.kinds(), ["stuck", "free"]);
    shipping.end().await;
}

#[tokio::test]
async fn stopping_finishes_the_row_in_flight_and_sends_no_other() {
    let shipping = shipping(vec![Answer::Wait(200), at(1)], &[60_000], 600_000).await;
    shipping.put(1, &["a", "b"]).await;
    while shipping.fake.seen().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let fake = shipping.fake.clone();
    fake.script(vec![at(1)]);
    let events = shipping.end().await;
    assert_eq!((fake.seen().len(), events.len()), (1, 1));
}
