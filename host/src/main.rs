//! Read the command line, run the command, say what went wrong. Nothing else.

use std::process::ExitCode;

/// musl's own allocator takes one lock for all threads (docs/decisions/0026-release-binary.md).
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

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
