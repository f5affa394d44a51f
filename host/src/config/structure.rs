//! Fields that are unknown, missing or of the wrong type: all of them, each in words, from the JSON Schema that is
//! derived from the types. Asked only when a file could not be read, because serde stops at the first.

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind;
use serde_json::Value;

use super::mistakes::Wrong;

/// Everything in `file` that does not fit `schema`.
pub fn wrongs(schema: &Value, file: &Value) -> Vec<Wrong> {
    let validator = jsonschema::validator_for(schema).expect("a derived schema is a valid one");
    let mut found = vec![];
    for error in validator.iter_errors(file) {
        explain(schema, file, &error, &mut found);
    }
    found
}

fn explain(schema: &Value, file: &Value, error: &ValidationError<'_>, found: &mut Vec<Wrong>) {
    let pointer = error.instance_path().to_string();
    let at: Vec<String> = pointer.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~")).collect();
    let expected = at.iter().fold(schema, |inner, step| step_into(schema, inner, step));
    let expected = resolve(schema, expected);
    let value = file.pointer(&pointer).unwrap_or(&Value::Null);
    let wrong = |at: Vec<String>, what: String, remedy: String| Wrong { at, what, remedy };
    match error.kind() {
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            for name in unexpected {
                let mut at = at.clone();
                at.push(name.clone());
                found.push(wrong(at, "there is no such field".into(), did_you_mean(name, &fields(expected))));
            }
        }
        ValidationErrorKind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            let about = expected["properties"][name]["description"].as_str().unwrap_or_default();
            let about = about.split(". ").next().unwrap_or_default().trim_end_matches('.').replace('\n', " ");
            let remedy = if about.is_empty() { format!("Add `{name}`.") } else { format!("Add `{name}`: {about}.") };
            found.push(wrong(at, format!("`{name}` is missing"), remedy));
        }
        // An optional table is "that, or null"; what is wrong with it is what is wrong with that.
        ValidationErrorKind::AnyOf { context } if value.is_object() => {
            for inner in context.first().into_iter().flatten() {
                explain(schema, file, inner, found);
            }
        }
        ValidationErrorKind::Minimum { limit } => {
            found.push(wrong(at, format!("{value} is less than {limit}"), "Write a larger number.".into()));
        }
        ValidationErrorKind::Maximum { limit } => {
            found.push(wrong(at, format!("{value} is more than {limit}"), "Write a smaller number.".into()));
        }
        _ => {
            let choices = choices(expected);
            let (what, remedy) = match choices.is_empty() {
                false => (format!("{value} is none of the choices"), format!("Write one of {}.", choices.join(", "))),
                true => (format!("it is {}", kind_of(value)), format!("Write {}.", wanted(expected))),
            };
            found.push(wrong(at, what, remedy));
        }
    }
}

/// The schema of a field or an element.
fn step_into<'s>(root: &'s Value, schema: &'s Value, step: &str) -> &'s Value {
    let schema = resolve(root, schema);
    [&schema["properties"][step], &schema["additionalProperties"], &schema["items"]]
        .into_iter()
        .find(|inner| inner.is_object())
        .unwrap_or(&Value::Null)
}

fn resolve<'s>(root: &'s Value, schema: &'s Value) -> &'s Value {
    let optional = schema["anyOf"].as_array().and_then(|either| either.first());
    match optional.unwrap_or(schema)["$ref"].as_str() {
        Some(reference) => root.pointer(reference.trim_start_matches('#')).unwrap_or(schema),
        None => schema,
    }
}

fn fields(schema: &Value) -> Vec<&str> {
    schema["properties"].as_object().map(|all| all.keys().map(String::as_str).collect()).unwrap_or_default()
}

/// The values that an enumeration allows, quoted.
fn choices(schema: &Value) -> Vec<String> {
    let listed = schema["enum"].as_array().cloned().unwrap_or_default();
    let described = schema["oneOf"].as_array().cloned().unwrap_or_default();
    let described = described.iter().map(|one| one["const"].clone()).filter(|one| !one.is_null());
    listed.into_iter().chain(described).map(|one| one.to_string()).collect()
}

fn did_you_mean(name: &str, known: &[&str]) -> String {
    match similar::get_close_matches(name, known, 1, 0.7).first() {
        Some(close) => format!("Did you mean `{close}`?"),
        None => format!("Remove it; known are {}.", known.join(", ")),
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a table",
    }
}

fn wanted(schema: &Value) -> &'static str {
    let name = schema["type"].as_str().or_else(|| schema["type"][0].as_str()).unwrap_or_default();
    match name {
        "boolean" => "true or false, without quotes",
        "integer" => "a whole number, without quotes",
        "string" => "text, in quotes",
        "array" => "a list of texts, such as [\"GET\"]",
        _ => "a table of fields",
    }
}
