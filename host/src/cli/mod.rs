//! The command line: `serve` unless another command is named. Here, and only here, may stdout be printed to.
//!
//! One file per group of commands. Data goes to stdout and everything else to stderr. Exit status: 0 done; 1 it ran, and
//! the answer is no (a tool's own failure, a broken audit chain, a failed check); 2 it could not be done; 130 stopped by ^C.

mod audit;
mod confirm;
mod cuo;
mod doctor;
mod memory;
mod out;
mod pipes;
mod plugin;
mod plugins;
mod progress;
mod serve;
mod session;
mod store;
mod task_worker;
mod tasks;
mod token;
mod tools;

use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use std::process::ExitCode;

use crate::config::{AuthArg, SettingsArgs, TransportArg};

#[derive(Parser)]
#[command(
    name = crate::app::NAME,
    version,
    about = "An MCP server whose every tool is a sandboxed WebAssembly component.",
    long_about = "An MCP server (2025-11-25, over stdio or HTTP) whose every tool is a sandboxed WebAssembly component.\n\n\
        Without a command it serves over stdio, which is how MCP clients start it. All settings can be given as flags, \
        before or after the command, or in the environment; `--help` lists them, `-h` leaves them out.",
    after_help = "Try `cyberos-mcp-bridge tools list`, or `cyberos-mcp-bridge doctor` when something does not work.\n\
        Exit status: 0 done, 1 it ran and the answer is no, 2 it could not be done, 130 stopped by ^C."
)]
pub struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    settings: SettingsArgs,
    /// Settings that nobody set: some commands have other defaults than `serve`.
    #[arg(skip)]
    unset: Vec<&'static str>,
}

#[derive(Subcommand)]
enum Command {
    /// Serve MCP (the default).
    Serve,
    /// See and call tools from here, without a client.
    Tools(tools::Arguments),
    /// Write a plugin: make a project, build it, try it; publish it, and take those of others.
    Plugin(plugin::Arguments),
    /// Plugins: which version serves and what waits, who may do what, and the way back.
    Plugins(plugins::Arguments),
    /// Access tokens of this machine's development issuer.
    Token(token::Arguments),
    /// Agree to one call of a destructive tool.
    Confirm(confirm::Arguments),
    /// Follow and stop long-running calls.
    Tasks(tasks::Arguments),
    /// Read, check and export the audit log.
    Audit(audit::Arguments),
    /// Personas, workflows and routing, without the bridge around them.
    Cuo(cuo::Arguments),
    /// The memory service: the audit log over HTTP, from this store.
    Memory(memory::Arguments),
    /// The database's schema.
    Store(store::Arguments),
    /// Check everything that a bridge stands on, and say how to mend what is wrong.
    Doctor(doctor::Arguments),
    /// Run one stored task to its end. Started by the bridge itself.
    #[command(hide = true)]
    TaskWorker(task_worker::Arguments),
}

impl Cli {
    /// Read the process's arguments; on a mistake, or for help, print and exit as clap does.
    pub fn from_process() -> Cli {
        let matches = Self::program().get_matches();
        let mut cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
        cli.unset = unset(&matches);
        cli
    }

    /// Thirty settings would drown a command's own flags: `-h` leaves them out, `--help` has them.
    fn program() -> clap::Command {
        Cli::command().mut_args(|argument| {
            let is_setting = argument.get_help_heading().is_some();
            argument.hide_short_help(is_setting)
        })
    }

    pub fn run(self) -> anyhow::Result<ExitCode> {
        let executor = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let code = executor.block_on(self.dispatch());
        // A blocked read of stdin must not keep the process.
        executor.shutdown_background();
        match code {
            // `… | head` has read enough.
            Err(error) if out::is_broken_pipe(&error) => Ok(ExitCode::SUCCESS),
            code => code,
        }
    }

    async fn dispatch(self) -> anyhow::Result<ExitCode> {
        let mut settings = self.settings;
        let command = self.command.unwrap_or(Command::Serve);
        let is_unset = |name| self.unset.contains(&name);
        match &command {
            Command::Plugin(plugin) if plugin.serves() => {
                if is_unset("transport") {
                    settings.transport = TransportArg::Http;
                }
                if is_unset("auth") {
                    settings.auth = AuthArg::None;
                }
                // The command says itself what becomes of each save.
                if is_unset("log") {
                    settings.log = "warn,plugin=info".into();
                }
            }
            Command::Serve | Command::Memory(_) | Command::TaskWorker(_) => {}
            // One-shot commands keep to warnings.
            _ if is_unset("log") => settings.log = "warn".into(),
            _ => {}
        }
        match command {
            Command::Serve => serve::run(settings).await,
            Command::Tools(arguments) => tools::run(settings, arguments).await,
            Command::Plugin(arguments) => plugin::run(settings, arguments).await,
            Command::Plugins(arguments) => plugins::run(settings, arguments).await,
            Command::Token(arguments) => token::run(settings, arguments).await,
            Command::Confirm(arguments) => confirm::run(settings, arguments).await,
            Command::Tasks(arguments) => tasks::run(settings, arguments).await,
            Command::Audit(arguments) => audit::run(settings, arguments).await,
            Command::Cuo(arguments) => cuo::run(settings, arguments).await,
            Command::Memory(arguments) => memory::run(settings, arguments).await,
            Command::Store(arguments) => store::run(arguments).await,
            Command::Doctor(arguments) => doctor::run(settings, arguments).await,
            Command::TaskWorker(arguments) => task_worker::run(settings, arguments).await,
        }
    }
}

fn unset(matches: &ArgMatches) -> Vec<&'static str> {
    let is_unset = |name: &&str| matches.value_source(name) == Some(ValueSource::DefaultValue);
    ["log", "transport", "auth"].into_iter().filter(is_unset).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        let words = std::iter::once("bridge").chain(line.split_whitespace());
        Cli::program().try_get_matches_from(words).and_then(|matches| Cli::from_arg_matches(&matches))
    }

    #[test]
    fn no_two_flags_collide() {
        Cli::program().debug_assert();
    }

    #[test]
    fn settings_stand_before_or_after_the_command() {
        for line in ["--state-dir /x tools list", "tools --state-dir /x list", "tools list --state-dir /x"] {
            let state_dir = parse(line).unwrap_or_else(|e| panic!("{line}: {e}")).settings.state_dir;
            assert_eq!(state_dir.as_deref(), Some(std::path::Path::new("/x")), "{line}");
        }
    }

    #[test]
    fn the_short_help_is_about_the_command_and_the_long_one_has_the_settings() {
        let help = |line: &str| parse(line).err().expect("help is an early end").to_string();
        assert!(!help("tools call -h").contains("--max-line-bytes"));
        assert!(help("tools call --help").contains("--max-line-bytes"));
    }
}
