//! `doctor`: looks at everything that a bridge with these settings would stand on, and says how to mend what is wrong.
//!
//! It does what a start does (so it makes the state directory and the store where there is none) and changes nothing else.

mod bridge;
mod place;
mod upstream;

use serde::Serialize;
use std::process::ExitCode;

use super::out::{self, OutputArgs};
use crate::app;
use crate::config::SettingsArgs;

#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    output: OutputArgs,
}

/// One line of the answer.
#[derive(Debug, Serialize)]
struct Finding {
    check: &'static str,
    verdict: Verdict,
    found: String,
    /// What to do; `None` when there is nothing to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    mend: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Ok,
    Warn,
    Fail,
}

impl Finding {
    fn ok(check: &'static str, found: impl Into<String>) -> Finding {
        Finding { check, verdict: Verdict::Ok, found: found.into(), mend: None }
    }
    fn warn(check: &'static str, found: impl Into<String>, mend: impl Into<String>) -> Finding {
        Finding { check, verdict: Verdict::Warn, found: found.into(), mend: Some(mend.into()) }
    }
    fn fail(check: &'static str, found: impl Into<String>, mend: impl Into<String>) -> Finding {
        Finding { check, verdict: Verdict::Fail, found: found.into(), mend: Some(mend.into()) }
    }
}

pub async fn run(args: SettingsArgs, arguments: Arguments) -> anyhow::Result<ExitCode> {
    let findings = examine(args).await;
    let bad = findings.iter().any(|finding| finding.verdict == Verdict::Fail);
    match arguments.output.json {
        true => out::json(&findings)?,
        false => out::text(&page(&findings))?,
    }
    Ok(ExitCode::from(if bad { out::NO } else { 0 }))
}

async fn examine(args: SettingsArgs) -> Vec<Finding> {
    let settings = match app::settings(args) {
        Ok(settings) => settings,
        Err(error) => return vec![Finding::fail("settings", format!("{error:#}"), "Correct that setting.")],
    };
    let mut findings = vec![Finding::ok("settings", "they fit together")];
    findings.extend(place::clock().await);
    findings.extend(place::state_directory(&settings));
    findings.extend(place::key_files(&settings));
    let (store, found) = bridge::store(&settings).await;
    findings.extend(found);
    findings.extend(upstream::catalogue(&settings).await);
    findings.extend(upstream::identity(&settings).await);
    findings.extend(upstream::memory(&settings).await);
    findings.extend(bridge::sandbox(settings, store).await);
    findings
}

fn page(findings: &[Finding]) -> String {
    let width = findings.iter().map(|finding| finding.check.len()).max().unwrap_or(0);
    let line = |finding: &Finding| {
        let word = match finding.verdict {
            Verdict::Ok => "ok  ",
            Verdict::Warn => "warn",
            Verdict::Fail => "FAIL",
        };
        let mend = finding.mend.as_ref().map(|mend| format!("\n      {:width$}  {mend}", "")).unwrap_or_default();
        out::printable(&format!("{word}  {:width$}  {}{mend}", finding.check, finding.found))
    };
    findings.iter().map(line).collect::<Vec<_>>().join("\n")
}
