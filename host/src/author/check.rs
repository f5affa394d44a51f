//! What a host would say of a component, without serving it: every finding with what to do about it.
//!
//! A finding is an error where a host refuses the component, a warning where it would be served and somebody would be worse
//! off, a note where an author may want to know. Nothing of the component runs with anything granted.

mod asks;
mod component;
mod first_call;
mod schema;
mod tools;
mod wording;

use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

use super::backdrop::Backdrop;
use super::case::Case;
use crate::broker::Catalog;
use crate::model::{PluginId, TaskSupport};
use crate::plugins::Request;
use crate::runtime::Examination;

pub use first_call::FirstCall;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// A host refuses it.
    Error,
    Warning,
    Note,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Finding {
    pub level: Level,
    /// A tool's name, `prompt NAME` and its like, or `component`.
    pub about: String,
    /// One sentence.
    pub says: String,
    /// What to do about it.
    pub fix: String,
}

/// Everything that was found.
#[derive(Debug, Serialize)]
pub struct Report {
    pub plugin: PluginId,
    pub sha256: String,
    pub bytes: usize,
    /// The world that it targets, such as `cyberos:plugin/plugin@1.0.0`.
    pub world: Option<String>,
    /// Languages and tools that say that they made it.
    pub made_with: Vec<String>,
    #[serde(rename = "compile_ms", serialize_with = "milliseconds")]
    pub compile: Duration,
    /// What `list-tools` used, of the fuel that it may use.
    pub describe_fuel: u64,
    pub describe_fuel_most: u64,
    pub describe_memory_bytes: usize,
    pub imports: Vec<Import>,
    /// What it says that it asks for; `None`: it does not say, or in no way that can be used.
    pub asks: Option<Request>,
    pub tools: Vec<ToolSummary>,
    pub prompts: usize,
    pub resources: usize,
    pub templates: usize,
    pub first_calls: Vec<FirstCall>,
    /// Errors first.
    pub findings: Vec<Finding>,
}

#[derive(Debug, Serialize)]
pub struct Import {
    pub interface: String,
    /// What an operator writes into `plugins.toml` for it.
    pub grant: Option<&'static str>,
}

#[derive(Debug, Serialize)]
pub struct ToolSummary {
    pub name: String,
    pub title: String,
    pub effect: &'static str,
    pub scopes: Vec<String>,
    pub task_support: TaskSupport,
}

impl Report {
    pub fn count(&self, level: Level) -> usize {
        self.findings.iter().filter(|finding| finding.level == level).count()
    }
}

/// Findings as they are made.
#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, level: Level, about: &str, says: impl Into<String>, fix: impl Into<String>) {
        self.0.push(Finding { level, about: about.into(), says: says.into(), fix: fix.into() });
    }
    fn error(&mut self, about: &str, says: impl Into<String>, fix: impl Into<String>) {
        self.add(Level::Error, about, says, fix);
    }
    fn warn(&mut self, about: &str, says: impl Into<String>, fix: impl Into<String>) {
        self.add(Level::Warning, about, says, fix);
    }
    fn note(&mut self, about: &str, says: impl Into<String>, fix: impl Into<String>) {
        self.add(Level::Note, about, says, fix);
    }
    fn has_errors(&self) -> bool {
        self.0.iter().any(|finding| finding.level == Level::Error)
    }
}

/// What findings about the component as a whole are about.
const COMPONENT: &str = "component";

/// `cases`: where arguments for first calls are taken from. Errors: this machine cannot look at components at all.
pub async fn check(id: &PluginId, wasm: &[u8], cases: &[Case]) -> anyhow::Result<Report> {
    // Compiled once: what is measured, and what the first calls run.
    let compiled = TempDir::with_prefix("plugin-compiled-")?;
    let backdrop = Backdrop::new(false, Some(compiled.path())).await?;
    let mut findings = Findings::default();
    let examined = backdrop.runtime.examine(id, wasm).await;
    let asks = Request::read(wasm);
    let mut report = Report {
        plugin: id.clone(),
        sha256: String::new(),
        bytes: wasm.len(),
        world: None,
        made_with: component::made_with(wasm),
        compile: Duration::ZERO,
        describe_fuel: 0,
        describe_fuel_most: Examination::DESCRIBE_FUEL,
        describe_memory_bytes: 0,
        imports: vec![],
        asks: asks.as_ref().ok().cloned().flatten(),
        tools: vec![],
        prompts: 0,
        resources: 0,
        templates: 0,
        first_calls: vec![],
        findings: vec![],
    };
    match examined {
        Ok(examined) => {
            report.sha256 = examined.digest.clone();
            report.compile = examined.compile;
            report.describe_fuel = examined.describing.fuel;
            report.describe_memory_bytes = examined.describing.memory_bytes;
            report.world = component::world(&examined.exports);
            component::look(&examined, wasm.len(), &mut findings);
            asks::look(&asks, &examined.imports, &mut findings);
            tools::look(&examined, &mut findings);
            wording::look_at_offers(&examined.offers, &mut findings);
            host_has_the_last_word(&examined, &mut findings);
            let offers = &examined.offers;
            (report.prompts, report.resources, report.templates) =
                (offers.prompts.len(), offers.resources.len(), offers.templates.len());
            report.tools =
                examined.tools.iter().filter_map(|tool| tool.tool.as_ref().ok()).map(tools::summary).collect();
            if !findings.has_errors() {
                report.first_calls =
                    first_call::measure(id, wasm, &examined, cases, compiled.path(), &mut findings).await?;
            }
            report.imports = examined
                .imports
                .into_iter()
                .map(|import| Import { interface: import.name, grant: import.grant })
                .collect();
        }
        Err(why) => component::not_a_component(wasm, &why, &mut findings),
    }
    report.findings = findings.0;
    report.findings.sort_by_key(|finding| finding.level);
    Ok(report)
}

/// Whatever a host refuses that was not found before.
fn host_has_the_last_word(examined: &Examination, findings: &mut Findings) {
    let Some(plugin) = &examined.plugin else { return };
    for rejected in Catalog::default().replace(vec![Arc::clone(plugin)]) {
        if !findings.has_errors() {
            findings.error(COMPONENT, said(&rejected.why), "Correct it as the sentence says.");
        }
    }
}

/// As a sentence of its own.
fn said(why: &impl std::fmt::Display) -> String {
    let text = why.to_string();
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

fn milliseconds<S: serde::Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(duration.as_secs_f64() * 1e3)
}
