//! stdio as such: lines, batches, what is no message, and the end of input.

use bridge_tests::Bridge;
use bridge_tests::reply::assert_complete;
use serde_json::{Value, json};
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;

fn ping(id: impl Into<Value>) -> Value {
    json!({ "jsonrpc": "2.0", "id": id.into(), "method": "ping" })
}

#[track_caller]
fn assert_refused(message: &Value, code: i64, reason: &str) {
    assert_eq!(message["error"]["code"], code, "{message:#}");
    assert_eq!(assert_complete(&message["error"])["reason"], reason);
}

#[tokio::test]
async fn a_line_in_is_a_line_out_and_no_port_is_bound() {
    let bridge = Bridge::stdio().start().await;
    let answer = bridge.caller("alice").initialize().await;
    assert_eq!(answer.body["jsonrpc"], "2.0");
    assert_eq!(answer.result()["protocolVersion"], "2025-11-25");
    // stdio is the default transport, and it listens nowhere.
    assert_eq!(listening(bridge.pid.as_raw_nonzero().get()), Vec::<String>::new());
    // Over HTTP the same question finds the port, or it could not fail.
    let http = Bridge::http().start().await;
    assert_eq!(listening(http.pid.as_raw_nonzero().get()).len(), 1);
}

/// Local addresses, in hexadecimal, on which a process listens.
fn listening(pid: i32) -> Vec<String> {
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("the process runs");
    let sockets: Vec<String> = descriptors
        .filter_map(|fd| {
            std::fs::read_link(fd.ok()?.path()).ok()?.to_str()?.strip_prefix("socket:[").map(str::to_owned)
        })
        .map(|inode| inode.trim_end_matches(']').to_owned())
        .collect();
    let mut found = vec![];
    for table in ["tcp", "tcp6"] {
        let text = std::fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        for line in text.lines().skip(1) {
            let columns: Vec<&str> = line.split_whitespace().collect();
            // Column 3 is the state, 0A = LISTEN; column 9 the inode.
            if columns[3] == "0A" && sockets.iter().any(|inode| inode == columns[9]) {
                found.push(columns[1].to_owned());
            }
        }
    }
    found
}

#[tokio::test]
async fn what_is_no_message_is_refused_and_the_conversation_goes_on() {
    let bridge = Bridge::stdio().start().await;
    let line = bridge.line();
    let cases: [(&[u8], i64, &str); 8] = [
        (b"{\"jsonrpc\":\"2.0\",", -32700, "parse_error"),
        (b"not json", -32700, "parse_error"),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\xfe\"}", -32700, "parse_error"),
        (b"\0\0\0", -32700, "parse_error"),
        (b"42", -32600, "invalid_request"),
        (b"[]", -32600, "invalid_request"),
        (b"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}", -32600, "invalid_request"),
        (b"{\"id\":\"x\",\"method\":\"ping\"}", -32600, "invalid_request"),
    ];
    for (bytes, code, reason) in cases {
        line.send_bytes(&[bytes, b"\n"].concat()).await;
        let answer = line.next().await;
        assert_refused(&answer, code, reason);
        // Only an id that could be read comes back.
        let id = (String::from_utf8_lossy(bytes).contains("\"x\"")).then(|| json!("x"));
        assert_eq!(answer.get("id").cloned(), id, "{answer:#}");
        let next = bridge.caller("alice").request("ping", json!({})).await;
        assert_eq!(next.result(), &json!({}));
    }
    // Blank lines are nothing at all.
    line.send_bytes(b"\n\r\n   \n").await;
    line.request(&ping(77)).await;
}

#[tokio::test]
async fn a_batch_is_answered_in_order_without_its_notifications() {
    let bridge = Bridge::stdio().misbehaving_guest().start().await;
    let call = |id: &str, ms: u64| {
        let params = json!({ "name": "test.sleeps", "arguments": { "ms": ms } });
        json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
    };
    let note = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    bridge.line().request(&call("first", 0)).await;
    let asked = Instant::now();
    let batch = json!([call("slow", 400), note, call("slower", 500), ping("quick"), { "wrong": true }]);
    bridge.line().send(&batch.to_string()).await;
    let answers = bridge.line().next().await;
    let ids: Vec<&Value> = answers.as_array().expect("an array").iter().map(|a| &a["id"]).collect();
    assert_eq!(ids, [&json!("slow"), &json!("slower"), &json!("quick"), &Value::Null], "{answers:#}");
    assert_refused(&answers[3], -32600, "invalid_request");
    assert!(asked.elapsed() < Duration::from_millis(850), "they ran at the same time");
    // Nothing but notifications: no answer at all.
    bridge.line().send(&json!([note, note]).to_string()).await;
    bridge.line().request(&ping("after")).await;
    assert_eq!(bridge.line().next_within(Duration::from_millis(50)).await, None);
}

#[tokio::test]
async fn batches_over_http_are_answered_in_order_too() {
    let bridge = Bridge::http().start().await;
    let alice = bridge.caller("alice");
    let note = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let reply = alice.say(json!([ping(3), note, ping("b"), ping(1)]).to_string().as_bytes()).await;
    let ids: Vec<&Value> = reply.body.as_array().expect("an array").iter().map(|a| &a["id"]).collect();
    assert_eq!(ids, [&json!(3), &json!("b"), &json!(1)]);
    let answer = alice.post(json!([note, note]).to_string().into_bytes()).await;
    assert_eq!((answer.status, answer.text.as_str()), (202, ""));
}

#[tokio::test]
async fn an_endless_line_is_refused_without_being_kept() {
    let bridge = Bridge::stdio().start().await;
    bridge.line().request(&ping("before")).await;
    let before = bridge.memory_kib("VmRSS");
    // 64 MiB in one line, against a limit of 4 MiB.
    let chunk = vec![b'x'; 1 << 20];
    for _ in 0..64 {
        bridge.line().send_bytes(&chunk).await;
    }
    bridge.line().send_bytes(b"\n").await;
    let answer = bridge.line().next().await;
    assert_refused(&answer, -32600, "payload_too_large");
    let grown = bridge.memory_kib("VmHWM").saturating_sub(before);
    assert!(grown < 24 << 10, "memory grew by {grown} KiB");
    bridge.line().request(&ping("after")).await;
    // A line just below the limit is a message.
    let mut long = ping("long");
    long["params"] = json!({ "padding": "y".repeat((4 << 20) - 200) });
    assert_eq!(bridge.line().request(&long).await["result"], json!({}));
}

#[tokio::test]
async fn the_end_of_input_ends_the_process_promptly() {
    let bridge = Bridge::stdio().start().await;
    bridge.caller("alice").initialize().await.result();
    let closed = Instant::now();
    bridge.line().close().await;
    let status = bridge.exit_within(Duration::from_secs(5)).await;
    assert!(status.success(), "{status}");
    assert!(closed.elapsed() < Duration::from_millis(1500), "it took {:?}", closed.elapsed());
}

#[tokio::test]
async fn the_end_of_input_stops_what_nobody_will_read() {
    let bridge = Bridge::stdio().misbehaving_guest().start().await;
    let call = json!({ "jsonrpc": "2.0", "id": "x", "method": "tools/call",
        "params": { "name": "test.sleeps", "arguments": { "ms": 25_000 } } });
    let _answer = bridge.line().begin(&call).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    bridge.line().close().await;
    bridge.exit_within(Duration::from_secs(8)).await;
    // Its audit bracket is closed all the same.
    let rows = bridge.audit(bridge_tests::caller::local_tenant()).await;
    let kinds: Vec<&str> = rows.iter().map(|row| row.kind.as_str()).collect();
    assert_eq!(kinds, ["mcp.tool_call_started", "mcp.tool_call_completed"]);
}

#[tokio::test]
async fn a_plugin_that_prints_does_not_speak_for_the_bridge() {
    let bridge = Bridge::stdio().misbehaving_guest().start().await;
    let alice = bridge.caller("alice");
    alice.call("test.prints_without_end", json!({ "bytes": 200_000 })).await.structured();
    assert_eq!(bridge.line().next_within(Duration::from_millis(100)).await, None, "nothing else is on stdout");
    alice.request("ping", json!({})).await.result();
}

#[tokio::test]
async fn progress_reaches_the_client_that_asked_for_it() {
    let bridge = Bridge::stdio().misbehaving_guest().start().await;
    let alice = bridge.caller("alice");
    let arguments = json!({ "values": [1.0, 2.0, 3.0], "total": 3.0, "pause_ms": 150 });
    let reply = alice.call_with("test.reports_progress", arguments, json!({ "progressToken": "p-7" })).await;
    reply.result();
    let mut values = vec![];
    while let Some(note) = bridge.line().next_within(Duration::from_millis(100)).await {
        assert_eq!(note["method"], "notifications/progress", "{note:#}");
        assert_eq!(note["params"]["progressToken"], "p-7");
        values.push(note["params"]["progress"].as_f64().unwrap());
    }
    assert!(values.len() >= 2 && values.is_sorted(), "{values:?}");
}

/// Node.js gives its children sockets; a script may give files, or one pipe for everything.
#[tokio::test]
async fn sockets_files_and_a_pipe_for_everything_serve_as_well() {
    let lines = format!("{}\n{}\n", ping(1), ping(2));
    let answered = |text: &str| (1..=2).all(|id| text.contains(&format!("\"id\":{id},\"result\":{{}}")));
    // given a socket in each direction
    let (mut to_bridge, input) = UnixStream::pair().unwrap();
    let (mut from_bridge, output) = UnixStream::pair().unwrap();
    let setup = Bridge::stdio();
    let mut command = setup.command();
    let mut bridge = command.stdin(OwnedFd::from(input)).stdout(OwnedFd::from(output)).spawn().unwrap();
    drop(command);
    to_bridge.write_all(lines.as_bytes()).unwrap();
    drop(to_bridge);
    let text = tokio::task::spawn_blocking(move || std::io::read_to_string(&mut from_bridge).unwrap()).await.unwrap();
    assert!(answered(&text), "{text}");
    assert!(bridge.wait().await.unwrap().success());
    // given files
    let setup = Bridge::stdio();
    let (asked, said) = (setup.home().join("asked"), setup.home().join("said"));
    std::fs::write(&asked, &lines).unwrap();
    let (asked, output) = (File::open(asked).unwrap(), File::create(&said).unwrap());
    assert!(setup.command().stdin(asked).stdout(output).status().await.unwrap().success());
    let text = std::fs::read_to_string(said).unwrap();
    assert!(answered(&text), "{text}");
    // given one pipe for answers and log
    let (mut both, output) = std::io::pipe().unwrap();
    let setup = Bridge::stdio();
    let mut command = setup.command();
    let mut bridge = command.stdout(output.try_clone().unwrap()).stderr(output).spawn().unwrap();
    drop(command);
    bridge.stdin.take().unwrap().write_all(lines.as_bytes()).await.unwrap();
    let text = tokio::task::spawn_blocking(move || std::io::read_to_string(&mut both).unwrap()).await.unwrap();
    assert!(answered(&text), "{text}");
    assert!(bridge.wait().await.unwrap().success());
}
