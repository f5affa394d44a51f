//! How a client finds out, without a token, where to get one, and what a token has to say.

use bridge_tests::caller::ALL_SCOPES;
use bridge_tests::tokens::ISSUER;
use bridge_tests::{Bridge, Setup};
use serde_json::{Value, json};

const ROOT: &str = "/.well-known/oauth-protected-resource";
const OF_ENDPOINT: &str = "/.well-known/oauth-protected-resource/mcp";
const OF_ISSUER: &str = "/.well-known/oauth-authorization-server";
const PUBLIC: &str = "https://MCP.example.com:443/mcp/";
const CANONICAL: &str = "https://mcp.example.com/mcp";

fn public() -> Setup {
    Bridge::http().flag(format!("--public-url={PUBLIC}"))
}

async fn document(bridge: &Bridge, path: &str) -> Value {
    let answer = bridge.get(path).await;
    assert_eq!((answer.status, &answer.headers["content-type"]), (200, &"application/json".parse().unwrap()));
    serde_json::from_str(&answer.text).expect("JSON")
}

#[tokio::test]
async fn the_metadata_names_resource_issuer_and_scopes_to_anybody() {
    let bridge = public().start().await;
    for path in [ROOT, OF_ENDPOINT] {
        let document = document(&bridge, path).await;
        assert_eq!(document["resource"], CANONICAL);
        assert_eq!(document["authorization_servers"], json!([ISSUER]));
        assert_eq!(document["bearer_methods_supported"], json!(["header"]));
        assert!(document["resource_name"].is_string());
        // Those of every tool that is served.
        let scopes: Vec<&str> =
            document["scopes_supported"].as_array().unwrap().iter().flat_map(Value::as_str).collect();
        let eight = ALL_SCOPES.iter().filter(|scope| scope.starts_with("cyberos:")).count();
        assert!(scopes.is_sorted() && scopes.len() == eight, "{scopes:?}");
        assert!(scopes.iter().all(|scope| ALL_SCOPES.contains(scope)), "{scopes:?}");
    }
}

#[tokio::test]
async fn on_loopback_the_address_itself_is_the_resource() {
    let bridge = Bridge::http().start().await;
    let own = bridge.url("/mcp");
    assert_eq!(document(&bridge, OF_ENDPOINT).await["resource"], own.as_str());
    // Under the name that the client used, which it will compare.
    let host = format!("localhost:{}", bridge.address().port());
    let answer = bridge.ask("GET", OF_ENDPOINT, &[("host", &host)], vec![]).await;
    let named: Value = serde_json::from_str(&answer.text).unwrap();
    assert_eq!(named["resource"], format!("http://{host}/mcp"));
    // And tokens for either are tokens for us.
    for audience in [own, format!("http://{host}/mcp/")] {
        assert_accepted(&bridge, &audience).await;
    }
}

#[tokio::test]
async fn a_token_for_the_canonical_address_is_accepted_in_every_spelling_of_it() {
    let bridge = public().start().await;
    for audience in [CANONICAL, PUBLIC, "HTTPS://mcp.EXAMPLE.com/mcp", "plugin:cyberos"] {
        assert_accepted(&bridge, audience).await;
    }
    let alice = bridge.caller("alice");
    for other in [
        "https://mcp.example.com",
        "https://mcp.example.com/mcp/x",
        "http://mcp.example.com/mcp",
        "https://mcp.example.com:8443/mcp",
        "https://mcp.example.com/MCP",
        "https://mcp.example.com/mcp?a=b",
    ] {
        let mut claims = alice.claims();
        claims["aud"] = other.into();
        let reply = alice.clone().token(bridge.setup.sign(&claims)).list().await;
        reply.assert_status(401).assert_error("authz_denied", "aud_mismatch");
    }
}

async fn assert_accepted(bridge: &Bridge, audience: &str) {
    let alice = bridge.caller("alice");
    let mut claims = alice.claims();
    claims["aud"] = json!(["https://other.example", audience]);
    let reply = alice.clone().token(bridge.setup.sign(&claims)).list().await;
    assert!(reply.result()["tools"].is_array(), "{audience}: {reply:?}");
}

#[tokio::test]
async fn every_challenge_leads_to_the_metadata_and_names_the_scopes() {
    let bridge = public().start().await;
    let at = "resource_metadata=\"https://mcp.example.com/.well-known/oauth-protected-resource/mcp\"";
    let alice = bridge.caller("alice");
    // 401: whatever there is to ask for.
    for caller in [alice.clone().no_token(), alice.clone().token("rubbish")] {
        let reply = caller.list().await;
        let challenge = reply.assert_status(401).header("www-authenticate").expect("a challenge").to_owned();
        assert!(challenge.starts_with("Bearer ") && challenge.contains(at), "{challenge}");
        let supported = document(&bridge, ROOT).await["scopes_supported"].clone();
        let all: Vec<&str> = supported.as_array().unwrap().iter().flat_map(Value::as_str).collect();
        assert!(challenge.contains(&format!("scope=\"{}\"", all.join(" "))), "{challenge}");
    }
    // 403: all that this call needs, whatever the token has already.
    let reply = alice.scopes(&["cyberos:memory:write"]).call("cyberos.cuo.execute_workflow", json!({})).await;
    let challenge = reply.assert_status(403).header("www-authenticate").expect("a challenge");
    assert!(challenge.contains("error=\"insufficient_scope\"") && challenge.contains(at), "{challenge}");
    assert!(challenge.contains("scope=\"cyberos:cuo:execute cyberos:memory:write\""), "{challenge}");
}

#[tokio::test]
async fn the_issuers_own_metadata_is_where_we_point_to() {
    // given: an issuer with a path, whose well-known part goes before it
    let setup = Bridge::http();
    let keys = setup.home().join("jwks.json");
    let bridge =
        setup.no_issuer().flag(format!("--issuer=https://id.example/realms/a={}", keys.display())).start().await;
    for path in [OF_ISSUER, "/.well-known/oauth-authorization-server/mcp"] {
        let answer = bridge.get(path).await;
        assert_eq!(answer.status, 307, "{answer:?}");
        assert_eq!(answer.headers["location"], "https://id.example/.well-known/oauth-authorization-server/realms/a");
    }
}

#[tokio::test]
async fn where_there_is_nothing_to_find_there_is_no_document() {
    // No issuer that a client could be sent to.
    let setup = Bridge::http().no_issuer().flag("--dev-issuer");
    let bridge = setup.start().await;
    assert_eq!(bridge.get(OF_ISSUER).await.status, 404);
    assert!(document(&bridge, ROOT).await.get("authorization_servers").is_none());
    // No tokens at all.
    let bridge = Bridge::http().auth_none().start().await;
    for path in [ROOT, OF_ENDPOINT, OF_ISSUER] {
        assert_eq!(bridge.get(path).await.status, 404, "{path}");
    }
    // No name that we could know.
    for flag in ["--allowed-host=mcp.example.com", "--listen=0.0.0.0:0"] {
        let bridge = Bridge::http().flag(flag).start().await;
        bridge.logged("--public-url").await;
        let answer = bridge.ask("GET", ROOT, &[("host", "localhost")], vec![]).await;
        assert_eq!(answer.status, 404, "{flag}");
        let reply = bridge.caller("alice").no_token().header("host", "localhost").list().await;
        let challenge = reply.assert_status(401).header("www-authenticate").expect("a challenge");
        assert_eq!(challenge, "Bearer", "{flag}");
    }
}

#[tokio::test]
async fn pages_may_read_the_documents_where_they_may_call_and_nowhere_else() {
    let page = "https://example.com";
    let bridge = Bridge::http().flag(format!("--cors-origin={page}")).start().await;
    for path in [ROOT, OF_ENDPOINT, OF_ISSUER] {
        let answer = bridge.ask("GET", path, &[("origin", page)], vec![]).await;
        assert!([200, 307].contains(&answer.status), "{answer:?}");
        assert_eq!(answer.headers["access-control-allow-origin"], page);
        let preflight = [("origin", page), ("access-control-request-method", "GET")];
        assert_eq!(bridge.ask("OPTIONS", path, &preflight, vec![]).await.status, 204);
        assert_eq!(bridge.ask("GET", path, &[("origin", "https://evil.example")], vec![]).await.status, 403);
        assert_eq!(bridge.ask("GET", path, &[("host", "evil.example")], vec![]).await.status, 403);
    }
}

#[tokio::test]
async fn a_public_address_that_is_none_stops_the_start() {
    for wrong in [
        "mcp.example.com",
        "ftp://mcp.example.com/mcp",
        "https://mcp.example.com/mcp?x=1",
        "https://a:b@mcp.example.com/mcp",
        "https://mcp.example.com/mcp#x",
    ] {
        let said = Bridge::http().flag(format!("--public-url={wrong}")).refuses_to_start().await;
        assert!(said.contains("--public-url"), "{wrong}: {said}");
    }
}
