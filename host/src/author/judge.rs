//! Is a call as its case expects? Says what differs, line by line.

use serde_json::{Map, Value, json};
use similar::TextDiff;

use super::case::{Bounds, Expect, ExpectedError, Outcome};
use super::stage::{Failure, Played};
use crate::broker::Spent;
use crate::model::{Content, ToolResult};

/// Everything that is not as expected, each with a diff where that says more. `kept`: the snapshot, where one is wanted.
pub fn differences(expect: &Expect, bounds: &Bounds, played: &Played, kept: Option<&Value>) -> Vec<String> {
    let mut differences = played.complaints.clone();
    match (&expect.outcome, &played.outcome) {
        (Outcome::Result { structured, text, contains, is_error }, Ok(result)) => {
            let shown = text_of(result);
            // A snapshot may hold a failure; who expects nothing else expects success.
            let failing = is_error.unwrap_or(expect.snapshot && result.is_error);
            if result.is_error != failing {
                let (is, not) = if result.is_error { ("failed", "succeeded") } else { ("succeeded", "failed") };
                differences.push(format!("the tool {is}, and was to have {not}: {shown}"));
            }
            if let Some(wanted) = structured {
                match &result.structured {
                    Some(found) if same(wanted, found) => {}
                    found => {
                        let found = found.as_ref().unwrap_or(&Value::Null);
                        differences.push(format!("structured differs\n{}", diff(&pretty(wanted), &pretty(found))));
                    }
                }
            }
            if let Some(wanted) = text.as_ref().filter(|wanted| **wanted != shown) {
                differences.push(format!("text differs\n{}", diff(wanted, &shown)));
            }
            if let Some(wanted) = contains.as_ref().filter(|wanted| !shown.contains(*wanted)) {
                differences.push(format!("{wanted:?} is not in the text: {shown}"));
            }
        }
        (Outcome::Result { structured: None, text: None, contains: None, is_error: None }, Err(_))
            if expect.snapshot => {}
        (Outcome::Result { .. }, Err(failure)) => differences.push(unexpected(failure)),
        (Outcome::Error(wanted), Err(failure)) => differences.extend(error_differs(wanted, failure)),
        (Outcome::Error(_), Ok(result)) => {
            differences.push(format!("an error was expected, and the tool answered: {}", text_of(result)));
        }
    }
    if let Some(kept) = kept {
        let found = snapshot(played);
        if !same(kept, &found) {
            differences.push(format!("it is not as in the snapshot\n{}", diff(&pretty(kept), &pretty(&found))));
        }
    }
    differences.extend(over(bounds, played.spent.unwrap_or_default()));
    differences
}

/// What is compared with a later run: nothing that changes from call to call.
pub fn snapshot(played: &Played) -> Value {
    match &played.outcome {
        Ok(result) => {
            let mut kept = json!({ "content": result.content, "isError": result.is_error });
            if let Some(structured) = &result.structured {
                kept["structuredContent"] = structured.clone();
            }
            kept
        }
        Err(failure) => {
            let mut data: Map<String, Value> = failure.public.data.clone();
            data.remove("trace_id");
            json!({ "error": failure.public.message, "data": data })
        }
    }
}

/// Equal as JSON: 1 is 1.0, and the order of members says nothing.
pub fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64().is_some_and(|a| Some(a) == b.as_f64()),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        (a, b) => a == b,
    }
}

fn error_differs(wanted: &ExpectedError, failure: &Failure) -> Option<String> {
    let found = failure.public.reason();
    let class = wanted.class.is_none_or(|class| class == found.class());
    let reason = wanted.reason.is_none_or(|reason| reason == found);
    let message = wanted.message.as_ref().is_none_or(|text| failure.public.message.contains(text));
    let words = [
        wanted.class.map(|class| class.as_str().to_owned()),
        wanted.reason.map(|reason| reason.as_str().to_owned()),
        wanted.message.as_ref().map(|text| format!("{text:?} in its message")),
    ];
    let words: Vec<String> = words.into_iter().flatten().collect();
    (!(class && reason && message)).then(|| format!("{}; {} was expected", unexpected(failure), words.join(", ")))
}

fn unexpected(failure: &Failure) -> String {
    let detail = failure.detail.as_ref().map_or(String::new(), |detail| format!(" ({detail})"));
    let pointer = failure.public.data.get("pointer").and_then(Value::as_str).filter(|at| !at.is_empty());
    let at = pointer.map_or(String::new(), |pointer| format!(" at {pointer}"));
    format!("it ended in {}{at}: {}{detail}", failure.name(), failure.public.message)
}

fn over(bounds: &Bounds, spent: Spent) -> Vec<String> {
    let time_ms = spent.time.as_secs_f64() * 1e3;
    let over = [
        bounds
            .fuel
            .filter(|most| spent.fuel > *most)
            .map(|most| format!("it used {} of fuel; {most} are allowed", spent.fuel)),
        bounds
            .memory_bytes
            .filter(|most| spent.memory_bytes > *most)
            .map(|most| format!("it used {} bytes of memory; {most} are allowed", spent.memory_bytes)),
        bounds
            .time_ms
            .filter(|most| time_ms > *most as f64)
            .map(|most| format!("it took {time_ms:.1} ms; {most} are allowed")),
    ];
    over.into_iter().flatten().collect()
}

fn text_of(result: &ToolResult) -> String {
    let texts = result.content.iter().filter_map(|block| match block {
        Content::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

fn pretty(value: &Value) -> String {
    // Sorted, so that the order of members makes no difference.
    serde_json::to_string_pretty(&sorted(value)).expect("a value is JSON")
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut members: Vec<(&String, &Value)> = map.iter().collect();
            members.sort_by_key(|(key, _)| *key);
            members.into_iter().map(|(key, value)| (key.clone(), sorted(value))).collect()
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        other => other.clone(),
    }
}

fn diff(wanted: &str, found: &str) -> String {
    let (wanted, found) = (format!("{wanted}\n"), format!("{found}\n"));
    let diff = TextDiff::from_lines(&wanted, &found);
    diff.unified_diff().context_radius(3).header("expected", "found").to_string().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_compared_as_numbers_and_members_in_any_order() {
        assert!(same(&json!({ "a": 1, "b": [2.0] }), &json!({ "b": [2], "a": 1.0 })));
        assert!(!same(&json!({ "a": 1 }), &json!({ "a": 1, "b": null })));
        assert!(!same(&json!("1"), &json!(1)));
    }

    #[test]
    fn a_difference_is_shown_line_by_line() {
        let shown = diff(&pretty(&json!({ "b": 1, "a": 2 })), &pretty(&json!({ "a": 2, "b": 3 })));
        assert!(
            shown.contains("-  \"b\": 1") && shown.contains("+  \"b\": 3") && shown.contains("   \"a\": 2"),
            "{shown}"
        );
    }
}
