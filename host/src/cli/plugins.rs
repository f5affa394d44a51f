//! `plugins`: what an operator does with plugins. One file per command; none of them can be reached from a tool.

mod approve;
mod grant;
mod inspect;
mod revoke;
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
    /// A plugin's permission label: what it asks for and what it was granted. Nothing of it runs.
    Inspect(inspect::Arguments),
    /// Let a plugin reach something: adds to its entry in plugins.toml.
    Grant(grant::Arguments),
    /// Take something back: the opposite of `grant`.
    Revoke(revoke::Arguments),
    /// Agree to what a changed version's tools say.
    Approve(approve::Arguments),
    /// The JSON Schema of plugins.toml, for editors.
    Schema,
}

pub async fn run(settings: SettingsArgs, arguments: Arguments) -> anyhow::Result<ExitCode> {
    let output = arguments.output;
    match arguments.command {
        Command::Inspect(inspect) => inspect::run(&settings, &inspect, output),
        Command::Grant(grant) => grant::run(&settings, &grant, output),
        Command::Revoke(revoke) => revoke::run(&settings, &revoke, output),
        Command::Approve(approve) => approve::run(&settings, &approve, output),
        Command::Schema => schema::run(),
    }
}
