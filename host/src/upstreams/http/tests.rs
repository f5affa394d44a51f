//! The policy against real servers on loopback, and a name server that lies.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Path;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{any, get, post};
use futures::future::BoxFuture;
use http::{HeaderMap, Method, StatusCode, Uri};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::config::{Credential, LiveSecret};

const CANARY: &str = "canary-4f1c9e";

/// An upstream that shows what reached it.
async fn echo(method: Method, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let mut text = format!("{method} {uri}\n");
    for (name, value) in &headers {
        text += &format!("{name}: {}\n", value.to_str().unwrap());
    }
    text += &String::from_utf8_lossy(&body);
    let echoed = headers.get("authorization").cloned().unwrap_or_else(|| "none".parse().unwrap());
    ([("x-echo", echoed)], text).into_response()
}

async fn redirect(Path((status, to)): Path<(u16, String)>) -> Response {
    let to = String::from_utf8(hex::decode(to).unwrap()).unwrap();
    (StatusCode::from_u16(status).unwrap(), [("location", to)]).into_response()
}

async fn serve(router: Router) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    address
}

async fn upstream() -> SocketAddr {
    let endless = || async {
        let chunks = futures::stream::repeat_with(|| Ok::<_, io::Error>(Bytes::from_static(&[b'x'; 1024])));
        Body::from_stream(chunks)
    };
    let drip = || async {
        let chunks = futures::stream::unfold((), |()| async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            Some((Ok::<_, io::Error>(Bytes::from_static(b".")), ()))
        });
        Body::from_stream(chunks)
    };
    let hop = || async {
        let headers = [
            ("set-cookie", "id=1"),
            ("connection", "x-hop"),
            ("x-hop", "1"),
            ("proxy-authenticate", "Basic"),
            ("x-kept", "2"),
        ];
        (headers, "ok")
    };
    // The start of a gzip stream, whatever was asked for.
    let gzip = || async { ([("content-encoding", "gzip")], vec![0x1f, 0x8b, 8, 0]) };
    serve(
        Router::new()
            .route("/v1/{*rest}", any(echo))
            .route("/secret", any(echo))
            .route("/go/{status}/{to}", any(redirect))
            .route("/loop", get(|| async { Redirect::temporary("/loop") }))
            .route("/endless", get(endless))
            .route("/drip", get(drip))
            .route("/hop", get(hop))
            .route("/gzip", get(gzip))
            .route("/close", get(|| async { ([("connection", "close")], "bye") }))
            .route("/sized", get(|| async { "0123456789" }))
            .route("/none", post(|| async { StatusCode::NO_CONTENT })),
    )
    .await
}

fn grant(url: impl ToString) -> UpstreamGrant {
    UpstreamGrant {
        url: url.to_string(),
        methods: ["GET", "POST", "HEAD", "PUT"].map(str::to_owned).to_vec(),
        paths: ["/v1/**", "/go/*/*", "/loop", "/endless", "/drip", "/hop", "/gzip", "/close", "/sized", "/none"]
            .map(str::to_owned)
            .to_vec(),
        allow_private: true,
        max_response_bytes: 64 << 10,
        max_request_bytes: 1024,
        credential: None,
    }
}

fn with_secret(mut grant: UpstreamGrant) -> UpstreamGrant {
    grant.credential = Some(Credential {
        header: "authorization".into(),
        scheme: Some("Bearer".into()),
        secret: "env:UNUSED".into(),
        value: Some(LiveSecret::new(CANARY.into())),
    });
    grant
}

fn ask(method: &str, path: &str) -> FetchRequest {
    FetchRequest {
        method: method.into(),
        path: path.into(),
        headers: vec![],
        body: vec![],
        timeout: Duration::from_secs(5),
        traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".into(),
    }
}

fn go(status: u16, to: impl AsRef<str>) -> String {
    format!("/go/{status}/{}", hex::encode(to.as_ref()))
}

impl FetchResponse {
    fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(held, _)| held == name).map(|(_, value)| value.as_str())
    }
}

/// Answers each lookup with the next entry, and the last one ever after.
struct Scripted(Vec<Vec<&'static str>>, AtomicUsize);

impl Lookup for Scripted {
    fn lookup(&self, _name: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let at = self.1.fetch_add(1, Ordering::SeqCst).min(self.0.len() - 1);
        let answer: Vec<IpAddr> = self.0[at].iter().map(|text| text.parse().unwrap()).collect();
        Box::pin(async move { Ok(answer) })
    }
}

fn names(answers: &[&[&'static str]]) -> (HttpUpstreams, Arc<Scripted>) {
    let lookup = Arc::new(Scripted(answers.iter().map(|answer| answer.to_vec()).collect(), AtomicUsize::new(0)));
    (HttpUpstreams::with_lookup(lookup.clone()), lookup)
}

#[tokio::test]
async fn a_granted_request_arrives_with_trace_and_credential_and_comes_back() {
    let grant = with_secret(grant(format!("http://{}", upstream().await)));
    let mut request = ask("POST", "/v1/n%6ftes/a%20b?limit=10&to=//x");
    request.headers = vec![("Content-Type".into(), "text/plain".into())];
    request.body = b"hello".to_vec();

    let response = HttpUpstreams::new().fetch(&grant, request).await.unwrap();

    assert_eq!(response.status, 200);
    let text = response.text();
    assert!(text.starts_with("POST /v1/notes/a%20b?limit=10&to=//x\n"), "{text}");
    for line in [
        "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\n",
        "accept-encoding: identity\n",
        "content-type: text/plain\n",
        "authorization: Bearer ***\n",
    ] {
        assert!(text.contains(line), "no {line} in {text}");
    }
    assert!(text.ends_with("hello"));
    assert_eq!(response.header("x-echo"), Some("Bearer ***"));
    assert!(!format!("{response:?}").contains(CANARY));
}

#[tokio::test]
async fn only_what_the_grant_names_is_asked() {
    let http = HttpUpstreams::new();
    let grant = grant(format!("http://{}", upstream().await));
    for (method, path, missing) in
        [("DELETE", "/v1/notes", "method DELETE"), ("GET", "/secret", "path /secret"), ("GET", "/v1", "path /v1")]
    {
        match http.fetch(&grant, ask(method, path)).await {
            Err(FetchError::NotGranted(what)) => assert_eq!(what, missing),
            other => panic!("{method} {path}: {other:?}"),
        }
    }
    for (method, path) in [("GET", "/v1/../secret"), ("GET", "//127.0.0.1/v1/x"), ("TRACE", "/v1/x"), ("get", "/v1/x")]
    {
        let outcome = http.fetch(&grant, ask(method, path)).await;
        assert!(matches!(outcome, Err(FetchError::InvalidRequest(_))), "{method} {path}: {outcome:?}");
    }
    let (mut large, mut strange, mut injected) = (ask("POST", "/v1/x"), ask("GET", "/v1/x"), ask("GET", "/v1/x"));
    large.body = vec![0; 1025];
    strange.body = vec![0];
    injected.headers = vec![("x-a".into(), "1\r\nhost: evil.example".into())];
    for request in [large, strange, injected] {
        assert!(matches!(http.fetch(&grant, request).await, Err(FetchError::InvalidRequest(_))));
    }
}

#[tokio::test]
async fn private_addresses_need_a_grant_and_metadata_cannot_be_granted() {
    let http = HttpUpstreams::new();
    let port = upstream().await.port();
    let refused = |mut grant: UpstreamGrant, allow_private| {
        grant.allow_private = allow_private;
        let http = &http;
        async move {
            let outcome = http.fetch(&grant, ask("GET", "/v1/x")).await;
            assert!(matches!(outcome, Err(FetchError::AddressRefused)), "{}: {outcome:?}", grant.url);
        }
    };
    for host in ["127.0.0.1", "localhost", "0x7f.1", "2130706433", "[::1]", "[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]"] {
        refused(grant(format!("http://{host}:{port}")), false).await;
    }
    for host in ["169.254.169.254", "[fd00:ec2::254]", "100.100.100.200", "[::ffff:a9fe:a9fe]", "0.0.0.0", "[fe80::1]"]
    {
        refused(grant(format!("http://{host}:{port}")), true).await;
    }
}

#[tokio::test]
async fn a_name_is_judged_by_every_address_it_resolves_to() {
    for answer in [
        &["127.0.0.1"][..],
        &["10.0.0.7"],
        &["100.64.0.1"],
        &["93.184.216.34", "192.168.1.1"],
        &["93.184.216.34", "::1"],
        &["169.254.169.254"],
        &["64:ff9b::a9fe:a9fe"],
        &["198.18.0.1"],
    ] {
        let (http, _) = names(&[answer]);
        let mut grant = grant("http://api.example.com:9");
        grant.allow_private = false;
        let outcome = http.fetch(&grant, ask("GET", "/v1/x")).await;
        assert!(matches!(outcome, Err(FetchError::AddressRefused)), "{answer:?}: {outcome:?}");
    }
    // Granted to the private network, and still not to metadata.
    let (http, _) = names(&[&["127.0.0.1", "169.254.169.254"]]);
    let outcome = http.fetch(&grant("http://api.example.com:9"), ask("GET", "/v1/x")).await;
    assert!(matches!(outcome, Err(FetchError::AddressRefused)), "{outcome:?}");
}

#[tokio::test]
async fn a_name_that_rebinds_is_looked_up_once_and_checked_each_time() {
    // given a name server that answers well first, and with a metadata address from then on
    let port = upstream().await.port();
    let (http, lookup) = names(&[&["127.0.0.1"], &["169.254.169.254"]]);
    let grant = grant(format!("http://api.example.com:{port}"));
    // when the first answer is connected to
    let response = http.fetch(&grant, ask("GET", "/v1/x")).await.unwrap();
    // then it was the answer that was checked, asked for once, and the name went out as Host
    assert_eq!(lookup.1.load(Ordering::SeqCst), 1);
    assert!(response.text().contains(&format!("host: api.example.com:{port}")));
    // and the next connection, after the upstream closed this one, meets the second answer and its check
    http.fetch(&grant, ask("GET", "/close")).await.unwrap();
    let outcome = http.fetch(&grant, ask("GET", "/v1/x")).await;
    assert!(matches!(outcome, Err(FetchError::AddressRefused)), "{outcome:?}");
    assert_eq!(lookup.1.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_connection_opened_with_private_access_is_not_shared_with_grants_that_lack_it() {
    let port = upstream().await.port();
    let (http, lookup) = names(&[&["127.0.0.1"]]);
    let open = grant(format!("http://api.example.com:{port}"));
    http.fetch(&open, ask("GET", "/v1/x")).await.unwrap();
    http.fetch(&open, ask("GET", "/v1/y")).await.unwrap();
    assert_eq!(lookup.1.load(Ordering::SeqCst), 1, "the second call should reuse the first one's connection");

    let mut shut = open;
    shut.allow_private = false;
    assert!(matches!(http.fetch(&shut, ask("GET", "/v1/x")).await, Err(FetchError::AddressRefused)));
}

#[tokio::test]
async fn redirects_lead_only_to_what_is_granted() {
    let http = HttpUpstreams::new();
    let address = upstream().await;
    let other = upstream().await;
    let grant = with_secret(grant(format!("http://{address}")));

    let response = http.fetch(&grant, ask("GET", &go(302, "/v1/there?x=1"))).await.unwrap();
    assert!(response.text().starts_with("GET /v1/there?x=1\n"));
    assert!(response.text().contains("authorization: Bearer ***"), "the same origin gets the credential");

    for to in [
        "/secret".to_owned(),
        "/v1/%2e%2e/secret".to_owned(),
        "/v1/..%2fsecret".to_owned(),
        format!("http://{other}/v1/x"),
        format!("http://localhost:{}/v1/x", address.port()),
        format!("//{other}/v1/x"),
        format!("https://{address}/v1/x"),
        format!("http://user:pass@{address}/v1/x"),
        "http://169.254.169.254/latest/meta-data".to_owned(),
        "file:///etc/passwd".to_owned(),
        "http://[".to_owned(),
    ] {
        let outcome = http.fetch(&grant, ask("GET", &go(302, &to))).await;
        assert!(matches!(outcome, Err(FetchError::AddressRefused)), "{to}: {outcome:?}");
    }
    assert!(matches!(http.fetch(&grant, ask("GET", "/loop")).await, Err(FetchError::AddressRefused)));
}

#[tokio::test]
async fn a_redirect_keeps_or_changes_the_method_as_http_has_it() {
    let http = HttpUpstreams::new();
    let grant = grant(format!("http://{}", upstream().await));
    for (sent, status, arrives) in [
        ("POST", 301, "GET"),
        ("POST", 302, "GET"),
        ("POST", 303, "GET"),
        ("PUT", 303, "GET"),
        ("PUT", 302, "PUT"),
        ("POST", 307, "POST"),
        ("POST", 308, "POST"),
    ] {
        let mut request = ask(sent, &go(status, "/v1/x"));
        request.body = b"payload".to_vec();
        request.headers = vec![("content-type".into(), "text/plain".into())];
        let text = http.fetch(&grant, request).await.unwrap().text();
        assert!(text.starts_with(&format!("{arrives} /v1/x")), "{sent} {status}: {text}");
        let kept = arrives == sent;
        assert_eq!(text.contains("payload"), kept, "{sent} {status}: {text}");
        assert_eq!(text.contains("content-type"), kept, "{sent} {status}: {text}");
    }
    // A redirect must not reach a method that was not granted.
    let mut post_only = grant;
    post_only.methods = vec!["POST".into()];
    let outcome = http.fetch(&post_only, ask("POST", &go(303, "/v1/x"))).await;
    assert!(matches!(outcome, Err(FetchError::AddressRefused)), "{outcome:?}");
}

#[tokio::test]
async fn a_response_is_cut_off_at_its_limit_whether_announced_or_not() {
    let http = HttpUpstreams::new();
    let mut grant = grant(format!("http://{}", upstream().await));
    assert!(matches!(http.fetch(&grant, ask("GET", "/endless")).await, Err(FetchError::TooLarge)));
    grant.max_response_bytes = 10;
    assert_eq!(http.fetch(&grant, ask("GET", "/sized")).await.unwrap().body, b"0123456789");
    grant.max_response_bytes = 9;
    assert!(matches!(http.fetch(&grant, ask("GET", "/sized")).await, Err(FetchError::TooLarge)));
    let head = http.fetch(&grant, ask("HEAD", "/sized")).await.unwrap();
    assert_eq!((head.body.len(), head.header("content-length")), (0, Some("10")));
}

#[tokio::test]
async fn a_compressed_answer_is_not_unpacked_and_cannot_hide_a_credential() {
    let http = HttpUpstreams::new();
    let grant = grant(format!("http://{}", upstream().await));
    let response = http.fetch(&grant, ask("GET", "/gzip")).await.unwrap();
    assert_eq!(
        (response.body, response.headers.iter().any(|(n, _)| n == "content-encoding")),
        (vec![0x1f, 0x8b, 8, 0], true)
    );
    let outcome = http.fetch(&with_secret(grant), ask("GET", "/gzip")).await;
    assert!(matches!(outcome, Err(FetchError::Unreachable(_))), "{outcome:?}");
}

#[tokio::test]
async fn time_is_up_for_the_body_too() {
    let http = HttpUpstreams::new();
    let mut request = ask("GET", "/drip");
    request.timeout = Duration::from_millis(300);
    let grant = grant(format!("http://{}", upstream().await));
    let started = Instant::now();
    assert!(matches!(http.fetch(&grant, request).await, Err(FetchError::Timeout)));
    assert!(started.elapsed() < Duration::from_secs(3), "took {:?}", started.elapsed());
}

#[tokio::test]
async fn headers_about_the_connection_and_cookies_stay_with_the_host() {
    let grant = grant(format!("http://{}", upstream().await));
    let response = HttpUpstreams::new().fetch(&grant, ask("GET", "/hop")).await.unwrap();
    assert_eq!(response.header("x-kept"), Some("2"));
    for name in ["set-cookie", "connection", "x-hop", "proxy-authenticate"] {
        assert_eq!(response.header(name), None, "{name}");
    }
}

#[tokio::test]
async fn a_dead_or_babbling_upstream_is_unreachable() {
    let http = HttpUpstreams::new();
    // given a port that nobody listens on, one that speaks no HTTP, and one that speaks no TLS
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let babbler = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let babbling = babbler.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut socket, _) = babbler.accept().await.unwrap();
        let _ = socket.read(&mut [0; 1024]).await;
        socket.write_all(b"SSH-2.0-nonsense\r\n\r\n").await.unwrap();
    });
    let plain = upstream().await;
    for url in [format!("http://{free}"), format!("http://{babbling}"), format!("https://{plain}")] {
        match http.fetch(&grant(url), ask("GET", "/v1/x?secret=1")).await {
            Err(FetchError::Unreachable(why)) => assert!(!why.contains("secret=1"), "{why}"),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn an_answer_is_free_of_the_secrets_before_and_after_the_one_that_was_sent() {
    // given: an upstream that takes its time, and repeats what it was asked for
    let slow = Router::new().fallback(async |uri: Uri, headers: HeaderMap| {
        tokio::time::sleep(Duration::from_millis(200)).await;
        format!("{} {:?}", uri.query().unwrap_or_default(), headers.get("authorization"))
    });
    let grant = with_secret(grant(format!("http://{}", serve(slow).await)));
    let live = grant.credential.as_ref().unwrap().value.clone().unwrap();
    live.becomes("canary-of-today".into());
    // when: it changes once more while the answer is on its way
    let (http, path) = (HttpUpstreams::new(), format!("/v1/x?{CANARY}.canary-of-today.canary-to-come"));
    let (answer, ()) = tokio::join!(http.fetch(&grant, ask("GET", &path)), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(live.becomes("canary-to-come".into()));
    });
    // then
    let text = String::from_utf8(answer.unwrap().body).unwrap();
    assert_eq!(text, "***.***.*** Some(\"Bearer ***\")");
    // and the next request has the new one
    let answer = http.fetch(&grant, ask("GET", "/v1/x")).await.unwrap();
    assert!(!String::from_utf8(answer.body).unwrap().contains("canary"));
}

#[tokio::test]
async fn without_its_secret_an_upstream_is_not_asked_at_all() {
    let mut grant = with_secret(grant(format!("http://{}", upstream().await)));
    grant.credential.as_mut().unwrap().value = None;
    let outcome = HttpUpstreams::new().fetch(&grant, ask("GET", "/v1/x")).await;
    assert!(matches!(outcome, Err(FetchError::Unreachable(_))), "{outcome:?}");
}

#[test]
fn a_grant_that_cannot_work_is_told_at_the_start() {
    assert_eq!(check_grant(&with_secret(grant("http://127.0.0.1:8080"))), Ok(()));
    let wrong = |url: &str| check_grant(&grant(url)).unwrap_err();
    assert!(wrong("api.example.com").contains("URL"));
    assert!(wrong("ftp://api.example.com").contains("https://"));
    assert!(wrong("https://u:p@api.example.com").contains("credential"));
    assert!(wrong("https://api.example.com/v1").contains("paths"));
    let mut bad = grant("https://api.example.com");
    bad.methods.push("TRACE".into());
    assert!(check_grant(&bad).unwrap_err().contains("TRACE"));
    let mut bad = grant("https://api.example.com");
    bad.paths.push("/v1/n*".into());
    assert!(check_grant(&bad).unwrap_err().contains("/v1/n*"));
    let mut open = with_secret(grant("http://api.example.com"));
    open.allow_private = false;
    assert!(check_grant(&open).unwrap_err().contains("https"));
    let mut bad = with_secret(grant("https://api.example.com"));
    bad.credential.as_mut().unwrap().header = "Host".into();
    assert!(check_grant(&bad).unwrap_err().contains("host"));
}
