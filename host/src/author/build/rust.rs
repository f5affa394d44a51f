//! Rust: `cargo build` for `wasm32-wasip2`, which links a component.

use serde::Deserialize;
use std::path::{Path, PathBuf};

use super::super::error::{Error, Result};
use super::super::progress::Progress;
use super::super::project::Project;
use super::super::tools::{missing, run};

const TARGET: &str = "wasm32-wasip2";

pub fn component(project: &Project, progress: &Progress) -> Result<PathBuf> {
    let (tools, here) = (project.tools(), project.directory());
    let cargo = tools.need(&["cargo"], "cargo", "follow https://rustup.rs, then rustup target add wasm32-wasip2")?;
    let rustc = tools.need(&["rustc"], "rustc", "follow https://rustup.rs, then rustup target add wasm32-wasip2")?;
    let mut ask = tools.command(&rustc, here);
    ask.args(["--print", "target-libdir", "--target", TARGET]);
    if !Path::new(run(ask, progress)?.trim()).is_dir() {
        return Err(missing("Rust's target wasm32-wasip2", "rustup target add wasm32-wasip2"));
    }
    progress.begins("compiling with cargo");
    let mut build = tools.command(&cargo, here);
    build.args(["build", "--release", "--target", TARGET, "--message-format", "json-render-diagnostics"]);
    let messages = run(build, progress)?;
    let mut components = messages.lines().filter_map(artifact);
    components
        .next_back()
        .ok_or_else(|| Error::NotAComponent("cargo made no .wasm; Cargo.toml needs crate-type = [\"cdylib\"]".into()))
}

#[derive(Deserialize)]
struct Message {
    reason: String,
    #[serde(default)]
    filenames: Vec<PathBuf>,
}

/// The `.wasm` that this line of cargo's messages tells of.
fn artifact(line: &str) -> Option<PathBuf> {
    let message: Message = serde_json::from_str(line).ok()?;
    let made = message.reason == "compiler-artifact";
    message.filenames.into_iter().find(|file| made && file.extension().is_some_and(|e| e == "wasm"))
}
