//! Clients that take without giving: who never read, who never finish a sentence, who come in crowds.

use bridge_tests::Bridge;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).expect("a line of its memory");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

#[tokio::test]
async fn a_stdio_client_that_never_reads_costs_no_memory_and_does_not_hold_up_the_end() {
    // given: nobody reads its output
    let setup = Bridge::stdio();
    let mut child = setup.command().stderr(std::process::Stdio::null()).spawn().unwrap();
    let pid = child.id().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // Each is answered with some two hundred bytes, and takes the bridge no thought.
    let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":\"{}\",\"method\":\"nothing\"}}\n", "i".repeat(200));
    let lines = line.repeat(400);
    // when a client writes for as long as it is listened to
    let (mut written, begun) = (0, Instant::now());
    while begun.elapsed() < Duration::from_secs(60) && written < (64 << 20) {
        match tokio::time::timeout(Duration::from_secs(2), stdin.write_all(lines.as_bytes())).await {
            Ok(sent) => sent.expect("the bridge runs"),
            Err(_) => break,
        }
        written += lines.len();
    }
    // then it is not listened to for long, and nothing piles up
    assert!(written < (4 << 20), "{written} bytes were taken from a client that reads nothing");
    let memory = resident_kib(pid);
    assert!(memory < 200 << 10, "{memory} KiB");
    let asked = Instant::now();
    kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::TERM).unwrap();
    tokio::time::timeout(Duration::from_secs(10), child.wait()).await.expect("it ends").unwrap();
    assert!(asked.elapsed() < Duration::from_secs(6), "{:?}", asked.elapsed());
}

#[tokio::test]
async fn a_crowd_that_never_finishes_its_requests_is_cut_off_and_others_are_served() {
    // given: more sockets than places, each with half a request
    let bridge = Bridge::http().start().await;
    let mut crowd = vec![];
    for _ in 0..700 {
        let Ok(Ok(mut socket)) =
            tokio::time::timeout(Duration::from_secs(2), TcpStream::connect(bridge.address())).await
        else {
            break;
        };
        let _ = socket.write_all(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-Slow: ").await;
        crowd.push(socket);
    }
    assert!(crowd.len() > 600, "{}", crowd.len());
    let open = std::fs::read_dir(format!("/proc/{}/fd", bridge.pid.as_raw_nonzero())).unwrap().count();
    assert!(open < 600, "{open} descriptors: one process has 1,024");
    // when somebody comes with a real request
    let asked = Instant::now();
    let reply = bridge.caller("alice").list().await;
    // then somebody of the crowd makes room at once, and none of the others stays for ever
    assert!(reply.result()["tools"].is_array());
    assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
    for nth in [0, crowd.len() - 1] {
        let mut rest = vec![];
        let ended = tokio::time::timeout(Duration::from_secs(30), crowd[nth].read_to_end(&mut rest)).await;
        assert!(ended.is_ok(), "number {nth} of the crowd is still connected");
    }
}

#[tokio::test]
async fn a_crowd_that_says_nothing_does_not_cut_streams_that_are_read() {
    // given
    let bridge = Bridge::http().start().await;
    let alice = bridge.caller("alice").in_session(json!({})).await;
    let mut events = alice.listen(None).await;
    events.next().await.unwrap();
    // when: more sockets than places
    let mut crowd = vec![];
    for _ in 0..700 {
        let connecting = TcpStream::connect(bridge.address());
        let Ok(Ok(socket)) = tokio::time::timeout(Duration::from_secs(2), connecting).await else { break };
        crowd.push(socket);
    }
    // then
    assert!(events.next_within(Duration::from_millis(500)).await.is_err(), "the stream goes on");
    assert_eq!(bridge.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn a_crowd_of_streams_does_not_keep_others_out() {
    let bridge = Bridge::http().start().await;
    let mallory = bridge.caller("mallory");
    let mallory = mallory.clone().token(mallory.mint());
    let mut streams = vec![];
    for _ in 0..600 {
        let stream = mallory.clone().in_session(json!({})).await.listen(None).await;
        assert_eq!(stream.status, 200);
        streams.push(stream);
    }
    let alice = bridge.caller("alice").in_session(json!({})).await;
    alice.call("cyberos.cuo.list_personas", json!({})).await.structured();
    let mut events = alice.listen(None).await;
    assert!(events.next().await.is_some());
    // and they do not hold up the end
    bridge.signal(Signal::TERM);
    assert!(bridge.exit_within(Duration::from_secs(4)).await.success());
}

#[tokio::test]
async fn requests_that_wait_for_a_task_are_bounded() {
    // given: a batch of requests that wait, whose client may be gone
    let bridge = Bridge::http().misbehaving_guest().start().await;
    let (alice, bob) = (bridge.caller("alice"), bridge.caller("bob"));
    let start = async |caller: &bridge_tests::caller::Caller<'_>, steps: u32| {
        let created = caller.call_as_task("test.long_task", json!({ "steps": steps, "ms": 100 })).await;
        created.result()["task"]["taskId"].as_str().unwrap().to_owned()
    };
    let task = start(&alice, 600).await;
    let waits = (0..100).map(|_| alice.message("tasks/result", json!({ "taskId": task }))).collect::<Vec<_>>();
    let waiting = alice.post(json!(waits).to_string().into_bytes());
    let others = async {
        tokio::time::sleep(Duration::from_millis(700)).await;
        // then
        alice.task_result(&task).await.assert_error("upstream_unavailable", "busy");
        let his = start(&bob, 1).await;
        assert_eq!(bob.task_result(&his).await.result()["structuredContent"]["steps_executed"], 1);
        alice.task_cancel(&task).await.result();
    };
    let (answer, ()) = tokio::join!(waiting, others);
    assert_eq!(answer.status, 200);
    // and there is room again
    let short = start(&alice, 1).await;
    alice.task_result(&short).await.result();
}

#[tokio::test]
async fn a_crowd_of_waiting_requests_does_not_keep_out_the_answer_that_they_wait_for() {
    // given: a task that asks
    let bridge = Bridge::stdio().misbehaving_guest().start().await;
    let alice = bridge.caller("alice").in_session(json!({ "elicitation": {} })).await;
    let reply = alice.call_as_task("test.destructive_task", json!({ "steps": 1, "ms": 1 })).await;
    let id = reply.result()["task"]["taskId"].as_str().unwrap().to_owned();
    alice.follow_until(&id, |task| task["status"] == "input_required").await;
    // when: more wait for its result, in one breath, than are answered at once
    let mut crowd = vec![];
    for _ in 0..100 {
        crowd.push(alice.begin(alice.message("tasks/result", json!({ "taskId": id }))).await);
    }
    // What waits for nobody is answered all the same.
    alice.request("ping", json!({})).await.result();
    assert_eq!(alice.request("tasks/get", json!({ "taskId": id })).await.result()["status"], "input_required");
    let question = crowd[0].question().await;
    alice.answer(&question, json!({ "action": "decline" })).await;
    // then: the answer is heard, and all have theirs
    let mut reasons: Vec<String> = vec![];
    for waiting in &mut crowd {
        reasons.push(waiting.reply().await.error()["data"]["reason"].as_str().unwrap().into());
    }
    assert_eq!(reasons[0], "user_declined");
    assert!(reasons.iter().all(|reason| reason == "user_declined" || reason == "busy"), "{reasons:?}");
}
