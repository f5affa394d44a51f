//! One JSON-RPC request to a supervisor child: progress while it runs, and its result.
//!
//! The child is not trusted to be well-behaved: lines, totals and texts are capped, and anything that is not the
//! protocol ends the conversation as `bad_response`. Source: the table in `supervisor`.

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use super::child::{ChildProcess, MAX_TOTAL_BYTES};
use super::error::CuoError;
use super::lines::Line;
use crate::error::Reason;
use crate::model::{Progress, ProgressSink};

/// Send `method` and wait for its answer. Dropping this ends the child's whole group.
pub(super) async fn call(
    mut child: ChildProcess,
    method: &str,
    params: &Value,
    progress: &ProgressSink,
) -> Result<Value, CuoError> {
    let mut request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
    request.push('\n');
    let mut stdin = child.stdin.take().expect("stdin is taken only here");
    // Beside the reading: a child that answers before it has read everything must not block both sides. Stdin stays
    // open until the answer is there, because its end is what ends the supervisor.
    let (hold, held) = tokio::sync::oneshot::channel::<()>();
    let writer = tokio::spawn(async move {
        let _ = stdin.write_all(request.as_bytes()).await;
        let _ = stdin.flush().await;
        let _ = held.await;
    });
    let outcome = converse(&mut child, progress).await;
    drop(hold);
    writer.abort();
    match outcome {
        Ok(answer) => {
            child.finish().await;
            answer
        }
        Err(Broken::Ended) => {
            let status = child.finish().await;
            let how = status.map_or("it vanished".into(), |s| s.to_string());
            Err(bad_response("The CUO supervisor ended before it answered.", &how))
        }
        // Dropping the child ends it without waiting for its grace.
        Err(Broken::Nonsense(what)) => Err(bad_response("The CUO supervisor answered with something unusable.", what)),
    }
}

enum Broken {
    Ended,
    Nonsense(&'static str),
}

async fn converse(child: &mut ChildProcess, progress: &ProgressSink) -> Result<Result<Value, CuoError>, Broken> {
    let mut exited = false;
    loop {
        if child.stdout.total_bytes > MAX_TOTAL_BYTES {
            return Err(Broken::Nonsense("it said more than 16 MiB"));
        }
        let line = if exited {
            // What it said before it went is still in the pipe; a grandchild may keep the pipe open for ever.
            let last = tokio::time::timeout(std::time::Duration::from_millis(200), child.stdout.next());
            last.await.map_err(|_| Broken::Ended)?
        } else {
            let (stdout, group) = child.split();
            tokio::select! {
                biased;
                line = stdout.next() => line,
                () = group.exited() => { exited = true; continue }
            }
        };
        let line = match line {
            Ok(Some(Line::Whole(line))) => line,
            Ok(Some(Line::Cut(_))) => return Err(Broken::Nonsense("a line is longer than 1 MiB")),
            Ok(None) | Err(_) => return Err(Broken::Ended),
        };
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let Ok(Value::Object(mut message)) = serde_json::from_slice(&line) else {
            return Err(Broken::Nonsense("a line is no JSON object"));
        };
        if message.get("method").is_some() && message.get("id").is_none() {
            if message["method"] == "cuo.progress" {
                progress.report(as_progress(message.get("params").unwrap_or(&Value::Null)));
            }
            continue;
        }
        if message.get("id") != Some(&json!(1)) {
            return Err(Broken::Nonsense("a message answers nothing that was asked"));
        }
        return match (message.remove("result"), message.get("error")) {
            (Some(result), None) => Ok(Ok(result)),
            (None, Some(error)) => Ok(Err(CuoError::from_rpc(error))),
            _ => Err(Broken::Nonsense("an answer has neither result nor error, or both")),
        };
    }
}

/// `{step, position, total, skill, status}` as MCP progress: steps done, of how many, and a line to read.
fn as_progress(params: &Value) -> Progress {
    let short = |key: &str| params[key].as_str().unwrap_or_default().chars().take(100).collect::<String>();
    let done = params["position"].as_f64().or_else(|| params["step"].as_f64()).unwrap_or_default();
    let message = match params["step"].as_u64() {
        Some(step) => format!("Step {step} ({}): {}", short("skill"), short("status")),
        None => short("message"),
    };
    Progress { progress: done, total: params["total"].as_f64(), message: Some(message).filter(|m| !m.is_empty()) }
}

fn bad_response(message: &str, detail: &str) -> CuoError {
    CuoError::unavailable(Reason::BadResponse, message, detail)
}
