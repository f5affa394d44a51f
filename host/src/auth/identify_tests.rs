//! What counts as presenting a token, over HTTP and over stdio.

use serde_json::json;

use super::super::clock::TestClock;
use super::super::settings::{IssuerSettings, KeySource};
use super::super::test_keys::{AUDIENCE, ISSUER, TestKey, claims, claims_with, key_set};
use super::*;

fn settings(key: &TestKey) -> AuthSettings {
    AuthSettings {
        issuers: vec![IssuerSettings { issuer: ISSUER.into(), keys: KeySource::Static(key_set(&[key])) }],
        audiences: vec![AUDIENCE.into()],
        ..AuthSettings::default()
    }
}

fn authorization(values: &[&str]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for value in values {
        headers.append(header::AUTHORIZATION, HeaderValue::from_str(value).unwrap());
    }
    headers
}

fn reason(outcome: Result<Caller>) -> Reason {
    outcome.unwrap_err().reason()
}

#[tokio::test]
async fn an_http_request_is_identified_by_its_bearer_token_alone() {
    let clock = TestClock::start();
    let key = TestKey::eddsa("k");
    let identifier = Identifier::new(&settings(&key), clock.clock()).unwrap();
    let token = key.sign(&claims(&clock));
    for good in [format!("Bearer {token}"), format!("bearer   {token}")] {
        let caller = identifier.for_http(&authorization(&[&good]), Some("x=1")).await.unwrap();
        assert_eq!(caller.subject(), "alice");
    }
    assert_eq!(reason(identifier.for_http(&HeaderMap::new(), None).await), Reason::TokenMissing);
    for bad in
        [format!("Basic {token}"), token.clone(), "Bearer".into(), "Bearer ".into(), format!("Bearer {token}, {token}")]
    {
        assert_eq!(reason(identifier.for_http(&authorization(&[&bad]), None).await), Reason::TokenInvalid, "{bad}");
    }
    let twice = authorization(&[&format!("Bearer {token}"), &format!("Bearer {token}")]);
    assert_eq!(reason(identifier.for_http(&twice, None).await), Reason::TokenInvalid);
}

#[tokio::test]
async fn a_token_in_the_query_is_refused_even_beside_a_good_header() {
    let clock = TestClock::start();
    let key = TestKey::eddsa("k");
    let identifier = Identifier::new(&settings(&key), clock.clock()).unwrap();
    let token = key.sign(&claims(&clock));
    for query in [format!("access_token={token}"), "a=b&access%5Ftoken=".to_owned()] {
        let alone = identifier.for_http(&HeaderMap::new(), Some(&query)).await;
        assert_eq!(reason(alone), Reason::TokenInvalid, "{query}");
        let beside = identifier.for_http(&authorization(&[&format!("Bearer {token}")]), Some(&query)).await;
        assert_eq!(reason(beside), Reason::TokenInvalid, "{query}");
    }
}

#[tokio::test]
async fn without_settings_http_callers_are_refused_and_stdio_callers_are_local() {
    let identifier = Identifier::new(&AuthSettings::default(), Clock::system()).unwrap();
    assert!(identifier.check_http().is_err());
    let refusal = identifier.for_http(&authorization(&["Bearer a.b.c"]), None).await;
    assert_eq!(reason(refusal), Reason::TokenInvalid);
    assert!(identifier.for_stdio().await.unwrap().is_local());
    let open = AuthSettings { mode: AuthMode::None, ..AuthSettings::default() };
    let identifier = Identifier::new(&open, Clock::system()).unwrap();
    assert!(identifier.check_http().is_ok());
    assert!(identifier.for_http(&HeaderMap::new(), None).await.unwrap().is_local());
}

#[tokio::test]
async fn a_stdio_token_is_checked_again_for_every_request() {
    let clock = TestClock::start();
    let key = TestKey::eddsa("k");
    let token = SecretString::from(key.sign(&claims(&clock)));
    let with_token = AuthSettings { stdio_token: StdioToken::Value(token), ..settings(&key) };
    let identifier = Identifier::new(&with_token, clock.clock()).unwrap();
    assert_eq!(identifier.for_stdio().await.unwrap().subject(), "alice");
    clock.advance(3600 + 30);
    assert_eq!(reason(identifier.for_stdio().await), Reason::TokenExpired);
    // A token that nobody could check is refused at the start, not taken for the local user's.
    let unchecked = AuthSettings { issuers: vec![], ..with_token };
    assert!(Identifier::new(&unchecked, clock.clock()).is_err());
}

#[tokio::test]
async fn a_refreshed_token_file_is_picked_up() {
    let clock = TestClock::start();
    let key = TestKey::eddsa("k");
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("token");
    let with_file = AuthSettings { stdio_token: StdioToken::File(path.clone()), ..settings(&key) };
    let identifier = Identifier::new(&with_file, clock.clock()).unwrap();
    let missing = identifier.for_stdio().await.unwrap_err();
    assert_eq!(missing.reason(), Reason::TokenMissing);
    assert!(!missing.to_string().contains(path.to_str().unwrap()));
    std::fs::write(&path, format!("{}\n", key.sign(&claims(&clock)))).unwrap();
    assert_eq!(identifier.for_stdio().await.unwrap().subject(), "alice");
    clock.advance(3600 + 30);
    assert_eq!(reason(identifier.for_stdio().await), Reason::TokenExpired);
    // when: replaced as a careful writer does it
    let next = directory.path().join("next");
    std::fs::write(&next, key.sign(&claims_with(&clock, json!({ "sub": "alice-again" })))).unwrap();
    std::fs::rename(&next, &path).unwrap();
    // then
    assert_eq!(identifier.for_stdio().await.unwrap().subject(), "alice-again");
    std::fs::write(&path, "\n").unwrap();
    assert_eq!(reason(identifier.for_stdio().await), Reason::TokenMissing);
}
