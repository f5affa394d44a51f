//! Browsers: which pages may reach us, and by which name.

use bridge_tests::bridge::Answer;
use bridge_tests::{Bridge, Setup};
use serde_json::{Value, json};

const PAGE: &str = "https://example.com";

fn ping() -> Vec<u8> {
    json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }).to_string().into_bytes()
}

async fn ask(bridge: &Bridge, headers: &[(&str, &str)]) -> Answer {
    bridge.ask("POST", "/mcp", headers, ping()).await
}

async fn preflight(bridge: &Bridge, origin: &str) -> Answer {
    let headers = [
        ("origin", origin),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "authorization,content-type"),
    ];
    bridge.ask("OPTIONS", "/mcp", &headers, vec![]).await
}

fn has_cors(answer: &Answer) -> bool {
    answer.headers.keys().any(|name| name.as_str().starts_with("access-control-"))
}

fn allowing(origin: &str) -> Setup {
    Bridge::http().auth_none().flag(format!("--cors-origin={origin}"))
}

#[track_caller]
fn assert_forbidden(answer: &Answer) {
    assert_eq!(answer.status, 403, "{answer:?}");
    assert!(!has_cors(answer), "{answer:?}");
    let body: Value = serde_json::from_str(&answer.text).expect("a reason in JSON");
    let data = bridge_tests::reply::assert_complete(&body["error"]);
    assert_eq!((&data["class"], &data["reason"]), (&json!("authz_denied"), &json!("origin_forbidden")));
}

#[tokio::test]
async fn without_a_setting_there_are_no_cors_headers_and_pages_are_refused() {
    let bridge = Bridge::http().auth_none().start().await;
    let answer = ask(&bridge, &[]).await;
    assert_eq!(answer.status, 200);
    assert!(!has_cors(&answer), "{answer:?}");
    assert_forbidden(&preflight(&bridge, PAGE).await);
    for origin in [PAGE, "http://localhost:3000", "null", ""] {
        assert_forbidden(&ask(&bridge, &[("origin", origin)]).await);
    }
}

#[tokio::test]
async fn a_configured_origin_may_call_and_read_the_answer() {
    let bridge = allowing(PAGE).start().await;
    let answer = ask(&bridge, &[("origin", PAGE)]).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let header = |answer: &Answer, name: &str| answer.headers.get(name).map(|v| v.to_str().unwrap().to_owned());
    assert_eq!(header(&answer, "access-control-allow-origin").as_deref(), Some(PAGE));
    assert_eq!(header(&answer, "vary").as_deref(), Some("Origin"));
    assert!(header(&answer, "access-control-allow-credentials").is_none());
    let answer = preflight(&bridge, PAGE).await;
    assert!([200, 204].contains(&answer.status), "{answer:?}");
    assert_eq!(header(&answer, "access-control-allow-origin").as_deref(), Some(PAGE));
    assert!(header(&answer, "access-control-allow-methods").unwrap().contains("POST"));
    assert!(header(&answer, "access-control-allow-headers").unwrap().contains("authorization"));
    // Programs that are no browser send no Origin and get no CORS headers.
    assert!(!has_cors(&ask(&bridge, &[]).await));
}

#[tokio::test]
async fn other_origins_stay_out_and_are_told_why() {
    let bridge = allowing(PAGE).start().await;
    for origin in [
        "https://evil.example",
        "http://example.com",
        "https://example.com:8443",
        "https://example.com.evil.example",
        "null",
    ] {
        assert_forbidden(&preflight(&bridge, origin).await);
        let answer = ask(&bridge, &[("origin", origin)]).await;
        assert_forbidden(&answer);
        assert!(answer.text.contains("--cors-origin"), "the operator reads what to do: {}", answer.text);
    }
}

#[tokio::test]
async fn an_origin_is_allowed_before_the_token_is_looked_at() {
    let bridge = Bridge::http().flag(format!("--cors-origin={PAGE}")).start().await;
    // A preflight carries no token.
    assert!([200, 204].contains(&preflight(&bridge, PAGE).await.status));
    // A page may read why it was refused.
    let answer = bridge
        .ask("POST", "/mcp", &[("origin", PAGE)], br#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#.to_vec())
        .await;
    assert_eq!(answer.status, 401);
    assert!(answer.headers.contains_key("access-control-allow-origin"));
}

#[tokio::test]
async fn a_foreign_host_name_is_refused() {
    // given: what a page that rebinds its own name to 127.0.0.1 sends
    let bridge = Bridge::http().auth_none().flag("--allowed-host=mcp.example.com").start().await;
    let port = bridge.address().port();
    assert_forbidden(&ask(&bridge, &[("host", "evil.example")]).await);
    assert_forbidden(&ask(&bridge, &[("host", &format!("evil.example:{port}"))]).await);
    for host in ["localhost", "127.0.0.1", "[::1]", "mcp.example.com", "MCP.example.com"] {
        assert_eq!(ask(&bridge, &[("host", &format!("{host}:{port}"))]).await.status, 200, "{host}");
    }
    let two = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{}",
        ping().len(),
        String::from_utf8(ping()).unwrap()
    );
    let answer = bridge.raw(two.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 403") || answer.starts_with("HTTP/1.1 400"), "{answer}");
}

#[tokio::test]
async fn a_page_of_the_address_that_was_asked_is_no_stranger() {
    // given
    let bridge = Bridge::http().auth_none().flag("--allowed-host=mcp.example.com").start().await;
    let port = bridge.address().port();
    // when, then
    for host in [format!("127.0.0.1:{port}"), format!("localhost:{port}"), "mcp.example.com".into()] {
        for scheme in ["http", "https"] {
            let answer = ask(&bridge, &[("host", &host), ("origin", &format!("{scheme}://{host}"))]).await;
            assert_eq!(answer.status, 200, "{answer:?}");
            assert!(!has_cors(&answer), "{answer:?}");
        }
    }
    // Another program's page on the same machine is one.
    for origin in ["http://127.0.0.1:1", "http://localhost", "ws://localhost", "localhost"] {
        assert_forbidden(&ask(&bridge, &[("host", &format!("localhost:{port}")), ("origin", origin)]).await);
    }
    // Where every host is allowed, a page that points its own name at us is still refused.
    let bridge = Bridge::http().auth_none().flag("--allowed-host=*").start().await;
    assert_forbidden(&ask(&bridge, &[("host", "evil.example"), ("origin", "http://evil.example")]).await);
}

#[tokio::test]
async fn a_request_of_two_origins_is_refused_whichever_comes_first() {
    let bridge = allowing(PAGE).start().await;
    let (foreign, body) = ("https://evil.example", String::from_utf8(ping()).unwrap());
    for (first, second) in [(PAGE, foreign), (foreign, PAGE), (PAGE, PAGE)] {
        let request = format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nOrigin: {first}\r\nOrigin: {second}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let answer = bridge.raw(request.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("origin_forbidden"), "{answer}");
        assert!(!answer.to_lowercase().contains("access-control-"), "{answer}");
    }
}
