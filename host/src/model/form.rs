//! A form that a plugin, or a gate, may show to a user: what may be asked, and whether an answer fits.
//!
//! Only a flat object of simple fields, and nothing that asks for a secret: a form's answer passes through the client and
//! its model. Source: MCP 2025-11-25, elicitation, requested schema and security.

use jsonschema::{PatternOptions, Validator};
use serde_json::{Map, Value};
use std::fmt;
use std::sync::Arc;

use super::hidden::is_plain;

/// A message and the fields to fill in. Making one checks it.
#[derive(Clone)]
pub struct Form {
    message: String,
    schema: Map<String, Value>,
    check: Arc<Validator>,
}

/// Most fields of one form; a longer one is not answered with care.
const MAX_FIELDS: usize = 32;
/// A plugin may say 4 000; who it is comes on top.
const MAX_MESSAGE_CHARS: usize = 4_200;

impl Form {
    /// `Err` says, for the plugin's author, what is wrong with the schema.
    pub fn new(message: &str, schema: Value) -> Result<Form, String> {
        if message.trim().is_empty() || message.chars().count() > MAX_MESSAGE_CHARS {
            return Err(format!("the message must have 1 to {MAX_MESSAGE_CHARS} characters"));
        }
        if !is_plain(message) {
            return Err("the message holds control or invisible characters".into());
        }
        let Value::Object(schema) = schema else { return Err("the schema must be an object".into()) };
        check_object(&schema)?;
        let whole = Value::Object(schema.clone());
        let check = jsonschema::options()
            .with_draft(jsonschema::Draft::Draft202012)
            .should_validate_formats(true)
            // Linear in the answer, whatever the pattern.
            .with_pattern_options(PatternOptions::regex())
            .build(&whole)
            .map_err(|error| format!("the schema is not valid: {error}"))?;
        Ok(Form { message: message.to_owned(), schema, check: Arc::new(check) })
    }

    pub fn message(&self) -> &str {
        &self.message
    }

    /// As it was given: a JSON Schema of type `object`.
    pub fn schema(&self) -> Value {
        Value::Object(self.schema.clone())
    }

    /// The fields that were asked for, if they are as asked; what else the client sent is dropped.
    pub fn accept(&self, mut content: Map<String, Value>) -> Result<Map<String, Value>, String> {
        let fields = self.schema.get("properties").and_then(Value::as_object);
        content.retain(|name, _| fields.is_some_and(|fields| fields.contains_key(name)));
        let content = Value::Object(content);
        if let Err(error) = self.check.validate(&content) {
            return Err(format!("{}: {}", error.instance_path(), error.masked()));
        }
        let Value::Object(content) = content else { unreachable!("it was made of an object") };
        Ok(content)
    }
}

impl fmt::Debug for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Form({:?}, {} fields)", self.message, self.schema.len())
    }
}

fn check_object(schema: &Map<String, Value>) -> Result<(), String> {
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        return Err("the schema must have \"type\": \"object\"".into());
    }
    only(schema, "the schema", &["$schema", "type", "title", "description", "properties", "required"])?;
    check_texts("the schema", schema)?;
    // The client gets it, and may go and look.
    let is_known = |dialect: &Value| dialect.as_str().is_some_and(|d| d.contains("://json-schema.org/"));
    if schema.get("$schema").is_some_and(|dialect| !is_known(dialect)) {
        return Err("$schema is none of JSON Schema's own".into());
    }
    let Some(fields) = schema.get("properties").and_then(Value::as_object) else {
        return Err("the schema must have properties".into());
    };
    if fields.len() > MAX_FIELDS {
        return Err(format!("a form has at most {MAX_FIELDS} fields"));
    }
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    if let Some(stray) = required.filter_map(Value::as_str).find(|name| !fields.contains_key(*name)) {
        return Err(format!("{stray:?} is required and is not a field"));
    }
    fields.iter().try_for_each(|(name, field)| check_field(name, field))
}

fn check_field(name: &str, field: &Value) -> Result<(), String> {
    let Some(field) = field.as_object() else { return Err(format!("field {name:?} must be a schema object")) };
    let place = format!("field {name:?}");
    check_texts(&place, field)?;
    if let Some(secret) = asks_for_a_secret(name) {
        return Err(secretive(&place, secret));
    }
    if !is_plain(name) || field.get("default").is_some_and(|value| !is_simple(value)) {
        return Err(format!("{place}: its name or its default is not plain"));
    }
    const COMMON: [&str; 4] = ["type", "title", "description", "default"];
    let with = |more: &[&'static str]| COMMON.iter().chain(more).copied().collect::<Vec<_>>();
    match field.get("type").and_then(Value::as_str) {
        Some("string") if field.contains_key("oneOf") => {
            only(field, &place, &with(&["oneOf"]))?;
            check_titled(&place, &field["oneOf"])
        }
        Some("string") if field.contains_key("enum") => {
            only(field, &place, &with(&["enum", "enumNames"]))?;
            check_words(&place, &field["enum"])
        }
        Some("string") => {
            only(field, &place, &with(&["minLength", "maxLength", "pattern", "format"]))?;
            match field.get("format").map(Value::as_str) {
                None | Some(Some("email" | "uri" | "date" | "date-time")) => Ok(()),
                Some(_) => Err(format!("{place}: format must be email, uri, date or date-time")),
            }
        }
        Some("number" | "integer") => only(field, &place, &with(&["minimum", "maximum"])),
        Some("boolean") => only(field, &place, &COMMON),
        Some("array") => {
            only(field, &place, &with(&["items", "minItems", "maxItems"]))?;
            match field.get("items").and_then(Value::as_object) {
                Some(items) if items.contains_key("anyOf") => {
                    only(items, &place, &["anyOf"])?;
                    check_titled(&place, &items["anyOf"])
                }
                Some(items) if items.contains_key("enum") => {
                    only(items, &place, &["type", "enum"])?;
                    if items.get("type").is_some_and(|of| of != "string") {
                        return Err(format!("{place}: what can be chosen are strings"));
                    }
                    check_words(&place, &items["enum"])
                }
                _ => Err(format!("{place}: items must list what can be chosen (enum or anyOf)")),
            }
        }
        _ => Err(format!("{place} must be a string, a number, an integer, a boolean, or an array of choices")),
    }
}

fn only(schema: &Map<String, Value>, place: &str, allowed: &[&str]) -> Result<(), String> {
    match schema.keys().find(|key| !allowed.contains(&key.as_str())) {
        Some(key) => Err(format!("{place} has {key:?}, which a form cannot have")),
        None => Ok(()),
    }
}

/// What is shown of a form or of a field.
fn check_texts(place: &str, schema: &Map<String, Value>) -> Result<(), String> {
    for key in ["title", "description"] {
        let Some(text) = schema.get(key) else { continue };
        let text = text.as_str().filter(|text| is_plain(text));
        let text = text.ok_or_else(|| format!("{place}: {key} is no text without control or invisible characters"))?;
        if let Some(secret) = asks_for_a_secret(text) {
            return Err(secretive(place, secret));
        }
    }
    Ok(())
}

fn secretive(place: &str, secret: &str) -> String {
    format!("{place} seems to ask for a secret ({secret}); send the user to a URL instead")
}

/// What a simple field can be filled with beforehand.
fn is_simple(value: &Value) -> bool {
    match value {
        Value::String(text) => is_plain(text),
        Value::Array(choices) => choices.iter().all(|choice| choice.as_str().is_some_and(is_plain)),
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
        Value::Object(_) => false,
    }
}

fn check_words(place: &str, choices: &Value) -> Result<(), String> {
    let is_choice = |word: &Value| word.as_str().is_some_and(is_plain);
    let words = choices.as_array().filter(|words| !words.is_empty() && words.iter().all(is_choice));
    words.map(|_| ()).ok_or_else(|| format!("{place}: enum must be a list of strings"))
}

fn check_titled(place: &str, choices: &Value) -> Result<(), String> {
    let is_choice = |choice: &Value| {
        let text = |key: &str| choice[key].as_str().is_some_and(is_plain);
        text("const") && text("title") && choice.as_object().is_some_and(|choice| choice.len() == 2)
    };
    let choices = choices.as_array().filter(|choices| !choices.is_empty() && choices.iter().all(is_choice));
    choices.map(|_| ()).ok_or_else(|| format!("{place}: each choice has a const and a title, and nothing else"))
}

/// The word that gives it away. A plugin may phrase around this list; the list keeps honest authors from a mistake and
/// makes the dishonest ones visible, and the client shows its user who is asking.
fn asks_for_a_secret(text: &str) -> Option<&'static str> {
    const SECRETS: [&str; 22] = [
        "password",
        "passwd",
        "passphrase",
        "passcode",
        "secret",
        "credential",
        "apikey",
        "accesskey",
        "privatekey",
        "accesstoken",
        "authtoken",
        "bearertoken",
        "refreshtoken",
        "sessiontoken",
        "creditcard",
        "cardnumber",
        "cvv",
        "cvc",
        "pincode",
        "seedphrase",
        "socialsecurity",
        "onetimecode",
    ];
    const ALONE: [&str; 5] = ["token", "pin", "ssn", "otp", "iban"];
    let lower = text.to_lowercase();
    let joined: String = lower.chars().filter(|c| c.is_alphanumeric()).collect();
    let found = SECRETS.into_iter().find(|secret| joined.contains(secret));
    found.or_else(|| ALONE.into_iter().find(|word| lower.split(|c: char| !c.is_alphanumeric()).any(|w| w == *word)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn form(fields: Value) -> Result<Form, String> {
        Form::new("Please fill this in.", json!({ "type": "object", "properties": fields }))
    }

    #[test]
    fn every_simple_field_of_the_specification_is_let_through() {
        form(json!({
            "name": { "type": "string", "title": "Name", "minLength": 1, "default": "Ann" },
            "mail": { "type": "string", "format": "email" },
            "age": { "type": "integer", "minimum": 0, "maximum": 150 },
            "ok": { "type": "boolean", "default": true },
            "plain": { "type": "string", "enum": ["a", "b"] },
            "old": { "type": "string", "enum": ["a"], "enumNames": ["A"] },
            "titled": { "type": "string", "oneOf": [{ "const": "a", "title": "A" }] },
            "many": { "type": "array", "items": { "type": "string", "enum": ["a"] }, "minItems": 1 },
            "many_titled": { "type": "array", "items": { "anyOf": [{ "const": "a", "title": "A" }] } },
        }))
        .unwrap();
    }

    #[test]
    fn nested_fields_references_and_open_arrays_are_refused() {
        for bad in [
            json!({ "type": "object", "properties": {} }),
            json!({ "type": "array", "items": { "type": "string" } }),
            json!({ "$ref": "#/x" }),
            json!({ "type": "string", "format": "password" }),
            json!({ "type": "string", "default": { "a": {} } }),
            json!({ "type": "string", "oneOf": [{ "const": "a", "title": "A", "properties": {} }] }),
            json!({ "type": "array", "items": { "enum": ["a"], "$ref": "#/properties/x" } }),
            json!({ "type": "array", "items": { "type": "object", "enum": ["a"] } }),
            json!({ "type": "array", "items": { "anyOf": [{ "const": "a", "title": "A" }], "properties": {} } }),
            json!({ "type": "string", "allOf": [] }),
            json!(true),
        ] {
            form(json!({ "field": bad })).unwrap_err();
        }
    }

    #[test]
    fn a_form_that_asks_for_a_secret_is_refused() {
        for name in ["password", "API key", "api_key", "user_secret", "access-token", "pin", "Credit card", "OTP"] {
            let why = form(json!({ name: { "type": "string" } })).unwrap_err();
            assert!(why.contains("secret"), "{name}: {why}");
        }
        let hidden = json!({ "x": { "type": "string", "description": "Your GitHub password, please" } });
        form(hidden).unwrap_err();
        for fine in ["shipping", "opinion", "tokenizer", "pinned"] {
            form(json!({ fine: { "type": "string" } })).unwrap_or_else(|why| panic!("{fine}: {why}"));
        }
    }

    #[test]
    fn a_form_shows_all_that_it_says_and_is_never_a_secret_as_a_whole() {
        let whole = |title: &str| {
            let schema = json!({ "type": "object", "title": title, "properties": { "x": { "type": "string" } } });
            Form::new("Please.", schema)
        };
        whole("Where it goes").unwrap();
        whole("Your password").unwrap_err();
        let of =
            |dialect: &str| Form::new("Please.", json!({ "type": "object", "$schema": dialect, "properties": {} }));
        of("https://json-schema.org/draft/2020-12/schema").unwrap();
        of("http://example.com/schema").unwrap_err();
        whole("Wh\u{202e}ere").unwrap_err();
        for bad in [
            json!({ "type": "string", "title": "a\u{200b}b" }),
            json!({ "type": "string", "title": 1 }),
            json!({ "type": "string", "enum": ["a\u{e0041}"] }),
            json!({ "type": "string", "default": "\u{1b}[2J" }),
            json!({ "type": "string", "oneOf": [{ "const": "a", "title": "\u{202e}A" }] }),
        ] {
            form(json!({ "field": bad })).unwrap_err();
        }
        form(json!({ "a\u{202e}b": { "type": "string" } })).unwrap_err();
        let fields = json!({ "type": "object", "properties": {} });
        Form::new("Fine\r\u{1b}[2K", fields.clone()).unwrap_err();
        Form::new("First line\nsecond", fields).unwrap();
    }

    #[test]
    fn no_pattern_takes_more_time_than_its_answer_is_long() {
        let schema = |pattern: &str| json!({ "x": { "type": "string", "pattern": pattern } });
        form(schema("(?=a)(a|aa)+\\1$")).unwrap_err();
        let form = form(schema("^(a|aa)+$")).unwrap();
        let started = std::time::Instant::now();
        let answer = json!({ "x": format!("{}!", "a".repeat(100_000)) });
        form.accept(answer.as_object().unwrap().clone()).unwrap_err();
        assert!(started.elapsed().as_secs() < 2, "{:?}", started.elapsed());
    }

    #[test]
    fn an_answer_is_checked_and_keeps_only_what_was_asked_for() {
        let form = form(json!({ "age": { "type": "integer", "minimum": 18 } })).unwrap();
        let answer = |value: Value| form.accept(value.as_object().unwrap().clone());
        assert_eq!(answer(json!({ "age": 20, "more": 1 })).unwrap(), *json!({ "age": 20 }).as_object().unwrap());
        answer(json!({ "age": 3 })).unwrap_err();
        answer(json!({ "age": "20" })).unwrap_err();
    }
}
