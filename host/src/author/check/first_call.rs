//! A first call of each tool that only reads, in the real sandbox, with nothing granted: what it costs, or how it ends.

use serde::Serialize;
use serde_json::{Map, Value};
use std::path::Path;

use super::{COMPONENT, Findings};
use crate::author::case::{Case, Outcome};
use crate::author::sample;
use crate::author::script::Script;
use crate::author::stage::{Play, Stage};
use crate::author::stand_in::StandIn;
use crate::broker::schema;
use crate::config::Grants;
use crate::model::{PluginId, Tool};
use crate::runtime::Examination;

#[derive(Debug, Serialize)]
pub struct FirstCall {
    pub tool: String,
    pub arguments: Map<String, Value>,
    /// Of the case whose arguments these are; `None`: they were made from the schema.
    pub case: Option<String>,
    pub fuel: u64,
    pub memory_bytes: usize,
    pub time_ms: f64,
    /// `class/reason` of the error that it ended in.
    pub error: Option<String>,
}

/// `compiled`: where the component lies compiled.
pub async fn measure(
    id: &PluginId,
    wasm: &[u8],
    examined: &Examination,
    cases: &[Case],
    compiled: &Path,
    findings: &mut Findings,
) -> anyhow::Result<Vec<FirstCall>> {
    if examined.needs_grants() {
        findings.note(
            COMPONENT,
            "It was not called, because it needs grants, and nothing is granted here",
            "`plugin test` calls it with what grants.toml asks for, and says what each call used.",
        );
        return Ok(vec![]);
    }
    let tools: Vec<&Tool> = examined.tools.iter().filter_map(|declared| declared.tool.as_ref().ok()).collect();
    let reading = tools.into_iter().filter(|tool| tool.annotations.read_only && !tool.annotations.needs_confirmation());
    let grants = Grants { any_tool_name: true, ..Grants::default() };
    let mut stage = Stage::set(id, wasm, grants, Some(compiled)).await?;
    let mut calls = vec![];
    for tool in reading {
        let Some((arguments, case)) = arguments(tool, cases) else {
            findings.note(
                tool.name.as_str(),
                "It was not called: its schema does not tell which arguments would do",
                "Give the schema `examples`, or write a case.",
            );
            continue;
        };
        let play = Play {
            tool: tool.name.to_string(),
            arguments: arguments.clone(),
            confirm: false,
            scopes: None,
            script: Script::default(),
            client: StandIn::default(),
        };
        let played = stage.play(play).await;
        let spent = played.spent.unwrap_or_default();
        let error = played.outcome.as_ref().err();
        if let Some(failure) = error {
            let detail = failure.detail.as_ref().map_or(String::new(), |detail| format!(" ({detail})"));
            findings.warn(
                tool.name.as_str(),
                format!(
                    "Called with {}, it ended in {}: {}{detail}",
                    Value::Object(arguments.clone()),
                    failure.name(),
                    failure.public.message
                ),
                failure.public.data.get("hint").and_then(Value::as_str).unwrap_or("Write a case for it.").to_owned(),
            );
        }
        calls.push(FirstCall {
            tool: tool.name.to_string(),
            arguments,
            case,
            fuel: spent.fuel,
            memory_bytes: spent.memory_bytes,
            time_ms: spent.time.as_secs_f64() * 1e3,
            error: error.map(|failure| failure.name()),
        });
    }
    stage.clear().await;
    Ok(calls)
}

/// Of a case that expects a result, or made from the schema.
fn arguments(tool: &Tool, cases: &[Case]) -> Option<(Map<String, Value>, Option<String>)> {
    let fits = |arguments: &Map<String, Value>| {
        let schema = schema::compile(&tool.input_schema).ok()?;
        schema::check(&schema, &Value::Object(arguments.clone())).ok()
    };
    let good = |case: &&Case| {
        let plain = case.upstream.is_empty() && case.answer.is_empty();
        case.tool == tool.name.as_str() && plain && matches!(case.expect.outcome, Outcome::Result { .. })
    };
    if let Some(case) = cases.iter().find(good)
        && fits(&case.arguments).is_some()
    {
        return Some((case.arguments.clone(), Some(case.name.clone())));
    }
    let made = sample::arguments(&tool.input_schema)?;
    fits(&made).map(|()| (made, None))
}
