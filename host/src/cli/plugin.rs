//! `plugin`: for those who write plugins.

mod build;
mod new;

use clap::Subcommand;
use std::process::ExitCode;

use super::out;
use crate::{app, author};

#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// A small, complete project: one tool, its cases, the grants that it asks for.
    New(new::Arguments),
    /// Build the plugin with its language's own tools.
    Build(build::Arguments),
}

pub async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    match arguments.command {
        Command::New(arguments) => new::run(arguments),
        Command::Build(arguments) => build::run(arguments).await,
    }
}

/// A project that cannot be made or built: the sentence on stderr, and 1 when the author's code is what is wrong.
fn refused(error: &author::Error) -> ExitCode {
    eprintln!("{}: {}", app::NAME, out::printable(&error.to_string()));
    ExitCode::from(if error.is_verdict() { out::NO } else { out::REFUSED })
}
