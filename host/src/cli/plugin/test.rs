//! `plugin test`: every case of a plugin, with what it used; for people and for CI.

use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;

use super::target::{Target, bytes, fuel, start_log};
use crate::author::case::Case;
use crate::author::run::{self, Snapshot, Verdict};
use crate::author::{Stage, asked};
use crate::cli::out::{self, OutputArgs, printable};
use crate::cli::progress::Bar;
use crate::config::{Settings, SettingsArgs};

#[derive(clap::Args)]
#[command(
    after_help = "Cases are the *.toml files of the directory cases/ beside the component; grants.toml beside it says what\n\
    they may reach, and what they reach is answered by the case, never by the network.\n\
    Exit status: 0 all as expected, 1 some are not, 2 they could not be run."
)]
pub struct Arguments {
    /// A component, or a project's directory.
    #[arg(value_name = "DIR|FILE.wasm", default_value = ".")]
    path: PathBuf,
    /// Only cases with this in their name, or in their tool's.
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Write the snapshots that are not there or differ.
    #[arg(long)]
    update: bool,
    /// Where the cases are, when not in cases/ beside the component.
    #[arg(long, value_name = "DIR")]
    cases: Option<PathBuf>,
    /// What the plugin is granted, when not by the grants.toml beside the component.
    #[arg(long, value_name = "FILE")]
    grants: Option<PathBuf>,
}

pub async fn run(settings: SettingsArgs, arguments: Arguments, output: OutputArgs) -> anyhow::Result<ExitCode> {
    start_log(&settings.log)?;
    let mut target = Target::find(&arguments.path).await?;
    target.cases = arguments.cases.unwrap_or(target.cases);
    target.grants = arguments.grants.unwrap_or(target.grants);
    let mut cases = Case::read_all(&target.cases)?;
    if let Some(filter) = &arguments.filter {
        cases.retain(|case| case.name.contains(filter) || case.tool.contains(filter));
        anyhow::ensure!(!cases.is_empty(), "no case has {filter:?} in its name or its tool's");
    }
    // Without a place to keep what was compiled, it is compiled again next time.
    let compiled = Settings::load(settings).map(|settings| settings.state_dir.join("compiled")).ok();
    let bar = Bar::at_once("compiling");
    let mut stage =
        Stage::set(&target.id, &target.wasm, asked::grants(&target.grants, &target.id)?, compiled.as_deref()).await?;
    drop(bar);
    let snapshots = target.cases.join("snapshots");
    let width = cases.iter().map(|case| case.name.len()).max().unwrap_or(0);
    let mut verdicts = vec![];
    for case in &cases {
        let verdict = run::run(&mut stage, case, &snapshots, arguments.update).await;
        if !output.json {
            out::text(&line(&verdict, width))?;
        }
        verdicts.push(verdict);
    }
    stage.clear().await;
    let failed = verdicts.iter().filter(|verdict| !verdict.passed()).count();
    let passed = verdicts.len() - failed;
    match output.json {
        true => out::json(&json!({
            "plugin": target.id,
            "passed": passed,
            "failed": failed,
            "cases": verdicts.iter().map(shown).collect::<Vec<_>>(),
        }))?,
        false => out::text(&format!("{passed} passed, {failed} failed"))?,
    }
    Ok(ExitCode::from(if failed == 0 { 0 } else { out::NO }))
}

fn line(verdict: &Verdict, width: usize) -> String {
    let word = if verdict.passed() { "ok    " } else { "FAILED" };
    let cost = match verdict.spent {
        Some(spent) => {
            let milliseconds = spent.time.as_secs_f64() * 1e3;
            format!("{:>9} fuel {milliseconds:>9.1} ms {:>10}", fuel(spent.fuel), bytes(spent.memory_bytes))
        }
        None => "did not run".to_owned(),
    };
    let written = if verdict.snapshot == Some(Snapshot::Written) { "  snapshot written" } else { "" };
    let mut lines = format!("{word}  {:width$}  {cost}{written}", verdict.name);
    for difference in &verdict.differences {
        for text in printable(difference).lines() {
            lines.push_str("\n        ");
            lines.push_str(text);
        }
    }
    if !verdict.passed() {
        lines.push_str(&format!("\n        in {}", verdict.file.display()));
    }
    lines
}

fn shown(verdict: &Verdict) -> Value {
    json!({
        "name": verdict.name,
        "tool": verdict.tool,
        "file": verdict.file,
        "ok": verdict.passed(),
        "differences": verdict.differences,
        "fuel": verdict.spent.map(|spent| spent.fuel),
        "memory_bytes": verdict.spent.map(|spent| spent.memory_bytes),
        "time_ms": verdict.spent.map(|spent| spent.time.as_secs_f64() * 1e3),
        "snapshot": verdict.snapshot,
    })
}
