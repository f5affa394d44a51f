//! SIGTERM: what runs may finish, what comes is sent elsewhere, and the process ends.

use bridge_tests::Bridge;
use bridge_tests::caller::TENANT_A;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

fn request(bridge: &Bridge, body: &Value) -> Vec<u8> {
    let (body, token) = (body.to_string(), bridge.caller("alice").mint());
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAuthorization: Bearer {token}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body.as_bytes()].concat()
}

async fn read_some(socket: &mut TcpStream) -> String {
    let mut buffer = vec![0; 64 << 10];
    let read = tokio::time::timeout(Duration::from_secs(10), socket.read(&mut buffer)).await;
    let n = read.expect("an answer in time").unwrap_or(0);
    String::from_utf8_lossy(&buffer[..n]).into_owned()
}

#[tokio::test]
async fn a_running_call_finishes_and_a_new_one_is_sent_elsewhere() {
    let bridge = Bridge::http().misbehaving_guest().start().await;
    let alice = bridge.caller("alice");
    // given: a connection that is under way with a request when the signal comes
    let ping = json!({ "jsonrpc": "2.0", "id": 2, "method": "ping" });
    let mut late = TcpStream::connect(bridge.address()).await.unwrap();
    let bytes = request(&bridge, &ping);
    let (first, rest) = bytes.split_at(30);
    late.write_all(first).await.unwrap();
    let running = alice.call("test.sleeps", json!({ "ms": 900 }));
    let signalling = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        bridge.signal(Signal::TERM);
        bridge.logged("draining").await;
        // when its request is complete
        late.write_all(rest).await.unwrap();
        read_some(&mut late).await
    };
    let (reply, late) = futures::join!(running, signalling);
    // then
    assert_eq!(reply.structured()["slept_ms"], 900);
    assert!(late.starts_with("HTTP/1.1 503"), "{late}");
    let body: Value = serde_json::from_str(late.split("\r\n\r\n").nth(1).unwrap()).expect("a reason in JSON");
    assert_eq!(bridge_tests::reply::assert_complete(&body["error"])["reason"], "draining");
    assert!(bridge.exit_within(Duration::from_secs(5)).await.success());
    let rows = bridge.audit(TENANT_A).await;
    assert_eq!(rows.last().unwrap().body["outcome"], "success");
}

#[tokio::test]
async fn a_call_that_takes_too_long_is_stopped_when_the_budget_is_spent() {
    let bridge = Bridge::http().misbehaving_guest().flag("--drain-seconds=1").start().await;
    let alice = bridge.caller("alice");
    let body = alice.message("tools/call", json!({ "name": "test.sleeps", "arguments": { "ms": 25_000 } }));
    let running = async {
        let mut socket = TcpStream::connect(bridge.address()).await.unwrap();
        socket.write_all(&request(&bridge, &body)).await.unwrap();
        read_some(&mut socket).await
    };
    let ending = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let asked = Instant::now();
        bridge.signal(Signal::TERM);
        bridge.exit_within(Duration::from_secs(10)).await;
        asked.elapsed()
    };
    let (_, took) = futures::join!(running, ending);
    assert!((900..6_000).contains(&took.as_millis()), "{took:?}");
    // Nothing is left open in the log.
    let kinds: Vec<String> = bridge.audit(TENANT_A).await.into_iter().map(|row| row.kind).collect();
    assert_eq!(kinds, ["mcp.tool_call_started", "mcp.tool_call_completed"]);
}

#[tokio::test]
async fn an_idle_bridge_ends_at_once() {
    for setup in [Bridge::http(), Bridge::stdio()] {
        let bridge = setup.start().await;
        if bridge.is_stdio() {
            bridge.caller("alice").initialize().await.result();
        }
        let asked = Instant::now();
        bridge.signal(Signal::TERM);
        assert!(bridge.exit_within(Duration::from_secs(5)).await.success());
        assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
    }
}

#[tokio::test]
async fn a_second_signal_does_not_wait() {
    let bridge = Bridge::http().misbehaving_guest().start().await;
    let alice = bridge.caller("alice");
    let body = alice.message("tools/call", json!({ "name": "test.sleeps", "arguments": { "ms": 25_000 } }));
    let mut socket = TcpStream::connect(bridge.address()).await.unwrap();
    socket.write_all(&request(&bridge, &body)).await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    bridge.signal(Signal::TERM);
    bridge.logged("draining").await;
    bridge.signal(Signal::TERM);
    bridge.exit_within(Duration::from_secs(2)).await;
}
