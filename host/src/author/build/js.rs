//! JavaScript: componentize-js, on its own or by way of jco.

use std::path::{Path, PathBuf};

use super::super::error::{Error, Result};
use super::super::progress::Progress;
use super::super::project::Project;
use super::super::tools::run;

/// What componentize-js can leave out. `fetch-event` is a server's entry point, which no plugin has.
const FEATURES: [&str; 4] = ["stdio", "clocks", "random", "http"];

pub fn component(project: &Project, scratch: &Path, progress: &Progress) -> Result<PathBuf> {
    let (tools, settings) = (project.tools(), &project.manifest().js);
    if let Some(unknown) = settings.features.iter().find(|f| !FEATURES.contains(&f.as_str())) {
        let what = format!("js.features: {unknown:?} is none of {}", FEATURES.join(", "));
        return Err(Error::BadFile { path: project.directory().join("plugin.toml"), what });
    }
    tools.need(&["node"], "Node.js 20 or later", "apt-get install nodejs npm (or https://nodejs.org)")?;
    let program =
        tools.need(&["componentize-js", "jco"], "componentize-js", "npm install (in the plugin's directory)")?;
    progress.begins("embedding the script in its engine with componentize-js");
    let component = scratch.join("component.wasm");
    let mut build = tools.command(&program, project.directory());
    if program.file_name().is_some_and(|name| name == "jco") {
        build.arg("componentize");
    }
    build.arg(&settings.source).args(["--wit", "wit", "--world-name", &settings.world]).arg("--out").arg(&component);
    for left_out in FEATURES.into_iter().filter(|f| !settings.features.iter().any(|wanted| wanted == f)) {
        build.args(["--disable", left_out]);
    }
    build.args(["--disable", "fetch-event"]);
    run(build, progress)?;
    Ok(component)
}
