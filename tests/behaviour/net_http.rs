//! `net/http` in a Go plugin, over `wasi:http`, is under the policy of `http-fetch`: one component, made by `plugin build`
//! from what the page shows and the fixture that does as it is told.

use super::authors::{Author, block, greets_in_go};
use super::host_imports::Upstream;
use bridge_tests::caller::Caller;
use bridge_tests::{Bridge, root};
use serde_json::{Value, json};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const SECRET: &str = "s3cr3t-of-the-operator";

fn grants(upstream: SocketAddr) -> String {
    let port = upstream.port();
    format!(
        r#"
        [plugins.demo-greet.upstreams.notes]
        url = "http://{upstream}"
        methods = ["GET", "HEAD", "POST"]
        paths = ["/v1/*"]
        allow_private = true
        max_request_bytes = 400_000
        max_response_bytes = 1_100_000
        credential = {{ scheme = "Bearer", secret = "env:NOTES_TOKEN" }}
        [plugins.demo-greet.upstreams.little]
        url = "http://{upstream}"
        paths = ["/v1/large"]
        allow_private = true
        max_response_bytes = 1000
        [plugins.demo-greet.upstreams.public]
        url = "http://localhost:{port}"
        paths = ["/v1/*"]
        "#
    )
}

/// One compilation by Go and one by the host are enough for all of it.
#[tokio::test]
async fn net_http_in_go_reaches_what_is_granted_and_nothing_else() {
    // given
    let setup = Bridge::http().env("NOTES_TOKEN", SECRET);
    let author = Author::new();
    let project = a_project_with_the_page_and_the_fixture(&author);
    the_page_is_true(&author, &project, &setup.state_dir());
    let upstream = Upstream::default();
    let address = upstream.start().await;
    let built = project.join("build");
    fs::write(built.join("plugins.toml"), grants(address)).unwrap();
    let bridge = setup.unlimited().flag(format!("--plugins={}", built.display())).start().await;
    let alice = bridge.caller("alice");
    // when, then
    it_asks_and_is_answered(&alice, &upstream, address).await;
    much_at_once_and_in_a_row_leaves_nothing_behind(&alice, address).await;
    time_is_heeded(&alice, address).await;
    a_refusal_is_an_error_with_its_code(&alice, &upstream, address).await;
}

fn a_project_with_the_page_and_the_fixture(author: &Author) -> PathBuf {
    let read = |path: &str| fs::read_to_string(root().join(path)).unwrap();
    let (page, readme) = (read("docs/plugin-authors/go.md"), read("docs/plugin-authors/README.md"));
    let project = author.project("demo-greet", "go");
    let tool = fs::read_to_string(project.join("tool.go")).unwrap();
    let shown = block(&page, "## Ask with net/http", "go");
    fs::write(project.join("tool.go"), greets_in_go(&tool, &shown)).unwrap();
    fs::write(project.join("fetch.go"), read("tests/authors/fixtures/go/fetch.go")).unwrap();
    fs::write(project.join("grants.toml"), block(&readme, "## Ask a service", "toml")).unwrap();
    fs::write(project.join("cases/greets.toml"), block(&readme, "answers from the case", "toml")).unwrap();
    project
}

/// What is compiled for the cases is kept in `state`, where the bridge finds it.
fn the_page_is_true(author: &Author, project: &Path, state: &Path) {
    let words = ["--state-dir", &state.display().to_string(), "plugin", "test", &project.display().to_string()];
    let ran = author.bridge(&words);
    assert_eq!(ran.status, 0, "{}\n{}", ran.out, ran.err);
    assert!(ran.out.contains("3 passed, 0 failed"), "{}", ran.out);
}

/// What the fixture says of a request.
async fn fetch(alice: &Caller<'_>, request: Value) -> Value {
    alice.call("cyberos.go.fetch", request).await.structured().clone()
}

async fn it_asks_and_is_answered(alice: &Caller<'_>, upstream: &Upstream, address: SocketAddr) {
    let colours = json!({ "x-colour": ["green", "blue"], "Host": ["evil.example"] });
    let url = format!("http://{address}/v1/echo?limit=3&name=%20x");
    let answer = fetch(alice, json!({ "url": url, "headers": colours })).await;
    assert_eq!(answer["status"], 200, "{answer:#}");
    let (asked, headers) = upstream.seen().pop().unwrap();
    assert_eq!(asked, "GET /v1/echo");
    assert_eq!(headers["authorization"], format!("Bearer {SECRET}"));
    assert_eq!(headers["host"], address.to_string());
    assert_eq!(headers.get_all("x-colour").iter().collect::<Vec<_>>(), ["green", "blue"]);
    // The host's credential is blotted out where the upstream echoes it.
    assert!(answer["body"].as_str().unwrap().contains("authorization: Bearer ***"), "{answer:#}");
    assert!(!answer.to_string().contains(SECRET), "{answer:#}");

    // A body goes in pieces, with its length told or not, and comes back; so do several values of a header.
    let mirror = format!("http://{address}/v1/mirror");
    let said = json!({ "url": mirror, "method": "POST", "body": "é".repeat(4000) });
    let answer = fetch(alice, said).await;
    assert_eq!(answer["body"], "é".repeat(4000), "{answer:#}");
    assert_eq!((&answer["length"], &answer["headers"]["X-Twice"]), (&json!(8000), &json!(["one", "two"])));
    assert_eq!(upstream.seen().pop().unwrap().1["content-length"], "8000");
    let answer = fetch(alice, json!({ "url": mirror, "method": "POST", "bodyBytes": 400_000 })).await;
    assert_eq!(answer["body"], "400000 bytes", "{answer:#}");

    // What the upstream itself refuses is an answer, and a redirect is followed by the host.
    for (path, status) in [("missing", 404), ("moved", 200)] {
        let answer = fetch(alice, json!({ "url": format!("http://{address}/v1/{path}") })).await;
        assert_eq!(answer["status"], status, "{answer:#}");
    }
    let head = fetch(alice, json!({ "url": format!("http://{address}/v1/large"), "method": "HEAD" })).await;
    assert_eq!(
        (&head["status"], &head["length"], &head["body"]),
        (&json!(200), &json!(2000), &Value::Null),
        "{head:#}"
    );
}

/// More handles than a call may hold, and more bytes than Go's collector leaves alone.
async fn much_at_once_and_in_a_row_leaves_nothing_behind(alice: &Caller<'_>, address: SocketAddr) {
    let to = |path: &str| format!("http://{address}/v1/{path}");
    for request in [
        json!({ "url": to("echo"), "times": 300 }),
        json!({ "url": to("echo"), "times": 300, "unread": true }),
        json!({ "url": to("megabyte"), "times": 40 }),
        json!({ "url": to("mirror"), "method": "POST", "bodyBytes": 50_000, "times": 3, "atOnce": 20 }),
    ] {
        let answer = fetch(alice, request.clone()).await;
        let asked = request["times"].as_u64().unwrap() * request["atOnce"].as_u64().unwrap_or(1);
        assert_eq!(answer["answered"], asked, "{request}: {answer:#}");
    }
    let answer = alice.call("cyberos.go.fetch_often", json!({ "path": "/v1/megabyte", "times": 20 })).await;
    assert_eq!(answer.structured()["bytes"], 20 << 20, "http-fetch too: {answer:?}");
}

async fn time_is_heeded(alice: &Caller<'_>, address: SocketAddr) {
    let slow = format!("http://{address}/v1/slow");
    let asked = Instant::now();
    let late = fetch(alice, json!({ "url": slow, "timeoutMs": 300 })).await;
    assert!(late["timeout"] == true && late["failed"].is_string(), "{late:#}");
    let ended = fetch(alice, json!({ "url": slow, "cancelMs": 300, "atOnce": 2 })).await;
    assert!(ended["failed"].as_str().is_some_and(|why| why.contains("context canceled")), "{ended:#}");
    assert!(asked.elapsed() < Duration::from_secs(10), "{:?}", asked.elapsed());
}

async fn a_refusal_is_an_error_with_its_code(alice: &Caller<'_>, upstream: &Upstream, address: SocketAddr) {
    upstream.clear();
    let to = |path: &str, more: Value| {
        let mut request = json!({ "url": format!("http://{address}{path}") });
        request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        request
    };
    let header = |name: &str, value: &str| json!({ "headers": { name: [value] } });
    let elsewhere = |url: String| json!({ "url": url });
    let cases = [
        (to("/admin", json!({})), "HTTP-request-denied", ""),
        (to("/v1/echo", json!({ "method": "DELETE" })), "HTTP-request-denied", ""),
        (elsewhere("https://example.com/".into()), "HTTP-request-denied", ""),
        (elsewhere(format!("https://{address}/v1/echo")), "HTTP-request-denied", ""),
        (elsewhere(format!("ftp://{address}/v1/echo")), "HTTP-protocol-error", ""),
        (elsewhere(format!("http://localhost:{}/v1/echo", address.port())), "destination-IP-prohibited", ""),
        (elsewhere("http:///v1/echo".into()), "HTTP-request-URI-invalid", "no host"),
        (elsewhere(format!("http://ada:secret@{address}/v1/echo")), "internal-error", "authorization"),
        (to("/v1/../admin", json!({})), "internal-error", "dot segment"),
        (to("/v1/echo", json!({ "method": "TRACE" })), "internal-error", "method"),
        (to("/v1/echo", json!({ "method": "GET", "body": "a GET has none" })), "internal-error", "body"),
        (to("/v1/echo", header("X-Forwarded-For", "::1")), "internal-error", "x-forwarded-for"),
        (to("/v1/echo", header("Upgrade", "h2c")), "forbidden", "Upgrade"),
        (to("/v1/echo", header("X-A", "b\r\nX-C: d")), "invalid-syntax", "X-A"),
        (to("/v1/echo", json!({ "method": "POST", "bodyBytes": 400_001 })), "HTTP-request-body-size", "400000"),
        (to("/v1/echo", json!({ "method": "POST", "body": "short", "declared": 9 })), "HTTP-request-body-size", "5"),
        // These reach it, and what comes back is not for the guest.
        (to("/v1/away", json!({})), "destination-IP-prohibited", ""),
        (to("/v1/large", json!({})), "HTTP-response-body-size", "1000"),
    ];
    for (request, code, says) in cases {
        let failed = fetch(alice, request.clone()).await;
        assert_eq!(failed["code"], code, "{request}: {failed:#}");
        assert!(failed["failed"].as_str().is_some_and(|why| why.contains(code)), "{request}: {failed:#}");
        assert!(failed["detail"].as_str().unwrap_or_default().contains(says), "{request}: {failed:#}");
    }
    let paths: Vec<String> = upstream.seen().into_iter().map(|(asked, _)| asked).collect();
    assert_eq!(paths, ["GET /v1/away", "GET /v1/large"], "nothing else left the host");
}
