//! `audit tail`: the newest rows, and those that come while one looks.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use std::process::ExitCode;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

use super::{Log, PAGE};
use crate::app;
use crate::cli::out::{self, OutputArgs};
use crate::store::{AuditFilter, AuditRow};

/// How long a new row may stay unseen.
const LOOK: Duration = Duration::from_millis(300);

#[derive(clap::Args)]
pub struct Tail {
    /// Go on with new rows until ^C.
    #[arg(long, short)]
    follow: bool,
    /// Rows of this kind only, such as mcp.tool_call_refused.
    #[arg(long)]
    kind: Option<String>,
    /// Rows of this actor only, as the rows name it.
    #[arg(long)]
    actor: Option<String>,
    /// Everything after a row's number, or since a time: 10m (ago), or 2026-01-31T12:00:00Z.
    #[arg(long, value_name = "SEQ|TIME", value_parser = since)]
    since: Option<Since>,
    /// How many rows, unless --since says where to begin.
    #[arg(long, short = 'n', default_value_t = 20)]
    lines: usize,
}

#[derive(Clone, Debug, PartialEq)]
enum Since {
    Seq(i64),
    Time(Timestamp),
}

fn since(text: &str) -> Result<Since, String> {
    if let Ok(seq) = text.parse() {
        return Ok(Since::Seq(seq));
    }
    if let Ok(time) = text.parse() {
        return Ok(Since::Time(time));
    }
    let ago: Option<SignedDuration> = text.parse().ok();
    let time = ago.and_then(|ago| Timestamp::now().checked_sub(ago).ok());
    time.map(Since::Time).ok_or_else(|| "write a row's number, 10m for ten minutes ago, or an RFC 3339 time".into())
}

impl Tail {
    pub async fn run(&self, log: &Log, output: OutputArgs, stop: CancellationToken) -> anyhow::Result<ExitCode> {
        let head = log.archive.store.audit_head(log.tenant).await.map_err(app::operator)?;
        let head = head.map_or(0, |head| head.seq);
        let (rows, mut seen) = match &self.since {
            Some(since) => self.from(log, since).await?,
            None => (self.last(log, head).await?, head),
        };
        if rows.is_empty() && !self.follow {
            eprintln!("no rows");
        }
        for row in &rows {
            print(row, output)?;
        }
        while self.follow && !stop.is_cancelled() {
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                () = stop.cancelled() => break,
            }
            for row in log.page(self.filter(seen, PAGE)).await? {
                seen = row.seq;
                print(&row, output)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    fn filter(&self, since: i64, limit: u32) -> AuditFilter {
        AuditFilter { actor: self.actor.clone(), kind: self.kind.clone(), since_seq: Some(since), limit }
    }

    /// Everything from there on, and the last row that was looked at.
    async fn from(&self, log: &Log, since: &Since) -> anyhow::Result<(Vec<AuditRow>, i64)> {
        let (mut at, time) = match since {
            Since::Seq(seq) => (*seq, None),
            // Rows write their time with a fixed width, so text order is time order.
            Since::Time(time) => (0, Some(time.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string())),
        };
        let mut found = vec![];
        loop {
            let rows = log.page(self.filter(at, PAGE)).await?;
            let Some(last) = rows.last() else { return Ok((found, at)) };
            at = last.seq;
            found.extend(rows.into_iter().filter(|row| time.as_ref().is_none_or(|time| row.ts >= *time)));
        }
    }

    /// The last `lines` rows that match, looked for from the end backwards.
    async fn last(&self, log: &Log, head: i64) -> anyhow::Result<Vec<AuditRow>> {
        let mut found: Vec<AuditRow> = vec![];
        let mut end = head;
        while found.len() < self.lines && end > 0 {
            let start = (end - i64::from(PAGE)).max(0);
            let mut window = log.page(self.filter(start, PAGE)).await?;
            window.retain(|row| row.seq <= end);
            window.append(&mut found);
            found = window;
            end = start;
        }
        Ok(found.split_off(found.len().saturating_sub(self.lines)))
    }
}

/// With `--json` the row as it is stored, one a line; else time, kind, actor and what a person looks for first.
fn print(row: &AuditRow, output: OutputArgs) -> anyhow::Result<()> {
    if output.json {
        return out::text(&serde_json::to_string(row)?);
    }
    let ts = row.ts.split('.').next().unwrap_or(&row.ts);
    let line = format!("{:>6}  {ts}  {:<24}  {:<16}  {}", row.seq, row.kind, row.actor_id, summary(&row.body));
    out::text(&out::printable(&line).replace('\n', " "))
}

fn summary(body: &Value) -> String {
    let field = |name: &str| match &body[name] {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) if name == "duration_ms" => Some(format!("{number} ms")),
        _ => None,
    };
    let words: Vec<String> =
        ["tool_name", "outcome", "reason", "duration_ms", "task_id"].into_iter().filter_map(field).collect();
    match words.is_empty() {
        // A row of somebody else's making: its text is all there is to show.
        true => out::short(&body.to_string(), 120),
        false => words.join("  "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_is_a_row_a_time_or_a_while_ago() {
        assert_eq!(since("17"), Ok(Since::Seq(17)));
        assert_eq!(since("2026-01-31T12:00:00Z"), Ok(Since::Time("2026-01-31T12:00:00Z".parse().unwrap())));
        let Ok(Since::Time(ago)) = since("10m") else { panic!("a duration is a time ago") };
        let passed = Timestamp::now().duration_since(ago).as_secs();
        assert!((600..605).contains(&passed), "{passed}");
        assert!(since("yesterday").is_err());
    }
}
