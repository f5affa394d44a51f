//! HTTP as such: ports, methods, media types, sizes, health.

use bridge_tests::Bridge;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

fn ping() -> Vec<u8> {
    json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }).to_string().into_bytes()
}

#[track_caller]
fn assert_fault(answer: &bridge_tests::bridge::Answer, status: u16, reason: &str) {
    assert_eq!(answer.status, status, "{answer:?}");
    let body: Value = serde_json::from_str(&answer.text).expect("a JSON-RPC error");
    assert_eq!(bridge_tests::reply::assert_complete(&body["error"])["reason"], reason, "{body:#}");
}

#[tokio::test]
async fn a_listening_bridge_is_healthy_and_ready() {
    let bridge = Bridge::http().start().await;
    for path in ["/healthz", "/mcp/healthz", "/readyz"] {
        let answer = bridge.get(path).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
    }
    let line = bridge.logged("listening on").await;
    assert!(line.contains("8 tools") && line.contains("/mcp"), "{line}");
}

#[tokio::test]
async fn every_interface_is_listened_on_when_that_is_asked_for() {
    let bridge = Bridge::http().flag("--listen=0.0.0.0:0").start().await;
    assert!(bridge.address().ip().is_unspecified());
    let healthy = reqwest::get(format!("http://127.0.0.1:{}/healthz", bridge.address().port())).await.unwrap();
    assert_eq!(healthy.status(), 200);
}

#[tokio::test]
async fn a_port_that_is_taken_stops_the_start_with_a_sentence() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let said = Bridge::http().flag(format!("--listen={address}")).refuses_to_start().await;
    assert!(said.contains("--listen") && said.contains(&address.to_string()), "{said}");
}

#[tokio::test]
async fn metrics_count_calls_and_their_outcomes() {
    let bridge = Bridge::http().start().await;
    let alice = bridge.caller("alice");
    for _ in 0..3 {
        alice.call("cyberos.cuo.list_personas", json!({})).await.structured();
    }
    alice.call("cyberos.cuo.route", json!({})).await.error();
    let answer = bridge.get("/metrics").await;
    assert_eq!(answer.status, 200);
    let line = |tool: &str, outcome: &str| {
        let found = answer.text.lines().find(|l| {
            l.starts_with("cyberos_bridge_calls_total") && l.contains(tool) && l.contains(&format!("\"{outcome}\""))
        });
        found.and_then(|l| l.rsplit(' ').next()).unwrap_or("none").to_owned()
    };
    assert_eq!(line("cyberos.cuo.list_personas", "success"), "3", "{}", answer.text);
    assert_eq!(line("cyberos.cuo.route", "input_validation"), "1", "{}", answer.text);
}

#[tokio::test]
async fn other_verbs_than_mcps_are_refused_at_the_endpoint() {
    let bridge = Bridge::http().start().await;
    for method in ["PUT", "PATCH", "HEAD", "TRACE"] {
        let answer = bridge.ask(method, "/mcp", &[], vec![]).await;
        assert_eq!(answer.status, 405, "{method}: {answer:?}");
        assert_eq!(answer.headers["allow"], "POST, GET, DELETE");
    }
    for method in ["GET", "DELETE"] {
        let answer = bridge.ask(method, "/mcp", &[("accept", "text/event-stream")], vec![]).await;
        assert_eq!(answer.status, 401, "{method}: {answer:?}");
    }
    assert_eq!(bridge.get("/nothing").await.status, 404);
}

#[tokio::test]
async fn media_types_must_be_ones_that_are_spoken() {
    let bridge = Bridge::http().auth_none().start().await;
    for wrong in ["text/plain", "application/jsonp", "multipart/form-data"] {
        let answer = bridge.ask("POST", "/mcp", &[("content-type", wrong)], ping()).await;
        assert_fault(&answer, 415, "unsupported_media_type");
    }
    let answer = bridge.ask("POST", "/mcp", &[("content-type", "application/json; charset=utf-8")], ping()).await;
    assert_eq!(answer.status, 200);
    let answer = bridge.ask("POST", "/mcp", &[("accept", "text/html")], ping()).await;
    assert_fault(&answer, 406, "not_acceptable");
    for good in
        ["application/json, text/event-stream", "application/json", "*/*", "text/event-stream, application/*;q=0.5"]
    {
        assert_eq!(bridge.ask("POST", "/mcp", &[("accept", good)], ping()).await.status, 200, "{good}");
    }
    let answer = bridge.ask("POST", "/mcp", &[("mcp-protocol-version", "2024-01-01")], ping()).await;
    assert_fault(&answer, 400, "unsupported_version");
    let answer = bridge.ask("POST", "/mcp", &[("mcp-protocol-version", "2025-11-25")], ping()).await;
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_and_the_limit_is_the_operators() {
    let bridge = Bridge::http().auth_none().start().await;
    let padded = |bytes: usize| {
        let mut body = ping();
        body.resize(bytes, b' ');
        body
    };
    assert_eq!(bridge.ask("POST", "/mcp", &[], padded(1 << 20)).await.status, 200);
    assert_fault(&bridge.ask("POST", "/mcp", &[], padded((1 << 20) + 1)).await, 413, "payload_too_large");
    let bridge = Bridge::http().auth_none().flag("--max-body-bytes=200").start().await;
    assert_fault(&bridge.ask("POST", "/mcp", &[], padded(201)).await, 413, "payload_too_large");
    // A length that is only claimed is not waited for.
    let claim = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: 999999999999\r\n\r\n{";
    let answer = bridge.raw(claim.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
}

#[tokio::test]
async fn what_is_no_message_is_a_bad_request() {
    let bridge = Bridge::http().auth_none().start().await;
    for (body, reason) in [
        ("{", "parse_error"),
        ("\u{0}", "parse_error"),
        ("[]", "invalid_request"),
        ("7", "invalid_request"),
        (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, "invalid_request"),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, "invalid_request"),
    ] {
        assert_fault(&bridge.ask("POST", "/mcp", &[], body.into()).await, 400, reason);
    }
    let not_utf8 = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}".to_vec();
    assert_fault(&bridge.ask("POST", "/mcp", &[], not_utf8).await, 400, "parse_error");
    // A JSON-RPC error of a good message rides on 200.
    let unknown = bridge.caller("alice").request("no/such", json!({})).await;
    unknown.assert_status(200).assert_error("input_validation", "method_not_found");
}

#[tokio::test]
async fn a_serial_caller_is_not_held_up_by_the_network() {
    // Without TCP_NODELAY every second write of a connection waits for the other side's delayed acknowledgement: 40 ms.
    let bridge = Bridge::http().auth_none().start().await;
    let mut took = vec![];
    for _ in 0..60 {
        let asked = Instant::now();
        assert_eq!(bridge.ask("POST", "/mcp", &[], ping()).await.status, 200);
        took.push(asked.elapsed());
    }
    took.sort();
    assert!(took[took.len() / 2] < Duration::from_millis(20), "the median call took {:?}", took[took.len() / 2]);
}

#[tokio::test]
async fn a_client_that_hangs_up_has_not_cancelled() {
    let bridge = Bridge::http().auth_none().misbehaving_guest().start().await;
    let body = json!({ "jsonrpc": "2.0", "id": 5, "method": "tools/call",
        "params": { "name": "test.sleeps", "arguments": { "ms": 400 } } });
    let url = bridge.url("/mcp");
    let asking = reqwest::Client::builder().timeout(Duration::from_millis(100)).build().unwrap();
    let gone = asking.post(url).header("content-type", "application/json").body(body.to_string()).send().await;
    assert!(gone.is_err(), "the client gave up");
    let tenant = bridge.caller("x").identity().0.to_owned();
    let give_up = Instant::now() + Duration::from_secs(10);
    loop {
        let rows = bridge.audit(&tenant).await;
        if let Some(end) = rows.iter().find(|row| row.kind == "mcp.tool_call_completed") {
            assert_eq!(end.body["outcome"], "success", "{:?}", end.body);
            break;
        }
        assert!(Instant::now() < give_up, "the call never ended");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
