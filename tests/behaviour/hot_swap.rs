//! Plugins change while they are served: new calls get the new version, calls under way finish on the old one, clients hear
//! of it.

use bridge_tests::{Bridge, Caller, Setup, on_both_transports};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::{Duration, Instant};

on_both_transports! {
    a_replaced_file_serves_new_calls_while_old_ones_finish_on_the_old_version
    an_added_file_serves_and_a_removed_one_does_not
    a_broken_version_leaves_the_old_one_serving
    a_file_that_is_copied_slowly_is_not_served_half
    a_version_that_asks_for_more_waits_until_it_is_granted
}

pub const TOOL: &str = "cyberos.test.version";

/// Versions of `guest-swaps`, beside no other guest. The plugin is called `notes`.
pub fn serving(setup: Setup, version: &str) -> Setup {
    let setup = setup.unlimited().guests(&[], "");
    put(&setup, "notes.wasm", &component(version));
    setup
}

/// A built version.
pub fn component(version: &str) -> Vec<u8> {
    let directory = bridge_tests::setup::target().join("plugins/wasm32-wasip2/component/examples");
    let path = directory.join(format!("version_{version}.wasm"));
    fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}; run `make guests`", path.display()))
}

pub fn plugins(setup: &Setup) -> PathBuf {
    setup.home().join("plugins")
}

/// As deployments do it: whole, by rename.
pub fn put(setup: &Setup, name: &str, bytes: &[u8]) {
    let new = setup.home().join(format!("new-{name}"));
    fs::write(&new, bytes).unwrap();
    fs::rename(new, plugins(setup).join(name)).unwrap();
}

pub fn grant(setup: &Setup, text: &str) {
    put(setup, "plugins.toml", text.as_bytes());
}

pub async fn version(alice: &Caller<'_>) -> String {
    let reply = alice.call(TOOL, json!({})).await;
    reply.structured()["version"].as_str().unwrap().to_owned()
}

/// Wait until this version answers; how long it took.
pub async fn answers(alice: &Caller<'_>, wanted: &str) -> Duration {
    let started = Instant::now();
    loop {
        let served = version(alice).await;
        if served == wanted {
            return started.elapsed();
        }
        let patience = Duration::from_secs(20);
        assert!(started.elapsed() < patience, "{wanted} does not serve, {served} does: {}", alice.bridge().log());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn names(alice: &Caller<'_>) -> Vec<String> {
    let list = alice.list().await;
    let tools = list.result()["tools"].as_array().unwrap().clone();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).filter(|n| n.contains(".test.")).collect()
}

async fn a_replaced_file_serves_new_calls_while_old_ones_finish_on_the_old_version(setup: Setup) {
    // given
    let setup = serving(setup, "one");
    let bridge = setup.start().await;
    let alice = bridge.caller("alice");
    assert_eq!(version(&alice).await, "one", "the first call after the start finds it");
    // when: it is replaced while a call is under way
    let slow = alice.call(TOOL, json!({ "ms": 6_000 }));
    let replaced = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        put(&setup, "notes.wasm", &component("two"));
        answers(&alice, "two").await;
        Instant::now()
    };
    let ((slow, ended), served) = tokio::join!(async { (slow.await, Instant::now()) }, replaced);
    // then
    assert_eq!(slow.structured()["version"], "one");
    assert!(served < ended, "nobody waited for the old call");
}

async fn an_added_file_serves_and_a_removed_one_does_not(setup: Setup) {
    // given: a directory without components
    let setup = setup.guests(&[], "");
    let bridge = setup.start().await;
    let alice = bridge.caller("alice");
    alice.call(TOOL, json!({})).await.assert_error("input_validation", "tool_not_found");
    // when
    put(&setup, "notes.wasm", &component("more"));
    bridge.logged("plugin notes: ").await;
    // then
    assert_eq!(version(&alice).await, "more");
    assert_eq!(names(&alice).await, ["cyberos.test.version", "cyberos.test.more"]);
    // and when it goes
    fs::remove_file(plugins(&setup).join("notes.wasm")).unwrap();
    bridge.logged("plugin notes: its file is gone").await;
    alice.call(TOOL, json!({})).await.assert_error("input_validation", "tool_not_found");
    assert_eq!(names(&alice).await, [""; 0]);
}

async fn a_broken_version_leaves_the_old_one_serving(setup: Setup) {
    // given
    let setup = serving(setup, "one");
    let bridge = setup.start().await;
    let alice = bridge.caller("alice");
    assert_eq!(version(&alice).await, "one");
    // when
    put(&setup, "notes.wasm", &component("two")[..1_000]);
    let line = bridge.logged("plugin notes: it is not a WebAssembly component").await;
    // then
    assert!(line.contains("wasm32-wasip2"), "it says what to do: {line}");
    assert!(line.contains("refused") && line.contains("not_a_component"), "in the words of health and metrics: {line}");
    assert_eq!(version(&alice).await, "one");
    if !bridge.is_stdio() {
        let health = bridge.get("/healthz").await;
        assert_eq!((health.status, &health.text[..]), (200, "degraded\nplugin notes: refused not_a_component\n"));
        let metrics = bridge.get("/metrics").await.text;
        for line in [
            "cyberos_bridge_plugins{state=\"serving\"} 9",
            "cyberos_bridge_plugins{state=\"refused\"} 1",
            "cyberos_bridge_plugins_rejected_total{why=\"not_a_component\"} 1",
        ] {
            assert!(metrics.contains(line), "{line} in\n{metrics}");
        }
    }
    // and a good one then takes its place
    put(&setup, "notes.wasm", &component("two"));
    answers(&alice, "two").await;
    if !bridge.is_stdio() {
        assert_eq!(bridge.get("/healthz").await.text, "ok\n");
        let metrics = bridge.get("/metrics").await.text;
        assert!(metrics.contains("cyberos_bridge_plugins_swapped_total 1"), "{metrics}");
        assert!(metrics.contains("cyberos_bridge_plugins_swap_duration_seconds_count 1"), "{metrics}");
    }
}

async fn a_file_that_is_copied_slowly_is_not_served_half(setup: Setup) {
    use std::io::Write;
    // given
    let setup = serving(setup, "one");
    let bridge = setup.start().await;
    let alice = bridge.caller("alice");
    assert_eq!(version(&alice).await, "one");
    // when: it is overwritten bit by bit, now faster and now slower than the bridge looks
    let two = component("two");
    let mut file = fs::File::create(plugins(&setup).join("notes.wasm")).unwrap();
    for (n, part) in two.chunks(two.len() / 5 + 1).enumerate() {
        file.write_all(part).unwrap();
        file.flush().unwrap();
        tokio::time::sleep(Duration::from_millis(if n == 3 { 400 } else { 40 })).await;
        // then
        if n < 4 {
            assert_eq!(version(&alice).await, "one", "after part {n}");
        }
    }
    drop(file);
    answers(&alice, "two").await;
}

async fn a_version_that_asks_for_more_waits_until_it_is_granted(setup: Setup) {
    // given
    let setup = serving(setup, "one");
    let bridge = setup.start().await;
    let alice = bridge.caller("alice");
    assert_eq!(version(&alice).await, "one");
    // when
    put(&setup, "notes.wasm", &component("asks"));
    let line = bridge.logged("plugin notes: it imports cyberos:plugin/http-fetch").await;
    // then
    assert!(line.contains("plugins.toml"), "it says what to do: {line}");
    assert!(line.contains("quarantined") && line.contains("not_granted"), "in the words of health and metrics: {line}");
    assert_eq!(version(&alice).await, "one");
    // and when it is granted, it serves as it is
    let granted = "[plugins.notes.upstreams.api]\nurl = \"https://api.example.com\"\npaths = [\"/\"]\n";
    grant(&setup, granted);
    answers(&alice, "asks").await;
    // and a mistake in the grants changes nothing
    grant(&setup, "[plugins.notes]\nupstream = 7\n");
    let line = bridge.logged("the grants stay as they were").await;
    assert!(line.contains("upstream"), "{line}");
    assert_eq!(version(&alice).await, "asks");
    if !bridge.is_stdio() {
        assert_eq!(bridge.get("/healthz").await.text, "degraded\ngrants: refused invalid\n");
    }
    // and what is taken back is not used any longer, not even by what serves
    grant(&setup, "");
    let give_up = Instant::now() + Duration::from_secs(20);
    while alice.call(TOOL, json!({})).await.body.get("error").is_none() {
        assert!(Instant::now() < give_up, "it serves without its grant");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    grant(&setup, granted);
    let give_up = Instant::now() + Duration::from_secs(20);
    while alice.call(TOOL, json!({})).await.body.get("error").is_some() {
        assert!(Instant::now() < give_up, "it does not serve with its grant");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_swap_takes_less_than_a_second() {
    let setup = serving(Bridge::http(), "one");
    let bridge = setup.start().await;
    let alice = bridge.caller("alice");
    let mut took = vec![];
    for next in ["two", "one", "two", "one", "two"] {
        put(&setup, "notes.wasm", &component(next));
        took.push(answers(&alice, next).await);
    }
    // The machine may be busy with other tests at any one moment.
    took.sort();
    assert!(took[2] < Duration::from_secs(1), "{took:?}");
}

#[tokio::test]
async fn a_client_over_stdio_hears_of_lists_that_changed_and_of_nothing_else() {
    // given
    let setup = serving(Bridge::stdio(), "one");
    let bridge = setup.start().await;
    let alice = bridge.caller("alice");
    let capabilities = alice.initialize().await.result()["capabilities"].clone();
    for list in ["tools", "prompts", "resources"] {
        assert_eq!(capabilities[list]["listChanged"], true, "{list}: {capabilities:#}");
    }
    assert_eq!(alice.request("prompts/list", json!({})).await.result()["prompts"], json!([]));
    // when: another version with the same tool, then one with another tool and a prompt
    put(&setup, "notes.wasm", &component("two"));
    answers(&alice, "two").await;
    put(&setup, "notes.wasm", &component("more"));
    // then
    let heard = [bridge.line().next().await, bridge.line().next().await];
    assert_eq!(methods(&heard), ["notifications/tools/list_changed", "notifications/prompts/list_changed"]);
    assert_eq!(bridge.line().next_within(Duration::from_millis(300)).await, None);
    assert_eq!(alice.request("prompts/list", json!({})).await.result()["prompts"][0]["name"], "cyberos.test.ask");
}

#[tokio::test]
async fn every_session_that_listens_over_http_hears_of_its_own_lists() {
    // given
    let setup = serving(Bridge::http(), "one");
    let bridge = setup.start().await;
    let alice = bridge.caller("alice").in_session(json!({})).await;
    let bob = bridge.caller("bob").tenant(bridge_tests::TENANT_B).in_session(json!({})).await;
    let (mut to_alice, mut to_bob) = (alice.listen(None).await, bob.listen(None).await);
    // when
    put(&setup, "notes.wasm", &component("more"));
    // then
    for events in [&mut to_alice, &mut to_bob] {
        let heard = [events.message().await, events.message().await];
        assert_eq!(methods(&heard), ["notifications/tools/list_changed", "notifications/prompts/list_changed"]);
    }
}

fn methods(messages: &[Value]) -> Vec<&str> {
    messages.iter().map(|message| message["method"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn nothing_is_said_to_change_where_nothing_can() {
    let elsewhere = serving(Bridge::stdio(), "one").flag("--plugins-watch=off");
    for setup in [Bridge::stdio(), elsewhere] {
        let bridge = setup.start().await;
        let alice = bridge.caller("alice");
        let reply = alice.initialize().await;
        let capabilities = &reply.result()["capabilities"];
        assert_eq!(capabilities["tools"]["listChanged"], false);
        assert!(capabilities.get("prompts").is_none() && capabilities.get("resources").is_none());
    }
}

#[tokio::test]
async fn where_the_kernel_does_not_tell_a_clock_does() {
    let setup = serving(Bridge::http(), "one").flag("--plugins-watch=poll");
    let bridge = setup.start().await;
    let alice = bridge.caller("alice");
    put(&setup, "notes.wasm", &component("two"));
    answers(&alice, "two").await;
}

#[tokio::test]
async fn a_mounted_config_map_is_followed_through_its_links() {
    // given: files as Kubernetes mounts them, behind a link that is switched as a whole
    let setup = Bridge::http().unlimited().guests(&[], "");
    let mount = plugins(&setup);
    fs::remove_file(mount.join("plugins.toml")).unwrap();
    let publish = |generation: &str, version: &str, grants: &str| {
        fs::create_dir(mount.join(generation)).unwrap();
        fs::write(mount.join(generation).join("notes.wasm"), component(version)).unwrap();
        fs::write(mount.join(generation).join("plugins.toml"), grants).unwrap();
        symlink(generation, mount.join("..data_tmp")).unwrap();
        fs::rename(mount.join("..data_tmp"), mount.join("..data")).unwrap();
    };
    publish("..1", "one", "");
    symlink("..data/notes.wasm", mount.join("notes.wasm")).unwrap();
    symlink("..data/plugins.toml", mount.join("plugins.toml")).unwrap();
    let bridge = setup.start().await;
    let alice = bridge.caller("alice");
    assert_eq!(version(&alice).await, "one");
    // when
    let granted = "[plugins.notes.upstreams.api]\nurl = \"https://api.example.com\"\npaths = [\"/\"]\n";
    publish("..2", "asks", granted);
    // then
    answers(&alice, "asks").await;
    publish("..3", "two", "");
    answers(&alice, "two").await;
}

#[tokio::test]
async fn a_link_that_leads_elsewhere_is_followed_and_so_is_what_it_leads_to() {
    // given
    let setup = serving(Bridge::http(), "one");
    let store = setup.home().join("store");
    fs::create_dir(&store).unwrap();
    fs::write(store.join("a.wasm"), component("one")).unwrap();
    fs::write(store.join("b.wasm"), component("two")).unwrap();
    let link = |to: &str| {
        symlink(store.join(to), setup.home().join("link")).unwrap();
        fs::rename(setup.home().join("link"), plugins(&setup).join("notes.wasm")).unwrap();
    };
    link("a.wasm");
    let bridge = setup.start().await;
    let alice = bridge.caller("alice");
    assert_eq!(version(&alice).await, "one");
    // when, then
    link("b.wasm");
    answers(&alice, "two").await;
    fs::write(store.join("new"), component("one")).unwrap();
    fs::rename(store.join("new"), store.join("b.wasm")).unwrap();
    answers(&alice, "one").await;
}

#[tokio::test]
async fn a_newcomer_takes_no_name_and_gets_it_when_it_is_free() {
    // given: the newcomer would come first by its name
    let setup = serving(Bridge::http(), "one");
    let bridge = setup.start().await;
    let alice = bridge.caller("alice");
    put(&setup, "aaa.wasm", &component("two"));
    let line = bridge.logged("plugin aaa: ").await;
    assert!(line.contains("would shadow cyberos.test.version of plugin notes"), "{line}");
    assert_eq!(version(&alice).await, "one");
    // and a restart does not decide otherwise
    bridge.kill().await;
    let bridge = setup.start().await;
    let alice = bridge.caller("alice");
    assert_eq!(version(&alice).await, "one");
    // when
    fs::remove_file(plugins(&setup).join("notes.wasm")).unwrap();
    // then
    let digest = cyberos_plugin_host::runtime::digest(&component("two"));
    bridge.logged(&format!("plugin aaa: {} serves", &digest[..12])).await;
    assert_eq!(version(&alice).await, "two");
}
