//! `plugin`: what authors of plugins use.

mod check;
mod target;
mod test;

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
    /// Run a plugin's cases in the real sandbox, with what they use.
    Test(test::Arguments),
    /// Say what a host would say of a component, and what to do about it, without running a call of it that changes anything.
    Check(check::Arguments),
}

pub async fn run(settings: SettingsArgs, arguments: Arguments) -> anyhow::Result<ExitCode> {
    let output = arguments.output;
    match arguments.command {
        Command::Test(test) => test::run(settings, test, output).await,
        Command::Check(check) => check::run(settings, check, output).await,
    }
}
