//! Which plugin a command is about: a component with what lies beside it, or a project that is built first.

use anyhow::{Context, bail};
use std::path::{Path, PathBuf};

use crate::config::{Grants, PluginsFile};
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
    pub fn find(path: &Path) -> anyhow::Result<Target> {
        if path.is_dir() {
            bail!(
                "{} is a directory: name the component that its build wrote, such as target/plugin.wasm",
                path.display()
            );
        }
        let beside = path.parent().unwrap_or(Path::new(""));
        Self::of_file(path, beside)
    }

    fn of_file(path: &Path, home: &Path) -> anyhow::Result<Target> {
        let wasm = std::fs::read(path).with_context(|| format!("{} cannot be read", path.display()))?;
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().replace('_', "-");
        let id = PluginId::parse(&stem).with_context(|| {
            format!(
                "{} must be named with a-z, 0-9 and -, at most 63 characters: that is the plugin's name",
                path.display()
            )
        })?;
        Ok(Target { id, wasm, cases: home.join("cases"), grants: home.join("grants.toml") })
    }

    /// What its grants file asks for; nothing, where there is no such file.
    pub fn grants(&self) -> anyhow::Result<Grants> {
        if !self.grants.exists() {
            return Ok(Grants { any_tool_name: true, ..Grants::default() });
        }
        let mut file = PluginsFile::read(&self.grants)?;
        match file.plugins.remove(self.id.as_str()) {
            Some(grants) => Ok(grants),
            None if file.plugins.is_empty() => Ok(Grants::default()),
            None => bail!(
                "{} has entries for {} and none for {}, which is the name of the component's file",
                self.grants.display(),
                file.plugins.into_keys().collect::<Vec<_>>().join(", "),
                self.id
            ),
        }
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
