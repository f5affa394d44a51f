//! What a person is asked before a destructive call runs, and which answers count as yes.
//!
//! The text is made of a plugin's words and an agent's arguments, and is read by somebody who is about to trust it: every
//! argument is named, each is bounded, and nothing can break out of its line. Source: MCP 2025-11-25, elicitation.

use serde_json::{Map, Value, json};

use crate::error::{Error, Reason, Result};
use crate::model::{ElicitAnswer, Form, Tool, is_hidden};

const FIELD: &str = "confirm";
const MAX_TITLE_CHARS: usize = 120;
const MAX_NAME_CHARS: usize = 64;
/// Shared by all values, so that a call with few arguments shows them whole.
const MAX_VALUES_CHARS: usize = 2_100;
/// Arguments that are shown; how many there are beyond is said.
const MAX_SHOWN: usize = 12;

pub fn form(tool: &Tool, arguments: &Map<String, Value>) -> Result<Form> {
    let schema = json!({
        "type": "object",
        "properties": { FIELD: {
            "type": "boolean",
            "title": "Go ahead",
            "description": "Yes: the tool is called once, with exactly these arguments.",
            "default": false,
        } },
        "required": [FIELD],
    });
    Form::new(&message(tool, arguments), schema)
        .map_err(|why| Error::new(Reason::Internal, "The question to the user could not be made.").detail(why))
}

fn message(tool: &Tool, arguments: &Map<String, Value>) -> String {
    let effect = match tool.annotations.destructive {
        true => "changes things for good",
        false => "acts outside of CyberOS",
    };
    let mut text = format!("{} ({}) {effect}.", shown(&tool.title, MAX_TITLE_CHARS), tool.name);
    text.push_str(if arguments.is_empty() { " It is called without arguments." } else { " It is called with:" });
    let (mut left, mut lines_left) = (MAX_VALUES_CHARS, arguments.len().min(MAX_SHOWN));
    for (name, value) in arguments.iter().take(MAX_SHOWN) {
        let value = shown(&value.to_string(), left / lines_left);
        left = left.saturating_sub(value.chars().count());
        lines_left -= 1;
        text.push_str(&format!("\n- {}: {value}", shown_name(name)));
    }
    if arguments.len() > MAX_SHOWN {
        text.push_str(&format!("\n- and {} more", arguments.len() - MAX_SHOWN));
    }
    text
}

/// A name that could be taken for more than a name is shown as the JSON string that it is.
fn shown_name(name: &str) -> String {
    let is_word = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b));
    let name = if is_word { name.to_owned() } else { Value::from(name).to_string() };
    shown(&name, MAX_NAME_CHARS)
}

/// On one line and bounded. What would move or hide other text is spelt out, because the call is made with it; of what is
/// too long both ends are there.
fn shown(text: &str, most: usize) -> String {
    let spelt: Vec<char> = text.chars().flat_map(spelt).collect();
    let Some(left_out) = spelt.len().checked_sub(most).filter(|left_out| *left_out > 0) else {
        return spelt.into_iter().collect();
    };
    let (head, tail) = (most - most / 3, most / 3);
    let part = |chars: &[char]| chars.iter().collect::<String>();
    format!("{}… ({left_out} characters left out) …{}", part(&spelt[..head]), part(&spelt[spelt.len() - tail..]))
}

fn spelt(c: char) -> impl Iterator<Item = char> {
    let escaped = (c.is_control() || is_hidden(c)).then(|| format!("\\u{{{:x}}}", u32::from(c)));
    let kept = escaped.is_none().then_some(c);
    kept.into_iter().chain(escaped.unwrap_or_default().chars().collect::<Vec<_>>())
}

/// Yes is an accepted form with `confirm` set. All else is no; only a person's own no is `user_declined`.
pub fn agreed(tool: &Tool, answer: Result<ElicitAnswer>) -> Result<()> {
    let declined = || Error::new(Reason::UserDeclined, format!("The user declined to run {}.", tool.name));
    let unanswered = |why: &str| {
        Error::new(Reason::ConfirmationRequired, format!("Tool {} was not run: {why}.", tool.name)).hint(
            "Nothing was done. Ask whether the user wants it, then call again; the user is then asked to confirm.",
        )
    };
    match answer {
        Ok(ElicitAnswer::Accept(fields)) if fields.get(FIELD) == Some(&Value::Bool(true)) => Ok(()),
        Ok(ElicitAnswer::Accept(_) | ElicitAnswer::Decline) => Err(declined()),
        Ok(ElicitAnswer::Cancel) => Err(unanswered("the user closed the question without a choice")),
        Err(error) => Err(match error.reason() {
            Reason::UserDeclined => declined(),
            Reason::Timeout => unanswered("nobody confirmed it in time"),
            Reason::BadResponse | Reason::ClientUnsupported | Reason::Unreachable => {
                unanswered("the client did not get an answer from its user").detail(format!("{error:?}"))
            }
            // Cancelled, draining, too many questions, no store: these say what they are.
            _ => error,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Annotations, TaskSupport, ToolName};

    fn tool() -> Tool {
        Tool {
            name: ToolName::parse("test.delete").unwrap(),
            title: "Delete\na \u{202e}note".into(),
            description: String::new(),
            input_schema: json!({}),
            output_schema: None,
            annotations: Annotations {
                read_only: false,
                destructive: true,
                idempotent: false,
                open_world: false,
                write: true,
                external_effect: false,
            },
            scopes: vec![],
            task_support: TaskSupport::Optional,
            idempotent_task: false,
            icons: vec![],
            meta: None,
        }
    }

    #[test]
    fn every_argument_is_named_and_none_breaks_out_of_its_line() {
        let Value::Object(arguments) = json!({
            "body": format!("{}rm -rf /", "x".repeat(5_000)),
            "path": "a\n- Harmless: \u{202e}yes\u{2028}- more\u{7f}",
        }) else {
            unreachable!()
        };
        let form = form(&tool(), &arguments).unwrap();
        let lines: Vec<&str> = form.message().lines().collect();
        assert_eq!(lines.len(), 3, "{lines:#?}");
        assert!(
            lines[0].starts_with(r"Delete\u{a}a \u{202e}note (test.delete) changes things for good"),
            "{}",
            lines[0]
        );
        assert!(lines[1].contains("characters left out) …xxx") && lines[1].ends_with("-rf /\""), "{}", lines[1]);
        assert_eq!(lines[2], r#"- path: "a\n- Harmless: \u{202e}yes\u{2028}- more\u{7f}""#);
        assert!(!form.message().chars().any(is_hidden));
    }

    #[test]
    fn what_fits_is_shown_whole_and_exactly() {
        let sql = format!("select '{}'; drop table notes", "y".repeat(1_500));
        let Value::Object(arguments) = json!({ "a: 1\n- b": 2, "host": "pay\u{200b}pal.com", "sql": sql }) else {
            unreachable!()
        };
        let form = form(&tool(), &arguments).unwrap();
        let lines: Vec<&str> = form.message().lines().collect();
        assert_eq!(lines[1], r#"- "a: 1\n- b": 2"#);
        assert_eq!(lines[2], r#"- host: "pay\u{200b}pal.com""#);
        assert_eq!(lines[3], format!("- sql: {}", Value::from(sql)));
    }

    #[test]
    fn a_call_with_hundreds_of_arguments_makes_a_short_question() {
        let arguments =
            (0..500).map(|n| (format!("argument {n} {}", "é".repeat(200)), json!("y".repeat(1_000)))).collect();
        let form = form(&tool(), &arguments).unwrap();
        assert!(form.message().ends_with("- and 488 more"), "{}", form.message());
    }

    #[test]
    fn only_a_clear_yes_is_a_yes() {
        let accept = |fields: Value| Ok(ElicitAnswer::Accept(fields.as_object().unwrap().clone()));
        agreed(&tool(), accept(json!({ "confirm": true }))).unwrap();
        let refused = |answer| agreed(&tool(), answer).unwrap_err().reason();
        for no in [accept(json!({ "confirm": false })), accept(json!({})), accept(json!({ "confirm": "true" }))] {
            assert_eq!(refused(no), Reason::UserDeclined);
        }
        assert_eq!(refused(Ok(ElicitAnswer::Decline)), Reason::UserDeclined);
        assert_eq!(refused(Ok(ElicitAnswer::Cancel)), Reason::ConfirmationRequired);
        for silent in [Reason::Timeout, Reason::BadResponse, Reason::Unreachable, Reason::ClientUnsupported] {
            assert_eq!(refused(Err(Error::new(silent, "no"))), Reason::ConfirmationRequired);
        }
        assert_eq!(refused(Err(Error::new(Reason::Cancelled, "no"))), Reason::Cancelled);
    }
}
