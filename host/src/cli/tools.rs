//! `tools`: what this bridge offers, what each tool may do, and a call from the shell.

mod call;
pub(super) mod label;

use clap::Subcommand;
use serde_json::{Value, json};
use std::process::ExitCode;

use super::out::{self, OutputArgs};
use super::session;
use crate::broker::Entry;
use crate::config::SettingsArgs;
use crate::error::{Error, Reason};
use crate::model::{Annotations, TaskSupport, TraceId};

#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Subcommand)]
enum Command {
    /// Every tool, with what it may change and the scopes that it needs.
    List,
    /// One tool's schemas and its permission label: what its sandbox may reach, and how much of it.
    Inspect { name: String },
    /// Call a tool through the whole pipeline: scopes, schemas, confirmation, audit.
    Call(call::Arguments),
}

pub async fn run(settings: SettingsArgs, arguments: Arguments) -> anyhow::Result<ExitCode> {
    let output = arguments.output;
    match arguments.command {
        Command::List => list(settings, output).await,
        Command::Inspect { name } => inspect(settings, &name, output).await,
        Command::Call(call) => call::run(settings, call, output).await,
    }
}

async fn list(settings: SettingsArgs, output: OutputArgs) -> anyhow::Result<ExitCode> {
    let bridge = session::bridge(settings).await?;
    let entries = bridge.catalog.all();
    if output.json {
        out::json(&entries.iter().map(|entry| summary(entry)).collect::<Vec<_>>())?;
    } else {
        let rows = entries.iter().map(|entry| {
            let tool = &entry.tool;
            let (name, title) = (tool.name.to_string(), tool.title.clone());
            [name, title, effect(&tool.annotations).into(), tool.scopes.join(" "), entry.plugin.id().to_string()]
        });
        out::text(&out::table(["tool", "title", "effect", "scopes", "plugin"], rows))?;
    }
    bridge.stop().await;
    Ok(ExitCode::SUCCESS)
}

async fn inspect(settings: SettingsArgs, name: &str, output: OutputArgs) -> anyhow::Result<ExitCode> {
    let bridge = session::bridge(settings).await?;
    let Some(entry) = bridge.catalog.find(name) else {
        let error = Error::new(Reason::ToolNotFound, format!("Unknown tool: {name}"))
            .hint("`tools list` shows what there is; pass --plugins for tools of your own.");
        bridge.stop().await;
        return Ok(out::refused(&error, &TraceId::random(), output));
    };
    if output.json {
        let mut whole = summary(&entry);
        whole["description"] = entry.tool.description.as_str().into();
        whole["input_schema"] = entry.tool.input_schema.clone();
        whole["output_schema"] = entry.tool.output_schema.clone().unwrap_or(Value::Null);
        whole["label"] = label::json(&entry);
        out::json(&whole)?;
    } else {
        out::text(&page(&entry))?;
    }
    bridge.stop().await;
    Ok(ExitCode::SUCCESS)
}

fn page(entry: &Entry) -> String {
    let tool = &entry.tool;
    let schema = |schema: &Value| serde_json::to_string_pretty(schema).expect("a schema is JSON");
    let about = out::fields(&[
        ("tool", tool.name.to_string()),
        ("title", tool.title.clone()),
        ("about", tool.description.clone()),
        ("effect", effect(&tool.annotations).into()),
        ("hints", hints(&tool.annotations)),
        ("scopes", tool.scopes.join("\n")),
        ("runs", runs(tool.task_support).into()),
    ]);
    let input = out::printable(&schema(&tool.input_schema));
    let result = match &tool.output_schema {
        Some(output) => format!("\n\nResult\n{}", out::printable(&schema(output))),
        None => String::new(),
    };
    format!("{about}\n\nPermission label\n{}\n\nArguments\n{input}{result}", label::text(entry))
}

fn summary(entry: &Entry) -> Value {
    let tool = &entry.tool;
    json!({
        "name": tool.name,
        "title": tool.title,
        "scopes": tool.scopes,
        "annotations": tool.annotations,
        "needs_confirmation": tool.annotations.needs_confirmation(),
        "task_support": tool.task_support,
        "plugin": entry.plugin.id(),
    })
}

/// The strongest thing that a call may do, in a word or two.
fn effect(annotations: &Annotations) -> &'static str {
    match annotations {
        a if a.needs_confirmation() => "asks a person first",
        a if a.write => "writes",
        a if a.read_only => "reads",
        _ => "computes",
    }
}

fn hints(annotations: &Annotations) -> String {
    let a = annotations;
    let named = [
        ("read-only", a.read_only),
        ("destructive", a.destructive),
        ("idempotent", a.idempotent),
        ("open world", a.open_world),
        ("writes", a.write),
        ("external effect", a.external_effect),
    ];
    let words: Vec<String> =
        named.iter().map(|(name, yes)| if *yes { (*name).to_owned() } else { format!("not {name}") }).collect();
    words.join(", ")
}

fn runs(support: TaskSupport) -> &'static str {
    match support {
        TaskSupport::Forbidden => "at once; the caller waits",
        TaskSupport::Optional => "long; as a task that outlives its caller",
        TaskSupport::Required => "long; only when the caller asks for a task",
    }
}
