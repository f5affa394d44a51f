//! Good tokens of every accepted kind, and every forged, confused or spoilt one that we could think of.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};

use super::super::clock::TestClock;
use super::super::settings::{IssuerSettings, KeySource};
use super::super::test_keys::{AUDIENCE, ISSUER, RSA_PUBLIC_PEM, TENANT, TestKey, claims, claims_with, key_set};
use super::*;
use crate::error::{Error, Reason};

fn settings(keys: &[&TestKey]) -> AuthSettings {
    AuthSettings {
        issuers: vec![IssuerSettings { issuer: ISSUER.into(), keys: KeySource::Static(key_set(keys)) }],
        audiences: vec![AUDIENCE.into(), "https://MCP.example/mcp/".into()],
        ..AuthSettings::default()
    }
}

fn verifier(keys: &[&TestKey], clock: &TestClock) -> Verifier {
    Verifier::new(&settings(keys), clock.clock()).unwrap()
}

/// A token from raw parts, for headers that no library would write.
fn raw(header: Value, claims: &Value, signature: &[u8]) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}.{}", part(&header), part(claims), URL_SAFE_NO_PAD.encode(signature))
}

fn hint(error: &Error) -> String {
    error.public_view(&crate::model::TraceId::random()).data["hint"].as_str().unwrap().to_owned()
}

#[track_caller]
fn assert_invalid(outcome: Result<Caller>, word: &str) {
    let refusal = outcome.unwrap_err();
    assert_eq!(refusal.reason(), Reason::TokenInvalid, "{refusal:?}");
    assert!(refusal.to_string().contains(word), "{refusal}");
    assert!(hint(&refusal).contains("re-authenticate"), "{}", hint(&refusal));
}

#[tokio::test]
async fn tokens_of_all_three_kinds_name_their_caller() {
    let clock = TestClock::start();
    let keys = [TestKey::rs256("r"), TestKey::es256("e"), TestKey::eddsa("d")];
    let verifier = verifier(&[&keys[0], &keys[1], &keys[2]], &clock);
    for key in &keys {
        let caller = verifier.verify(&key.sign(&claims(&clock))).await.unwrap();
        assert_eq!((caller.subject(), caller.tenant().to_string().as_str()), ("alice", TENANT), "{:?}", key.alg);
        assert!(
            caller.has_scope("cyberos:cuo:route") && !caller.has_scope("cyberos:memory:write") && !caller.is_local()
        );
    }
}

#[tokio::test]
async fn a_token_signed_with_nothing_or_with_the_public_key_is_refused() {
    let clock = TestClock::start();
    let rsa = TestKey::rs256("r");
    let verifier = verifier(&[&rsa], &clock);
    for none in ["none", "None", "NONE"] {
        assert_invalid(
            verifier.verify(&raw(json!({"alg": none, "kid": "r"}), &claims(&clock), b"")).await,
            "not accepted",
        );
    }
    // The classic confusion: the public key, which everybody has, as an HMAC secret.
    let secret = EncodingKey::from_secret(RSA_PUBLIC_PEM.as_bytes()).unwrap();
    for alg in [Algorithm::HS256, Algorithm::HS384, Algorithm::HS512] {
        let mut header = Header::new(alg);
        header.kid = Some("r".into());
        let token = jsonwebtoken::encode(&header, &claims(&clock), &secret).unwrap();
        assert_invalid(verifier.verify(&token).await, "not accepted");
    }
    // Right key, but an algorithm of its family that is not ours.
    let mut header = Header::new(Algorithm::PS256);
    header.kid = Some("r".into());
    assert_invalid(verifier.verify(&rsa.sign_with(&header, &claims(&clock))).await, "not accepted");
}

#[tokio::test]
async fn a_token_cannot_choose_another_algorithm_for_a_key() {
    let clock = TestClock::start();
    let (rsa, ec) = (TestKey::rs256("r"), TestKey::es256("e"));
    let verifier = verifier(&[&rsa, &ec], &clock);
    let mut header = ec.header();
    header.kid = Some("r".into());
    assert_invalid(verifier.verify(&ec.sign_with(&header, &claims(&clock))).await, "no key");
}

#[tokio::test]
async fn a_token_that_brings_or_links_its_own_key_is_refused() {
    let clock = TestClock::start();
    let (ours, theirs) = (TestKey::eddsa("k"), TestKey::eddsa("k"));
    let verifier = verifier(&[&ours], &clock);
    let with = |change: &dyn Fn(&mut Header)| {
        let mut header = theirs.header();
        change(&mut header);
        theirs.sign_with(&header, &claims(&clock))
    };
    let jwk = serde_json::from_value::<jsonwebtoken::jwk::Jwk>(theirs.jwk()).unwrap();
    assert_invalid(verifier.verify(&with(&|header| header.jwk = Some(jwk.clone()))).await, "own key");
    let url = || Some("https://mallory.example/jwks".to_owned());
    assert_invalid(verifier.verify(&with(&|header| header.jku = url())).await, "own key");
    assert_invalid(verifier.verify(&with(&|header| header.x5u = url())).await, "own key");
    // Even our own issuer's signature does not excuse it.
    let mut header = ours.header();
    header.jku = url();
    assert_invalid(verifier.verify(&ours.sign_with(&header, &claims(&clock))).await, "own key");
    // And without any such header, a foreign key of the same name does not verify.
    assert_invalid(verifier.verify(&theirs.sign(&claims(&clock))).await, "signature");
}

#[tokio::test]
async fn extensions_and_other_kinds_of_token_are_refused() {
    let clock = TestClock::start();
    let key = TestKey::eddsa("k");
    let verifier = verifier(&[&key], &clock);
    let with = |change: &dyn Fn(&mut Header)| {
        let mut header = key.header();
        change(&mut header);
        key.sign_with(&header, &claims(&clock))
    };
    assert_invalid(verifier.verify(&with(&|h| h.crit = Some(vec!["exp".into()]))).await, "extensions");
    let b64 = with(&|h| {
        h.crit = Some(vec!["b64".into()]);
        h.extras.insert("b64", true);
    });
    assert_invalid(verifier.verify(&b64).await, "extensions");
    assert_invalid(verifier.verify(&with(&|h| h.typ = Some("logout+jwt".into()))).await, "another kind");
    for good in [None, Some("at+JWT"), Some("jwt")] {
        assert!(verifier.verify(&with(&|h| h.typ = good.map(str::to_owned))).await.is_ok(), "{good:?}");
    }
}

#[tokio::test]
async fn a_key_must_be_named_unless_there_is_only_one() {
    let clock = TestClock::start();
    let (one, two) = (TestKey::eddsa("one"), TestKey::eddsa("two"));
    let nameless = one.sign_with(&Header::new(Algorithm::EdDSA), &claims(&clock));
    assert!(verifier(&[&one], &clock).verify(&nameless).await.is_ok());
    assert_invalid(verifier(&[&one, &two], &clock).verify(&nameless).await, "no key");
}

#[tokio::test]
async fn each_issuer_is_verified_with_its_own_keys() {
    let clock = TestClock::start();
    let (ours, theirs) = (TestKey::eddsa("k"), TestKey::eddsa("k"));
    let mut settings = settings(&[&ours]);
    settings
        .issuers
        .push(IssuerSettings { issuer: "https://other.example".into(), keys: KeySource::Static(key_set(&[&theirs])) });
    let verifier = Verifier::new(&settings, clock.clock()).unwrap();
    let other = claims_with(&clock, json!({ "iss": "https://other.example" }));
    assert!(verifier.verify(&theirs.sign(&other)).await.is_ok());
    assert_invalid(verifier.verify(&ours.sign(&other)).await, "signature");
    for iss in [json!("https://issuer.example/"), json!("https://mallory.example"), json!(null), json!([ISSUER])] {
        let token = ours.sign(&claims_with(&clock, json!({ "iss": iss })));
        assert_eq!(verifier.verify(&token).await.unwrap_err().reason(), Reason::TokenInvalid, "{iss}");
    }
}

#[tokio::test]
async fn expiry_and_start_are_honoured_with_thirty_seconds_of_skew() {
    let clock = TestClock::start();
    let key = TestKey::eddsa("k");
    let verifier = verifier(&[&key], &clock);
    let verify = |changes: Value| {
        let token = key.sign(&claims_with(&clock, changes));
        let verifier = &verifier;
        async move { verifier.verify(&token).await }
    };
    let now = clock.seconds();
    assert!(verify(json!({ "exp": now - 29 })).await.is_ok());
    let late = verify(json!({ "exp": now - 30 })).await.unwrap_err();
    assert_eq!(late.reason(), Reason::TokenExpired);
    assert!(hint(&late).contains("token expired"), "{}", hint(&late));
    assert!(verify(json!({ "nbf": now + 30 })).await.is_ok());
    assert_invalid(verify(json!({ "nbf": now + 31 })).await, "nbf");
    assert!(verify(json!({ "exp": now as f64 + 0.5 })).await.is_ok(), "fractions are allowed");
    assert_invalid(verify(json!({ "exp": null })).await, "exp");
    assert_invalid(verify(json!({ "exp": "1999999999" })).await, "wrong type");
    assert_invalid(verify(json!({ "exp": 1e300 })).await, "out of range");
    assert_invalid(verify(json!({ "exp": -1 })).await, "out of range");
}

#[tokio::test]
async fn a_token_for_another_audience_is_refused_with_a_hint() {
    let clock = TestClock::start();
    let key = TestKey::eddsa("k");
    let verifier = verifier(&[&key], &clock);
    for good in [
        json!(AUDIENCE),
        json!(["other", AUDIENCE]),
        json!("https://mcp.example/mcp"),
        json!("https://mcp.EXAMPLE/mcp/"),
    ] {
        assert!(verifier.verify(&key.sign(&claims_with(&clock, json!({ "aud": good })))).await.is_ok(), "{good}");
    }
    for bad in [
        json!("plugin:other"),
        json!([]),
        json!(null),
        json!(""),
        json!("https://mcp.example/mcp/x"),
        json!("plugin:cyberos/"),
    ] {
        let refusal = verifier.verify(&key.sign(&claims_with(&clock, json!({ "aud": bad })))).await.unwrap_err();
        assert_eq!(refusal.reason(), Reason::AudMismatch, "{bad}");
        assert!(hint(&refusal).contains("audience"));
    }
}

#[tokio::test]
async fn tenant_and_subject_are_required_and_well_formed() {
    let clock = TestClock::start();
    let key = TestKey::eddsa("k");
    let verifier = verifier(&[&key], &clock);
    let token = |changes: Value| key.sign(&claims_with(&clock, changes));
    let undashed = TENANT.replace('-', "");
    for bad in [json!(null), json!(""), json!("acme"), json!(undashed), json!("00000000-0000-0000-0000-000000000000")] {
        assert_invalid(verifier.verify(&token(json!({ "tenant_id": bad }))).await, "tenant_id");
    }
    assert_invalid(verifier.verify(&token(json!({ "tenant_id": 7 }))).await, "wrong type");
    for bad in [json!(null), json!(""), json!("x".repeat(257)), json!("alice\n")] {
        assert_invalid(verifier.verify(&token(json!({ "sub": bad }))).await, "sub");
    }
    assert!(verifier.verify(&token(json!({ "sub": "ü".repeat(256) }))).await.is_ok());
}

#[tokio::test]
async fn scopes_are_read_as_issuers_spell_them() {
    let clock = TestClock::start();
    let key = TestKey::eddsa("k");
    let verifier = verifier(&[&key], &clock);
    let scopes = |changes: Value| {
        let token = key.sign(&claims_with(&clock, changes));
        let verifier = &verifier;
        async move { verifier.verify(&token).await.unwrap().scopes().unwrap().iter().cloned().collect::<Vec<_>>() }
    };
    assert_eq!(scopes(json!({ "scope": " b  a " })).await, ["a", "b"]);
    assert_eq!(scopes(json!({ "scope": null, "scp": ["a", "b"] })).await, ["a", "b"]);
    assert_eq!(scopes(json!({ "scope": null, "scp": "a b" })).await, ["a", "b"]);
    assert!(scopes(json!({ "scope": null, "scope_grants": ["admin:tenants"] })).await.is_empty());
}

#[tokio::test]
async fn oversized_and_broken_tokens_are_refused_and_never_quoted() {
    let clock = TestClock::start();
    let key = TestKey::eddsa("k");
    let verifier = verifier(&[&key], &clock);
    let huge = key.sign(&claims_with(&clock, json!({ "padding": "x".repeat(MAX_TOKEN_BYTES) })));
    assert_invalid(verifier.verify(&huge).await, "8 KiB");
    let good = key.sign(&claims(&clock));
    let (message, signature) = good.rsplit_once('.').unwrap();
    let (header, _) = message.split_once('.').unwrap();
    let mallory = URL_SAFE_NO_PAD.encode(claims_with(&clock, json!({ "sub": "mallory" })).to_string());
    for broken in [
        String::new(),
        "x".into(),
        "..".into(),
        "a.b.c.d".into(),
        message.to_owned(),
        format!("{message}."),
        format!("{message}.{}", "A".repeat(86)),
        format!("{header}.{mallory}.{signature}"),
        format!("{good}="),
        format!(" {good}"),
        key.sign(&claims_with(&clock, json!({ "scope": 7 }))),
    ] {
        let refusal = verifier.verify(&broken).await.unwrap_err();
        assert_eq!(refusal.reason(), Reason::TokenInvalid, "{broken}");
        let said = format!("{refusal:?}");
        assert!(!said.contains("alice") && !said.contains("mallory") && !said.contains(header), "{said}");
    }
}

#[tokio::test]
async fn a_remembered_token_still_expires() {
    let clock = TestClock::start();
    let key = TestKey::eddsa("k");
    let verifier = verifier(&[&key], &clock);
    let token = key.sign(&claims_with(&clock, json!({ "exp": clock.seconds() + 10 })));
    assert!(verifier.verify(&token).await.is_ok());
    assert_eq!(verifier.remembered(), 1);
    clock.advance(39);
    assert!(verifier.verify(&token).await.is_ok());
    clock.advance(1);
    assert_eq!(verifier.verify(&token).await.unwrap_err().reason(), Reason::TokenExpired);
    assert_eq!(verifier.remembered(), 0);
}

#[test]
fn settings_that_could_accept_nothing_or_too_much_stop_the_start() {
    let clock = TestClock::start();
    let key = TestKey::eddsa("k");
    let refused = |change: &dyn Fn(&mut AuthSettings)| {
        let mut settings = settings(&[&key]);
        change(&mut settings);
        Verifier::new(&settings, clock.clock()).err().map(|why| why.to_string()).unwrap_or_default()
    };
    assert!(refused(&|_| ()).is_empty());
    assert!(refused(&|s| s.issuers.clear()).contains("no token issuer"));
    assert!(refused(&|s| s.audiences.clear()).contains("no audience"));
    assert!(refused(&|s| s.issuers.push(s.issuers[0].clone())).contains("twice"));
    assert!(refused(&|s| s.issuers[0].issuer = DEV_ISSUER.into()).contains("development issuer"));
    assert!(refused(&|s| s.issuers[0].keys = KeySource::Static(json!([]))).contains("JWK Set"));
    assert!(refused(&|s| s.skew = std::time::Duration::from_secs(301)).contains("skew"));
    let plain = url::Url::parse("http://issuer.example/jwks").unwrap();
    assert!(refused(&|s| s.issuers[0].keys = KeySource::Url(plain.clone())).contains("https"));
}
