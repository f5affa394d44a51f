//! `tasks`: long-running calls in the store, whoever runs them. Their rows outlive the clients that started them.

use clap::Subcommand;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::process::ExitCode;

use super::out::{self, OutputArgs};
use super::session::{self, WhoArgs};
use crate::app::Bridge;
use crate::config::SettingsArgs;
use crate::error::Error;
use crate::model::TraceId;
use crate::store::{TaskOwner, TaskRow};

#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    who: WhoArgs,
}

#[derive(Subcommand)]
enum Command {
    /// The caller's tasks, newest first.
    List {
        /// Most tasks to show.
        #[arg(long, default_value_t = 50)]
        limit: usize,
    },
    /// One task: how far it is, or its result.
    Get { id: String },
    /// Stop a task, wherever it runs.
    Cancel { id: String },
}

pub async fn run(args: SettingsArgs, arguments: Arguments) -> anyhow::Result<ExitCode> {
    let bridge = session::bridge(args).await?;
    let code = answer(&bridge, &arguments).await;
    bridge.stop().await;
    code
}

async fn answer(bridge: &Bridge, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let owner = arguments.who.owner(&bridge.settings).await?;
    let output = arguments.output;
    let answered = match &arguments.command {
        Command::List { limit } => page(bridge, &owner, *limit).await.map(|rows| list(&rows, output)),
        Command::Get { id } => bridge.tasks.get(&owner, id).await.map(|row| show(&row, output)),
        Command::Cancel { id } => bridge.tasks.cancel(&owner, id).await.map(|row| show(&row, output)),
    };
    match answered {
        Ok(printed) => printed.map(|()| ExitCode::SUCCESS),
        Err(error) => Ok(out::refused(&error, &TraceId::random(), output)),
    }
}

async fn page(bridge: &Bridge, owner: &TaskOwner, limit: usize) -> Result<Vec<TaskRow>, Error> {
    let (mut rows, mut cursor) = bridge.tasks.list(owner, None).await?;
    while rows.len() < limit
        && let Some(next) = cursor.take()
    {
        let (more, after) = bridge.tasks.list(owner, Some(&next)).await?;
        rows.extend(more);
        cursor = after;
    }
    rows.truncate(limit);
    Ok(rows)
}

fn list(rows: &[TaskRow], output: OutputArgs) -> anyhow::Result<()> {
    if output.json {
        return out::json(&rows.iter().map(task_json).collect::<Vec<_>>());
    }
    if rows.is_empty() {
        eprintln!("no tasks");
        return Ok(());
    }
    let now = Timestamp::now().as_millisecond();
    let shown = rows.iter().map(|row| {
        let age = format!("{} ago", out::duration(now - row.created_at.as_millisecond()));
        let took = out::duration(took_ms(row));
        [row.id.to_string(), row.tool.to_string(), row.status.as_str().into(), progress(row), age, took]
    });
    out::text(&out::table(["task", "tool", "status", "progress", "started", "took"], shown))
}

fn show(row: &TaskRow, output: OutputArgs) -> anyhow::Result<()> {
    if output.json {
        return out::json(&task_json(row));
    }
    let mut fields = vec![
        ("task", row.id.to_string()),
        ("tool", row.tool.to_string()),
        ("status", row.status.as_str().to_owned()),
        ("progress", progress(row)),
        ("started", row.created_at.to_string()),
        ("took", out::duration(took_ms(row))),
        ("timeout", row.timeout_at.to_string()),
        ("trace", row.trace_id.to_string()),
    ];
    fields.push(("arguments", serde_json::to_string_pretty(&row.arguments)?));
    if let Some(error) = &row.error {
        fields.push(("error", format!("{} ({})", error.message, error.reason().as_str())));
    }
    if let Some(result) = result(row) {
        fields.push(("result", serde_json::to_string_pretty(&result)?));
    }
    fields.retain(|(_, value)| !value.is_empty());
    out::text(&out::fields(&fields))
}

fn task_json(row: &TaskRow) -> Value {
    json!({
        "task_id": row.id,
        "tool_name": row.tool,
        "status": row.status,
        "progress": row.progress,
        "arguments": row.arguments,
        "output": result(row),
        "error": row.error,
        "trace_id": row.trace_id,
        "created_at": row.created_at.to_string(),
        "completed_at": row.completed_at.map(|at| at.to_string()),
        "timeout_at": row.timeout_at.to_string(),
        "duration_ms": took_ms(row),
        "attempts": row.attempts,
    })
}

/// The structured result where there is one, else the content blocks.
fn result(row: &TaskRow) -> Option<Value> {
    let output = row.output.as_ref()?;
    Some(output.structured.clone().unwrap_or_else(|| json!({ "content": output.content })))
}

fn progress(row: &TaskRow) -> String {
    let Some(progress) = &row.progress else { return String::new() };
    let count = progress.total.map(|total| format!("{}/{total}", progress.progress));
    let words = progress.message.as_deref().map(|message| out::short(message, 60));
    [count, words].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn took_ms(row: &TaskRow) -> i64 {
    let end = row.completed_at.unwrap_or_else(Timestamp::now);
    (end.as_millisecond() - row.created_at.as_millisecond()).max(0)
}
