//! Go: the standard compiler for `wasip1`, as a library; the module becomes a component in this process.

use std::path::{Path, PathBuf};

use super::super::component;
use super::super::error::Result;
use super::super::progress::Progress;
use super::super::project::Project;
use super::super::tools::{missing, run};

const INSTALL: &str = "follow https://go.dev/doc/install (1.24 or later)";
/// The first with `//go:wasmexport`.
const OLDEST_MINOR: u32 = 24;

pub fn component(project: &Project, scratch: &Path, progress: &Progress) -> Result<PathBuf> {
    let (tools, settings) = (project.tools(), &project.manifest().go);
    let go = tools.need(&["go"], "Go 1.24 or later", INSTALL)?;
    let mut ask = tools.command(&go, project.directory());
    ask.args(["env", "GOVERSION"]);
    let version = run(ask, progress)?;
    if minor(&version).is_some_and(|minor| minor < OLDEST_MINOR) {
        return Err(missing(&format!("Go 1.24 or later (this is {})", version.trim()), INSTALL));
    }
    progress.begins("compiling with go");
    let core = scratch.join("core.wasm");
    let mut build = tools.command(&go, project.directory());
    build.env("GOOS", "wasip1").env("GOARCH", "wasm").env("GOWORK", "off");
    build.args(["build", "-buildmode=c-shared", "-trimpath", "-ldflags=-s -w"]).args(&settings.flags);
    build.arg("-o").arg(&core).arg(&settings.package);
    run(build, progress)?;
    component::from_core(&core, project, scratch, progress)
}

/// The 24 of `go1.24.3`.
fn minor(version: &str) -> Option<u32> {
    version.trim().strip_prefix("go1.")?.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}
