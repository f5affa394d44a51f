//! `plugins`: what the operator sees and does about the components of `--plugins`, one file a subcommand.

mod list;
mod rollback;

use clap::Subcommand;
use std::process::ExitCode;

use super::out::OutputArgs;
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
    /// Every plugin: which version serves and since when, the one before, and what waits and why.
    List,
    /// Put the version before back into the plugins directory. Twice returns to the newer one.
    Rollback(rollback::Arguments),
}

pub async fn run(settings: SettingsArgs, arguments: Arguments) -> anyhow::Result<ExitCode> {
    let output = arguments.output;
    match arguments.command {
        Command::List => list::run(settings, output).await,
        Command::Rollback(rollback) => rollback::run(settings, &rollback, output),
    }
}
