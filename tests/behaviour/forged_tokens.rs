//! Tokens that were made to look right: each is refused for what it is, and none of them makes the bridge ask anybody for
//! anything it would not have asked for.

use axum::Router;
use axum::routing::get;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bridge_tests::tokens::{SigningKey, hmac_with_the_public_key, key_set, now_seconds};
use bridge_tests::{Bridge, Reply, Setup};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A key set over HTTP that counts who asks for it.
struct KeyServer {
    url: String,
    asked: Arc<AtomicUsize>,
}

impl KeyServer {
    async fn start(keys: Value) -> KeyServer {
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = asked.clone();
        let app = Router::new().route(
            "/jwks.json",
            get(async move || {
                counted.fetch_add(1, Ordering::SeqCst);
                keys.to_string()
            }),
        );
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/jwks.json", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, app).await });
        KeyServer { url, asked }
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

const OTHER_ISSUER: &str = "https://counted.example";

fn trusting(server: &KeyServer) -> Setup {
    Bridge::http().flag(format!("--issuer={OTHER_ISSUER}={}", server.url))
}

#[track_caller]
fn assert_refused(reply: &Reply, what: &str) {
    let data = reply.assert_code(-32000).assert_status(401).assert_error("authz_denied", "token_invalid");
    assert!(data["hint"].as_str().is_some_and(|hint| hint.contains("e-authenticate")), "{what}");
    let challenge = reply.header("www-authenticate").expect("a challenge");
    assert!(challenge.contains("error=\"invalid_token\""), "{what}: {challenge}");
}

#[tokio::test]
async fn a_token_signed_with_nothing_or_with_the_public_key_is_refused() {
    let setup = Bridge::http();
    let rsa = SigningKey::rs256("rsa");
    setup.publish(&key_set(&[&rsa]));
    let bridge = setup.start().await;
    let alice = bridge.caller("alice");
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    for none in ["none", "None", "NONE", "nOnE", ""] {
        let header = json!({ "alg": none, "kid": "rsa", "typ": "JWT" });
        for signature in ["", "AAAA"] {
            let token = format!("{}.{}.{signature}", part(&header), part(&alice.claims()));
            assert_refused(&alice.clone().token(token).list().await, none);
        }
    }
    for algorithm in [jsonwebtoken::Algorithm::HS256, jsonwebtoken::Algorithm::HS384, jsonwebtoken::Algorithm::HS512] {
        let token = hmac_with_the_public_key(algorithm, "rsa", &alice.claims());
        assert_refused(&alice.clone().token(token).list().await, "HMAC");
    }
    // The same claims with a real signature are good.
    alice.clone().token(rsa.sign(&alice.claims())).list().await.result();
}

#[tokio::test]
async fn unknown_keys_start_no_storm_at_the_issuer() {
    // given
    let known = SigningKey::eddsa("known");
    let server = KeyServer::start(key_set(&[&known])).await;
    let bridge = trusting(&server).start().await;
    let alice = bridge.caller("alice");
    let mut claims = alice.claims();
    claims["iss"] = OTHER_ISSUER.into();
    alice.clone().token(known.sign(&claims)).list().await.result();
    assert_eq!(server.asked(), 1);
    // when forty tokens, eight at a time, each name a key that nobody knows
    for round in 0..5 {
        let forged = (0..8).map(|n| {
            let kid = format!("made-up-{round}-{n}");
            alice.clone().token(known.sign_with(|header| header.kid = Some(kid), &claims))
        });
        let answers = futures::future::join_all(forged.map(|caller| async move { caller.list().await })).await;
        answers.iter().for_each(|reply| assert_refused(reply, "an unknown key"));
    }
    // then the issuer was asked at most once more, and good tokens are still good
    assert!(server.asked() <= 2, "{} fetches", server.asked());
    alice.clone().token(known.sign(&claims)).list().await.result();
}

#[tokio::test]
async fn a_token_that_brings_or_links_its_own_key_is_refused_and_nobody_follows_the_link() {
    // given: somebody with keys of their own, published where they like
    let forger = SigningKey::eddsa("main");
    let theirs = KeyServer::start(key_set(&[&forger])).await;
    let bridge = Bridge::http().start().await;
    let alice = bridge.caller("alice");
    let (claims, url) = (alice.claims(), theirs.url.clone());
    let cases = [
        ("jku", forger.sign_with(|header| header.jku = Some(url.clone()), &claims)),
        ("x5u", forger.sign_with(|header| header.x5u = Some(url.clone()), &claims)),
        ("jwk", forger.sign_with(|header| header.jwk = Some(forger.jwk()), &claims)),
        ("x5c", forger.sign_with(|header| header.x5c = Some(vec!["MIIB".into()]), &claims)),
    ];
    for (what, token) in cases {
        assert_refused(&alice.clone().token(token).list().await, what);
    }
    // Nor where the issuer's own address is theirs.
    let mut foreign = claims.clone();
    foreign["iss"] = url.into();
    assert_refused(&alice.clone().token(forger.sign(&foreign)).list().await, "iss");
    assert_eq!(theirs.asked(), 0, "the bridge followed a link in a token");
}

#[tokio::test]
async fn a_token_over_its_size_or_for_another_purpose_is_refused() {
    let bridge = Bridge::http().start().await;
    let alice = bridge.caller("alice");
    let mut claims = alice.claims();
    claims["padding"] = "x".repeat(8 * 1024).into();
    let reply = alice.clone().token(bridge.setup.sign(&claims)).list().await;
    assert_refused(&reply, "oversized");
    assert!(reply.error()["message"].as_str().unwrap().contains("8 KiB"), "{reply:?}");
    let key = SigningKey::es256("main");
    bridge.setup.publish(&key_set(&[&key]));
    let logout = key.sign_with(|header| header.typ = Some("logout+jwt".into()), &alice.claims());
    assert_refused(&alice.clone().token(logout).list().await, "a logout token");
    let mut later = alice.claims();
    later["nbf"] = (now_seconds() + 3600).into();
    assert_refused(&alice.clone().token(key.sign(&later)).list().await, "nbf");
}

#[tokio::test]
async fn a_token_has_one_place_and_comes_once() {
    let bridge = Bridge::http().start().await;
    let token = bridge.caller("alice").mint();
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let post = |path: &str, headers: &str| {
        format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n{headers}Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    let good = format!("Authorization: Bearer {token}\r\n");
    let answer = bridge.raw(post("/mcp", &good).as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let cases = [
        ("twice the same", post("/mcp", &good.repeat(2))),
        ("two kinds", post("/mcp", &format!("{good}Authorization: Basic YTpi\r\n"))),
        ("two in one", post("/mcp", &format!("Authorization: Bearer {token}, Bearer {token}\r\n"))),
        ("in the address beside a good header", post(&format!("/mcp?access_token={token}"), &good)),
        ("in the address, encoded", post(&format!("/mcp?a=b&access%5Ftoken={token}"), "")),
        ("as a password", post("/mcp", &format!("Authorization: Basic {token}\r\n"))),
    ];
    for (what, request) in cases {
        let answer = bridge.raw(request.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 401") && answer.contains("token_invalid"), "{what}: {answer}");
        assert!(!answer.contains(&token), "{what}: the token came back");
    }
    // What has no header of its own is no token, wherever else it stands.
    for (what, headers) in [("a cookie", "Cookie: access_token="), ("another header", "X-Access-Token: ")] {
        let answer = bridge.raw(post("/mcp", &format!("{headers}{token}\r\n")).as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 401") && answer.contains("token_missing"), "{what}: {answer}");
    }
    assert!(!bridge.log().contains(&token), "no token is logged");
}
