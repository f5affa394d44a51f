//! `cuo`: the catalogue, the router and the supervisor, straight, without tools, scopes or audit. `cuo serve` is what the
//! bridge itself starts to run a workflow.

use anyhow::Context;
use clap::Subcommand;
use serde_json::{Map, Value, json};
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tokio_util::sync::CancellationToken;

use super::out::{self, OutputArgs};
use super::progress::Bar;
use super::serve;
use crate::app;
use crate::config::SettingsArgs;
use crate::error::{Error, Reason};
use crate::model::{ProgressSink, TraceId};
use crate::upstreams::cuo::{Cuo, CuoContext, supervisor};

#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Subcommand)]
enum Command {
    /// Answer the supervisor's protocol (JSON-RPC, one message a line) on standard input and output.
    Serve,
    /// Every persona, with the number of its workflows.
    Personas,
    /// One persona's workflows, and the skills that each runs.
    Workflows { persona: String },
    /// Which persona and workflow fit a request in plain words.
    #[command(arg_required_else_help = true)]
    Route {
        #[arg(required = true, num_args = 1..)]
        query: Vec<String>,
    },
    /// Run a workflow here, without the bridge: nothing is audited.
    Run(Run),
}

#[derive(clap::Args)]
struct Run {
    /// Such as chief-technology-officer/adr-quick-capture.
    #[arg(value_name = "PERSONA/WORKFLOW")]
    workflow: String,
    /// An input; repeat for more. A value that is JSON is passed as such, anything else as text.
    #[arg(long, value_name = "NAME=VALUE", value_parser = input)]
    input: Vec<(String, Value)>,
    /// Write the artefacts into this directory instead of printing them.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

fn input(text: &str) -> Result<(String, Value), String> {
    let (name, value) = text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or("write it as name=value")?;
    Ok((name.into(), serde_json::from_str(value).unwrap_or_else(|_| value.into())))
}

pub async fn run(args: SettingsArgs, arguments: Arguments) -> anyhow::Result<ExitCode> {
    let output = arguments.output;
    let settings = app::settings(args)?;
    let telemetry = app::start_telemetry(&settings)?;
    let cuo = Cuo::new(app::cuo_settings(&settings)?).context("the CUO catalogue cannot be opened")?;
    let code = match arguments.command {
        Command::Serve => {
            supervisor::serve_stdio(settings.args.cyberos_root.as_deref())
                .await
                .context("standard input and output")?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Personas => ask(&cuo, "cuo.list_personas", json!({}), output, personas).await,
        Command::Workflows { persona } => {
            ask(&cuo, "cuo.list_workflows", json!({ "persona": persona }), output, workflows).await
        }
        Command::Route { query } => ask(&cuo, "cuo.route", json!({ "query": query.join(" ") }), output, route).await,
        Command::Run(run) => execute(&cuo, run, output).await,
    };
    telemetry.shutdown(std::time::Duration::from_secs(1)).await;
    code
}

async fn ask(
    cuo: &Cuo,
    method: &str,
    params: Value,
    output: OutputArgs,
    show: fn(&Value) -> String,
) -> anyhow::Result<ExitCode> {
    let context = CuoContext { trace_id: TraceId::random(), progress: ProgressSink::none() };
    let trace_id = context.trace_id;
    match cuo.request(method, params, context).await {
        Ok(answer) if output.json => out::json(&answer)?,
        Ok(answer) => out::text(&show(&answer))?,
        Err(error) => return Ok(out::refused(&Error::from(error), &trace_id, output)),
    }
    Ok(ExitCode::SUCCESS)
}

async fn execute(cuo: &Cuo, run: Run, output: OutputArgs) -> anyhow::Result<ExitCode> {
    let trace_id = TraceId::random();
    let Some((persona, workflow)) = run.workflow.split_once('/') else {
        let error = Error::new(Reason::InvalidParams, format!("{} names no workflow.", run.workflow))
            .hint("Write PERSONA/WORKFLOW; `cuo personas` and `cuo workflows PERSONA` show what there is.");
        return Ok(out::refused(&error, &trace_id, output));
    };
    let bar = Bar::at_once(&run.workflow);
    let inputs: Map<String, Value> = run.input.iter().cloned().collect();
    let params = json!({ "persona": persona, "workflow": workflow, "inputs": inputs });
    let stop: CancellationToken = serve::stop_on_signal();
    let request = cuo.request("cuo.execute", params, CuoContext { trace_id, progress: bar.sink() });
    let outcome = tokio::select! {
        outcome = request => outcome,
        // Dropping the request ends the supervisor and everything that it started.
        () = stop.cancelled() => return Ok(ExitCode::from(out::INTERRUPTED)),
    };
    drop(bar);
    let result = match outcome {
        Ok(result) => result,
        Err(error) => return Ok(out::refused(&Error::from(error), &trace_id, output)),
    };
    if let Some(directory) = &run.out {
        write_artefacts(directory, &result)?;
    }
    match (output.json, &run.out) {
        (true, _) => out::json(&result)?,
        (false, Some(directory)) => eprintln!("{} into {}", count(&result), directory.display()),
        (false, None) => out::text(&artefacts(&result))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn rows(answer: &Value, list: &str) -> Vec<Value> {
    answer[list].as_array().cloned().unwrap_or_default()
}

/// A field as a person writes it: text without quotes.
fn word(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn personas(answer: &Value) -> String {
    let row = |p: Value| [word(&p["slug"]), word(&p["title"]), word(&p["workflow_count"])];
    out::table(["persona", "title", "workflows"], rows(answer, "personas").into_iter().map(row))
}

fn workflows(answer: &Value) -> String {
    let row = |w: Value| {
        let skills: Vec<String> = rows(&w, "skill_chain").iter().map(|step| word(&step["skill"])).collect();
        let purpose = out::short(&word(&w["purpose"]), 70);
        [word(&w["slug"]), word(&w["cadence"]), out::short(&skills.join(" > "), 50), purpose]
    };
    out::table(["workflow", "cadence", "skills", "purpose"], rows(answer, "workflows").into_iter().map(row))
}

fn route(answer: &Value) -> String {
    let others: Vec<String> = rows(answer, "alternates").iter().map(word).collect();
    let best = match answer["matched"].as_bool() {
        Some(true) => format!("{}/{}", word(&answer["persona"]), word(&answer["workflow"])),
        _ => "no match".into(),
    };
    let confidence = answer["confidence"].as_f64().unwrap_or(0.0);
    let mut fields = vec![("best", best), ("confidence", format!("{confidence:.2}")), ("others", others.join("\n"))];
    fields.push(("because", word(&answer["rationale"])));
    fields.push(("hint", answer["hint"].as_str().unwrap_or_default().to_owned()));
    fields.retain(|(_, value)| !value.is_empty());
    out::fields(&fields)
}

fn count(result: &Value) -> String {
    format!("{} steps, {} artefacts", result["steps_executed"], rows(result, "final_artifacts").len())
}

fn artefacts(result: &Value) -> String {
    let notes = rows(result, "notes").iter().map(|note| format!("\n- {}", word(note))).collect::<String>();
    let texts: Vec<String> = rows(result, "final_artifacts")
        .iter()
        .map(|a| {
            let cut = if a["text_truncated"] == true { "\n[cut here; --json has its size]" } else { "" };
            format!("==> {} ({}) <==\n{}{cut}", word(&a["name"]), word(&a["path"]), word(&a["text"]))
        })
        .collect();
    out::printable(&format!("{}\n\n{}{notes}", count(result), texts.join("\n\n")))
}

/// The run's own directory is gone by now; its result carries the texts.
fn write_artefacts(directory: &Path, result: &Value) -> anyhow::Result<()> {
    std::fs::create_dir_all(directory).with_context(|| format!("{} cannot be created", directory.display()))?;
    for artefact in rows(result, "final_artifacts") {
        if artefact["text_truncated"] == true {
            anyhow::bail!("the artefact {} is too large to be carried here whole", word(&artefact["name"]));
        }
        let path = word(&artefact["path"]);
        // Named by the supervisor, which may be a foreign one: only its last part counts.
        let name = Path::new(&path).file_name().context("an artefact has no name")?;
        let target = directory.join(name);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(&target);
        let mut file = file.with_context(|| format!("{} cannot be created", target.display()))?;
        file.write_all(word(&artefact["text"]).as_bytes())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_is_json_where_it_can_be_and_text_elsewhere() {
        assert_eq!(input("n=3"), Ok(("n".into(), json!(3))));
        assert_eq!(input("topic=a=b"), Ok(("topic".into(), json!("a=b"))));
        assert!(input("novalue").is_err() && input("=x").is_err());
    }

    #[test]
    fn an_artefact_cannot_be_written_outside_its_directory() {
        let directory = tempfile::tempdir().unwrap();
        let result = json!({ "final_artifacts": [{ "name": "x", "path": "../../escape.md", "text": "hello" }] });
        write_artefacts(directory.path(), &result).unwrap();
        assert_eq!(std::fs::read_to_string(directory.path().join("escape.md")).unwrap(), "hello");
    }
}
