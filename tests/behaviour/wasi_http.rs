//! HTTP clients of other languages, over `wasi:http`, are under the policy of `http-fetch`: `fetch` in JavaScript, and a
//! client in Python that says scheme, authority and path in any spelling.

use super::host_imports::Upstream;
use bridge_tests::caller::Caller;
use bridge_tests::{Bridge, Setup};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const SECRET: &str = "s3cr3t-of-the-operator";

/// What both may ask of the upstream.
fn grants(plugin: &str, upstream: SocketAddr) -> String {
    format!(
        r#"
        [plugins.{plugin}.upstreams.notes]
        url = "http://{upstream}"
        methods = ["GET", "POST"]
        paths = ["/v1/*"]
        allow_private = true
        max_response_bytes = 1000
        max_request_bytes = 500
        credential = {{ scheme = "Bearer", secret = "env:NOTES_TOKEN" }}
        [plugins.{plugin}.upstreams.public]
        url = "http://localhost:{}"
        paths = ["/v1/*"]
        "#,
        upstream.port()
    )
}

fn reaching(setup: Setup, plugin: &str, upstream: SocketAddr, limits: &str) -> Setup {
    let limits = format!("[plugins.{plugin}.limits]\n{limits}");
    setup.author_guests(&[plugin], &(grants(plugin, upstream) + &limits)).env("NOTES_TOKEN", SECRET)
}

/// One request of the Python client.
async fn fetch(alice: &Caller<'_>, request: Value) -> Value {
    alice.call("cyberos.python.fetch", request).await.structured().clone()
}

#[tokio::test]
async fn fetch_in_javascript_reaches_what_is_granted_and_nothing_else() {
    // given
    let upstream = Upstream::default();
    let address = upstream.start().await;
    let bridge = reaching(Bridge::http(), "js", address, "").start().await;
    let alice = bridge.caller("alice");
    let fetch = async |request: Value| alice.call("cyberos.js.fetch", request).await.structured().clone();
    // when
    let url = format!("http://{address}/v1/echo");
    let answer = fetch(json!({ "url": url, "method": "POST", "body": "hello" })).await;
    // then: the host's credential went with it, and its echo is blotted out
    assert_eq!(answer["status"], 200, "{answer:#}");
    let (asked, headers) = upstream.seen().pop().unwrap();
    assert_eq!(asked, "POST /v1/echo");
    assert_eq!(headers["authorization"], format!("Bearer {SECRET}"));
    assert_eq!(headers["content-length"], "5");
    assert_eq!(headers["host"], address.to_string());
    assert!(headers.contains_key("traceparent"), "{headers:?}");
    assert!(answer["body"].as_str().unwrap().contains("authorization: Bearer ***"), "{answer:#}");
    assert!(!answer.to_string().contains(SECRET) && !answer["headers"].to_string().contains("set-cookie"));
    // An upstream's refusal is an answer, a redirect is followed to where the guest could have gone itself.
    let missing = fetch(json!({ "url": format!("http://{address}/v1/missing") })).await;
    assert_eq!(missing["status"], 404);
    assert_eq!(fetch(json!({ "url": format!("http://{address}/v1/moved") })).await["status"], 200);
    // Many in a row leave no handles behind, and more at once than are sent at once get their turn.
    let many = fetch(json!({ "url": url, "times": 60 })).await;
    assert_eq!(many["status"], 200, "{many:#}");
    let at_once = fetch(json!({ "url": url, "atOnce": 12 })).await;
    assert_eq!(at_once["answered"], 12, "{at_once:#}");
    // and what is not granted is an error that JavaScript can catch
    let before = upstream.seen().len();
    for url in [format!("http://{address}/admin"), "http://127.0.0.1:1/v1/echo".into(), "https://example.com/".into()] {
        let failed = fetch(json!({ "url": url })).await;
        assert!(failed["failed"].as_str().is_some_and(|why| why.contains("NetworkError")), "{url}: {failed:#}");
    }
    assert_eq!(upstream.seen().len(), before, "nothing left the host");
}

#[tokio::test]
async fn a_component_without_a_grant_runs_and_reaches_nothing() {
    // given: an engine that imports wasi:http, used or not
    let bridge = Bridge::http().author_guests(&["js"], "").start().await;
    let alice = bridge.caller("alice");
    // when
    let sum = alice.call("cyberos.js.add", json!({ "a": 1, "b": 2 })).await;
    let fetched = alice.call("cyberos.js.fetch", json!({ "url": "http://127.0.0.1:1/" })).await;
    // then
    assert_eq!(sum.structured()["sum"], 3);
    assert!(fetched.structured()["failed"].is_string(), "{fetched:?}");
    let metrics = bridge.get("/metrics").await.text;
    let denied = metrics.lines().find(|line| {
        line.starts_with("cyberos_bridge_host_call_denials_total")
            && line.contains("import=\"wasi:http\"")
            && line.contains("why=\"not-granted\"")
    });
    assert!(denied.is_some_and(|line| line.ends_with(" 1")), "{metrics}");
}

#[tokio::test]
async fn a_refusal_is_the_error_code_that_says_why() {
    // given
    let upstream = Upstream::default();
    let address = upstream.start().await;
    let bridge = reaching(Bridge::http(), "python", address, "").start().await;
    let alice = bridge.caller("alice");
    let to = |path: &str, more: Value| {
        let mut request = json!({ "authority": address.to_string(), "path": path });
        request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        request
    };
    let granted = to("/v1/echo?limit=3", json!({ "headers": { "X-Colour": "green", "Content-Length": "0" } }));
    let answer = fetch(&alice, granted).await;
    assert_eq!(answer["status"], 200, "{answer:#}");
    assert!(answer["body"].as_str().unwrap().contains("x-colour: green"), "{answer:#}");
    let posted = to("/v1/echo", json!({ "method": "POST", "body": "x".repeat(500) }));
    assert_eq!(fetch(&alice, posted).await["status"], 200);
    upstream.clear();
    let public = format!("localhost:{}", address.port());
    let cases = [
        (to("/v1/echo", json!({ "method": "DELETE" })), "HttpRequestDenied", ""),
        (to("/admin", json!({})), "HttpRequestDenied", ""),
        (to("/v1/../admin", json!({})), "InternalError", "dot segment"),
        (to("/v1/%2e%2e/admin", json!({})), "InternalError", "encoded dot"),
        (to("/v1%2fecho", json!({})), "InternalError", "encoded slash"),
        (to("/v1/echo", json!({ "method": "TRACE" })), "InternalError", "method"),
        (to("/v1/echo", json!({ "scheme": "https" })), "HttpRequestDenied", ""),
        (to("/v1/echo", json!({ "scheme": "ftp" })), "HttpProtocolError", ""),
        (to("/v1/echo", json!({ "headers": { "Authorization": "Bearer mine" } })), "InternalError", "authorization"),
        (to("/v1/echo", json!({ "headers": { "X-Forwarded-For": "::1" } })), "InternalError", "x-forwarded-for"),
        (to("/v1/echo", json!({ "headers": { "Host": "evil.example" } })), "Forbidden", ""),
        (to("/v1/echo", json!({ "headers": { "x-a": "b\r\nx-c: d" } })), "InvalidSyntax", ""),
        (to("/v1/echo", json!({ "method": "POST", "body": "x".repeat(501) })), "HttpRequestBodySize", "500"),
        (to("/v1/echo", json!({ "body": "a GET has none" })), "InternalError", "body"),
        (json!({ "authority": public, "path": "/v1/echo" }), "DestinationIpProhibited", ""),
        // These reach it, and what comes back is not for the guest.
        (to("/v1/away", json!({})), "DestinationIpProhibited", ""),
        (to("/v1/metadata", json!({})), "DestinationIpProhibited", ""),
        (to("/v1/astray", json!({})), "DestinationIpProhibited", ""),
        (to("/v1/large", json!({})), "HttpResponseBodySize", "1000"),
    ];
    for (request, code, says) in cases {
        // when
        let failed = fetch(&alice, request.clone()).await;
        // then: an ordinary result of a guest that went on
        assert!(failed["failed"].as_str().is_some_and(|name| name.contains(code)), "{request}: {failed:#}");
        assert!(failed["why"].as_str().unwrap_or_default().contains(says), "{request}: {failed:#}");
    }
    let paths: Vec<String> = upstream.seen().into_iter().map(|(asked, _)| asked).collect();
    assert_eq!(paths, ["away", "metadata", "astray", "large"].map(|path| format!("GET /v1/{path}")));
}

#[tokio::test]
async fn no_spelling_of_an_authority_slips_past_the_grant() {
    // given
    let upstream = Upstream::default();
    let address = upstream.start().await;
    let bridge = reaching(Bridge::stdio(), "python", address, "").start().await;
    let alice = bridge.caller("alice");
    let port = address.port();
    for authority in [
        format!("user@127.0.0.1:{port}"),
        format!("user:password@127.0.0.1:{port}"),
        format!("127.0.0.1:{port}@evil.example"),
        format!("127.0.0.1.:{port}"),
        format!("127.1:{port}"),
        format!("2130706433:{port}"),
        format!("0x7f.0.0.1:{port}"),
        format!("0177.0.0.1:{port}"),
        format!("127.0.0.1%2e:{port}"),
        format!("%3127.0.0.1:{port}"),
        format!("[::ffff:127.0.0.1]:{port}"),
        format!("[::1]:{port}"),
        format!("LOCALHOST.:{port}"),
        format!("0.0.0.0:{port}"),
        format!("127.0.0.1:{}", port ^ 1),
        "127.0.0.1".into(),
        "127.0.0.1:".into(),
        "169.254.169.254".into(),
        String::new(),
        " ".into(),
        format!("127.0.0.1:{port}/v1/echo?"),
        format!("evil.example\\@127.0.0.1:{port}"),
        format!("evil.example#@127.0.0.1:{port}"),
    ] {
        // when
        let failed = fetch(&alice, json!({ "authority": authority, "path": "/v1/echo" })).await;
        // then: refused by policy, or because it is no authority at all
        assert!(failed["failed"].is_string(), "{authority}: {failed:#}");
    }
    assert_eq!(upstream.seen().len(), 0, "nothing left the host");
    // The same host in capitals is the same host.
    let allowed = format!("LocalHost:{port}");
    let answer = fetch(&alice, json!({ "authority": allowed, "path": "/v1/echo" })).await;
    assert_eq!(answer["failed"], "DestinationIpProhibited", "it was matched: {answer:#}");
}

#[tokio::test]
async fn requests_count_as_host_calls_and_end_with_the_deadline() {
    // given
    let upstream = Upstream::default();
    let address = upstream.start().await;
    let bridge = reaching(Bridge::stdio(), "python", address, "host_calls = 3\ndeadline_ms = 1500\n").start().await;
    let alice = bridge.caller("alice");
    let echo = |times: u32| json!({ "authority": address.to_string(), "path": "/v1/echo", "times": times });
    // when, then
    assert_eq!(fetch(&alice, echo(3)).await["status"], 200);
    let reply = alice.call("cyberos.python.fetch", echo(4)).await;
    reply.assert_error("internal_error", "host_call_limit");
    let asked = Instant::now();
    let slow = json!({ "authority": address.to_string(), "path": "/v1/slow" });
    let reply = alice.call("cyberos.python.fetch", slow).await;
    reply.assert_error("internal_error", "deadline");
    assert!(asked.elapsed() < Duration::from_secs(4), "{:?}", asked.elapsed());
    assert_eq!(fetch(&alice, echo(1)).await["status"], 200, "the next call is healthy");
}
