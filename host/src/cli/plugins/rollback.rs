//! `plugins rollback`: the version before, back in the plugins directory, and its pin with it.

use serde::Serialize;
use std::process::ExitCode;

use crate::app;
use crate::cli::out::{self, OutputArgs};
use crate::config::SettingsArgs;
use crate::plugins::{self, RolledBack, edit};

#[derive(clap::Args)]
pub struct Arguments {
    /// The plugin's id, as `plugins list` shows it.
    name: String,
}

#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    done: &'a RolledBack,
    /// Was the plugin pinned to another version in `plugins.toml`, and is pinned to this one now?
    pin_moved: bool,
}

pub fn run(settings: SettingsArgs, arguments: &Arguments, output: OutputArgs) -> anyhow::Result<ExitCode> {
    let settings = app::settings(settings)?;
    let way = plugins::way_back(&settings, &arguments.name)?;
    // What `plugin add` pinned would keep the version before out. The new text is checked before anything is changed.
    let pin = match settings.args.grants_file() {
        Some(path) => {
            let before = edit::read(&path)?;
            edit::move_pin(&path, &before, way.id(), way.to())?.map(|_| path)
        }
        None => None,
    };
    let (id, to) = (way.id().clone(), way.to().to_owned());
    let done = way.take()?;
    if let Some(path) = &pin {
        edit::change(path, |text| Ok(edit::move_pin(path, text, &id, &to)?.unwrap_or_else(|| text.to_owned())))?;
    }
    if output.json {
        out::json(&Shown { done: &done, pin_moved: pin.is_some() })?;
        return Ok(ExitCode::SUCCESS);
    }
    let (to, file) = (&done.to[..12], done.file.display());
    out::text(&format!(
        "plugin {}: version {to} is back in {file}; a running bridge serves it within a second",
        done.id
    ))?;
    if let Some(path) = &pin {
        out::text(&format!("its pin in {} names this version now", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}
