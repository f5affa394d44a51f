//! `plugins`: what the operator sees and does about the components of `--plugins`, one file a subcommand.

mod approve;
pub mod as_asked;
mod grant;
mod inspect;
mod list;
mod revoke;
mod rollback;
mod schema;
mod target;

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
    /// A plugin's permission label: what it asks for and what it was granted. Nothing of it runs.
    Inspect(inspect::Arguments),
    /// Let a plugin reach something: adds to its entry in plugins.toml.
    Grant(grant::Arguments),
    /// Take something back: the opposite of `grant`.
    Revoke(revoke::Arguments),
    /// Agree to what a changed version's tools say, or that it gets by with less than it asks for.
    Approve(approve::Arguments),
    /// Put the version before back into the plugins directory. Twice returns to the newer one.
    Rollback(rollback::Arguments),
    /// The JSON Schema of plugins.toml, for editors.
    Schema,
}

pub async fn run(settings: SettingsArgs, arguments: Arguments) -> anyhow::Result<ExitCode> {
    let output = arguments.output;
    match arguments.command {
        Command::List => list::run(settings, output).await,
        Command::Inspect(inspect) => inspect::run(&settings, &inspect, output),
        Command::Grant(grant) => grant::run(&settings, &grant, output),
        Command::Revoke(revoke) => revoke::run(&settings, &revoke, output),
        Command::Approve(approve) => approve::run(&settings, &approve, output),
        Command::Schema => schema::run(),
        Command::Rollback(rollback) => rollback::run(settings, &rollback, output),
    }
}
