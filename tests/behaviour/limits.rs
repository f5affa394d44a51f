//! What stops a tool that misbehaves: each ends for its own reason, the next call is healthy, the process lives.

use bridge_tests::caller::Caller;
use bridge_tests::{Bridge, Setup, on_both_transports};
use futures::future::join_all;
use serde_json::json;
use std::time::{Duration, Instant};

on_both_transports! {
    each_misbehaviour_ends_for_its_own_reason
    whoever_passes_the_deadline_is_stopped
}

/// `guest-misbehaves` with these limits and what else its entry holds.
pub fn limited(setup: Setup, rest: &str) -> Setup {
    setup.guests(&["guest_misbehaves"], &format!("[plugins.guest-misbehaves]\nany_tool_name = true\n{rest}"))
}

/// The class is `internal_error` for all of them: the caller did nothing wrong.
const ENDS: &[(&str, &str, &str)] = &[
    ("test.spins_forever", "{}", "out_of_fuel"),
    ("test.recurses_forever", "{}", "stack_overflow"),
    ("test.panics", "{}", "plugin_trapped"),
    ("test.exits", r#"{"code":0}"#, "plugin_trapped"),
    ("test.exits", r#"{"code":3}"#, "plugin_trapped"),
    ("test.divides_by_zero", "{}", "plugin_trapped"),
    ("test.calls_host_without_end", "{}", "host_call_limit"),
    ("test.opens_without_end", r#"{"directory":"/data"}"#, "host_call_limit"),
    ("test.huge_log", r#"{"bytes":6000000}"#, "host_call_limit"),
    ("test.allocates_without_end", "{}", "out_of_memory"),
    ("test.returns_huge", "{}", "out_of_memory"),
    ("test.returns_near_limit", r#"{"bytes":1048577}"#, "output_too_large"),
    ("test.returns_near_limit", r#"{"bytes":3000000}"#, "output_too_large"),
    ("test.returns_malformed_json", r#"{"what":"structured"}"#, "invalid_result"),
    ("test.returns_malformed_json", r#"{"what":"structured_array"}"#, "invalid_result"),
    ("test.returns_malformed_json", r#"{"what":"structured_deep"}"#, "invalid_result"),
    ("test.returns_malformed_json", r#"{"what":"meta"}"#, "invalid_result"),
    ("test.returns_malformed_json", r#"{"what":"extra"}"#, "invalid_result"),
    ("test.returns_malformed_json", r#"{"what":"resource"}"#, "invalid_result"),
    ("test.breaks_output_schema", "{}", "invalid_result"),
];

async fn each_misbehaviour_ends_for_its_own_reason(setup: Setup) {
    // given
    let data = setup.home().join("data");
    std::fs::create_dir(&data).unwrap();
    let directories = format!("directories = {{ \"/data\" = {{ host_path = {:?} }} }}\n", data.display().to_string());
    let bridge = limited(setup, &directories).start().await;
    let alice = bridge.caller("alice");
    for (tool, arguments, reason) in ENDS {
        // when
        let reply = alice.call(tool, serde_json::from_str(arguments).unwrap()).await;
        // then
        reply.assert_code(-32603).assert_error("internal_error", reason);
        assert!(!reply.body.to_string().contains("hunter2"), "{tool}: what it said is the operator's to read");
        assert_healthy(&alice).await;
    }
    bridge.logged("hunter2 in a panic message").await;
    let rows = bridge.audit(alice.identity().0).await;
    let ended = rows.iter().filter(|row| row.kind == "mcp.tool_call_completed");
    let mut reasons: Vec<&str> = ended.filter_map(|row| row.body["reason"].as_str()).collect();
    let mut expected: Vec<&str> = ENDS.iter().map(|(_, _, reason)| *reason).collect();
    reasons.sort_unstable();
    expected.sort_unstable();
    assert_eq!(reasons, expected, "the audit log says the same");
}

/// Another tool of the same component, in an instance that nobody used before.
pub async fn assert_healthy(caller: &Caller<'_>) {
    assert_eq!(caller.call("test.counts_itself", json!({})).await.structured()["count"], 1);
    caller.call("test.echoes", json!({ "healthy": true })).await.structured();
}

/// An upstream that accepts and never answers, and the grants with which `guest-reaches` loads and asks it.
pub fn silent_upstream() -> (std::net::TcpListener, String) {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let grants = format!(
        "[plugins.guest-reaches]\nany_tool_name = true\ncuo = true\naudit_append = true\naudit_read = true\n\
         config = {{ colour = \"green\" }}\n[plugins.guest-reaches.upstreams.slow]\nurl = \"http://{}\"\npaths = [\"/\"]\n\
         allow_private = true\n",
        silent.local_addr().unwrap()
    );
    (silent, grants)
}

/// The same limits for both guests.
pub fn both_guests(setup: Setup, reaches: &str, limits: &str) -> Setup {
    let grants = format!(
        "[plugins.guest-misbehaves]\nany_tool_name = true\n[plugins.guest-misbehaves.limits]\n{limits}\n\
         {reaches}[plugins.guest-reaches.limits]\n{limits}\n"
    );
    setup.guests(&["guest_misbehaves", "guest_reaches"], &grants)
}

async fn whoever_passes_the_deadline_is_stopped(setup: Setup) {
    let (_silent, reaches) = silent_upstream();
    let bridge = both_guests(setup, &reaches, "fuel = 1000000000000\ndeadline_ms = 400").start().await;
    let alice = bridge.caller("alice");
    assert_healthy(&alice).await;
    for (tool, arguments) in STUCK {
        let asked = Instant::now();
        let reply = alice.call(tool, serde_json::from_str(arguments).unwrap()).await;
        let took = asked.elapsed();
        reply.assert_code(-32603).assert_error("internal_error", "deadline");
        eprintln!("{tool}: answered {took:?} after it was asked, with 400 ms to spend");
        assert!(took >= Duration::from_millis(390) && took < Duration::from_millis(800), "{tool} took {took:?}");
        assert_healthy(&alice).await;
    }
}

/// Computing, waiting on a clock, waiting for the host.
pub const STUCK: &[(&str, &str)] =
    &[("test.spins_forever", "{}"), ("test.sleeps", r#"{"ms":25000}"#), ("test.blocks_in_host_call", "{}")];

#[tokio::test]
async fn neighbours_of_guests_that_are_stuck_go_on() {
    // given: every worker thread could be inside a guest that computes
    let (_silent, reaches) = silent_upstream();
    let limits = "fuel = 1000000000000\ndeadline_ms = 4000";
    let bridge = both_guests(Bridge::http().unlimited(), &reaches, limits).start().await;
    let mallory = bridge.caller("mallory");
    let stuck = async {
        let calls = STUCK.iter().chain(&STUCK[..1]).chain(&STUCK[..1]);
        let calls = calls.map(|(tool, arguments)| mallory.call(tool, serde_json::from_str(arguments).unwrap()));
        join_all(calls).await
    };
    // when
    let alice = bridge.caller("alice");
    let neighbour = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let mut slowest = Duration::ZERO;
        for n in 0..100 {
            let asked = Instant::now();
            assert_eq!(alice.call("test.echoes", json!({ "n": n })).await.structured()["n"], n);
            slowest = slowest.max(asked.elapsed());
        }
        slowest
    };
    let (ended, slowest) = futures::join!(stuck, neighbour);
    // then
    eprintln!("100 calls beside three that spin, one that sleeps and one that waits: the slowest took {slowest:?}");
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");
    for reply in ended {
        reply.assert_error("internal_error", "deadline");
    }
}

#[tokio::test]
async fn calls_over_the_concurrency_limit_are_told_to_come_back() {
    let bridge = limited(Bridge::http(), "limits = { concurrency = 2 }\n").start().await;
    let alice = bridge.caller("alice");
    let sleep = || alice.call("test.sleeps", json!({ "ms": 3_000 }));
    let third = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let reply = alice.call("test.echoes", json!({})).await;
        let data = reply.assert_code(-32002).assert_error("upstream_unavailable", "busy");
        assert!(data["retry_after_ms"].as_u64().is_some_and(|ms| ms > 0), "{data:?}");
        // Other plugins have turns of their own.
        alice.call("cyberos.cuo.list_personas", json!({})).await.structured();
    };
    let (first, second, ()) = futures::join!(sleep(), sleep(), third);
    first.structured();
    second.structured();
    assert_healthy(&alice).await;
}

#[tokio::test]
async fn output_over_the_log_limit_is_dropped_and_counted() {
    // given
    let bridge = limited(Bridge::stdio(), "limits = { log_bytes = 10000 }\n").start().await;
    let alice = bridge.caller("alice");
    // when
    let written = alice.call("test.prints_without_end", json!({ "bytes": 3_000_000 })).await;
    let written = written.structured()["bytes"].as_u64().unwrap();
    // then
    let line = bridge.logged("output over the plugin's log limit was dropped").await;
    assert!(line.contains(&format!("dropped={}", written - 10_000)), "{line}");
    let kept = bridge.log().matches("printed by a plugin").count();
    assert!((1..=10_000 / 50).contains(&kept), "{kept} lines of 56 bytes were kept");
    assert_eq!(bridge.line().next_within(Duration::from_millis(100)).await, None, "nothing else is on stdout");
    // Messages through the log interface are on the same budget.
    alice.call("test.huge_log", json!({ "bytes": 4_000, "count": 100 })).await.structured();
    let messages = bridge.log().matches(&"x".repeat(4_000)).count();
    assert_eq!(messages, 2, "what does not fit whole is dropped");
    assert!(bridge.log().contains("dropped=392000"), "{}", bridge.log());
}

#[tokio::test]
async fn memory_and_results_up_to_the_limit_are_served() {
    let bridge = limited(Bridge::stdio(), "limits = { memory_bytes = 268435456 }\n").start().await;
    let alice = bridge.caller("alice");
    let got = alice.call("test.allocates_politely", json!({})).await.structured()["bytes"].as_u64().unwrap();
    assert!((200 << 20..256 << 20).contains(&got), "{got}");
    let reply = alice.call("test.returns_near_limit", json!({ "bytes": 1 << 20 })).await;
    assert_eq!(reply.result()["content"][0]["text"].as_str().unwrap().len(), 1 << 20);
    // With room for it, a hundred mebibytes leave the guest's hands, and go no further.
    let reply = alice.call("test.returns_huge", json!({})).await;
    reply.assert_error("internal_error", "output_too_large");
    assert_healthy(&alice).await;
}

#[tokio::test]
async fn memory_comes_back() {
    // given: slots and allocator are warm
    let limits = "limits = { memory_bytes = 16777216, failures_in_a_row = 0 }\n";
    let bridge = limited(Bridge::http().unlimited(), limits).start().await;
    let alice = bridge.caller("alice");
    let allocate = async |times: usize| {
        for _ in 0..times {
            let reply = alice.call("test.allocates_without_end", json!({})).await;
            reply.assert_error("internal_error", "out_of_memory");
        }
    };
    allocate(30).await;
    let before = bridge.memory_kib("VmRSS");
    // when
    allocate(300).await;
    // then
    let after = bridge.memory_kib("VmRSS");
    eprintln!("resident: {before} KiB before 300 calls that filled 16 MiB each, {after} KiB after");
    assert!(before.abs_diff(after) < 20 << 10, "{before} KiB before, {after} KiB after");
}

#[tokio::test]
async fn results_of_every_kind_pass_and_keep_their_kind() {
    let bridge = Bridge::stdio().misbehaving_guest().start().await;
    let alice = bridge.caller("alice");
    let reply = alice.call("test.returns_every_content_kind", json!({})).await;
    let blocks = reply.result()["content"].as_array().unwrap();
    let kinds: Vec<&str> = blocks.iter().map(|block| block["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["text", "image", "audio", "resource_link", "resource"]);
    assert_eq!(blocks[0]["text"], "plain", "a block's own fields are not replaced by its extras");
    assert_eq!(blocks[0]["annotations"]["priority"], 0.5);
    assert_eq!(reply.result()["structuredContent"], json!({ "kinds": 5 }));
    assert_eq!(reply.result()["_meta"]["example.com/origin"], "guest");
    assert_eq!(alice.call("test.returns_nothing", json!({})).await.result()["content"], json!([]));
    // Progress that is no number is not reported.
    let meta = json!({ "progressToken": "p" });
    assert_eq!(alice.call_with("test.reports_no_number", json!({}), meta).await.structured()["reports"], 3);
    assert_eq!(bridge.line().next_within(Duration::from_millis(100)).await, None);
}

/// Whoever adds a way to misbehave also says what becomes of it.
#[tokio::test]
async fn every_guest_has_a_test_and_a_row_in_their_readme() {
    let (_silent, reaches) = silent_upstream();
    let bridge = both_guests(Bridge::stdio(), &reaches, "fuel = 1000000").start().await;
    let list = bridge.caller("alice").list().await;
    let tools = list.result()["tools"].as_array().unwrap().iter().filter_map(|tool| tool["name"].as_str());
    let tools: Vec<&str> = tools.filter(|name| name.starts_with("test.")).collect();
    assert!(tools.len() > 35, "{tools:?}");
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: std::path::PathBuf| std::fs::read_to_string(path).unwrap();
    let names = |directory: &str| {
        let entries = std::fs::read_dir(here.join(directory)).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.extension().is_some_and(|e| e == "rs"))
    };
    let tests: String = names("behaviour").map(read).collect();
    let readme = read(here.join("components/README.md"));
    for tool in tools {
        assert!(tests.contains(&format!("\"{tool}\"")), "no test calls {tool}");
        assert!(readme.contains(&format!("`{tool}`")), "tests/components/README.md does not know {tool}");
    }
    let refusals = read(here.join("behaviour/refused_components.rs"));
    for path in names("components/refused/examples") {
        let component = path.file_stem().unwrap().to_str().unwrap();
        assert!(refusals.contains(&format!("\"{component}\"")), "no test tries to load {component}");
        assert!(readme.contains(&format!("`{component}`")), "tests/components/README.md does not know {component}");
    }
}
