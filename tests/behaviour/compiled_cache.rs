//! Compiled components are kept and loaded again, and only what this host wrote and nobody touched since.

use bridge_tests::{Bridge, Setup};
use serde_json::json;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;

async fn serves(setup: &Setup) -> Bridge {
    let bridge = setup.start().await;
    bridge.caller("alice").call("cyberos.fixture.echo", json!({ "text": "x" })).await.structured();
    bridge
}

fn with_echo() -> Setup {
    Bridge::stdio().guests(&["fixture_echo"], "").cold()
}

/// The one compiled component: the eight are compiled when the bridge is built.
fn kept(setup: &Setup) -> PathBuf {
    let entries = fs::read_dir(setup.state_dir().join("compiled")).unwrap().map(|entry| entry.unwrap().path());
    let mut compiled: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|e| e == "cwasm")).collect();
    assert_eq!(compiled.len(), 1, "{compiled:?}");
    compiled.remove(0)
}

/// Files are replaced by rename: one that was written again is another file.
fn identity(setup: &Setup) -> (u64, i64, i64) {
    let meta = fs::metadata(kept(setup)).unwrap();
    (meta.ino(), meta.mtime(), meta.mtime_nsec())
}

#[tokio::test]
async fn a_second_start_compiles_nothing() {
    let setup = with_echo();
    serves(&setup).await.kill().await;
    let first = identity(&setup);
    let bridge = serves(&setup).await;
    assert_eq!(identity(&setup), first, "nothing was compiled again");
    assert!(!bridge.log().contains("compiled"), "{}", bridge.log());
    let mode = |path: PathBuf| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!(mode(setup.state_dir().join("compiled")), 0o700);
    assert_eq!(mode(setup.state_dir().join("compiled/key")), 0o600);
}

#[tokio::test]
async fn compiled_code_that_was_changed_is_not_loaded_but_compiled_again() {
    let setup = with_echo();
    serves(&setup).await.kill().await;
    // given: one bit in the middle of the code, which wasmtime itself would take
    let path = kept(&setup);
    let good = fs::read(&path).unwrap();
    let mut changed = good.clone();
    changed[good.len() / 3] ^= 1;
    fs::remove_file(&path).unwrap();
    fs::write(&path, changed).unwrap();
    // when
    let bridge = serves(&setup).await;
    // then
    bridge.logged("a cached compiled component failed its check and is compiled again").await;
    bridge.kill().await;
    let first = identity(&setup);
    let bridge = serves(&setup).await;
    assert_eq!(identity(&setup), first, "what was compiled again is used again");
    assert!(!bridge.log().contains("failed its check"));
}

#[tokio::test]
async fn a_cache_that_others_may_write_is_not_used() {
    let setup = with_echo();
    serves(&setup).await.kill().await;
    let first = identity(&setup);
    for mode in [0o770, 0o707, 0o750] {
        fs::set_permissions(setup.state_dir().join("compiled"), Permissions::from_mode(mode)).unwrap();
        let bridge = serves(&setup).await;
        let line = bridge.logged("their cache cannot be used").await;
        assert!(line.contains("0700"), "it says what to do: {line}");
        assert_eq!(identity(&setup), first, "nothing is written there either");
        bridge.kill().await;
    }
    // A link to a directory that is fit is not followed: its owner may be somebody else tomorrow.
    let compiled = setup.state_dir().join("compiled");
    let elsewhere = setup.home().join("elsewhere");
    fs::set_permissions(&compiled, Permissions::from_mode(0o700)).unwrap();
    fs::rename(&compiled, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &compiled).unwrap();
    serves(&setup).await.logged("their cache cannot be used").await;
}
