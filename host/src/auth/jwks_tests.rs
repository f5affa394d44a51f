//! Key sets against a real HTTP server that counts, and changes its mind.

use axum::http::StatusCode;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex as SyncMutex};
use url::Url;

use super::super::clock::TestClock;
use super::super::settings::{AuthSettings, IssuerSettings};
use super::super::test_keys::{AUDIENCE, ISSUER, TestKey, claims, key_set};
use super::super::token::Verifier;
use super::*;

/// Serves one document, or a failure, and counts how often it was asked.
#[derive(Clone)]
struct KeyServer {
    url: Url,
    answer: Arc<SyncMutex<(StatusCode, String)>>,
    asked: Arc<AtomicUsize>,
}

impl KeyServer {
    async fn start(document: &Value) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = KeyServer {
            url: Url::parse(&format!("http://{}/jwks", listener.local_addr().unwrap())).unwrap(),
            answer: Arc::new(SyncMutex::new((StatusCode::OK, document.to_string()))),
            asked: Arc::default(),
        };
        let this = server.clone();
        let answer = move || {
            let this = this.clone();
            async move {
                this.asked.fetch_add(1, Ordering::SeqCst);
                this.answer.lock().unwrap().clone()
            }
        };
        let elsewhere = || async { axum::response::Redirect::temporary("/jwks") };
        let app = axum::Router::new()
            .route("/jwks", axum::routing::get(answer))
            .route("/moved", axum::routing::get(elsewhere));
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        server
    }

    fn now_serves(&self, document: &Value) {
        *self.answer.lock().unwrap() = (StatusCode::OK, document.to_string());
    }
    fn now_fails(&self) {
        *self.answer.lock().unwrap() = (StatusCode::SERVICE_UNAVAILABLE, "down".into());
    }
    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    fn verifier(&self, clock: &TestClock) -> Verifier {
        verifier_from(KeySource::Url(self.url.clone()), clock)
    }
}

fn verifier_from(keys: KeySource, clock: &TestClock) -> Verifier {
    let settings = AuthSettings {
        issuers: vec![IssuerSettings { issuer: ISSUER.into(), keys }],
        audiences: vec![AUDIENCE.into()],
        ..AuthSettings::default()
    };
    Verifier::new(&settings, clock.clock()).unwrap()
}

/// A token that no earlier call can have left in memory.
fn fresh_token(key: &TestKey, clock: &TestClock) -> String {
    let mut claims = claims(clock);
    claims["jti"] = uuid::Uuid::new_v4().to_string().into();
    key.sign(&claims)
}

#[tokio::test]
async fn keys_are_fetched_once_for_many_callers_and_again_after_five_minutes() {
    let clock = TestClock::start();
    let key = TestKey::eddsa("k");
    let server = KeyServer::start(&key_set(&[&key])).await;
    let verifier = server.verifier(&clock);
    let tokens: Vec<_> = (0..20).map(|_| fresh_token(&key, &clock)).collect();
    let all = futures::future::join_all(tokens.iter().map(|token| verifier.verify(token))).await;
    assert!(all.iter().all(Result::is_ok));
    assert_eq!(server.asked(), 1);
    clock.advance(239);
    assert!(verifier.verify(&fresh_token(&key, &clock)).await.is_ok());
    assert_eq!(server.asked(), 1);
    clock.advance(61);
    assert!(verifier.verify(&fresh_token(&key, &clock)).await.is_ok());
    assert_eq!(server.asked(), 2);
}

#[tokio::test]
async fn unknown_keys_cannot_start_a_fetch_storm() {
    let clock = TestClock::start();
    let (known, unknown) = (TestKey::eddsa("known"), TestKey::eddsa("unknown"));
    let server = KeyServer::start(&key_set(&[&known])).await;
    let verifier = server.verifier(&clock);
    assert!(verifier.verify(&fresh_token(&known, &clock)).await.is_ok());
    clock.advance(31);
    for _ in 0..50 {
        let refusal = verifier.verify(&fresh_token(&unknown, &clock)).await.unwrap_err();
        assert_eq!(refusal.reason(), Reason::TokenInvalid);
    }
    assert_eq!(server.asked(), 2, "one refresh for all of them");
    clock.advance(30);
    assert!(verifier.verify(&fresh_token(&unknown, &clock)).await.is_err());
    assert_eq!(server.asked(), 3, "and one more after the cool-down");
    // A known name with another algorithm is a confused token, not a new key.
    clock.advance(31);
    let confused = TestKey::es256("known");
    assert!(verifier.verify(&fresh_token(&confused, &clock)).await.is_err());
    assert_eq!(server.asked(), 3);
}

#[tokio::test]
async fn a_new_key_works_at_once_and_a_withdrawn_one_stops() {
    let clock = TestClock::start();
    let (old, new) = (TestKey::eddsa("old"), TestKey::rs256("new"));
    let server = KeyServer::start(&key_set(&[&old])).await;
    let verifier = server.verifier(&clock);
    let old_token = fresh_token(&old, &clock);
    assert!(verifier.verify(&old_token).await.is_ok());
    clock.advance(31);
    server.now_serves(&key_set(&[&new]));
    assert!(verifier.verify(&old_token).await.is_ok(), "nobody has told us yet");
    assert!(verifier.verify(&fresh_token(&new, &clock)).await.is_ok());
    // The changed key set also ends what was remembered of tokens verified with the old one.
    assert_eq!(verifier.verify(&old_token).await.unwrap_err().reason(), Reason::TokenInvalid);
}

#[tokio::test]
async fn keys_outlive_an_outage_of_their_issuer_but_not_five_minutes() {
    let clock = TestClock::start();
    let key = TestKey::eddsa("k");
    let server = KeyServer::start(&key_set(&[&key])).await;
    let verifier = server.verifier(&clock);
    let remembered = fresh_token(&key, &clock);
    server.now_fails();
    let refusal = verifier.verify(&remembered).await.unwrap_err();
    assert_eq!(refusal.reason(), Reason::BadResponse);
    assert!(verifier.verify(&remembered).await.is_err());
    assert_eq!(server.asked(), 1, "a failure is not repeated for every caller");
    server.now_serves(&key_set(&[&key]));
    clock.advance(5);
    assert!(verifier.verify(&remembered).await.is_ok());
    // when
    server.now_fails();
    clock.advance(290);
    assert!(verifier.verify(&remembered).await.is_ok());
    clock.advance(9);
    assert!(verifier.verify(&fresh_token(&key, &clock)).await.is_ok());
    clock.advance(1);
    // then: not even a token that was verified a moment ago
    assert_eq!(verifier.verify(&remembered).await.unwrap_err().reason(), Reason::BadResponse);
}

#[tokio::test]
async fn keys_are_refreshed_behind_the_callers_back_before_they_run_out() {
    let clock = TestClock::start();
    let key = TestKey::eddsa("k");
    let server = KeyServer::start(&key_set(&[&key])).await;
    let verifier = server.verifier(&clock);
    assert!(verifier.verify(&fresh_token(&key, &clock)).await.is_ok());
    clock.advance(241);
    assert!(verifier.verify(&fresh_token(&key, &clock)).await.is_ok());
    let patience = std::time::Instant::now() + std::time::Duration::from_secs(5);
    while server.asked() < 2 {
        assert!(std::time::Instant::now() < patience, "no background refresh");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn answers_that_are_no_key_set_are_refused() {
    let clock = TestClock::start();
    let key = TestKey::eddsa("k");
    let server = KeyServer::start(&json!({ "keys": "none" })).await;
    let refused = |outcome: Result<crate::auth::Caller>| outcome.unwrap_err().reason();
    assert_eq!(refused(server.verifier(&clock).verify(&fresh_token(&key, &clock)).await), Reason::BadResponse);
    let mut large = key_set(&[&key]);
    large["padding"] = "x".repeat(300 * 1024).into();
    server.now_serves(&large);
    assert_eq!(refused(server.verifier(&clock).verify(&fresh_token(&key, &clock)).await), Reason::BadResponse);
    // A redirect is not followed, even to a good answer.
    server.now_serves(&key_set(&[&key]));
    let moved = KeySource::Url(server.url.join("/moved").unwrap());
    assert_eq!(refused(verifier_from(moved, &clock).verify(&fresh_token(&key, &clock)).await), Reason::BadResponse);
    assert!(server.verifier(&clock).verify(&fresh_token(&key, &clock)).await.is_ok());
    let nobody = KeySource::Url(Url::parse("http://127.0.0.1:1/jwks").unwrap());
    assert_eq!(refused(verifier_from(nobody, &clock).verify(&fresh_token(&key, &clock)).await), Reason::Unreachable);
}

#[tokio::test]
async fn a_key_that_cannot_be_used_does_not_spoil_the_others() {
    let clock = TestClock::start();
    let key = TestKey::es256("k");
    let mut set = key_set(&[&key]);
    let keys = set["keys"].as_array_mut().unwrap();
    keys.insert(0, json!({ "kty": "OKP", "crv": "X448", "x": "AAAA", "kid": "future" }));
    keys.insert(0, json!({ "kty": "OKP", "crv": "Ed25519", "x": "AAAA", "kid": "short" }));
    keys.insert(0, json!(7));
    let verifier = verifier_from(KeySource::Static(set), &clock);
    assert!(verifier.verify(&fresh_token(&key, &clock)).await.is_ok());
    assert_eq!(verifier.check_issuers().await[0].1.as_ref().unwrap(), &1);
}

#[tokio::test]
async fn a_key_file_is_read_again_when_a_token_names_a_new_key() {
    let clock = TestClock::start();
    let (old, new) = (TestKey::eddsa("old"), TestKey::eddsa("new"));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("jwks.json");
    let verifier = verifier_from(KeySource::File(path.clone()), &clock);
    assert_eq!(verifier.verify(&fresh_token(&old, &clock)).await.unwrap_err().reason(), Reason::Unreachable);
    std::fs::write(&path, key_set(&[&old]).to_string()).unwrap();
    clock.advance(5);
    assert!(verifier.verify(&fresh_token(&old, &clock)).await.is_ok());
    std::fs::write(&path, key_set(&[&old, &new]).to_string()).unwrap();
    clock.advance(1);
    assert!(verifier.verify(&fresh_token(&new, &clock)).await.is_ok());
}
