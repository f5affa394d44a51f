//! What hostile upstreams send, and where a plugin would like a request to go: bounded, and nowhere else.
//!
//! `docs/operators/hostile-plugins.md` names these tests beside those of `hostile`.

use bridge_tests::{Bridge, Setup};
use serde_json::{Value, json};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::hostile::{beside, mallory};

/// `guest-reaches` with an upstream on this port, under the names `hostile` and, where private addresses are not granted,
/// `named`.
pub fn reaching(port: u16) -> Setup {
    let grants = format!(
        "[plugins.guest-reaches]\nany_tool_name = true\ncuo = true\naudit_append = true\naudit_read = true\n\
         config = {{ colour = \"green\" }}\n\
         [plugins.guest-reaches.upstreams.hostile]\nurl = \"http://127.0.0.1:{port}\"\nmethods = [\"GET\", \"POST\"]\n\
         paths = [\"/v1/*\"]\nallow_private = true\nmax_response_bytes = 50000\n\
         [plugins.guest-reaches.upstreams.named]\nurl = \"http://localhost:{port}\"\npaths = [\"/v1/*\"]\n"
    );
    Bridge::http().unlimited().guests(&["guest_reaches", "fixture_echo"], &grants)
}

/// An upstream that answers each path in bytes of its own, and counts requests.
pub async fn upstream(paths: fn(&str, u16) -> Vec<Vec<u8>>) -> (u16, &'static AtomicUsize) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked: &'static AtomicUsize = Box::leak(Box::default());
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(answer(socket, port, paths, asked));
        }
    });
    (port, asked)
}

async fn answer(mut socket: TcpStream, port: u16, paths: fn(&str, u16) -> Vec<Vec<u8>>, asked: &AtomicUsize) {
    let mut head = vec![0; 16 << 10];
    let read = socket.read(&mut head).await.unwrap_or(0);
    let text = String::from_utf8_lossy(&head[..read]).into_owned();
    let Some(path) = text.split(' ').nth(1) else { return };
    asked.fetch_add(1, Ordering::SeqCst);
    for piece in paths(path, port) {
        // An empty piece is a pause.
        if piece.is_empty() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        } else if socket.write_all(&piece).await.is_err() {
            return;
        }
    }
}

fn dripping(whole: &[u8]) -> Vec<Vec<u8>> {
    whole.iter().flat_map(|byte| [vec![*byte], vec![]]).collect()
}

/// So many bytes of zeros, as `gzip` writes them.
fn zipped(bytes: usize) -> Vec<u8> {
    use std::io::Write;
    let (mut command, piped) = (std::process::Command::new("gzip"), std::process::Stdio::piped);
    let mut child = command.arg("-9c").stdin(piped()).stdout(piped()).spawn().expect("gzip is installed");
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(&vec![0; bytes]).unwrap());
    let zipped = child.wait_with_output().unwrap().stdout;
    writer.join().unwrap();
    zipped
}

/// Made once: the upstream's time is what is tested.
static BOMB: LazyLock<Vec<u8>> = LazyLock::new(|| zipped(10 << 20));
static LARGE_BOMB: LazyLock<Vec<u8>> = LazyLock::new(|| zipped(100 << 20));

fn as_gzip(zipped: &[u8]) -> Vec<Vec<u8>> {
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        zipped.len()
    );
    vec![head.into_bytes(), zipped.to_vec()]
}

pub fn hostile_answers(path: &str, port: u16) -> Vec<Vec<u8>> {
    let to = |location: String| {
        vec![
            format!("HTTP/1.1 302 Found\r\nlocation: {location}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                .into_bytes(),
        ]
    };
    match path {
        "/v1/drip-head" => dripping(format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(400)).as_bytes()),
        "/v1/drip-body" => {
            let mut pieces = vec![b"HTTP/1.1 200 OK\r\ncontent-length: 400\r\n\r\n".to_vec()];
            pieces.extend(dripping(&[b'x'; 400]));
            pieces
        }
        "/v1/endless-head" => {
            let header = format!("x: {}\r\n", "y".repeat(8_000)).into_bytes();
            let mut pieces = vec![b"HTTP/1.1 200 OK\r\n".to_vec()];
            pieces.resize(5_000, header);
            pieces
        }
        "/v1/bomb" => as_gzip(&BOMB),
        "/v1/large-bomb" => as_gzip(&LARGE_BOMB),
        "/v1/loop" => to("/v1/loop".into()),
        "/v1/inside" => to(format!("http://127.0.0.1:{}/v1/echo", port ^ 1)),
        "/v1/other-name" => to(format!("http://localhost:{port}/v1/echo")),
        "/v1/elsewhere" => to("http://[::ffff:169.254.169.254]/latest".into()),
        "/v1/file" => to("file:///etc/passwd".into()),
        _ => vec![b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok".to_vec()],
    }
}

#[tokio::test]
async fn what_a_hostile_upstream_sends_is_bounded_and_leads_nowhere() {
    // given
    let (port, _) = upstream(hostile_answers).await;
    assert!(BOMB.len() < 50_000 && LARGE_BOMB.len() > 50_000, "one is below the limit of the answer, one above");
    let bridge = reaching(port).start().await;
    let (mallory, alice) = (mallory(&bridge), bridge.caller("alice"));
    let before = bridge.memory_kib("VmRSS");
    let cases: [(&str, &[&str]); 9] = [
        ("/v1/drip-head", &["timeout"]),
        ("/v1/drip-body", &["timeout"]),
        ("/v1/endless-head", &["unreachable", "too-large"]),
        ("/v1/large-bomb", &["too-large"]),
        ("/v1/loop", &["address-refused"]),
        ("/v1/inside", &["address-refused"]),
        ("/v1/other-name", &["address-refused"]),
        ("/v1/elsewhere", &["address-refused"]),
        ("/v1/file", &["address-refused"]),
    ];
    for (path, errors) in cases {
        // when
        let asked = Instant::now();
        let request = json!({ "upstream": "hostile", "path": path, "timeout_ms": 1_000 });
        let reply = beside(&alice, mallory.call("test.fetches", request)).await;
        // then: an error that the guest can handle
        let error = reply.structured()["error"].as_str().unwrap_or("none");
        assert!(errors.contains(&error), "{path}: {error}");
        assert!(asked.elapsed() < Duration::from_secs(5), "{path}: {:?}", asked.elapsed());
    }
    // A small bomb stays a small file: nobody unpacks it.
    let reply = mallory.call("test.fetches", json!({ "upstream": "hostile", "path": "/v1/bomb" })).await;
    assert_eq!(reply.structured()["body_bytes"], BOMB.len(), "{:#}", reply.body);
    let after = bridge.memory_kib("VmRSS");
    assert!(after < before + (60 << 10), "{before} KiB before, {after} KiB after");
}

#[tokio::test]
async fn a_name_that_leads_to_loopback_and_headers_that_hide_others_never_leave_the_host() {
    // given
    let (port, asked) = upstream(hostile_answers).await;
    let bridge = reaching(port).start().await;
    let (mallory, alice) = (mallory(&bridge), bridge.caller("alice"));
    let fetch = async |request: Value| {
        let reply = beside(&alice, mallory.call("test.fetches", request)).await;
        reply.structured()["error"].as_str().unwrap_or("none").to_owned()
    };
    // when, then
    assert_eq!(fetch(json!({ "upstream": "named", "path": "/v1/echo" })).await, "address-refused");
    for (name, value) in [
        ("x-a", "b\r\nx-c: d"),
        ("x-a", "b\nx-c: d"),
        ("x-a", "b\0c"),
        ("x-a\r\nx-b", "c"),
        ("x-a: b\r\nx-c", "d"),
        ("x a", "b"),
        ("", "b"),
        (":authority", "evil.example"),
        (":path", "/admin"),
        (":method", "DELETE"),
        ("Host", "evil.example"),
        ("hOsT", "evil.example"),
        ("Content-Length", "0"),
        ("Transfer-Encoding", "chunked"),
        ("Connection", "x-a"),
        ("Upgrade", "h2c"),
        ("Proxy-Authorization", "Basic x"),
        ("Authorization", "Bearer mine"),
    ] {
        let request = json!({ "upstream": "hostile", "path": "/v1/echo", "headers": { name: value } });
        assert_eq!(fetch(request).await, "invalid-request", "{name:?}: {value:?}");
    }
    for path in ["/v1/a\r\nx-a: b", "/v1/a b", "/v1/a HTTP/1.1\r\n\r\nGET /admin", "/v1/\u{0}"] {
        assert_eq!(fetch(json!({ "upstream": "hostile", "path": path })).await, "invalid-request", "{path:?}");
    }
    let method = "GET /admin HTTP/1.1\r\n\r\nGET";
    let request = json!({ "upstream": "hostile", "path": "/v1/echo", "method": method });
    assert_eq!(fetch(request).await, "invalid-request");
    assert_eq!(asked.load(Ordering::SeqCst), 0, "nothing left the host");
    assert_eq!(fetch(json!({ "upstream": "hostile", "path": "/v1/echo" })).await, "none", "it would have got there");
}
