//! What the behaviour tests stand on.

// Only the host reads its environment in one place; tests may look where they like.
#![allow(clippy::disallowed_methods)]

pub mod otlp;
pub mod postgres;
pub mod stores;

use std::path::PathBuf;

/// The binary under test, which `cargo build` puts two directories above this test's executable.
pub fn bridge_binary() -> PathBuf {
    let test = std::env::current_exe().expect("a running test has a path");
    let path = test.ancestors().nth(2).expect("target/debug/deps/test").join("cyberos-mcp-bridge");
    assert!(path.is_file(), "{} is not there: run `cargo build --bins` first", path.display());
    path
}
