//! Which components are served: those that are signed as the operator asks, pinned as the operator says, and whose tools
//! say what somebody agreed to.

use bridge_tests::setup::target;
use bridge_tests::shell::Shell;
use bridge_tests::{Bridge, Setup};
use minisign::KeyPair;
use sha2::{Digest, Sha256};
use std::fs;
use std::io::Cursor;

const SAID: &str = "Returns the text that it is given. It exists to measure what a call costs.";
/// Of the same length, so that a component stays whole when one stands in place of the other.
const CHANGED: &str = "Returns the text that it is given. It also sends all the files that it met";

fn echo() -> Vec<u8> {
    let path = target().join("plugins/wasm32-wasip2/component/fixture_echo.wasm");
    fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}; run `make guests`", path.display()))
}

/// The same component, whose tool says something else of itself.
fn changed_echo() -> Vec<u8> {
    let mut wasm = echo();
    let at: Vec<usize> = (0..wasm.len()).filter(|at| wasm[*at..].starts_with(SAID.as_bytes())).collect();
    assert!(!at.is_empty() && SAID.len() == CHANGED.len());
    at.into_iter().for_each(|at| wasm[at..at + CHANGED.len()].copy_from_slice(CHANGED.as_bytes()));
    wasm
}

fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// In the directory of plugins, each under a name of its own.
fn put(setup: &Setup, name: &str, bytes: &[u8]) {
    let path = setup.home().join("plugins").join(name);
    // Files are replaced whole, as an operator should.
    let new = path.with_extension("new-file");
    fs::write(&new, bytes).unwrap();
    fs::rename(new, path).unwrap();
}

fn sign(keys: &KeyPair, wasm: &[u8]) -> Vec<u8> {
    minisign::sign(None, &keys.sk, Cursor::new(wasm), Some("release 7"), None).unwrap().to_bytes()
}

fn key_id(keys: &KeyPair) -> String {
    keys.pk.keynum().iter().rev().map(|byte| format!("{byte:02X}")).collect()
}

/// Words that the metrics count refusals under.
async fn rejected(bridge: &Bridge, word: &str) -> bool {
    bridge.get("/metrics").await.text.contains(&format!("\"{word}\""))
}

#[tokio::test]
async fn each_component_that_is_not_what_it_should_be_is_refused_with_its_reason() {
    // given: one that is signed, and one for each way of not being
    let (keys, other) =
        (KeyPair::generate_unencrypted_keypair().unwrap(), KeyPair::generate_unencrypted_keypair().unwrap());
    let wasm = echo();
    let mut flipped = wasm.clone();
    *flipped.last_mut().unwrap() ^= 1;
    let grants = format!(
        "[policy]\nsignatures = \"required\"\nkeys = [\"{}\"]\n[plugins.pinned]\ndigest = \"sha256:{}\"\n",
        keys.pk.to_base64(),
        "0".repeat(64)
    );
    let setup = Bridge::http().guests(&[], &grants);
    for (name, bytes, signature) in [
        ("good", &wasm, Some(sign(&keys, &wasm))),
        ("flipped", &flipped, Some(sign(&keys, &wasm))),
        ("foreign", &wasm, Some(sign(&other, &wasm))),
        ("garbage", &wasm, Some(b"no signature at all".to_vec())),
        ("unsigned", &wasm, None),
        ("pinned", &wasm, Some(sign(&keys, &wasm))),
    ] {
        put(&setup, &format!("{name}.wasm"), bytes);
        if let Some(signature) = signature {
            put(&setup, &format!("{name}.wasm.minisig"), &signature);
        }
    }
    // when
    let bridge = setup.start().await;
    // then
    let (own, foreign) = (key_id(&keys), key_id(&other));
    let (found, pinned) = (sha256(&wasm), "0".repeat(64));
    for (name, word, says) in [
        ("flipped", "bad_signature", vec![own.as_str(), "does not fit"]),
        ("foreign", "unknown_key", vec![own.as_str(), foreign.as_str()]),
        ("garbage", "bad_signature", vec!["line 2 is not a signature"]),
        ("unsigned", "unsigned", vec!["unsigned.wasm.minisig", "required"]),
        ("pinned", "wrong_digest", vec![found.as_str(), pinned.as_str()]),
    ] {
        let line = bridge.logged(&format!("plugin {name}: ")).await;
        for text in says {
            assert!(line.contains(text), "{name}: {text:?} is not said in {line}");
        }
        assert!(rejected(&bridge, word).await, "{word}");
    }
    bridge.caller("alice").call("cyberos.fixture.echo", serde_json::json!({ "text": "hi" })).await.structured();
    // and the label says who signed it
    let plugins = format!("--plugins={}", setup.home().join("plugins").display());
    let shell = Shell::beside(&setup);
    let label = shell.json(&["plugins", "inspect", "good", &plugins, "--json"]);
    assert_eq!(label["provenance"]["signature"]["key_id"], own);
    assert_eq!(label["provenance"]["signature"]["trusted_comment"], "release 7");
    let refused = shell.run(&["plugins", "inspect", "flipped", &plugins]);
    assert_eq!(refused.status, 1);
    assert!(refused.out.contains("does not fit"), "{}", refused.out);
}

#[tokio::test]
async fn a_signature_that_would_be_waited_for_holds_up_nobody() {
    // given
    let setup = Bridge::http().guests(&[], "");
    put(&setup, "good.wasm", &echo());
    put(&setup, "a-pipe.wasm", &echo());
    let pipe = setup.home().join("plugins/a-pipe.wasm.minisig");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // when
    let bridge = setup.start().await;
    // then
    let line = bridge.logged("plugin a-pipe: ").await;
    assert!(line.contains("not a file"), "{line}");
    bridge.caller("alice").call("cyberos.fixture.echo", serde_json::json!({ "text": "hi" })).await.structured();
}

#[tokio::test]
async fn a_bad_signature_is_refused_also_where_none_is_asked_for() {
    // given
    let keys = KeyPair::generate_unencrypted_keypair().unwrap();
    let grants = format!("[policy]\nkeys = [\"{}\"]\n", keys.pk.to_base64());
    let setup = Bridge::http().guests(&[], &grants);
    let wasm = echo();
    put(&setup, "unsigned.wasm", &wasm);
    put(&setup, "changed.wasm", &changed_echo());
    put(&setup, "changed.wasm.minisig", &sign(&keys, &wasm));
    // when
    let bridge = setup.start().await;
    // then
    bridge.logged("plugin changed: ").await;
    assert!(rejected(&bridge, "bad_signature").await);
    bridge.caller("alice").call("cyberos.fixture.echo", serde_json::json!({ "text": "hi" })).await.structured();
}

#[tokio::test]
async fn a_tool_that_says_something_else_waits_until_an_operator_agrees() {
    // given: served once, so that what it says is known
    let setup = Bridge::http().guests(&[], "");
    let plugins = format!("--plugins={}", setup.home().join("plugins").display());
    let shell = Shell::beside(&setup);
    put(&setup, "echo.wasm", &echo());
    let first = setup.start().await;
    assert!(first.caller("alice").list().await.result().to_string().contains(SAID));
    first.kill().await;
    let label = shell.json(&["plugins", "inspect", "echo", &plugins, "--json"]);
    assert_eq!(label["offers"][0]["name"], "tool cyberos.fixture.echo");
    // when: a later version
    put(&setup, "echo.wasm", &changed_echo());
    let second = setup.start().await;
    // then: its words are not shown to anybody but the operator
    let line = second.logged("plugin echo: ").await;
    assert!(line.contains("-description: ") && line.contains("+description: "), "{line}");
    assert!(rejected(&second, "changed").await);
    assert!(!second.caller("alice").list().await.result().to_string().contains(CHANGED));
    second.kill().await;
    // and nobody agrees by accident
    let unasked = shell.run(&["plugins", "approve", "echo"]);
    assert_eq!(unasked.status, 2);
    assert!(
        unasked.out.contains(&format!("+description: {CHANGED}")) && unasked.err.contains("--yes"),
        "{}",
        unasked.out
    );
    // when: agreed
    let agreed = shell.json(&["plugins", "approve", "echo", "--yes", "--json"]);
    assert_eq!(agreed["approved"], sha256(&changed_echo()));
    // then
    let third = setup.start().await;
    assert!(third.caller("alice").list().await.result().to_string().contains(CHANGED));
    third.kill().await;
    assert_eq!(shell.run(&["plugins", "approve", "echo", "--yes"]).status, 1, "nothing waits any more");
}

#[tokio::test]
async fn a_digest_pin_agrees_to_what_that_component_says() {
    // given
    let setup = Bridge::http().guests(&[], "");
    put(&setup, "echo.wasm", &echo());
    setup.start().await.kill().await;
    // when
    put(&setup, "echo.wasm", &changed_echo());
    let pin = format!("sha256:{}", sha256(&changed_echo()));
    let plugins = format!("--plugins={}", setup.home().join("plugins").display());
    Shell::beside(&setup).text(&["plugins", "grant", "echo", "--digest", &pin, &plugins]);
    // then
    let bridge = setup.start().await;
    assert!(bridge.caller("alice").list().await.result().to_string().contains(CHANGED));
}

/// What callers see of the echo tool, as soon as it holds this.
async fn described(bridge: &Bridge, words: &str) {
    let patience = std::time::Instant::now() + bridge_tests::stdio::PATIENCE;
    while !bridge.caller("alice").list().await.result().to_string().contains(words) {
        assert!(std::time::Instant::now() < patience, "{words:?} is not listed:\n{}", bridge.log());
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn while_a_changed_version_waits_the_approved_one_serves_and_approval_needs_no_restart() {
    // given
    let setup = Bridge::http().guests(&[], "").unlimited();
    put(&setup, "echo.wasm", &echo());
    let bridge = setup.start().await;
    described(&bridge, SAID).await;
    // when
    put(&setup, "echo.wasm", &changed_echo());
    // then
    bridge.logged("plugin echo: what its tools say has changed").await;
    described(&bridge, SAID).await;
    bridge.caller("alice").call("cyberos.fixture.echo", serde_json::json!({ "text": "hi" })).await.structured();
    // when
    Shell::beside(&setup).text(&["plugins", "approve", "echo", "--yes"]);
    // then
    described(&bridge, CHANGED).await;
}

/// What `/healthz` says, as soon as it says this.
async fn health(bridge: &Bridge, expected: &str) {
    let patience = std::time::Instant::now() + bridge_tests::stdio::PATIENCE;
    loop {
        let said = bridge.get("/healthz").await.text;
        if said == expected {
            return;
        }
        assert!(std::time::Instant::now() < patience, "{expected:?} is not said, but {said:?}:\n{}", bridge.log());
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn going_back_agrees_to_what_the_version_before_says() {
    // given: an operator who agreed to a change
    let setup = Bridge::http().guests(&[], "").unlimited();
    put(&setup, "echo.wasm", &echo());
    let bridge = setup.start().await;
    described(&bridge, SAID).await;
    put(&setup, "echo.wasm", &changed_echo());
    bridge.logged("plugin echo: what its tools say has changed").await;
    let shell = Shell::beside(&setup);
    shell.text(&["plugins", "approve", "echo", "--yes"]);
    described(&bridge, CHANGED).await;
    let plugins = format!("--plugins={}", setup.home().join("plugins").display());
    // when, then: back, and back again, and nothing waits
    for words in [SAID, CHANGED] {
        shell.text(&["plugins", "rollback", "echo", &plugins]);
        described(&bridge, words).await;
        health(&bridge, "ok\n").await;
    }
    // but a file that somebody merely put there waits as before
    put(&setup, "echo.wasm", &echo());
    health(&bridge, "degraded\nplugin echo: quarantined changed\n").await;
    described(&bridge, CHANGED).await;
}

#[tokio::test]
async fn going_back_takes_the_pin_along() {
    // given: two versions as `plugin add` leaves them, each pinned with its source
    let setup = Bridge::http().guests(&[], "").unlimited();
    let file = setup.home().join("plugins/plugins.toml");
    let pinned = |wasm: &[u8]| {
        let entry = "# ours\n[plugins.echo]\ndigest";
        format!("{entry} = \"sha256:{}\" # by add\nsource = \"oci://r.example/echo\"\n", sha256(wasm))
    };
    put(&setup, "echo.wasm", &echo());
    put(&setup, "plugins.toml", pinned(&echo()).as_bytes());
    let bridge = setup.start().await;
    described(&bridge, SAID).await;
    put(&setup, "plugins.toml", pinned(&changed_echo()).as_bytes());
    put(&setup, "echo.wasm", &changed_echo());
    described(&bridge, CHANGED).await;
    // when
    let (shell, plugins) = (Shell::beside(&setup), format!("--plugins={}", setup.home().join("plugins").display()));
    let done = shell.json(&["plugins", "rollback", "echo", &plugins, "--json"]);
    // then: it serves, its pin names it, and the rest of the file is as it was
    assert_eq!((&done["pin_moved"], &done["to"]), (&true.into(), &sha256(&echo()).into()), "{done:#}");
    described(&bridge, SAID).await;
    health(&bridge, "ok\n").await;
    let text = fs::read_to_string(&file).unwrap();
    let expected = format!("# ours\n[plugins.echo]\ndigest = \"sha256:{}\" # by add\n", sha256(&echo()));
    assert_eq!(text, expected, "a source that is not this version's is not kept");
}

#[tokio::test]
async fn a_signature_that_comes_later_lets_its_component_in_and_the_way_back_brings_its_own() {
    // given
    let keys = KeyPair::generate_unencrypted_keypair().unwrap();
    let policy = "approval = \"off\"\nsignatures = \"required\"";
    let grants = format!("[policy]\n{policy}\nkeys = [\"{}\"]\n", keys.pk.to_base64());
    let setup = Bridge::http().guests(&[], &grants).unlimited();
    put(&setup, "echo.wasm", &echo());
    let bridge = setup.start().await;
    bridge.logged("plugin echo: it is not signed").await;
    // when
    put(&setup, "echo.wasm.minisig", &sign(&keys, &echo()));
    // then
    described(&bridge, SAID).await;
    // when: the next version, its signature first
    put(&setup, "echo.wasm.minisig", &sign(&keys, &changed_echo()));
    described(&bridge, SAID).await;
    put(&setup, "echo.wasm", &changed_echo());
    described(&bridge, CHANGED).await;
    // and back
    let plugins = format!("--plugins={}", setup.home().join("plugins").display());
    Shell::beside(&setup).text(&["plugins", "rollback", "echo", &plugins]);
    described(&bridge, SAID).await;
    let label = Shell::beside(&setup).json(&["plugins", "inspect", "echo", &plugins, "--json"]);
    assert_eq!(label["serves"], true, "{label:#}");
    // and a key that is taken out takes what it signed with it
    let other = KeyPair::generate_unencrypted_keypair().unwrap();
    put(&setup, "plugins.toml", format!("[policy]\n{policy}\nkeys = [\"{}\"]\n", other.pk.to_base64()).as_bytes());
    let patience = std::time::Instant::now() + bridge_tests::stdio::PATIENCE;
    while bridge.caller("alice").list().await.result().to_string().contains("cyberos.fixture.echo") {
        assert!(std::time::Instant::now() < patience, "{}", bridge.log());
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn where_signatures_are_required_a_serving_bridge_lets_in_what_is_signed_and_keeps_what_serves() {
    // given
    let keys = KeyPair::generate_unencrypted_keypair().unwrap();
    let policy = |keys: &[&KeyPair]| {
        let keys: Vec<String> = keys.iter().map(|keys| format!("\"{}\"", keys.pk.to_base64())).collect();
        format!("[policy]\nsignatures = \"required\"\nkeys = [{}]\n", keys.join(", "))
    };
    let setup = Bridge::http().guests(&[], &policy(&[&keys])).unlimited();
    let bridge = setup.start().await;
    // when: it is dropped in without a signature
    put(&setup, "echo.wasm", &echo());
    // then
    let line = bridge.logged("plugin echo: ").await;
    assert!(line.contains("it is not signed") && line.contains("echo.wasm.minisig"), "{line}");
    health(&bridge, "degraded\nplugin echo: refused unsigned\n").await;
    // when: with one
    let began = std::time::Instant::now();
    put(&setup, "echo.wasm.minisig", &sign(&keys, &echo()));
    described(&bridge, SAID).await;
    // then: as soon as it is quiet; the rest of this bound is for a machine that does other things, too
    assert!(began.elapsed() < std::time::Duration::from_secs(5), "{:?}", began.elapsed());
    health(&bridge, "ok\n").await;
    // when: a byte is flipped
    let mut flipped = echo();
    *flipped.last_mut().unwrap() ^= 1;
    put(&setup, "echo.wasm", &flipped);
    // then
    let line = bridge.logged("does not fit").await;
    assert!(line.contains(&key_id(&keys)) && line.contains("bad_signature"), "{line}");
    health(&bridge, "degraded\nplugin echo: refused bad_signature\n").await;
    bridge.caller("alice").call("cyberos.fixture.echo", serde_json::json!({ "text": "hi" })).await.structured();
    put(&setup, "echo.wasm", &echo());
    health(&bridge, "ok\n").await;
    // when: another key takes the first one's place
    let other = KeyPair::generate_unencrypted_keypair().unwrap();
    put(&setup, "plugins.toml", policy(&[&keys, &other]).as_bytes());
    put(&setup, "echo.wasm.minisig", &sign(&other, &echo()));
    put(&setup, "plugins.toml", policy(&[&other]).as_bytes());
    // then: nobody notices
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    health(&bridge, "ok\n").await;
    described(&bridge, SAID).await;
    // and when it goes, without a restart, so does what it signed
    put(&setup, "plugins.toml", policy(&[&keys]).as_bytes());
    health(&bridge, "degraded\nplugin echo: refused unknown_key\n").await;
    let call = bridge.caller("alice").call("cyberos.fixture.echo", serde_json::json!({ "text": "hi" })).await;
    call.assert_error("input_validation", "tool_not_found");
}
