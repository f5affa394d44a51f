//! Tools that turn to the client behind the call: its model, and the user with forms. The schemas are written by hand,
//! because the suite compares them with what the specification shows, defaults and old forms of choices included.

use cyberos_plugin_sdk::prelude::*;
use cyberos_plugin_sdk::{ask, elicit};

use crate::content::answer;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PromptArguments {
    /// The prompt to send to the model.
    prompt: String,
}

fixture!(Sampling, "test_sampling", "Sampling", "Asks the model of the client, and returns what it said.",
PromptArguments => ToolResult, |arguments| {
    let said = ask::model(&arguments.prompt, 100)?;
    Ok(answer(vec![text(format!("LLM response: {said}"))]))
});

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MessageArguments {
    /// The message to show the user.
    message: String,
}

fixture!(Elicitation, "test_elicitation", "Elicitation", "Asks the user for a name and an address, and returns both.",
MessageArguments => ToolResult, |arguments| {
    let fields = json!({
        "username": { "type": "string", "description": "User's response" },
        "email": { "type": "string", "description": "User's email address" },
    });
    asked("User response", &arguments.message, &fields, &["username", "email"])
});

fixture!(ElicitationDefaults, "test_elicitation_sep1034_defaults", "Elicitation with defaults",
"Asks the user with a form in which every kind of field has a default (SEP-1034).",
NoArguments => ToolResult, |_| {
    let fields = json!({
        "name": { "type": "string", "description": "User name", "default": "John Doe" },
        "age": { "type": "integer", "description": "User age", "default": 30 },
        "score": { "type": "number", "description": "User score", "default": 95.5 },
        "status": {
            "type": "string",
            "description": "User status",
            "enum": ["active", "inactive", "pending"],
            "default": "active",
        },
        "verified": { "type": "boolean", "description": "Verification status", "default": true },
    });
    asked("Elicitation completed", "Please review the form that is filled in for you.", &fields, &[])
});

fixture!(ElicitationEnums, "test_elicitation_sep1330_enums", "Elicitation with choices",
"Asks the user with a form that has every kind of choice, one that is no longer recommended included (SEP-1330).",
NoArguments => ToolResult, |_| {
    let options = ["option1", "option2", "option3"];
    let titled = |titles: [&str; 3]| {
        let choices = titles.iter().zip(1..).map(|(title, n)| json!({ "const": format!("value{n}"), "title": title }));
        choices.collect::<Vec<_>>()
    };
    let fields = json!({
        "untitledSingle": { "type": "string", "enum": options },
        "titledSingle": { "type": "string", "oneOf": titled(["First Option", "Second Option", "Third Option"]) },
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": { "type": "array", "items": { "type": "string", "enum": options } },
        "titledMulti": {
            "type": "array",
            "items": { "anyOf": titled(["First Choice", "Second Choice", "Third Choice"]) },
        },
    });
    asked("Elicitation completed", "Please choose.", &fields, &[])
});

/// Shows the form and tells what came of it. Without content there is `{}`.
fn asked(what: &str, message: &str, fields: &Value, required: &[&str]) -> Result<ToolResult, ToolError> {
    let schema = json!({ "type": "object", "properties": fields, "required": required });
    let (action, content) = match elicit::form(message, &schema.to_string())? {
        elicit::Answer::Accept(content) => ("accept", content),
        elicit::Answer::Decline => ("decline", "{}".into()),
        elicit::Answer::Cancel => ("cancel", "{}".into()),
    };
    Ok(answer(vec![text(format!("{what}: action={action}, content={content}"))]))
}
