//! Python: componentize-py.

use std::path::{Path, PathBuf};

use super::super::error::Result;
use super::super::progress::Progress;
use super::super::project::Project;
use super::super::tools::run;

const INSTALL: &str = "python3 -m venv .venv && .venv/bin/pip install -r requirements.txt (in the plugin's directory)";

pub fn component(project: &Project, scratch: &Path, progress: &Progress) -> Result<PathBuf> {
    let (tools, settings) = (project.tools(), &project.manifest().python);
    let program = tools.need(&["componentize-py"], "componentize-py", INSTALL)?;
    progress.begins("embedding the module in its interpreter with componentize-py");
    let component = scratch.join("component.wasm");
    let mut build = tools.command(&program, project.directory());
    build.args(["--quiet", "--wit-path", "wit", "--world", &settings.world, "componentize", &settings.module]);
    build.arg("--output").arg(&component);
    run(build, progress)?;
    Ok(component)
}
