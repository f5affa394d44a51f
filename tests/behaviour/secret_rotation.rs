//! A secret that is exchanged in its file is sent from the next request on, without a restart; one that is lost stays what
//! it was, and everybody who asks is told.

use bridge_tests::shell::Shell;
use bridge_tests::stdio::PATIENCE;
use bridge_tests::{Bridge, Caller, Setup};
use serde_json::json;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::host_imports::Upstream;

/// One upstream, whose secret is in this file.
fn keeping(setup: Setup, upstream: SocketAddr, secret: &Path) -> Setup {
    let grants = format!(
        r#"
        [plugins.guest-reaches]
        any_tool_name = true
        cuo = true
        audit_append = true
        audit_read = true
        config = {{ colour = "green" }}
        [plugins.guest-reaches.upstreams.notes]
        url = "http://{upstream}"
        paths = ["/v1/*"]
        allow_private = true
        credential = {{ scheme = "Bearer", secret = "file:{}" }}
        "#,
        secret.display()
    );
    setup.unlimited().guests(&["guest_reaches"], &grants)
}

fn place(setup: &Setup) -> PathBuf {
    let directory = setup.home().join("secrets");
    fs::create_dir_all(&directory).unwrap();
    directory
}

/// What the upstream was sent for one call.
async fn sent(alice: &Caller<'_>, upstream: &Upstream) -> String {
    let reply = alice.call("test.fetches", json!({ "upstream": "notes", "path": "/v1/echo" })).await;
    let answer = reply.structured().clone();
    assert_eq!(answer["status"], 200, "{answer:#}");
    assert!(answer["body"].as_str().unwrap().contains("authorization: Bearer ***"), "{answer:#}");
    upstream.seen().pop().unwrap().1["authorization"].to_str().unwrap().to_owned()
}

async fn sends(alice: &Caller<'_>, upstream: &Upstream, secret: &str) {
    let began = Instant::now();
    loop {
        let found = sent(alice, upstream).await;
        if found == format!("Bearer {secret}") {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{found} is sent, and not {secret}: {}", alice.bridge().log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn replace(directory: &Path, name: &str, value: &str) {
    fs::write(directory.join(".new"), value).unwrap();
    fs::rename(directory.join(".new"), directory.join(name)).unwrap();
}

/// As a mounted Secret changes: a new directory, and one link that is switched to it.
fn mount(directory: &Path, version: &str, value: &str) {
    let data = directory.join(format!("..{version}"));
    fs::create_dir(&data).unwrap();
    fs::write(data.join("key"), value).unwrap();
    symlink(format!("..{version}"), directory.join("..data_tmp")).unwrap();
    let before = fs::read_link(directory.join("..data"));
    fs::rename(directory.join("..data_tmp"), directory.join("..data")).unwrap();
    if let Ok(before) = before {
        fs::remove_dir_all(directory.join(before)).unwrap();
    }
}

#[tokio::test]
async fn a_secret_is_exchanged_in_place_by_rename_or_by_a_switched_link() {
    // given
    let upstream = Upstream::default();
    let address = upstream.start().await;
    let setup = Bridge::http();
    let directory = place(&setup);
    mount(&directory, "2026_1", "canary-of-monday\n");
    symlink("..data/key", directory.join("key")).unwrap();
    let bridge = keeping(setup, address, &directory.join("key")).start().await;
    let alice = bridge.caller("alice");
    assert_eq!(sent(&alice, &upstream).await, "Bearer canary-of-monday");
    // when, then
    mount(&directory, "2026_2", "canary-of-tuesday");
    sends(&alice, &upstream, "canary-of-tuesday").await;
    replace(&directory, "key", "canary-of-wednesday");
    sends(&alice, &upstream, "canary-of-wednesday").await;
    fs::write(directory.join("key"), "canary-of-thursday").unwrap();
    sends(&alice, &upstream, "canary-of-thursday").await;
    // and it is said which one, and not what
    let line = bridge.logged("plugins.guest-reaches.upstreams.notes").await;
    assert!(line.contains("is another one now") && line.contains("secrets/key"), "{line}");
    assert!(!bridge.log().contains("canary-of"), "{}", bridge.log());
    let metrics = bridge.get("/metrics").await.text;
    let counted = "cyberos_bridge_plugins_secrets_reloaded_total{outcome=\"changed\"} 3";
    assert!(metrics.contains(counted), "{metrics}");
    assert_eq!(bridge.get("/healthz").await.text, "ok\n");
}

#[tokio::test]
async fn where_nobody_tells_of_changes_a_look_each_second_finds_them() {
    // given
    let upstream = Upstream::default();
    let address = upstream.start().await;
    let setup = Bridge::http().flag("--plugins-watch=poll");
    let directory = place(&setup);
    replace(&directory, "key", "canary-of-monday");
    let bridge = keeping(setup, address, &directory.join("key")).start().await;
    let alice = bridge.caller("alice");
    assert_eq!(sent(&alice, &upstream).await, "Bearer canary-of-monday");
    // when
    replace(&directory, "key", "canary-of-tuesday");
    // then
    sends(&alice, &upstream, "canary-of-tuesday").await;
}

#[tokio::test]
async fn a_secret_that_is_lost_stays_what_it_was_and_is_shown_until_it_is_back() {
    // given
    let upstream = Upstream::default();
    let address = upstream.start().await;
    let setup = Bridge::http();
    let directory = place(&setup);
    let key = directory.join("key");
    replace(&directory, "key", "canary-of-monday");
    let setup = keeping(setup, address, &key);
    let bridge = setup.start().await;
    let alice = bridge.caller("alice");
    let shell = Shell::beside(&setup);
    let plugins = format!("--plugins={}", setup.home().join("plugins").display());
    for (lose, says) in [(true, "cannot be read"), (false, "the secret is empty")] {
        // when
        match lose {
            true => fs::remove_file(&key).unwrap(),
            false => fs::write(&key, "").unwrap(),
        }
        // then
        let line = bridge.logged(says).await;
        assert!(line.contains("stays as it was") && line.contains("plugins.guest-reaches.upstreams.notes"), "{line}");
        health(&bridge, "degraded\nplugin guest-reaches: stale secret\n").await;
        assert_eq!(sent(&alice, &upstream).await, "Bearer canary-of-monday");
        let listed = shell.json(&["plugins", "list", &plugins, "--json"]);
        let reaches = listed.as_array().unwrap().iter().find(|one| one["id"] == "guest-reaches").unwrap();
        assert_eq!(reaches["state"], "serving", "{reaches:#}");
        assert!(reaches["stale_secrets"]["notes"].as_str().unwrap().contains(says), "{reaches:#}");
        assert!(shell.text(&["plugins", "list", &plugins]).contains("guest-reaches, upstream notes: the secret in"));
    }
    // and nothing new starts without it
    let refused = setup.over(bridge_tests::setup::Transport::Stdio).refuses_to_start().await;
    assert!(refused.contains("credential.secret: the secret is empty"), "{refused}");
    // when: it is back
    replace(&directory, "key", "canary-of-friday");
    // then
    sends(&alice, &upstream, "canary-of-friday").await;
    health(&bridge, "ok\n").await;
}

/// What `/healthz` says, as soon as it says this.
async fn health(bridge: &Bridge, expected: &str) {
    let began = Instant::now();
    loop {
        let said = bridge.get("/healthz").await.text;
        if said == expected {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{expected:?} is not said, but {said:?}:\n{}", bridge.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
