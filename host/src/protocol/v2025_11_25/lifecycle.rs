//! `initialize`. Source: MCP 2025-11-25, lifecycle; design section 6, version.

use serde_json::{Map, Value, json};

use super::clients::wants_underscores;
use super::{REVISION, Request};
use crate::error::{Error, Reason, Result};
use crate::model::{ClientFacts, ClientFeatures};

/// Revisions that were published, ours included. A client that asks for one of them, or for a later date, gets ours and
/// decides for itself; anything else is a mistake that is better named.
const PUBLISHED: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", REVISION];

pub fn initialize(request: Request<'_>) -> Result<Value> {
    let asked = request.params.get("protocolVersion");
    if !asked.and_then(Value::as_str).is_some_and(negotiable) {
        let asked = asked.cloned().unwrap_or(Value::Null);
        return Err(Error::new(Reason::UnsupportedVersion, "Unsupported protocol version")
            .with("supported", json!([REVISION]))
            .with("requested", clip(asked)));
    }
    let facts = facts(&request.params);
    request.protocol.clients.sessions.open(&request.peer.caller, &request.peer.session, facts);
    let info = &request.protocol.info;
    let mut tasks = json!({ "cancel": {}, "requests": { "tools": { "call": {} } } });
    if request.peer.policy.may_list_tasks {
        tasks["list"] = json!({});
    }
    let changes = request.protocol.lists_change();
    let mut capabilities = json!({ "tools": { "listChanged": changes }, "logging": {}, "tasks": tasks });
    let offers = request.protocol.kinds();
    let kinds = [("prompts", offers.prompts), ("resources", offers.resources), ("completions", offers.completions)];
    for (kind, _) in kinds.iter().filter(|(_, offered)| *offered) {
        capabilities[kind] = json!({});
    }
    if offers.resources {
        capabilities["resources"]["subscribe"] = true.into();
    }
    if changes {
        capabilities["prompts"]["listChanged"] = true.into();
        capabilities["resources"]["listChanged"] = true.into();
    }
    Ok(json!({
        "protocolVersion": REVISION,
        "capabilities": capabilities,
        "serverInfo": { "name": info.name, "title": info.title, "version": info.version },
        "instructions": info.instructions,
    }))
}

/// What the client says of itself, as far as we act on it. What is malformed counts as not said.
fn facts(params: &Map<String, Value>) -> ClientFacts {
    let capability =
        |path: &str| params.get("capabilities").and_then(|c| c.pointer(path)).is_some_and(Value::is_object);
    let elicits = capability("/elicitation");
    let url = capability("/elicitation/url");
    ClientFacts {
        features: ClientFeatures {
            // `elicitation: {}` means forms (MCP 2025-11-25, elicitation, capabilities).
            elicit_form: elicits && (capability("/elicitation/form") || !url),
            elicit_url: url,
            sample: capability("/sampling"),
            sample_tools: capability("/sampling/tools"),
        },
        underscore_names: params
            .get("clientInfo")
            .and_then(|info| info["name"].as_str())
            .is_some_and(wants_underscores),
    }
}

fn negotiable(version: &str) -> bool {
    PUBLISHED.contains(&version) || (is_date(version) && version > REVISION)
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok()
}

/// What the client asked for goes back to it, but not a book.
fn clip(asked: Value) -> Value {
    match asked {
        Value::String(text) => text.chars().take(64).collect::<String>().into(),
        Value::Null | Value::Bool(_) | Value::Number(_) => asked,
        Value::Array(_) | Value::Object(_) => "(not a string)".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_and_later_revisions_are_counter_offered_and_others_refused() {
        for good in ["2024-11-05", "2025-06-18", "2025-11-25", "2026-07-28", "2031-01-01"] {
            assert!(negotiable(good), "{good}");
        }
        for bad in ["2024-01-01", "", "latest", "2026-13-45", "2025-11-24", "2025-11-25 "] {
            assert!(!negotiable(bad), "{bad}");
        }
    }
}
