//! `plugins approve`: a version whose tools say something else than what was agreed to, or that asks for more than it was
//! granted, is shown, and agreed to or not. It grants nothing.
//!
//! What is approved is the version that was shown: should another one arrive meanwhile, that one waits again.

use anyhow::{Context, bail};
use serde_json::json;
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
    let diff = waiting.says.as_ref().and_then(|says| known.says.changes_to(says)).unwrap_or_default();
    let grants = target::granted_to(settings, &id)?;
    let lacks = waiting.asks.as_ref().map(|asks| known.not_agreed(&waiting.digest, asks, &grants)).unwrap_or_default();
    let (before, after) = (&known.digest, &waiting.digest);
    if !output.json {
        let mut fields = vec![
            ("plugin", id.to_string()),
            ("approved", format!("sha256:{before}, {}", known.at)),
            ("waits", format!("sha256:{after}, {}", waiting.since)),
        ];
        if !lacks.is_empty() {
            fields.push((
                "asks for",
                format!("{}\n(which is not granted, and is not granted by this)", lacks.lines().join("\n")),
            ));
        }
        out::text(&out::fields(&fields))?;
        if !diff.is_empty() {
            out::text(&format!("\n{}\n", out::printable(&diff)))?;
        }
    }
    let question = match &waiting.says {
        Some(_) => "Serve these tools as they are described now?",
        None => "Serve it with what is granted, and no more?",
    };
    if !arguments.yes && !target::agrees(question)? {
        return Ok(ExitCode::from(out::NO));
    }
    if !approvals.approve_waiting(&id, &waiting)? {
        bail!("something else of {id} waits by now. Run the command again to see it.");
    }
    match output.json {
        true => out::json(&json!({
            "plugin": id, "approved": after, "instead_of": before, "diff": diff, "not_granted": lacks,
        }))?,
        false if waiting.says.is_some() => {
            out::text(&format!("{id} is approved as it is now; a bridge that serves takes it over by itself."))?;
        }
        false => out::text(&format!(
            "{id} may serve with what is granted. A bridge takes it over by itself, unless its tools say something else than \
             was approved: then it waits once more, and `plugins list` says so."
        ))?,
    }
    Ok(ExitCode::SUCCESS)
}
