//! What an operator sees of plugins that change, what is written down, and the way back.

use bridge_tests::{Bridge, Setup, bridge_binary};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::time::Duration;

use crate::hot_swap::{TOOL, answers, component, grant, plugins, put, serving, version};

/// A command beside the bridge, with its settings.
fn run(setup: &Setup, words: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(bridge_binary());
    command.env_clear().env("HOME", setup.home()).args(words);
    command.arg(format!("--state-dir={}", setup.state_dir().display()));
    let ran = command.arg(format!("--plugins={}", plugins(setup).display())).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (ran.status.code().unwrap(), text(ran.stdout), text(ran.stderr))
}

/// What `plugins list --json` says of one plugin.
fn listed(setup: &Setup, id: &str) -> Value {
    let (status, out, err) = run(setup, &["plugins", "list", "--json"]);
    assert_eq!(status, 0, "{err}");
    let all: Vec<Value> = serde_json::from_str(&out).unwrap();
    all.into_iter().find(|one| one["id"] == id).unwrap_or_else(|| panic!("{id} is not in {out}"))
}

fn digest(version: &str) -> String {
    cyberos_plugin_host::runtime::digest(&component(version))
}

async fn kinds(bridge: &Bridge) -> Vec<String> {
    bridge.plugin_audit().await.into_iter().map(|row| row.kind).collect()
}

/// Rows are written right after the change that they are about.
async fn kinds_once_there_are(bridge: &Bridge, count: usize) -> Vec<String> {
    for _ in 0..200 {
        let kinds = kinds(bridge).await;
        if kinds.len() >= count {
            return kinds;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("{count} rows were expected: {:#?}", bridge.plugin_audit().await);
}

#[tokio::test]
async fn every_change_leaves_a_row_with_digests_and_who_and_a_start_without_one_leaves_none() {
    // given
    let setup = serving(Bridge::http(), "one");
    let bridge = setup.start().await;
    let alice = bridge.caller("alice");
    // when
    put(&setup, "notes.wasm", &component("two"));
    answers(&alice, "two").await;
    put(&setup, "notes.wasm", b"broken");
    kinds_once_there_are(&bridge, 3).await;
    put(&setup, "notes.wasm", &component("asks"));
    kinds_once_there_are(&bridge, 4).await;
    grant(&setup, "[plugins.notes.upstreams.api]\nurl = \"https://api.example.com\"\npaths = [\"/\"]\n");
    answers(&alice, "asks").await;
    kinds_once_there_are(&bridge, 6).await;
    fs::remove_file(plugins(&setup).join("notes.wasm")).unwrap();
    // then
    let kinds_so_far = kinds_once_there_are(&bridge, 7).await;
    let expected = ["loaded", "swapped", "refused", "quarantined", "swapped", "grants_changed", "removed"];
    assert_eq!(kinds_so_far, expected.map(|kind| format!("plugin.{kind}")));
    let rows = bridge.plugin_audit().await;
    let uid = fs::metadata(plugins(&setup)).unwrap().uid();
    assert!(rows.iter().all(|row| row.actor_id == "operator" && row.body["who"]["uid"] == uid), "{rows:#?}");
    assert_eq!(rows[1].body["digest"], digest("two"));
    assert_eq!(rows[1].body["previous_digest"], digest("one"));
    assert_eq!(
        (&rows[2].body["reason"], &rows[2].body["serving_digest"]),
        (&json!("not_a_component"), &json!(digest("two")))
    );
    assert_eq!((&rows[3].body["reason"], &rows[3].body["digest"]), (&json!("not_granted"), &json!(digest("asks"))));
    assert!(rows[5].body["grants_sha256"].is_string() && rows[5].body["previous_grants_sha256"].is_null());
    assert_eq!((&rows[6].body["digest"], &rows[6].body["previous_digest"]), (&Value::Null, &json!(digest("asks"))));
    // and when nothing changes between two starts, or somebody only looks
    put(&setup, "notes.wasm", &component("asks"));
    kinds_once_there_are(&bridge, 8).await;
    bridge.kill().await;
    assert_eq!(run(&setup, &["tools", "list"]).0, 0);
    let bridge = setup.start().await;
    assert_eq!(version(&bridge.caller("alice")).await, "asks");
    listed(&setup, "notes");
    assert_eq!(kinds(&bridge).await.len(), 8);
    // and what changed while nobody served is found by the next start
    bridge.kill().await;
    put(&setup, "notes.wasm", &component("one"));
    listed(&setup, "notes");
    let bridge = setup.start().await;
    let last = kinds_once_there_are(&bridge, 9).await.pop();
    assert_eq!(last.as_deref(), Some("plugin.swapped"));
    bridge.kill().await;
    fs::remove_file(plugins(&setup).join("notes.wasm")).unwrap();
    let bridge = setup.start().await;
    let last = kinds_once_there_are(&bridge, 10).await.pop();
    assert_eq!(last.as_deref(), Some("plugin.removed"));
}

#[tokio::test]
async fn a_bridge_that_starts_with_a_bad_file_serves_the_last_good_version() {
    // given
    let setup = serving(Bridge::http(), "one");
    setup.start().await.kill().await;
    put(&setup, "notes.wasm", &component("two")[..1_000]);
    // when
    let bridge = setup.start().await;
    // then
    assert_eq!(version(&bridge.caller("alice")).await, "one");
    assert_eq!(bridge.get("/healthz").await.text, "degraded\nplugin notes: refused not_a_component\n");
    let notes = listed(&setup, "notes");
    assert_eq!((&notes["state"], &notes["digest"]), (&json!("kept"), &json!(digest("one"))), "{notes:#}");
    assert_eq!(notes["blocked"]["word"], "not_a_component", "{notes:#}");
    assert!(notes["blocked"]["reason"].as_str().unwrap().contains("wasm32-wasip2"), "{notes:#}");
    let (_, table, _) = run(&setup, &["plugins", "list"]);
    let row = table.lines().find(|line| line.starts_with("notes ")).unwrap();
    assert!(row.contains("kept") && row.contains(&digest("one")[..12]), "{table}");
    assert!(table.contains("is refused (not_a_component): it is not a WebAssembly component"), "{table}");
    // and the copy that it serves from is nobody else's to read or to change
    let kept = setup.state_dir().join("plugins/notes");
    assert_eq!(fs::metadata(&kept).unwrap().mode() & 0o777, 0o700);
    bridge.kill().await;
    fs::write(kept.join(format!("{}.wasm", digest("one"))), component("two")).unwrap();
    let bridge = setup.start().await;
    let reply = bridge.caller("alice").call(TOOL, json!({})).await;
    reply.assert_error("input_validation", "tool_not_found");
}

#[tokio::test]
async fn rolling_back_returns_to_the_version_before_and_twice_to_the_newer() {
    // given
    let setup = serving(Bridge::http(), "one");
    let bridge = setup.start().await;
    let alice = bridge.caller("alice");
    let (status, _, err) = run(&setup, &["plugins", "rollback", "notes"]);
    assert!(status == 2 && err.contains("no version of plugin notes before"), "{status} {err}");
    put(&setup, "notes.wasm", &component("two"));
    answers(&alice, "two").await;
    kinds_once_there_are(&bridge, 2).await;
    let notes = listed(&setup, "notes");
    assert_eq!((&notes["digest"], &notes["previous"]), (&json!(digest("two")), &json!(digest("one"))));
    // when, then
    let rolled_back = || {
        let (status, out, err) = run(&setup, &["plugins", "rollback", "notes", "--json"]);
        assert_eq!(status, 0, "{err}");
        serde_json::from_str::<Value>(&out).unwrap()["to"].as_str().unwrap().to_owned()
    };
    assert_eq!(rolled_back(), digest("one"));
    answers(&alice, "one").await;
    kinds_once_there_are(&bridge, 3).await;
    assert_eq!(rolled_back(), digest("two"));
    answers(&alice, "two").await;
    kinds_once_there_are(&bridge, 4).await;
    // and after a bad change the version that serves comes back
    put(&setup, "notes.wasm", b"broken");
    kinds_once_there_are(&bridge, 5).await;
    assert_eq!(rolled_back(), digest("two"));
    for _ in 0..200 {
        if bridge.get("/healthz").await.text == "ok\n" {
            break;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    assert_eq!(bridge.get("/healthz").await.text, "ok\n");
    assert_eq!(version(&alice).await, "two");
    // and after a removal, too
    fs::remove_file(plugins(&setup).join("notes.wasm")).unwrap();
    bridge.logged("plugin notes: its file is gone").await;
    kinds_once_there_are(&bridge, 6).await;
    assert_eq!(rolled_back(), digest("two"));
    kinds_once_there_are(&bridge, 7).await;
    assert_eq!(version(&alice).await, "two");
    // and mistakes are named
    for (name, says) in [("nothing", "has never served"), ("No Name", "is no plugin's id")] {
        let (status, _, err) = run(&setup, &["plugins", "rollback", name]);
        assert!(status == 2 && err.contains(says), "{status} {err}");
    }
}

#[tokio::test]
async fn a_task_runs_on_the_version_that_serves_not_on_the_file_that_may_not() {
    // given
    let setup = Bridge::stdio().misbehaving_guest();
    let bridge = setup.start().await;
    bridge.caller("alice").list().await.result();
    bridge.kill().await;
    fs::remove_file(plugins(&setup).join("guest_misbehaves.wasm")).unwrap();
    put(&setup, "guest_misbehaves.wasm", b"broken");
    let bridge = setup.start().await;
    let alice = bridge.caller("alice");
    // when
    let id = alice.call("test.long_task", json!({ "steps": 2, "ms": 50 })).await.task_id();
    // then: the worker is a process of its own, which found the same version
    assert_eq!(alice.follow(&id).await["status"], "completed");
}

#[tokio::test]
async fn a_misnamed_file_is_refused_and_named_and_the_rest_is_served() {
    let setup = serving(Bridge::http(), "one");
    put(&setup, "Not A Name.wasm", &component("two"));
    put(&setup, "cuo-route.wasm", &component("two"));
    let bridge = setup.start().await;
    bridge.logged("must be named with a-z").await;
    bridge.logged("is a built-in plugin's name").await;
    assert_eq!(version(&bridge.caller("alice")).await, "one");
    let health = bridge.get("/healthz").await.text;
    assert!(health.contains("plugin (misnamed): refused bad_name"), "{health}");
    assert!(!health.contains("Not A Name"), "{health}");
    assert_eq!(listed(&setup, "Not A Name")["state"], "refused");
}

#[tokio::test]
async fn a_misnamed_file_leaves_one_row_however_often_somebody_looks_or_starts() {
    // given
    let setup = serving(Bridge::http().flag("--plugins-watch=poll"), "one");
    let bridge = setup.start().await;
    assert_eq!(kinds_once_there_are(&bridge, 1).await, ["plugin.loaded"]);
    // when
    put(&setup, "Not A Name.wasm", &component("two"));
    kinds_once_there_are(&bridge, 2).await;
    // then
    let row = bridge.plugin_audit().await.pop().unwrap();
    assert_eq!((row.kind.as_str(), &row.body["reason"]), ("plugin.refused", &json!("bad_name")));
    assert_eq!((&row.body["file"], &row.body["plugin_id"]), (&json!("Not A Name.wasm"), &Value::Null));
    assert_eq!(row.body["who"]["uid"], fs::metadata(plugins(&setup)).unwrap().uid());
    // and further looks, and starts, are not news
    put(&setup, "notes.wasm", &component("two"));
    kinds_once_there_are(&bridge, 3).await;
    bridge.kill().await;
    let bridge = setup.start().await;
    put(&setup, "Nor This.wasm", &component("two"));
    let kinds = kinds_once_there_are(&bridge, 4).await;
    assert_eq!(kinds, ["loaded", "refused", "swapped", "refused"].map(|kind| format!("plugin.{kind}")));
    // but one that went and came back is
    fs::remove_file(plugins(&setup).join("Not A Name.wasm")).unwrap();
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    put(&setup, "Not A Name.wasm", &component("two"));
    kinds_once_there_are(&bridge, 5).await;
}

#[tokio::test]
async fn a_refusal_for_want_of_a_grant_names_the_command_that_helps() {
    // given: a component that asks its caller's user and model
    let guest = bridge_tests::setup::target().join("plugins/wasm32-wasip2/component/guest_offers.wasm");
    let setup = Bridge::http().unlimited().guests(&[], "[plugins.notes]\nany_tool_name = true\n");
    put(&setup, "notes.wasm", &fs::read(guest).unwrap());
    let bridge = setup.start().await;
    let line = bridge.logged("plugin notes: it imports").await;
    assert!(line.contains("to its entry in plugins.toml") && line.contains("`plugins inspect notes`"), "{line}");
    for _ in 0..2 {
        // when: what it says is typed
        let reason = listed(&setup, "notes")["blocked"]["reason"].as_str().unwrap().to_owned();
        let (_, command) = reason.split_once("`cyberos-mcp-bridge ").unwrap_or_else(|| panic!("{reason}"));
        let words: Vec<&str> = command.split_once('`').unwrap().0.split(' ').collect();
        let (status, _, err) = run(&setup, &words);
        assert_eq!(status, 0, "{words:?}: {err}");
    }
    // then
    bridge.logged("plugin notes: ").await;
    assert_eq!(listed(&setup, "notes")["state"], "serving");
}
