//! `plugins rollback`: the version before, back in the plugins directory.

use std::process::ExitCode;

use crate::app;
use crate::cli::out::{self, OutputArgs};
use crate::config::SettingsArgs;
use crate::plugins;

#[derive(clap::Args)]
pub struct Arguments {
    /// The plugin's id, as `plugins list` shows it.
    name: String,
}

pub fn run(settings: SettingsArgs, arguments: &Arguments, output: OutputArgs) -> anyhow::Result<ExitCode> {
    let settings = app::settings(settings)?;
    let done = plugins::roll_back(&settings, &arguments.name)?;
    if output.json {
        out::json(&done)?;
    } else {
        let (to, file) = (&done.to[..12], done.file.display());
        out::text(&format!(
            "plugin {}: version {to} is back in {file}; a running bridge serves it within a second",
            done.id
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}
