//! Which plugin a command is about: a component with what lies beside it, or a project that is built first.

use anyhow::Context;
use std::path::{Path, PathBuf};

use super::build::shown;
use crate::author::{self, Project};
use crate::model::PluginId;
use crate::telemetry::{LogFormat, logs};

/// What guests print is shown; what the bridge says of each failing call, the command says itself.
const DEFAULT_LOG: &str = "error,plugin=info";

pub struct Target {
    pub id: PluginId,
    pub wasm: Vec<u8>,
    /// Where its cases are, or would be.
    pub cases: PathBuf,
    /// What it asks of its operator; the file need not be there.
    pub grants: PathBuf,
}

impl Target {
    /// A directory is a project, and is built; errors of its build are `author::Error`s.
    pub async fn find(path: &Path) -> anyhow::Result<Target> {
        if !path.is_dir() {
            let beside = path.parent().unwrap_or(Path::new(""));
            return Self::of_file(path, beside.join("cases"), beside.join("grants.toml"));
        }
        let directory = path.to_owned();
        let built = tokio::task::spawn_blocking(move || -> author::Result<_> {
            let project = Project::open(&directory)?;
            let built = project.build(&shown())?;
            Ok((built.path, project.cases_dir(), project.grants_file()))
        });
        let (component, cases, grants) = built.await??;
        Self::of_file(&component, cases, grants)
    }

    fn of_file(path: &Path, cases: PathBuf, grants: PathBuf) -> anyhow::Result<Target> {
        let wasm = std::fs::read(path).with_context(|| format!("{} cannot be read", path.display()))?;
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().replace('_', "-");
        let id = PluginId::parse(&stem).with_context(|| {
            format!(
                "{} must be named with a-z, 0-9 and -, at most 63 characters: that is the plugin's name",
                path.display()
            )
        })?;
        Ok(Target { id, wasm, cases, grants })
    }
}

/// The log, on stderr. `filter`: as it was set, or `warn` where it was not.
pub fn start_log(filter: &str) -> anyhow::Result<()> {
    let filter = if filter == "warn" { DEFAULT_LOG } else { filter };
    Ok(logs::install(LogFormat::Text, filter)?)
}

/// For people: `1.2 M`.
pub fn fuel(units: u64) -> String {
    #[allow(clippy::cast_precision_loss)]
    let units = units as f64;
    match units {
        0.0..1e3 => format!("{units}"),
        1e3..1e6 => format!("{:.1} k", units / 1e3),
        1e6..1e9 => format!("{:.1} M", units / 1e6),
        _ => format!("{:.1} G", units / 1e9),
    }
}

/// For people: `1.1 MiB`.
pub fn bytes(count: usize) -> String {
    #[allow(clippy::cast_precision_loss)]
    let count = count as f64;
    match count {
        0.0..1024.0 => format!("{count} B"),
        1024.0..1_048_576.0 => format!("{:.1} KiB", count / 1024.0),
        _ => format!("{:.1} MiB", count / 1_048_576.0),
    }
}
