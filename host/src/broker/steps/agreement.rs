//! What a person is asked before a destructive call runs, and which answers count as yes.
//!
//! The text is made of a plugin's words and an agent's arguments, and is read by somebody who is about to trust it: every
//! argument is named, each is bounded, and nothing can break out of its line. Source: MCP 2025-11-25, elicitation.

use serde_json::{Map, Value, json};

use crate::error::{Error, Reason, Result};
use crate::model::{ElicitAnswer, Form, Tool};

const FIELD: &str = "confirm";
const MAX_TITLE_CHARS: usize = 120;
const MAX_NAME_CHARS: usize = 64;
const MAX_VALUE_CHARS: usize = 160;
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
    for (name, value) in arguments.iter().take(MAX_SHOWN) {
        let (name, value) = (shown(name, MAX_NAME_CHARS), shown(&value.to_string(), MAX_VALUE_CHARS));
        text.push_str(&format!("\n- {name}: {value}"));
    }
    if arguments.len() > MAX_SHOWN {
        text.push_str(&format!("\n- and {} more", arguments.len() - MAX_SHOWN));
    }
    text
}

/// On one line, bounded, and with nothing in it that moves or hides other text.
fn shown(text: &str, most: usize) -> String {
    let plain = |c: &char| !c.is_control() && !is_invisible(*c);
    let mut visible = text.chars().filter(plain);
    let mut kept: String = visible.by_ref().take(most).collect();
    let left_out = visible.count();
    if left_out > 0 {
        kept.push_str(&format!("… ({left_out} characters more)"));
    }
    kept
}

/// Line separators, zero widths, and marks that turn the direction of text.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
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
            "body": "x".repeat(5_000),
            "path": "a\n- Harmless: \u{202e}yes\u{2028}- more\u{7f}",
        }) else {
            unreachable!()
        };
        let form = form(&tool(), &arguments).unwrap();
        let lines: Vec<&str> = form.message().lines().collect();
        assert_eq!(lines.len(), 3, "{lines:#?}");
        assert!(lines[0].starts_with("Deletea note (test.delete) changes things for good"), "{}", lines[0]);
        assert!(lines[1].starts_with("- body: \"xxx") && lines[1].ends_with("characters more)"), "{}", lines[1]);
        assert_eq!(lines[2], r#"- path: "a\n- Harmless: yes- more""#);
        assert!(!form.message().chars().any(is_invisible));
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
