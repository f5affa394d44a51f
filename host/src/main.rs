//! Read the command line, run the command, say what went wrong. Nothing else.

use std::process::ExitCode;

fn main() -> ExitCode {
    let command = cyberos_plugin_host::cli::Cli::from_process();
    match command.run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("cyberos-mcp-bridge: {error:#}");
            ExitCode::from(2)
        }
    }
}
