//! `plugin`: for authors of plugins and for those who take them.

mod add;
mod login;
mod publish;

use clap::Subcommand;
use std::process::ExitCode;

use super::out::{self, OutputArgs};
use crate::config::SettingsArgs;

#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Subcommand)]
enum Command {
    /// Put a component into an OCI registry, where others can take it from.
    Publish(publish::Arguments),
    /// Take a component from a registry, an address or a file into a plugins directory, pinned by its digest.
    Add(add::Arguments),
}

pub async fn run(settings: SettingsArgs, arguments: Arguments) -> anyhow::Result<ExitCode> {
    let output = arguments.output;
    match arguments.command {
        Command::Publish(publish) => publish::run(publish, output).await,
        Command::Add(add) => add::run(settings, add, output).await,
    }
}

/// Registries and manifests have their say in these errors, and must not steer a terminal.
fn said(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow::anyhow!(out::printable(&error.to_string()))
}
