//! The existing `cyberos-cuo` command line as supervisor: text out, exit codes, one JSON file a step.
//!
//! It has neither JSON output nor progress on stdout: the step files that appear in its output directory are the only
//! structured feed. It applies results (records, patches, backlog edits) below `CYBEROS_ROOT`, so it is given a scratch
//! root in the task's private directory, in which `modules` is a link to the real one.

use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use super::catalogue::Workflow;
use super::child::{ChildProcess, MAX_TOTAL_BYTES};
use super::error::{CuoError, Failure};
use super::lines::Line;
use super::supervisor::run::artefact_json;
use super::tree::read_text;
use crate::error::Reason;
use crate::model::{Progress, ProgressSink};

const LOOK_FOR_STEPS: Duration = Duration::from_millis(100);
/// Linux refuses a single argument over 128 KiB.
const MAX_ARGUMENT_BYTES: usize = 100 << 10;
const TEXT_BUDGET: usize = 64 << 10;
/// All artefacts' text together.
const TOTAL_TEXT_BUDGET: usize = 512 << 10;

/// `execute <persona>/<workflow> --output-dir D [--input=K=V]…`, after the operator's own argument vector.
pub(super) fn arguments(
    workflow: &Workflow,
    inputs: &Map<String, Value>,
    output_dir: &Path,
) -> Result<Vec<OsString>, CuoError> {
    let mut arguments: Vec<OsString> =
        vec!["execute".into(), workflow.id().into(), "--output-dir".into(), output_dir.as_os_str().to_owned()];
    for (name, value) in inputs {
        let good = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
        if name.is_empty() || name.starts_with('-') || !name.bytes().all(good) {
            return Err(CuoError::invalid(
                "Names of inputs may hold letters, digits, dot, underscore and hyphen only.",
            ));
        }
        let text = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        if text.contains('\0') || text.len() > MAX_ARGUMENT_BYTES {
            return Err(CuoError::invalid(format!(
                "The input {name} is over {MAX_ARGUMENT_BYTES} bytes or holds a NUL, which this supervisor cannot take."
            )));
        }
        // One argument, so that a value that starts with a hyphen is never an option.
        arguments.push(format!("--input={name}={text}").into());
    }
    Ok(arguments)
}

/// A root that the command line may write below without touching the checkout.
pub(super) fn scratch_root(work_dir: &Path, root: &Path) -> std::io::Result<PathBuf> {
    let scratch = work_dir.join("root");
    fs::create_dir(&scratch)?;
    std::os::unix::fs::symlink(root.join("modules"), scratch.join("modules"))?;
    Ok(scratch)
}

/// Follow one execution to its end. Dropping this ends the whole group.
pub(super) async fn follow(
    mut child: ChildProcess,
    workflow: &Workflow,
    output_dir: &Path,
    progress: &ProgressSink,
) -> Result<Value, CuoError> {
    drop(child.stdin.take());
    let mut seen = 0;
    let mut outcome = None;
    let mut look = tokio::time::interval(LOOK_FOR_STEPS);
    let mut exited = false;
    loop {
        let line = {
            let (stdout, group) = child.split();
            tokio::select! {
                biased;
                line = stdout.next() => line.ok().flatten(),
                // Only after what it had already said.
                () = group.exited(), if !exited => { exited = true; continue }
                () = tokio::time::sleep(Duration::from_millis(200)), if exited => None,
                _ = look.tick(), if !exited => {
                    seen = report(output_dir, workflow, seen, progress);
                    continue;
                }
            }
        };
        let Some(Line::Whole(line) | Line::Cut(line)) = line else { break };
        outcome = outcome.or_else(|| outcome_in(&String::from_utf8_lossy(&line)));
        if child.stdout.total_bytes > MAX_TOTAL_BYTES {
            return Err(unusable("it said more than 16 MiB"));
        }
    }
    // Stdout may close long before the work is done.
    while !exited {
        let (_, group) = child.split();
        tokio::select! {
            () = group.exited() => exited = true,
            _ = look.tick() => seen = report(output_dir, workflow, seen, progress),
        }
    }
    report(output_dir, workflow, seen, progress);
    let steps = step_files(output_dir);
    let last = steps.keys().next_back().copied();
    let result = result(output_dir, workflow, &steps);
    let status = child.finish().await;
    judge(status, outcome.as_deref(), last)?;
    Ok(result)
}

fn judge(status: Option<ExitStatus>, outcome: Option<&str>, last: Option<u32>) -> Result<(), CuoError> {
    let failed = |outcome: Failure, message: &str| Err(CuoError::failed(outcome, message, last, ""));
    match (status.and_then(|s| s.code()), outcome) {
        (Some(0), Some("COMPLETED" | "COMPLETED_BATCH")) => Ok(()),
        (Some(1), Some("BLOCKED")) => {
            failed(Failure::Blocked, "A step of the workflow cannot run: something that it needs is missing.")
        }
        (Some(1), Some("FAILED")) => failed(Failure::Failed, "The workflow failed."),
        (Some(1), Some("PARTIAL")) => {
            failed(Failure::Partial, "Some steps of the workflow completed and some did not.")
        }
        (Some(1), Some("ROUTED_BACK")) => {
            failed(Failure::RoutedBack, "The workflow handed the work back to an earlier stage.")
        }
        (Some(1), Some("HITL_HALT")) => {
            failed(Failure::NeedsHuman, "The workflow stopped: a person must decide before it can go on.")
        }
        // No header, or one that belies the exit code: a traceback, a usage error, a signal.
        _ => Err(unusable(&format!("{status:?} with outcome {outcome:?}"))),
    }
}

fn unusable(detail: &str) -> CuoError {
    CuoError::unavailable(Reason::BadResponse, "The CUO supervisor ended without a usable result.", detail)
}

/// `# execute persona/workflow → OUTCOME`
fn outcome_in(line: &str) -> Option<String> {
    let (_, outcome) = line.strip_prefix("# execute ")?.split_once('→')?;
    Some(outcome.split_whitespace().next()?.to_owned())
}

/// `[<TASK-ID>_]stepNN_<skill>.json`, by step.
fn step_files(output_dir: &Path) -> BTreeMap<u32, (String, String)> {
    let names =
        fs::read_dir(output_dir).into_iter().flatten().flatten().filter_map(|e| e.file_name().into_string().ok());
    names.filter_map(|file| step_of(&file).map(|(step, skill)| (step, (skill, file)))).collect()
}

fn step_of(file: &str) -> Option<(u32, String)> {
    let stem = file.strip_suffix(".json")?;
    let at = stem.find("step").filter(|at| *at == 0 || stem.as_bytes()[at - 1] == b'_')?;
    let (number, skill) = stem[at + "step".len()..].split_once('_')?;
    Some((number.parse().ok()?, skill.to_owned()))
}

/// Report the steps that appeared since `seen` of them were there.
fn report(output_dir: &Path, workflow: &Workflow, seen: usize, progress: &ProgressSink) -> usize {
    let steps = step_files(output_dir);
    for (done, (step, (skill, _))) in steps.iter().enumerate().skip(seen) {
        progress.report(Progress {
            progress: (done + 1) as f64,
            total: Some(workflow.skill_chain.len() as f64),
            message: Some(format!("Step {step} ({skill}): done")),
        });
    }
    steps.len().max(seen)
}

/// The same shape as our own supervisor's result.
fn result(output_dir: &Path, workflow: &Workflow, steps: &BTreeMap<u32, (String, String)>) -> Value {
    let (mut artefacts, mut notes) = (Vec::new(), Vec::new());
    let mut left = TOTAL_TEXT_BUDGET;
    for (step, (skill, file)) in steps {
        let text = match read_text(&output_dir.join(file)) {
            Ok(text) => text,
            Err(_) => {
                notes.push(format!("The output of step {step} ({skill}) is too large or not text, and was left out."));
                continue;
            }
        };
        let budget = TEXT_BUDGET.min(left);
        left -= budget.min(text.len());
        let planned = workflow.skill_chain.iter().find(|s| s.step == *step && s.skill == *skill);
        let name = planned.and_then(|s| s.outputs_to.as_deref()).unwrap_or(skill);
        artefacts.push(artefact_json(name, *step, skill, "application/json", file, text.as_bytes(), budget));
    }
    json!({ "steps_executed": steps.len(), "final_artifacts": artefacts, "notes": notes })
}

#[cfg(test)]
mod tests;
