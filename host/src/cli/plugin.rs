//! `plugin`: for those who write plugins, and those who take them.

mod add;
mod build;
mod check;
mod dev;
mod login;
mod new;
mod publish;
mod target;
mod test;

use clap::Subcommand;
use std::process::ExitCode;

use super::out::{self, OutputArgs};
use crate::config::SettingsArgs;
use crate::{app, author};

#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Subcommand)]
enum Command {
    /// A small, complete project: one tool, its cases, the grants that it asks for.
    New(new::Arguments),
    /// Build the plugin with its language's own tools.
    Build(build::Arguments),
    /// Run a plugin's cases in the real sandbox, and say what each used.
    Test(test::Arguments),
    /// Serve the bridge with the plugin; every save is built and swapped in.
    Dev(dev::Arguments),
    /// Say what a host would say of a component, and what to do about it.
    Check(check::Arguments),
    /// Put a component into an OCI registry, where others can take it from.
    Publish(publish::Arguments),
    /// Take a component from a registry, an address or a file into a plugins directory, pinned by its digest.
    Add(add::Arguments),
}

pub async fn run(settings: SettingsArgs, arguments: Arguments) -> anyhow::Result<ExitCode> {
    let output = arguments.output;
    let code = match arguments.command {
        Command::Publish(publish) => return publish::run(publish, output).await,
        Command::Add(add) => return add::run(settings, add, output).await,
        Command::New(arguments) => return new::run(arguments),
        Command::Build(arguments) => return build::run(arguments).await,
        Command::Dev(arguments) => dev::run(settings, arguments).await,
        Command::Test(arguments) => test::run(settings, arguments, output).await,
        Command::Check(arguments) => check::run(settings, arguments, output).await,
    };
    match code.as_ref().err().and_then(|error| error.downcast_ref::<author::Error>()) {
        Some(author) => Ok(refused(author)),
        None => code,
    }
}

impl Arguments {
    /// Does it serve, rather than print and end?
    pub fn serves(&self) -> bool {
        matches!(self.command, Command::Dev(_))
    }
}

/// A project that cannot be made or built: the sentence on stderr, and 1 when the author's code is what is wrong.
fn refused(error: &author::Error) -> ExitCode {
    eprintln!("{}: {}", app::NAME, out::printable(&error.to_string()));
    ExitCode::from(if error.is_verdict() { out::NO } else { out::REFUSED })
}

/// Registries and manifests have their say in these errors, and must not steer a terminal.
fn said(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow::anyhow!(out::printable(&error.to_string()))
}
