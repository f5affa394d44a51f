//! Compiled guests for bridges that start with nothing: each guest is compiled once for each build of the bridge, by the
//! bridge itself, and every test's bridge gets a copy of what it kept. Compiling the large ones in every test was half
//! of what the suite computed.
//!
//! A bridge loads only code that carries a MAC under its own key, so the copies come with that key. They are copies, not
//! links: a test may spoil its own.

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::setup::{bridge_binary, target};

/// Put the compiled form of this guest (a built component) into the bridge's state directory.
pub fn give(component: &Path, state: &Path) {
    let compiled = state.join("compiled");
    private(state);
    private(&compiled);
    for entry in fs::read_dir(kept(component)).expect("a directory of our own").flatten() {
        let to = compiled.join(entry.file_name());
        if !to.exists() {
            fs::copy(entry.path(), to).expect("a copy of compiled code");
        }
    }
}

/// The `compiled` directory of a bridge that has loaded this guest and nothing else.
fn kept(component: &Path) -> PathBuf {
    let warm = target().join("tmp/warm");
    private(&warm);
    let guest = component.file_stem().and_then(|name| name.to_str()).expect("our own name");
    let place = warm.join(format!("{guest}-{}-{}", version(&bridge_binary()), version(component)));
    let compiled = place.join("state/compiled");
    let done = place.join("done");
    if done.exists() {
        return compiled;
    }
    // Tests are processes that run side by side; the others wait for the first.
    let lock = File::create(warm.join("lock")).expect("a lock file");
    lock.lock().expect("a lock that others give back");
    if done.exists() {
        return compiled;
    }
    forget_older(&warm, guest);
    let plugins = place.join("plugins");
    for directory in [&plugins, &place.join("state"), &compiled] {
        private(directory);
    }
    fs::copy(component, plugins.join(component.file_name().expect("a file"))).expect("a copy of the guest");
    fs::write(plugins.join("plugins.toml"), format!("[plugins.{}]\nany_tool_name = true\n", guest.replace('_', "-")))
        .expect("plugins.toml");
    // One key for all, made by the first bridge: a test may serve several guests.
    let key = warm.join("key");
    if key.exists() {
        fs::copy(&key, compiled.join("key")).expect("a copy of the key");
    }
    let ended = Command::new(bridge_binary())
        .args(["serve", "--audit=off"])
        .arg(format!("--state-dir={}", place.join("state").display()))
        .arg(format!("--plugins={}", plugins.display()))
        .env_clear()
        .env("HOME", &place)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(place.join("log")).expect("a log"))
        .status()
        .expect("the bridge starts");
    assert!(ended.success(), "compiling {guest} ended in {ended}: see {}", place.display());
    fs::copy(compiled.join("key"), key).expect("a copy of the key");
    File::create(done).expect("a mark");
    compiled
}

/// What earlier builds left is of no use to anybody.
fn forget_older(warm: &Path, guest: &str) {
    for entry in fs::read_dir(warm).expect("a directory of our own").flatten() {
        if entry.file_name().to_string_lossy().starts_with(&format!("{guest}-")) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Another build is another file.
fn version(file: &Path) -> String {
    let meta = fs::metadata(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    format!("{:x}{:08x}{:x}", meta.mtime(), meta.mtime_nsec(), meta.len())
}

fn private(directory: &Path) {
    DirBuilder::new().recursive(true).mode(0o700).create(directory).expect("a directory of our own");
}
