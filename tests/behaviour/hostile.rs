//! Components that attack: each attack ends in a typed refusal, the process lives, and other tenants are served meanwhile.
//!
//! What a plugin can try and what stops it is on `docs/operators/hostile-plugins.md`, each row of which names its test; many
//! of them are in other modules. Here is what none of those shows, and all of it at once.

use bridge_tests::caller::{Caller, TENANT_B};
use bridge_tests::encoded::{self, Wants};
use bridge_tests::{Bridge, Reply, Setup};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::limits::limited;
use super::refused_components::put;

const GOOD: &str = "cyberos.fixture.echo";

/// `guest-hostile` under limits that let a test end soon, and a good plugin beside it.
fn hostile(rest: &str) -> Setup {
    let entry = "[plugins.guest-hostile]\nany_tool_name = true\n";
    let limits = "[plugins.guest-hostile.limits]\ndeadline_ms = 1500\nfailures_in_a_row = 0\n";
    Bridge::http().unlimited().guests(&["guest_hostile", "fixture_echo"], &format!("{entry}{rest}{limits}"))
}

/// Somebody else's call of somebody else's tool.
async fn served(neighbour: &Caller<'_>) {
    let reply = neighbour.call(GOOD, json!({ "text": "still here" })).await;
    assert_eq!(reply.structured()["text"], "still here");
}

/// The call and, while it runs, a neighbour's.
pub async fn beside<'a>(neighbour: &Caller<'_>, attack: impl Future<Output = Reply> + 'a) -> Reply {
    let (reply, ()) = futures::join!(attack, served(neighbour));
    served(neighbour).await;
    reply
}

/// By what they want before anything of them runs: the word of the refusal, and what the log says.
fn unloadable() -> Vec<(&'static str, Vec<u8>, &'static str, &'static str)> {
    let memory = |pages, memories| encoded::wanting(Wants { table: None, pages, memories });
    vec![
        ("spawns-tasks", encoded::spawns_tasks(), "not_runnable", "async"),
        ("huge-table", encoded::wanting(Wants { table: Some(200_000), ..Wants::default() }), "not_runnable", "table"),
        ("huge-memory", memory(60_000, 1), "not_runnable", "memory"),
        ("large-memory", memory(2_000, 1), "no_tools", "memory"),
        ("many-memories", memory(1, 60), "not_runnable", "memor"),
        ("nested", encoded::nested(2_000), "wrong_world", "exports neither"),
    ]
}

/// Of another tenant, and may call everything.
pub fn mallory(bridge: &Bridge) -> Caller<'_> {
    bridge.caller("mallory").tenant(TENANT_B).scopes(&["cyberos:growstable:call", "cyberos:recurses:call"])
}

#[tokio::test]
async fn components_that_want_too_much_are_refused_before_they_run() {
    // given
    let setup = Bridge::http().guests(&["fixture_echo"], "");
    for (name, wasm, _, _) in unloadable() {
        put(&setup, &format!("{name}.wasm"), wasm);
    }
    put(&setup, "wants-little.wasm", encoded::wanting(Wants { table: Some(10), pages: 1, memories: 1 }));
    // when
    let bridge = setup.start().await;
    // then
    let alice = bridge.caller("alice").scopes(&["cyberos:wantslittle:call"]);
    for (name, _, word, says) in unloadable() {
        let line = bridge.logged(&format!("plugin {name}: ")).await;
        assert!(line.contains(says), "{name}: {says:?} is not said in {line}");
        let health = bridge.get("/healthz").await.text;
        assert!(health.contains(&format!("plugin {name}: refused {word}")), "{health}");
        served(&alice).await;
    }
    let little = alice.call(&encoded::tool("wants-little"), json!({})).await;
    assert_eq!(little.structured()["result"], 0, "it is the wanting that was refused");
}

#[tokio::test]
async fn tables_and_recursion_end_at_their_limits() {
    let setup = Bridge::http().unlimited().guests(&["fixture_echo"], "");
    put(&setup, "grows-table.wasm", encoded::grows_table());
    put(&setup, "recurses.wasm", encoded::recurses());
    let bridge = setup.start().await;
    let (mallory, alice) = (mallory(&bridge), bridge.caller("alice"));
    for (plugin, reason) in [("grows-table", "out_of_memory"), ("recurses", "stack_overflow")] {
        for _ in 0..3 {
            let reply = beside(&alice, mallory.call(&encoded::tool(plugin), json!({}))).await;
            reply.assert_code(-32603).assert_error("internal_error", reason);
        }
    }
}

/// Calls of `guest-hostile`: tool, arguments, class and reasons, one of which it ends for.
const ATTACKS: &[(&str, &str, &str, &[&str])] = &[
    ("test.random_at_once", r#"{"bytes":4294967296}"#, "internal_error", &["host_call_limit"]),
    ("test.random_at_once", r#"{"bytes":1048577}"#, "internal_error", &["host_call_limit"]),
    ("test.random_without_end", r#"{"bytes":65536}"#, "internal_error", &["deadline", "out_of_fuel"]),
    ("test.random_without_end", r#"{"bytes":1048576}"#, "internal_error", &["deadline", "out_of_fuel"]),
    ("test.reads_clocks_without_end", "{}", "internal_error", &["deadline", "out_of_fuel"]),
    ("test.subscribes_without_end", r#"{"count":5000}"#, "internal_error", &["host_call_limit"]),
    ("test.polls_the_same", r#"{"count":3000000}"#, "internal_error", &["host_call_limit"]),
    ("test.polls_nothing", "{}", "internal_error", &["plugin_trapped"]),
    ("test.floods_progress", "{}", "internal_error", &["host_call_limit"]),
    ("test.logs_without_end", "{}", "internal_error", &["host_call_limit"]),
    ("test.fails_at_length", r#"{"how":"invalid_input","chars":2000000}"#, "input_validation", &["invalid_params"]),
    ("test.fails_at_length", r#"{"how":"denied","chars":2000000}"#, "authz_denied", &["tool_denied"]),
    ("test.fails_at_length", r#"{"how":"unavailable","chars":2000000}"#, "upstream_unavailable", &["bad_response"]),
    ("test.fails_at_length", r#"{"how":"internal","chars":2000000}"#, "internal_error", &["tool_failed"]),
    ("test.fails_at_length", r#"{"how":"internal","chars":9000000}"#, "internal_error", &["output_too_large"]),
];

#[tokio::test]
async fn every_attack_by_call_ends_for_its_reason() {
    // given
    let bridge = hostile("").start().await;
    let (mallory, alice) = (mallory(&bridge), bridge.caller("alice"));
    for (tool, arguments, class, reasons) in ATTACKS {
        // when
        let reply = beside(&alice, mallory.call(tool, serde_json::from_str(arguments).unwrap())).await;
        // then
        assert_ends(tool, &reply, class, reasons);
        let said = reply.body.to_string();
        assert!(said.len() < 4_000, "{tool}: {} bytes came back", said.len());
        assert!(!said.contains("\\u001b") && !said.contains("\\u0000"), "{tool}: {said}");
    }
    // What stays within the limits is served.
    let random = mallory.call("test.random_at_once", json!({ "bytes": 1 << 20 })).await;
    assert_eq!(random.structured()["count"], 1 << 20);
    assert_eq!(mallory.call("test.polls_the_same", json!({ "count": 1_000 })).await.structured()["count"], 1_000);
    assert!(bridge.log().len() < 20 << 20, "{} bytes of log", bridge.log().len());
}

fn assert_ends(tool: &str, reply: &Reply, class: &str, reasons: &[&str]) {
    let reason = reply.error()["data"]["reason"].as_str().unwrap_or_default().to_owned();
    assert!(reasons.contains(&&*reason), "{tool} ended for {reason}, not for one of {reasons:?}");
    reply.assert_error(class, &reason);
}

#[tokio::test]
async fn a_pattern_that_backtracks_is_answered_at_once() {
    let bridge = hostile("").start().await;
    let (mallory, alice) = (mallory(&bridge), bridge.caller("alice"));
    let asked = Instant::now();
    let text = format!("{}b", "a".repeat(200_000));
    let reply = beside(&alice, mallory.call("test.matches_slowly", json!({ "text": text }))).await;
    reply.assert_error("input_validation", "schema_violation");
    assert!(asked.elapsed() < Duration::from_secs(10), "{:?}", asked.elapsed());
    assert_eq!(mallory.call("test.matches_slowly", json!({ "text": "aaa" })).await.structured()["count"], 3);
}

#[tokio::test]
async fn threads_and_processes_cannot_be_started() {
    let bridge = hostile("").start().await;
    let (mallory, alice) = (mallory(&bridge), bridge.caller("alice"));
    let threads = || fs::read_dir(format!("/proc/{}/task", bridge.pid.as_raw_nonzero())).unwrap().count();
    let before = threads();
    let reply = beside(&alice, mallory.call("test.forks_and_spawns", json!({}))).await;
    assert_eq!(
        reply.structured()["tried"],
        json!({ "process 0": "refused: Unsupported", "thread 0": "refused: Unsupported", "standard input": "0" })
    );
    assert!(threads() <= before + 8, "{before} threads before, {} after", threads());
}

#[tokio::test]
async fn no_way_leads_out_of_a_directory_that_is_writable() {
    let tried = escapes(true).await;
    let kept: Vec<_> = tried.iter().filter(|(_, said)| said.starts_with("ok")).map(|(what, _)| &what[..]).collect();
    assert_eq!(kept, ["create inside", "truncate inside"], "{tried:#?}");
}

#[tokio::test]
async fn no_way_leads_out_of_a_directory_that_is_only_read_and_nothing_in_it_changes() {
    let tried = escapes(false).await;
    assert!(tried.iter().all(|(_, said)| said.starts_with("refused")), "{tried:#?}");
}

/// What became of each way; whatever it was, nothing outside changed.
async fn escapes(writable: bool) -> Vec<(String, String)> {
    // given: a directory full of ways out, as a careless operator or another program leaves them
    let setup = Bridge::http().unlimited();
    let (granted, outside) = (setup.home().join("granted"), setup.home().join("outside"));
    fs::create_dir_all(granted.join("folder")).unwrap();
    fs::create_dir(&outside).unwrap();
    fs::write(granted.join("inside.txt"), "inside").unwrap();
    let secret = outside.join("secret.txt");
    fs::write(&secret, "s3cr3t").unwrap();
    symlink(&secret, granted.join("to-file")).unwrap();
    symlink(&outside, granted.join("to-directory")).unwrap();
    symlink(outside.join("nothing"), granted.join("to-nothing")).unwrap();
    symlink("..", granted.join("up")).unwrap();
    symlink("/proc/self", granted.join("self")).unwrap();
    let grants = format!(
        "[plugins.guest-hostile]\nany_tool_name = true\n\
         directories = {{ \"/data\" = {{ host_path = {:?}, writable = {writable} }} }}\n",
        granted.display().to_string()
    );
    let bridge = setup.guests(&["guest_hostile", "fixture_echo"], &grants).start().await;
    let home = names(granted.parent().unwrap());
    let (mallory, alice) = (mallory(&bridge), bridge.caller("alice"));
    // when
    let arguments = json!({ "directory": "/data", "file": secret, "outside": outside });
    let reply = beside(&alice, mallory.call("test.escapes_from", arguments)).await;
    // then
    assert_eq!(names(&outside), ["secret.txt"]);
    assert_eq!(fs::read_to_string(&secret).unwrap(), "s3cr3t");
    assert_eq!(names(granted.parent().unwrap()), home, "nothing beside the granted directory");
    assert!(!reply.body.to_string().contains("s3cr3t"), "{:#}", reply.body);
    if !writable {
        assert_eq!(fs::read_to_string(granted.join("inside.txt")).unwrap(), "inside");
        assert_eq!(names(&granted), ["folder", "inside.txt", "self", "to-directory", "to-file", "to-nothing", "up"]);
    }
    let tried = reply.structured()["tried"].as_object().unwrap();
    assert!(tried.len() > 35, "{tried:#?}");
    tried.iter().map(|(what, said)| (what.clone(), said.as_str().unwrap().to_owned())).collect()
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = entries.collect();
    names.sort();
    names
}

/// What everybody does at once: tool, arguments, reasons. `ok`: it is given what it asks for, and no more.
const STORM: &[(&str, &str, &[&str])] = &[
    ("test.random_at_once", r#"{"bytes":4294967296}"#, &["host_call_limit"]),
    ("test.random_without_end", r#"{"bytes":1048576}"#, &["deadline", "out_of_fuel"]),
    ("test.reads_clocks_without_end", "{}", &["deadline", "out_of_fuel"]),
    ("test.subscribes_without_end", r#"{"count":5000}"#, &["host_call_limit"]),
    ("test.polls_the_same", r#"{"count":3000000}"#, &["host_call_limit", "deadline"]),
    ("test.logs_without_end", "{}", &["host_call_limit"]),
    ("test.floods_progress", "{}", &["host_call_limit"]),
    ("test.fails_at_length", r#"{"how":"internal","chars":2000000}"#, &["tool_failed", "deadline"]),
    ("test.spins_forever", "{}", &["deadline", "out_of_fuel"]),
    ("test.recurses_forever", "{}", &["stack_overflow", "deadline"]),
    ("test.allocates_without_end", "{}", &["out_of_memory", "deadline"]),
    ("test.calls_host_without_end", "{}", &["host_call_limit"]),
    ("test.prints_without_end", r#"{"bytes":3000000}"#, &["ok", "deadline"]),
    ("test.returns_malformed_json", r#"{"what":"structured_deep"}"#, &["invalid_result", "deadline"]),
    ("test.panics", "{}", &["plugin_trapped"]),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_of_everything_hurts_nobody_else_and_leaves_nothing_behind() {
    // given: one tenant attacks in every way, with what limits there are by default but for the time
    let grants = ["guest-misbehaves", "guest-hostile"]
        .map(|id| format!("[plugins.{id}]\nany_tool_name = true\nlimits = {{ deadline_ms = 1000 }}\n"))
        .concat();
    let setup = Bridge::http().unlimited().guests(&["guest_misbehaves", "guest_hostile", "fixture_echo"], &grants);
    put(&setup, "grows-table.wasm", encoded::grows_table());
    put(&setup, "recurses.wasm", encoded::recurses());
    let bridge = setup.start().await;
    let alice = &bridge.caller("alice");
    let open = || fs::read_dir(format!("/proc/{}/fd", bridge.pid.as_raw_nonzero())).unwrap().count();
    storm(&bridge, Duration::from_secs(2), async |_| served(alice).await).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (memory, files) = (bridge.memory_kib("VmRSS"), open());
    // when: for ten seconds, beside another tenant's few hundred calls
    let (ended, good) = storm(&bridge, Duration::from_secs(10), async |n| {
        assert_eq!(alice.call(GOOD, json!({ "text": n.to_string() })).await.structured()["text"], n.to_string());
        // Of the very plugin that is attacked with, whose circuit is open for the other tenant.
        if n % 10 == 0 {
            assert_eq!(alice.call("test.echoes", json!({ "n": n })).await.structured()["n"], n);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    })
    .await;
    // then: nobody of it was refused (asserted above), there were many, and everything comes back
    eprintln!("{ended} hostile calls beside {good} good ones");
    assert!(good >= 100 && ended >= STORM.len(), "{good} good calls, {ended} hostile ones");
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (memory_after, files_after) = (bridge.memory_kib("VmRSS"), open());
    eprintln!("resident: {memory} KiB before, {memory_after} KiB after; open files: {files}, {files_after}");
    assert!(memory_after < memory + (60 << 10), "{memory} KiB before, {memory_after} KiB after");
    assert!(files_after <= files + 10, "{files} open files before, {files_after} after");
    assert_eq!(bridge.get("/readyz").await.status, 200);
    // and the tenant that attacked is served as well, once its circuits close
    let mallory = mallory(&bridge);
    served(&mallory).await;
}

/// Hostile calls of one tenant for so long, each again as soon as it ended, and good ones one after the other. How many
/// there were of both.
async fn storm(bridge: &Bridge, time: Duration, good: impl AsyncFn(usize)) -> (usize, usize) {
    let mallory = &mallory(bridge);
    let (over, ended) = (&AtomicBool::new(false), &AtomicUsize::new(0));
    let own = [("grows-table", "out_of_memory"), ("recurses", "stack_overflow")];
    let own = own.map(|(plugin, reason)| (encoded::tool(plugin), json!({}), vec![reason, "deadline"]));
    let all = STORM.iter().map(|(tool, arguments, reasons)| {
        ((*tool).to_owned(), serde_json::from_str(arguments).unwrap(), reasons.to_vec())
    });
    let attacks = all.chain(own).map(|(tool, arguments, mut reasons): (String, Value, Vec<&str>)| async move {
        // Beside all the others even a short one may not come to its own end.
        reasons.extend(["busy", "deadline"]);
        while !over.load(Ordering::Relaxed) {
            let reply = mallory.call(&tool, arguments.clone()).await;
            let reason = match reply.body.get("error") {
                Some(error) => error["data"]["reason"].as_str().unwrap_or("none"),
                None => "ok",
            };
            assert!(reasons.contains(&reason), "{tool} ended for {reason}, not for one of {reasons:?}");
            ended.fetch_add(1, Ordering::Relaxed);
            if reason == "busy" {
                // As a client that reads `retry_after_ms` in a hurry.
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    });
    let calls = async {
        let (started, mut n) = (Instant::now(), 0);
        while started.elapsed() < time {
            good(n).await;
            n += 1;
        }
        over.store(true, Ordering::Relaxed);
        n
    };
    let (_, good) = futures::join!(futures::future::join_all(attacks), calls);
    (ended.load(Ordering::Relaxed), good)
}

#[tokio::test]
async fn printing_deep_results_and_long_lines_are_bounded() {
    let bridge = limited(Bridge::http().unlimited(), "limits = { log_bytes = 1000 }\n").start().await;
    let mallory = mallory(&bridge);
    mallory.call("test.prints_without_end", json!({ "bytes": 2_000_000 })).await.structured();
    bridge.logged("output over the plugin's log limit was dropped").await;
    let deep = mallory.call("test.returns_malformed_json", json!({ "what": "structured_deep" })).await;
    deep.assert_code(-32603).assert_error("internal_error", "invalid_result");
    let log: usize = bridge.log().lines().filter(|line| line.contains("printed by a plugin")).map(str::len).sum();
    assert!(log <= 2_000, "{log} bytes of it are in the log");
}

/// Whoever adds a row to the page says what shows it.
#[test]
fn every_row_of_the_page_names_a_test_that_is_there() {
    let root = bridge_tests::root();
    let page = fs::read_to_string(root.join("docs/operators/hostile-plugins.md")).unwrap();
    let rows: Vec<&str> =
        page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| it tries")).collect();
    assert!(rows.len() > 25, "{} rows", rows.len());
    for row in rows {
        let shown_by = row.trim_end_matches('|').rsplit('|').next().unwrap();
        let tests: Vec<&str> = shown_by.split('`').skip(1).step_by(2).collect();
        assert!(!tests.is_empty(), "no test: {row}");
        for test in tests {
            let (module, name) = test.rsplit_once("::").unwrap();
            let inside = module.trim_end_matches("::tests").replace("::", "/");
            let files = [
                format!("tests/behaviour/{module}.rs"),
                format!("host/src/{inside}.rs"),
                format!("host/src/{inside}/tests.rs"),
            ];
            let source: String = files.iter().filter_map(|file| fs::read_to_string(root.join(file)).ok()).collect();
            assert!(source.contains(&format!("fn {name}(")), "there is no test {test}, named in: {row}");
        }
    }
}
