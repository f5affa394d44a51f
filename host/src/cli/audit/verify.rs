//! `audit verify`: the chain of a store, or of an exported file, against its own links and a checkpoint kept elsewhere.

use anyhow::Context;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::Log;
use crate::app;
use crate::cli::out::{self, OutputArgs};
use crate::store::verify::{ChainCheck, ChainFault, ChainReport, FaultKind};
use crate::store::{AuditHead, AuditRow};

#[derive(clap::Args)]
pub struct Verify {
    /// A checkpoint (`audit checkpoint`) that was kept elsewhere: without one, a lost tail and a chain that was computed
    /// anew cannot be seen.
    #[arg(long, value_name = "FILE")]
    pub checkpoint: Option<PathBuf>,
    /// An export (`audit export`) instead of the store.
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
}

impl Verify {
    pub fn checkpoint(&self) -> anyhow::Result<Option<AuditHead>> {
        let Some(path) = &self.checkpoint else { return Ok(None) };
        let text = std::fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))?;
        let head = serde_json::from_str(&text)
            .with_context(|| format!("{} is no checkpoint; `audit checkpoint` writes one", path.display()))?;
        Ok(Some(head))
    }
}

pub async fn store(log: &Log, checkpoint: Option<&AuditHead>, output: OutputArgs) -> anyhow::Result<ExitCode> {
    // Asked first: rows that are appended meanwhile lie behind it.
    let head = log.archive.store.audit_head(log.tenant).await.map_err(app::operator)?;
    let mut check = ChainCheck::new(checkpoint);
    log.walk(|row| Ok(check.row(&row))).await?;
    let mut report = check.finish();
    // The store's own note of the chain's end is a checkpoint too, if a weak one.
    if let Some(head) = head
        && report.fault.is_none()
        && head.seq as u64 > report.rows
    {
        report.fault = Some(ChainFault { seq: report.rows as i64 + 1, kind: FaultKind::TailLost });
    }
    conclude(&report, checkpoint, output)
}

pub fn file(path: &Path, checkpoint: Option<&AuditHead>, output: OutputArgs) -> anyhow::Result<ExitCode> {
    let file = File::open(path).with_context(|| format!("{} cannot be read", path.display()))?;
    let mut check = ChainCheck::new(checkpoint);
    for (number, line) in BufReader::new(file).lines().enumerate() {
        let at = || format!("{}, line {}", path.display(), number + 1);
        let line = line.with_context(at)?;
        if line.trim().is_empty() {
            continue;
        }
        let row: AuditRow = serde_json::from_str(&line).with_context(|| format!("{} is no audit row", at()))?;
        if !check.row(&row) {
            break;
        }
    }
    conclude(&check.finish(), checkpoint, output)
}

fn conclude(report: &ChainReport, checkpoint: Option<&AuditHead>, output: OutputArgs) -> anyhow::Result<ExitCode> {
    match output.json {
        true => out::json(report)?,
        false => out::text(&sentence(report, checkpoint))?,
    }
    Ok(ExitCode::from(if report.fault.is_some() { out::NO } else { 0 }))
}

fn sentence(report: &ChainReport, checkpoint: Option<&AuditHead>) -> String {
    let rows = report.rows;
    match (&report.fault, &report.head, checkpoint) {
        (Some(fault), ..) => format!("BROKEN: {fault}. {rows} rows before it are good."),
        (None, None, _) => "ok: the log is empty.".into(),
        (None, Some(_), Some(known)) => {
            format!("ok: {rows} rows, and row {} is the one that the checkpoint knows.", known.seq)
        }
        (None, Some(head), None) => format!(
            "ok: {rows} rows, ending in {}. Against loss and rewriting, keep a checkpoint elsewhere (`audit checkpoint`).",
            head.chain_anchor
        ),
    }
}
