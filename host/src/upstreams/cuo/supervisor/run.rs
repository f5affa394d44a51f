//! Runs a skill chain: one artefact a step, each written to the output directory and handed to the steps after it.
//!
//! Knows the catalogue and the file system, not the wire. It goes step by step, so that whoever drives it can report
//! progress, and stop, between steps.

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::collections::HashSet;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::brief;
use super::render::Renderer;
use crate::upstreams::cuo::catalogue::{Binding, Catalogue, Step, Workflow, document_name};
use crate::upstreams::cuo::error::{CuoError, Failure};

/// How much text of each artefact rides in the result. The result is one line of at most 1 MiB: when the whole is
/// over that, all artefacts are cut further.
const TEXT_BUDGETS: [usize; 4] = [64 << 10, 16 << 10, 4 << 10, 0];
const MAX_RESULT_BYTES: usize = 900 << 10;

/// What happened to one step.
#[derive(Clone, Debug, PartialEq)]
pub struct StepReport {
    pub step: u32,
    /// Steps done or skipped, out of `total`.
    pub position: usize,
    pub total: usize,
    pub skill: String,
    pub skipped: bool,
}

pub struct Run {
    workflow: Workflow,
    inputs: Map<String, Value>,
    output_dir: PathBuf,
    trace_id: String,
    date: String,
    renderer: Renderer,
    artefacts: Vec<Artefact>,
    executed: u32,
    position: usize,
    notes: Vec<String>,
}

struct Artefact {
    name: String,
    step: u32,
    skill: String,
    file: String,
    text: String,
}

impl Run {
    /// Check that every step can run, before the first one does.
    pub fn prepare(
        catalogue: &Catalogue,
        workflow: &Workflow,
        inputs: Map<String, Value>,
        output_dir: &Path,
        trace_id: &str,
    ) -> Result<Self, CuoError> {
        for step in &workflow.skill_chain {
            if !is_plain_name(&step.skill) || !catalogue.tree.is_file(&format!("modules/skill/{}/SKILL.md", step.skill))
            {
                let shown: String = step.skill.chars().take(80).collect();
                let message = format!("The workflow needs the skill {shown}, which this catalogue does not have.");
                return Err(CuoError::failed(Failure::Blocked, message, Some(step.step), ""));
            }
        }
        Ok(Run {
            workflow: workflow.clone(),
            inputs,
            output_dir: output_dir.to_owned(),
            trace_id: trace_id.to_owned(),
            date: jiff::Timestamp::now().strftime("%Y-%m-%d").to_string(),
            renderer: Renderer::new(catalogue.tree.clone()),
            artefacts: Vec::new(),
            executed: 0,
            position: 0,
            notes: Vec::new(),
        })
    }

    /// What the next step will be, as progress; `None` when the chain is done.
    pub fn next_progress(&self) -> Option<Value> {
        let step = self.workflow.skill_chain.get(self.position)?;
        let total = self.workflow.skill_chain.len();
        Some(json!({
            "step": step.step, "position": self.position, "total": total, "skill": step.skill, "status": "running",
        }))
    }

    /// Run one step. `None` when the chain is done.
    pub fn advance(&mut self) -> Option<Result<StepReport, CuoError>> {
        let step = self.workflow.skill_chain.get(self.position)?.clone();
        self.position += 1;
        let skipped = self.is_skipped(&step);
        if !skipped && let Err(error) = self.execute(&step) {
            return Some(Err(error));
        }
        let total = self.workflow.skill_chain.len();
        Some(Ok(StepReport { step: step.step, position: self.position, total, skill: step.skill, skipped }))
    }

    fn is_skipped(&mut self, step: &Step) -> bool {
        let Some(condition) = &step.condition else { return false };
        let mut variables = self.variables(step);
        // A condition may name an input or an earlier artefact directly.
        let mut names: Map<String, Value> =
            self.artefacts.iter().map(|a| (a.name.clone(), a.text.as_str().into())).collect();
        names.extend(self.inputs.clone());
        for (name, value) in names {
            variables.entry(name).or_insert(value);
        }
        let declared = self.workflow.inputs.iter().map(|p| p.name.as_str());
        let produced = self.workflow.skill_chain.iter().filter_map(|s| s.outputs_to.as_deref());
        let known: HashSet<&str> = variables.keys().map(String::as_str).chain(declared).chain(produced).collect();
        let met = self.renderer.condition(condition, &Value::Object(variables.clone()), &known);
        let shown: String = condition.chars().take(200).collect();
        match met {
            Some(true) => false,
            Some(false) => {
                self.notes.push(format!(
                    "Step {} ({}) was skipped: its condition is not met: {shown}",
                    step.step, step.skill
                ));
                true
            }
            None => {
                self.notes
                    .push(format!("Step {} ({}) was run; judge whether it applies: {shown}", step.step, step.skill));
                false
            }
        }
    }

    fn execute(&mut self, step: &Step) -> Result<(), CuoError> {
        let failed = |what: &str, detail: String| {
            let message = format!("Step {} ({}) {what}.", step.step, step.skill);
            CuoError::failed(Failure::Failed, message, Some(step.step), detail)
        };
        let text = if self.renderer.has_template(&step.skill) {
            let variables = Value::Object(self.variables(step));
            self.renderer.render(&step.skill, &variables).map_err(|e| failed("could not be rendered", e))?
        } else {
            self.brief(step)
        };
        let text = format!("{}\n", text.trim());
        let name = self.free_name(step);
        let file = format!("{:02}-{}.md", step.step, file_stem(&name));
        let path = self.output_dir.join(&file);
        // `create_new`: an artefact never replaces a file that somebody else put there.
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .and_then(|mut out| out.write_all(text.as_bytes()))
            .map_err(|e| failed("could not write its artefact", format!("{}: {e}", path.display())))?;
        self.executed += 1;
        self.artefacts.push(Artefact { name, step: step.step, skill: step.skill.clone(), file, text });
        Ok(())
    }

    /// `inputs`, `previous`, `step`, `skill`, `workflow`, `date`, `trace_id`, as the catalogue's README describes them.
    fn variables(&self, step: &Step) -> Map<String, Value> {
        let previous: Map<String, Value> =
            self.artefacts.iter().map(|a| (a.name.clone(), a.text.as_str().into())).collect();
        let mut variables = Map::new();
        variables.insert("inputs".into(), self.bound_inputs(step).into());
        variables.insert("previous".into(), previous.into());
        variables.insert("step".into(), step.step.into());
        variables.insert("skill".into(), step.skill.as_str().into());
        // A skill that runs alone belongs to no workflow.
        if !self.workflow.slug.is_empty() {
            let Workflow { title, purpose, persona, .. } = &self.workflow;
            let workflow = json!({ "id": self.workflow.id(), "title": title, "purpose": purpose, "persona": persona });
            variables.insert("workflow".into(), workflow);
        }
        variables.insert("date".into(), self.date.as_str().into());
        variables.insert("trace_id".into(), self.trace_id.as_str().into());
        variables
    }

    /// The caller's inputs, with what `inputs_from` renames. An earlier document wins over an input of the same name; under
    /// its own name it is in `previous` already, and joins the inputs only to take the place of one.
    fn bound_inputs(&self, step: &Step) -> Map<String, Value> {
        let mut inputs = self.inputs.clone();
        for Binding { to, from } in &step.inputs_from {
            let earlier = self.artefacts.iter().rev().find(|a| a.name == *from || a.skill == *from);
            if let Some(earlier) = earlier.filter(|_| to != from || inputs.contains_key(to)) {
                inputs.insert(to.clone(), earlier.text.as_str().into());
            } else if let Some(value) = self.inputs.get(from).filter(|_| !inputs.contains_key(to)) {
                inputs.insert(to.clone(), value.clone());
            }
        }
        inputs
    }

    fn brief(&self, step: &Step) -> String {
        // An unreadable SKILL.md still leaves the inputs and what came before.
        let skill_md = self.renderer.skill_md(&step.skill);
        let of = if self.workflow.slug.is_empty() { String::new() } else { format!(" of {}", self.workflow.id()) };
        let header = format!("Step {}{of}, {}, trace {}.", step.step, self.date, self.trace_id);
        let previous: Vec<String> = self.artefacts.iter().map(|a| a.name.clone()).collect();
        brief::write(&step.skill, &skill_md, &self.inputs, &previous, &header)
    }

    /// `outputs_to`, else what the skill produces by default; numbered when an earlier step has that name.
    fn free_name(&self, step: &Step) -> String {
        let wanted = step.outputs_to.clone().unwrap_or_else(|| document_name(&step.skill));
        let taken = |name: &str| self.artefacts.iter().any(|a| a.name == name);
        let numbered = (2u32..).map(|n| format!("{wanted}-{n}"));
        std::iter::once(wanted.to_owned()).chain(numbered).find(|name| !taken(name)).expect("some number is free")
    }

    /// `{steps_executed, final_artifacts: [{name, step, skill, media_type, path, bytes, sha256, text, text_truncated}], notes}`
    pub fn finish(self) -> Value {
        let mut result = Value::Null;
        for budget in TEXT_BUDGETS {
            let artefacts: Vec<Value> = self.artefacts.iter().map(|a| a.to_json(budget)).collect();
            result = json!({ "steps_executed": self.executed, "final_artifacts": artefacts, "notes": self.notes });
            if result.to_string().len() <= MAX_RESULT_BYTES {
                break;
            }
        }
        result
    }
}

impl Artefact {
    fn to_json(&self, text_budget: usize) -> Value {
        artefact_json(
            &self.name,
            self.step,
            &self.skill,
            "text/markdown",
            &self.file,
            self.text.as_bytes(),
            text_budget,
        )
    }
}

/// One entry of `final_artifacts`. `path` is relative to the run's output directory; `text` is cut at a character.
pub(in crate::upstreams::cuo) fn artefact_json(
    name: &str,
    step: u32,
    skill: &str,
    media_type: &str,
    path: &str,
    bytes: &[u8],
    text_budget: usize,
) -> Value {
    let text = String::from_utf8_lossy(bytes);
    let cut = &text[..text.floor_char_boundary(text_budget)];
    json!({
        "name": name,
        "step": step,
        "skill": skill,
        "media_type": media_type,
        "path": path,
        "bytes": bytes.len(),
        "sha256": hex::encode(Sha256::digest(bytes)),
        "text": cut,
        "text_truncated": cut.len() < text.len(),
    })
}

/// A folder's name below the skill directory: no separators, nothing hidden or shared.
fn is_plain_name(name: &str) -> bool {
    let good = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    !name.is_empty() && name.len() <= 128 && !name.starts_with(['.', '_']) && name.bytes().all(good)
}

fn file_stem(name: &str) -> String {
    let good = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') { c } else { '-' };
    let stem: String = name.chars().map(good).take(80).collect();
    stem.trim_matches('-').to_owned()
}

#[cfg(test)]
mod tests;
