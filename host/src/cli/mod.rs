//! The command line: `serve` unless another command is named. Here, and only here, may stdout be printed to.

mod serve;
mod task_worker;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

use crate::config::SettingsArgs;

#[derive(Parser)]
#[command(name = crate::app::NAME, version, about = "An MCP server whose every tool is a sandboxed WebAssembly component.")]
pub struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    settings: SettingsArgs,
}

#[derive(Subcommand)]
enum Command {
    /// Serve MCP (the default).
    Serve,
    /// Run one stored task to its end. Started by the bridge itself.
    #[command(hide = true)]
    TaskWorker(task_worker::Arguments),
}

impl Cli {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let executor = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let code = executor.block_on(async {
            match self.command.unwrap_or(Command::Serve) {
                Command::Serve => serve::run(self.settings).await,
                Command::TaskWorker(arguments) => task_worker::run(self.settings, arguments).await,
            }
        });
        // A blocked read of stdin must not keep the process.
        executor.shutdown_background();
        code
    }
}
