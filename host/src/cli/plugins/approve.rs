//! `plugins approve`: a version whose tools say something else than what was agreed to is shown, and agreed to or not.
//!
//! What is approved is the version that was shown: should another one arrive meanwhile, that one waits again.

use anyhow::{Context, bail};
use serde_json::json;
use std::io::{self, BufRead, IsTerminal, Write};
use std::process::ExitCode;

use super::target;
use crate::cli::out::{self, OutputArgs};
use crate::config::SettingsArgs;

#[derive(clap::Args)]
pub struct Arguments {
    /// The plugin: its component's file name without `.wasm`.
    name: String,
    /// Do not ask.
    #[arg(long, short)]
    yes: bool,
}

pub fn run(settings: &SettingsArgs, arguments: &Arguments, output: OutputArgs) -> anyhow::Result<ExitCode> {
    let id = target::plugin_id(&arguments.name)?;
    let approvals = target::approvals(settings)?;
    let known = approvals.of(&id).with_context(|| format!("{} cannot be read", approvals.path().display()))?;
    let Some((known, waiting)) = known.and_then(|mut known| known.waiting.take().map(|waiting| (known, waiting)))
    else {
        eprintln!("{}: nothing of {id} waits for approval.", crate::app::NAME);
        return Ok(ExitCode::from(out::NO));
    };
    let diff = known.says.changes_to(&waiting.says).unwrap_or_default();
    let (before, after) = (&known.digest, &waiting.digest);
    if !output.json {
        out::text(&out::fields(&[
            ("plugin", id.to_string()),
            ("approved", format!("sha256:{before}, {}", known.at)),
            ("waits", format!("sha256:{after}, {}", waiting.since)),
        ]))?;
        out::text(&format!("\n{}\n", out::printable(&diff)))?;
    }
    if !arguments.yes && !agrees()? {
        return Ok(ExitCode::from(out::NO));
    }
    if !approvals.approve_waiting(&id, after)? {
        bail!("another version of {id} has come meanwhile. Run the command again to see what it says.");
    }
    match output.json {
        true => out::json(&json!({ "plugin": id, "approved": after, "instead_of": before, "diff": diff }))?,
        false => out::text(&format!("{id} is approved as it is now; a bridge that serves takes it over by itself."))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn agrees() -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() {
        bail!("nobody is there to ask. Read the change above, then run it again with --yes.");
    }
    eprint!("Serve these tools as they are described now? [y/N] ");
    io::stderr().flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
