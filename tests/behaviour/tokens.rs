//! Who is let in: good tokens of every accepted kind, and none of the others.

use axum::Router;
use axum::routing::get;
use bridge_tests::tokens::{ISSUER, SigningKey, claims, key_set, now_seconds};
use bridge_tests::{Bridge, TENANT_A, TENANT_B};
use serde_json::{Value, json};
use std::time::Duration;

#[tokio::test]
async fn rs256_es256_and_eddsa_tokens_are_accepted() {
    let setup = Bridge::http();
    let keys = [SigningKey::rs256("rsa"), SigningKey::es256("ec"), SigningKey::eddsa("ed")];
    setup.publish(&key_set(&[&keys[0], &keys[1], &keys[2]]));
    let bridge = setup.start().await;
    let alice = bridge.caller("alice");
    for key in &keys {
        let reply = alice.clone().token(key.sign(&alice.claims())).call("cyberos.cuo.list_personas", json!({})).await;
        assert!(reply.structured()["personas"].is_array(), "{}", key.kid);
    }
}

#[tokio::test]
async fn keys_are_fetched_from_the_issuers_address() {
    // given: an issuer that serves its keys
    let key = SigningKey::eddsa("served");
    let keys = key_set(&[&key]).to_string();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = Router::new().route("/jwks.json", get(async move || keys));
    tokio::spawn(async move { axum::serve(listener, app).await });
    let other = "https://served.example";
    let bridge = Bridge::http().flag(format!("--issuer={other}=http://{address}/jwks.json")).start().await;
    // then
    let alice = bridge.caller("alice");
    let mut claims = alice.claims();
    claims["iss"] = other.into();
    alice.clone().token(key.sign(&claims)).call("cyberos.cuo.list_personas", json!({})).await.structured();
    // The key of one issuer is no key of another.
    claims["iss"] = ISSUER.into();
    let reply = alice.clone().token(key.sign(&claims)).list().await;
    reply.assert_status(401).assert_error("authz_denied", "token_invalid");
}

#[tokio::test]
async fn a_token_that_is_not_right_in_every_part_is_refused() {
    let bridge = Bridge::http().start().await;
    let alice = bridge.caller("alice");
    let spoiled = |change: Value| {
        let mut claims = alice.claims();
        for (name, value) in change.as_object().unwrap() {
            match value {
                Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
                value => claims[name] = value.clone(),
            }
        }
        bridge.setup.sign(&claims)
    };
    let good = spoiled(json!({}));
    let (head, rest) = good.split_once('.').unwrap();
    let (payload, signature) = rest.split_once('.').unwrap();
    let hour_ago = now_seconds() - 3600;
    let cases = [
        ("signed with another key", SigningKey::es256("main").sign(&alice.claims()), "token_invalid"),
        ("with an unknown key id", SigningKey::es256("nobody").sign(&alice.claims()), "token_invalid"),
        ("whose signature was cut", format!("{head}.{payload}.{}", &signature[4..]), "token_invalid"),
        ("without a signature", format!("eyJhbGciOiJub25lIn0.{payload}."), "token_invalid"),
        ("that is no token", "rubbish".into(), "token_invalid"),
        ("expired", spoiled(json!({ "exp": hour_ago })), "token_expired"),
        ("without an expiry", spoiled(json!({ "exp": null })), "token_invalid"),
        ("for later", spoiled(json!({ "nbf": now_seconds() + 3600 })), "token_invalid"),
        ("for another audience", spoiled(json!({ "aud": "plugin:other" })), "aud_mismatch"),
        ("without an audience", spoiled(json!({ "aud": null })), "aud_mismatch"),
        ("of another issuer", spoiled(json!({ "iss": "https://evil.example" })), "token_invalid"),
        ("without a tenant", spoiled(json!({ "tenant_id": null })), "token_invalid"),
        ("of no tenant's form", spoiled(json!({ "tenant_id": "a" })), "token_invalid"),
        ("without a subject", spoiled(json!({ "sub": null })), "token_invalid"),
    ];
    for (what, token, reason) in cases {
        let reply = alice.clone().token(&token).call("cyberos.cuo.list_personas", json!({})).await;
        assert_eq!(reply.error()["data"]["reason"], reason, "a token {what}: {:?}", reply.error());
        let data = reply.assert_code(-32000).assert_status(401).assert_error("authz_denied", reason);
        let hint = data["hint"].as_str().unwrap();
        match reason {
            "token_expired" => assert!(hint.contains("expired"), "{hint}"),
            "token_invalid" => assert!(hint.contains("e-authenticate"), "{hint}"),
            _ => {}
        }
        assert!(reply.header("www-authenticate").is_some_and(|c| c.starts_with("Bearer")), "{what}");
        assert!(!reply.body.to_string().contains(&token), "the token does not come back");
    }
    assert!(!bridge.log().contains(signature), "no token is logged");
}

#[tokio::test]
async fn over_http_only_the_handshake_works_without_a_token() {
    let bridge = Bridge::http().start().await;
    let nobody = bridge.caller("nobody").no_token();
    nobody.initialize().await.assert_status(200).result();
    nobody.list().await.assert_status(401).assert_error("authz_denied", "token_missing");
    // A bad token is never better than none.
    let reply = nobody.clone().token("rubbish").initialize().await;
    reply.assert_status(401).assert_error("authz_denied", "token_invalid");
    // Nor may others ride along in a batch.
    let batch = json!([nobody.message("initialize", json!({})), nobody.message("tools/list", json!({}))]);
    let answer = nobody.post(batch.to_string().into_bytes()).await;
    assert_eq!(answer.status, 401, "{answer:?}");
    // And an operator may close even that.
    let bridge = Bridge::http().flag("--open-initialize=false").start().await;
    let reply = bridge.caller("nobody").no_token().initialize().await;
    reply.assert_status(401).assert_error("authz_denied", "token_missing");
}

#[tokio::test]
async fn a_token_in_the_address_is_refused() {
    let bridge = Bridge::http().start().await;
    let token = bridge.caller("alice").mint();
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }).to_string().into_bytes();
    let answer = bridge.ask("POST", &format!("/mcp?access_token={token}"), &[], body).await;
    assert_eq!(answer.status, 401, "{answer:?}");
}

#[tokio::test]
async fn over_stdio_the_token_is_checked_anew_with_every_request() {
    // given
    let setup = Bridge::stdio();
    let file = setup.home().join("token");
    let sign = |seconds: i64| {
        let mut claims = claims("alice", TENANT_A, &["cyberos:cuo:list".into()]);
        claims["exp"] = (now_seconds() as i64 + seconds).into();
        std::fs::write(&file, setup.sign(&claims)).unwrap();
    };
    sign(3600);
    let setup = setup.clone().trusting_the_issuer().flag(format!("--token-file={}", file.display()));
    let bridge = setup.start().await;
    let alice = bridge.caller("alice");
    alice.call("cyberos.cuo.list_personas", json!({})).await.structured();
    // when the token in the file has expired
    tokio::time::sleep(Duration::from_millis(20)).await;
    sign(-3600);
    alice.call("cyberos.cuo.list_personas", json!({})).await.assert_error("authz_denied", "token_expired");
    // and when somebody refreshed it
    tokio::time::sleep(Duration::from_millis(20)).await;
    sign(3600);
    alice.call("cyberos.cuo.list_personas", json!({})).await.structured();
}

#[tokio::test]
async fn a_new_token_for_another_tenant_gets_that_tenants_data() {
    let bridge = Bridge::http().start().await;
    let (alice, bob) = (bridge.caller("alice"), bridge.caller("bob").tenant(TENANT_B));
    let note = |text: &str| json!({ "kind": "note.taken", "body": { "text": text } });
    alice.call_confirmed("cyberos.memory.append_audit", note("of a")).await.structured();
    bob.call_confirmed("cyberos.memory.append_audit", note("of b")).await.structured();
    for (caller, own, others) in [(&alice, "of a", "of b"), (&bob, "of b", "of a"), (&alice, "of a", "of b")] {
        let reply = caller.call("cyberos.memory.read_audit", json!({ "kind": "note.taken" })).await;
        let rows = reply.structured().to_string();
        assert!(rows.contains(own) && !rows.contains(others), "{rows}");
    }
}

#[tokio::test]
async fn without_authentication_only_loopback_is_served() {
    let said = Bridge::http().auth_none().flag("--listen=0.0.0.0:0").refuses_to_start().await;
    assert!(said.contains("--auth none") && said.contains("loopback"), "{said}");
    let setup = Bridge::http().auth_none();
    let bridge = setup.start().await;
    bridge.caller("anybody").call("cyberos.cuo.list_personas", json!({})).await.structured();
}
