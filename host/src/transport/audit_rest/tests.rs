//! The contract as a client meets it: real tokens, a real store, requests through the router.

use axum::response::Response;
use http::Request;
use http::header::{AUTHORIZATION, CONTENT_TYPE, WWW_AUTHENTICATE};
use secrecy::ExposeSecret;
use serde_json::Value;
use std::time::Duration;
use tower::ServiceExt;
use uuid::Uuid;

use super::*;
use crate::auth::{AuthMode, AuthSettings, Clock, Issuer, MintRequest};
use crate::model::TenantId;
use crate::store::SqliteStore;

const AUDIENCE: &str = "http://127.0.0.1:8082/mcp";
const KEY: &str = "idempotency-key";

struct Bench {
    _directory: tempfile::TempDir,
    issuer: Issuer,
    store: Arc<dyn Store>,
    router: Router,
}

fn tenant(n: u128) -> TenantId {
    TenantId(Uuid::from_u128(n))
}

impl Bench {
    async fn start(mode: AuthMode) -> Bench {
        let directory = tempfile::tempdir().unwrap();
        let issuer = Issuer::open_or_create(directory.path(), Clock::system()).unwrap();
        let settings = AuthSettings {
            mode,
            audiences: vec![AUDIENCE.into()],
            dev_issuer: Some(issuer.key_source()),
            ..AuthSettings::default()
        };
        let identifier = Arc::new(Identifier::new(&settings, Clock::system()).unwrap());
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&directory.path().join("store.db")).await.unwrap());
        let router = router(store.clone(), identifier);
        Bench { _directory: directory, issuer, store, router }
    }

    fn token(&self, of: u128, subject: &str, scopes: &[&str]) -> String {
        let request = MintRequest {
            tenant: tenant(of),
            subject: subject.into(),
            scopes: scopes.iter().map(|scope| scope.to_string()).collect(),
            audience: AUDIENCE.into(),
            ttl: Duration::from_secs(60),
        };
        format!("Bearer {}", self.issuer.mint(&request).unwrap().expose_secret())
    }

    async fn send(&self, request: Request<String>) -> (u16, Value, Option<String>) {
        let request = request.map(axum::body::Body::from);
        let response: Response = self.router.clone().oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let challenge = response.headers().get(WWW_AUTHENTICATE).map(|value| value.to_str().unwrap().to_owned());
        let body = axum::body::to_bytes(response.into_body(), 1 << 24).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap_or(Value::Null), challenge)
    }

    async fn post(&self, token: &str, key: &str, row: &Value) -> (u16, Value) {
        let (status, body, _) = self.send(post_request(token, key, row.to_string())).await;
        (status, body)
    }

    async fn get(&self, token: &str, query: &str) -> (u16, Value) {
        let request = Request::get(format!("/v1/audit{query}")).header(AUTHORIZATION, token);
        let (status, body, _) = self.send(request.body(String::new()).unwrap()).await;
        (status, body)
    }
}

fn post_request(token: &str, key: &str, body: String) -> Request<String> {
    Request::post("/v1/audit")
        .header(AUTHORIZATION, token)
        .header(CONTENT_TYPE, "application/json")
        .header(KEY, key)
        .body(body)
        .unwrap()
}

#[tokio::test]
async fn a_row_is_appended_once_per_key_and_read_back_by_its_tenant_alone() {
    // given
    let bench = Bench::start(AuthMode::Bearer).await;
    let alice = bench.token(1, "alice", &[READ, WRITE]);
    let bob = bench.token(2, "bob", &[READ, WRITE]);
    let row = json!({ "kind": "note.added", "body": { "b": 1, "a": [2] } });
    // when
    let (status, first) = bench.post(&alice, "k1", &row).await;
    // then
    assert_eq!((status, first["seq"].as_i64()), (201, Some(1)), "{first}");
    let spelled =
        json!({ "kind": "note.added", "body": { "a": [2], "b": 1 }, "actor_id": "alice", "tenant_id": tenant(1) });
    assert_eq!(bench.post(&alice, "k1", &spelled).await, (200, first.clone()), "the same row, spelt otherwise");
    let (status, conflict) = bench.post(&alice, "k1", &json!({ "kind": "note.added", "body": {} })).await;
    assert_eq!((status, &conflict["class"]), (409, &json!("input_validation")));
    let (_, second) = bench.post(&alice, "k2", &row).await;
    assert_eq!((&second["seq"], &second["prev_anchor"]), (&json!(2), &first["chain_anchor"]));
    assert_eq!(bench.post(&bob, "k1", &row).await.0, 201, "keys are a tenant's own");

    let (_, page) = bench.get(&alice, "?limit=1").await;
    assert_eq!((&page["rows"][0]["actor_id"], &page["next_since_seq"]), (&json!("alice"), &json!(1)));
    let (_, page) = bench.get(&alice, "?limit=1&since_seq=1&kind=note.added&actor=alice").await;
    assert_eq!((&page["rows"][0]["seq"], &page["next_since_seq"]), (&json!(2), &Value::Null));
    let (_, page) = bench.get(&bob, "").await;
    assert_eq!((page["rows"].as_array().unwrap().len(), &page["rows"][0]["actor_id"]), (1, &json!("bob")));
}

#[tokio::test]
async fn without_a_good_token_or_scope_nothing_is_done_and_the_client_learns_what_to_bring() {
    let bench = Bench::start(AuthMode::Bearer).await;
    let row = json!({ "kind": "note.added", "body": {} }).to_string();
    let anonymous = Request::post("/v1/audit").body(row.clone()).unwrap();
    let (status, body, challenge) = bench.send(anonymous).await;
    assert_eq!((status, &body["reason"], &body["class"]), (401, &json!("token_missing"), &json!("authz_denied")));
    assert!(challenge.unwrap().starts_with("Bearer"));
    assert!(body["hint"].as_str().unwrap().len() > 15 && body["trace_id"].as_str().unwrap().len() == 32);

    let (status, body, challenge) = bench.send(post_request("Bearer x.y.z", "k", row.clone())).await;
    assert_eq!((status, &body["reason"]), (401, &json!("token_invalid")));
    assert!(challenge.unwrap().contains("invalid_token"));

    let reader = bench.token(1, "alice", &[READ]);
    let (status, body, challenge) = bench.send(post_request(&reader, "k", row)).await;
    assert_eq!((status, &body["missing_scopes"]), (403, &json!([WRITE])));
    assert!(challenge.unwrap().contains("insufficient_scope"));
    assert_eq!(bench.get(&bench.token(1, "alice", &[WRITE]), "").await.0, 403);
    assert_eq!(bench.get(&reader, "").await.1["rows"], json!([]));
}

#[tokio::test]
async fn nobody_writes_for_another_actor_or_tenant_or_forges_the_bridges_own_rows() {
    let bench = Bench::start(AuthMode::Bearer).await;
    let alice = bench.token(1, "alice", &[READ, WRITE]);
    for claim in [json!({ "tenant_id": tenant(2) }), json!({ "actor_id": "bob" })] {
        let mut row = json!({ "kind": "note.added", "body": {} });
        row.as_object_mut().unwrap().extend(claim.as_object().unwrap().clone());
        let (status, body) = bench.post(&alice, "k", &row).await;
        assert_eq!((status, &body["class"]), (403, &json!("authz_denied")), "{claim}");
    }
    for kind in ["mcp.tool_call_started", "plugin.invoked"] {
        assert_eq!(bench.post(&alice, "k", &json!({ "kind": kind, "body": {} })).await.0, 422, "{kind}");
    }
    assert_eq!(bench.get(&alice, "").await.1["rows"], json!([]));
    assert_eq!(bench.get(&bench.token(2, "bob", &[READ]), "").await.1["rows"], json!([]));
}

#[tokio::test]
async fn a_bridge_with_the_shipping_scope_delivers_other_peoples_rows() {
    let bench = Bench::start(AuthMode::Bearer).await;
    let bridge = bench.token(9, "bridge", &[WRITE, SHIP]);
    let row = json!({ "kind": "mcp.tool_call_started", "body": {}, "actor_id": "5ab1ec70", "tenant_id": tenant(1) });
    assert_eq!(bench.post(&bridge, "k", &row).await.0, 201);
    let (_, page) = bench.get(&bench.token(1, "alice", &[READ]), "").await;
    assert_eq!(page["rows"][0]["actor_id"], "5ab1ec70");
}

#[tokio::test]
async fn the_local_principal_writes_one_tenant_only() {
    let bench = Bench::start(AuthMode::None).await;
    let row = |tenant: TenantId| json!({ "kind": "mcp.tool_call_started", "body": {}, "actor_id": "5ab1ec70", "tenant_id": tenant });
    assert_eq!(bench.post("", "k", &row(TenantId::LOCAL)).await.0, 201);
    assert_eq!(bench.post("", "k", &row(tenant(1))).await.0, 403);
}

#[tokio::test]
async fn a_wrong_request_says_what_is_wrong_and_repeats_nothing_of_it() {
    let bench = Bench::start(AuthMode::Bearer).await;
    let alice = bench.token(1, "alice", &[READ, WRITE]);
    let large = json!({ "kind": "a", "body": { "x": "canary".repeat(11_000) } }).to_string();
    let huge = json!({ "kind": "a", "body": { "x": "canary".repeat(20_000) } }).to_string();
    for (body, expected) in [
        ("canary{".to_owned(), 422),
        ("[]".into(), 422),
        (r#"{"kind":"a"}"#.into(), 422),
        (r#"{"kind":"a","body":"canary"}"#.into(), 422),
        (r#"{"kind":"Canary Kind","body":{}}"#.into(), 422),
        (r#"{"kind":"","body":{}}"#.into(), 422),
        (r#"{"kind":"a","body":{},"canary":1}"#.into(), 422),
        (r#"{"kind":"a","body":{},"actor_id":""}"#.into(), 422),
        (r#"{"kind":"a","body":{},"tenant_id":"canary"}"#.into(), 422),
        (large, 413),
        (huge, 413),
    ] {
        let (status, answer, _) = bench.send(post_request(&alice, "k", body.clone())).await;
        let start: String = body.chars().take(60).collect();
        assert_eq!((status, &answer["class"]), (expected, &json!("input_validation")), "{start}: {answer}");
        assert!(!answer.to_string().to_lowercase().contains("canary"), "{answer}");
        assert!(answer["message"].is_string() && answer["hint"].is_string() && answer["reason"].is_string());
    }
    let row = r#"{"kind":"a","body":{}}"#.to_owned();
    for key in ["", "with space", &"k".repeat(256)] {
        assert_eq!(bench.send(post_request(&alice, key, row.clone())).await.0, 422, "{key:?}");
    }
    let mut plain = post_request(&alice, "k", row);
    plain.headers_mut().insert(CONTENT_TYPE, "text/plain".parse().unwrap());
    assert_eq!(bench.send(plain).await.0, 415);
    for query in ["?limit=0", "?limit=1001", "?limit=x", "?since_seq=-1", "?sinceseq=1", "?kind=a&kind=b"] {
        assert_eq!(bench.get(&alice, query).await.0, 422, "{query}");
    }
    assert_eq!(bench.get(&alice, "").await.1["rows"], json!([]), "nothing was appended");
}

#[tokio::test]
async fn a_trace_goes_on_into_the_row_and_a_store_out_of_reach_is_503() {
    let bench = Bench::start(AuthMode::Bearer).await;
    let alice = bench.token(1, "alice", &[READ, WRITE]);
    let row = json!({ "kind": "a", "body": {} }).to_string();
    let mut request = post_request(&alice, "k", row.clone());
    let traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    request.headers_mut().insert("traceparent", traceparent.parse().unwrap());
    assert_eq!(bench.send(request).await.0, 201);
    assert_eq!(bench.get(&alice, "").await.1["rows"][0]["trace_id"], "4bf92f3577b34da6a3ce929d0e0e4736");

    bench.store.close().await;
    let (status, body, _) = bench.send(post_request(&alice, "k2", row)).await;
    assert_eq!((status, &body["reason"]), (503, &json!("store_unavailable")));
    assert_eq!(bench.get(&alice, "").await.0, 503);
}
