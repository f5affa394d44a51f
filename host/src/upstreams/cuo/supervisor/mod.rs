//! Our own CUO supervisor, `cyberos-mcp-bridge cuo serve`: JSON-RPC 2.0, one message a line, on stdin and stdout.
//!
//! | method | params | result |
//! |---|---|---|
//! | `cuo.execute` | `persona, workflow, inputs?, output_dir, trace_id?` | `{steps_executed, final_artifacts, notes}` |
//! | `skill.invoke` | `skill, inputs?, output_dir, trace_id?` | the same, of a chain of one step |
//! | `cuo.list_personas`, `cuo.list_workflows`, `cuo.route`, `skill.list` | as in `views` | as in `views` |
//! | `ping` | | `{}` |
//!
//! A run sends a `cuo.progress` notification `{step, position, total, skill, status}` before and after each step. The
//! process ends when its stdin does, so that it never outlives the bridge that started it.

mod brief;
mod render;
pub(super) mod run;

use serde_json::{Value, json};
use std::io;
use std::path::Path;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use self::run::Run;
use super::catalogue::{Catalogue, Step, Workflow};
use super::error::{CuoError, code};
use super::lines::{CappedLines, Line};
use super::text::title_of_slug;
use super::tree::Tree;
use super::views;

/// The host refuses larger parameters before it starts a child.
const MAX_REQUEST_BYTES: usize = 2 << 20;

/// The body of `cyberos-mcp-bridge cuo serve`: limit this process, read the catalogue and serve stdin.
///
/// `root`: a CyberOS tree (`CYBEROS_ROOT`); `None`: the starter catalogue in the binary.
pub async fn serve_stdio(root: Option<&Path>) -> io::Result<()> {
    limit_this_process();
    let tree = root.map_or(Tree::Starter, |root| Tree::Disk(root.to_owned()));
    let (catalogue, _problems) = Catalogue::load(&tree);
    serve(&catalogue, tokio::io::stdin(), tokio::io::stdout()).await
}

/// Answer requests one after the other until `stdin` ends.
pub async fn serve(
    catalogue: &Catalogue,
    stdin: impl AsyncRead + Unpin,
    stdout: impl AsyncWrite + Unpin,
) -> io::Result<()> {
    let mut lines = CappedLines::new(stdin, MAX_REQUEST_BYTES);
    let mut out = Out(stdout);
    while let Some(line) = lines.next().await? {
        match line {
            Line::Whole(line) if line.iter().all(u8::is_ascii_whitespace) => {}
            Line::Whole(line) => answer(catalogue, &line, &mut out).await?,
            Line::Cut(_) => {
                let message = format!("A message is longer than {MAX_REQUEST_BYTES} bytes.");
                out.error(&Value::Null, json!({ "code": code::PARSE, "message": message })).await?;
            }
        }
    }
    Ok(())
}

async fn answer<W: AsyncWrite + Unpin>(catalogue: &Catalogue, line: &[u8], out: &mut Out<W>) -> io::Result<()> {
    let request: Value = match serde_json::from_slice(line) {
        Ok(request) => request,
        Err(_) => return out.error(&Value::Null, json!({ "code": code::PARSE, "message": "Not a JSON value." })).await,
    };
    let id = request.get("id").filter(|id| id.is_string() || id.is_number());
    let method = request.get("method").and_then(Value::as_str).filter(|_| request["jsonrpc"] == "2.0");
    let (Some(method), Some(id)) = (method, id) else {
        // A notification has a method and no id; none means anything here.
        if method.is_some() && request.get("id").is_none() {
            return Ok(());
        }
        let error = json!({ "code": code::INVALID_REQUEST, "message": "Not a JSON-RPC 2.0 request." });
        return out.error(&Value::Null, error).await;
    };
    let params = request.get("params").cloned().unwrap_or_else(|| json!({}));
    let outcome = match method {
        "ping" => Ok(json!({})),
        "cuo.execute" | "skill.invoke" => match prepare(catalogue, method, &params) {
            Ok(run) => drive(run, out).await?,
            Err(error) => Err(error),
        },
        _ => views::answer(catalogue, method, &params).unwrap_or(Err(CuoError::UnknownMethod)),
    };
    match outcome {
        Ok(result) => out.send(&json!({ "jsonrpc": "2.0", "id": id, "result": result })).await,
        Err(error) => {
            if !error.detail().is_empty() {
                tracing::warn!(%method, "{error} {}", error.detail());
            }
            out.error(id, error.to_rpc()).await
        }
    }
}

fn prepare(catalogue: &Catalogue, method: &str, params: &Value) -> Result<Run, CuoError> {
    let inputs = views::inputs(params)?;
    let output_dir = Path::new(views::text(params, "output_dir")?);
    let trace_id = params.get("trace_id").and_then(Value::as_str).unwrap_or_default();
    let single;
    let workflow = if method == "cuo.execute" {
        views::workflow(catalogue, params)?
    } else {
        single = single_step(catalogue, views::text(params, "skill")?)?;
        &single
    };
    Run::prepare(catalogue, workflow, inputs, output_dir, trace_id)
}

/// A chain of one step, which belongs to no persona.
fn single_step(catalogue: &Catalogue, name: &str) -> Result<Workflow, CuoError> {
    let skill = catalogue.skills.get(name).ok_or_else(|| CuoError::not_found("skill", catalogue.skills_like(name)))?;
    let outputs_to = Some(skill.produces.clone());
    let step = Step { step: 1, skill: skill.name.clone(), outputs_to, ..Step::default() };
    Ok(Workflow {
        title: title_of_slug(&skill.name),
        purpose: skill.description.clone(),
        skill_chain: vec![step],
        ..Workflow::default()
    })
}

/// Outer error: the host is gone. Inner: the run failed.
async fn drive<W: AsyncWrite + Unpin>(mut run: Run, out: &mut Out<W>) -> io::Result<Result<Value, CuoError>> {
    loop {
        if let Some(params) = run.next_progress() {
            out.notify("cuo.progress", params).await?;
        }
        let report = match run.advance() {
            None => return Ok(Ok(run.finish())),
            Some(Err(error)) => return Ok(Err(error)),
            Some(Ok(report)) => report,
        };
        let status = if report.skipped { "skipped" } else { "done" };
        let params = json!({
            "step": report.step, "position": report.position, "total": report.total, "skill": report.skill, "status": status,
        });
        out.notify("cuo.progress", params).await?;
    }
}

struct Out<W>(W);

impl<W: AsyncWrite + Unpin> Out<W> {
    async fn send(&mut self, message: &Value) -> io::Result<()> {
        let mut line = message.to_string();
        line.push('\n');
        self.0.write_all(line.as_bytes()).await?;
        self.0.flush().await
    }

    async fn error(&mut self, id: &Value, error: Value) -> io::Result<()> {
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "error": error })).await
    }

    async fn notify(&mut self, method: &str, params: Value) -> io::Result<()> {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params })).await
    }
}

/// A template that outwits its fuel must not take the machine along. Failing to set a limit is no reason not to run.
fn limit_this_process() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    for (resource, most) in [(Resource::As, 2 << 30), (Resource::Fsize, 64 << 20), (Resource::Core, 0)] {
        let hard = getrlimit(resource).maximum;
        let most = hard.map_or(most, |hard| hard.min(most));
        let _ = setrlimit(resource, Rlimit { current: Some(most), maximum: hard });
    }
}

#[cfg(test)]
mod tests;
