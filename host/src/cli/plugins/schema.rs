//! `plugins schema`: always JSON, indented, as it is committed in `docs/operators/plugins.schema.json`.

use std::process::ExitCode;

use crate::cli::out;
use crate::config::PluginsFile;

pub fn run() -> anyhow::Result<ExitCode> {
    out::text(&serde_json::to_string_pretty(&PluginsFile::schema())?)?;
    Ok(ExitCode::SUCCESS)
}
