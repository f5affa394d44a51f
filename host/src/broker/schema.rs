//! JSON Schemas of tools, compiled once when a plugin is loaded.
//!
//! 2020-12 unless `$schema` names draft-07 (MCP 2025-11-25, JSON Schema usage). References stay inside the document: the
//! validator is built without any way to fetch. Patterns run on a linear-time engine, and what references can multiply is
//! bounded before a value is looked at ([`cost`]), so that no argument can make a check take long.

mod cost;
mod graph;

use cost::Cost;
use jsonschema::error::ValidationErrorKind;
use jsonschema::{Draft, PatternOptions, ValidationError, Validator};
use serde_json::Value;

/// A schema that values can be checked against.
#[derive(Debug)]
pub struct Schema {
    validator: Validator,
    cost: Cost,
}

/// What was wrong, and where.
#[derive(Debug)]
pub struct Violation {
    /// JSON pointer into the checked value; empty for the value itself.
    pub pointer: String,
    pub message: String,
}

/// Longest message; messages quote the offending value.
const MAX_MESSAGE_CHARS: usize = 300;

/// The error is a sentence without its subject, which is the schema.
pub fn compile(schema: &Value) -> Result<Schema, String> {
    let cost = Cost::of(schema)?;
    let draft = match schema.get("$schema").and_then(Value::as_str).map(|s| s.trim_end_matches('#')) {
        None | Some("https://json-schema.org/draft/2020-12/schema") => Draft::Draft202012,
        Some("http://json-schema.org/draft-07/schema" | "https://json-schema.org/draft-07/schema") => Draft::Draft7,
        Some(other) => return Err(format!("is of dialect {other}; 2020-12 and draft-07 are supported")),
    };
    let validator = jsonschema::options()
        .with_draft(draft)
        .with_pattern_options(PatternOptions::regex())
        .build(schema)
        .map_err(|error| format!("is not a valid schema: {}", clip(&error.to_string())))?;
    Ok(Schema { validator, cost })
}

/// The first violation, if any.
pub fn check(schema: &Schema, value: &Value) -> Result<(), Violation> {
    if !schema.cost.allows(value) {
        let message = "The value is too large, or nested too deeply, to be checked against this schema.".into();
        return Err(Violation { pointer: String::new(), message });
    }
    match schema.validator.validate(value) {
        Ok(()) => Ok(()),
        Err(error) => {
            Err(Violation { pointer: error.instance_path().to_string(), message: clip(&message(&error, value)) })
        }
    }
}

/// The library's words, but for a member that an object may not have: where an object takes none at all, it says only
/// that a false schema allows nothing.
fn message(error: &ValidationError<'_>, value: &Value) -> String {
    let taken_none = matches!(error.kind(), ValidationErrorKind::FalseSchema)
        && error.schema_path().as_str().ends_with("/additionalProperties");
    let object = value.pointer(error.instance_path().as_str()).and_then(Value::as_object).filter(|_| taken_none);
    match object {
        Some(object) => {
            let names: Vec<String> = object.keys().map(|name| format!("'{name}'")).collect();
            format!("Additional properties are not allowed ({} unexpected)", names.join(", "))
        }
        None => error.to_string(),
    }
}

fn clip(text: &str) -> String {
    text.chars().take(MAX_MESSAGE_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_violation_names_the_place() {
        let validator = compile(
            &json!({ "type": "object", "properties": { "a": { "type": "array", "items": { "type": "integer" } } } }),
        )
        .unwrap();
        let violation = check(&validator, &json!({ "a": [1, "x"] })).unwrap_err();
        assert_eq!(violation.pointer, "/a/1");
    }

    #[test]
    fn a_member_too_many_is_named() {
        for properties in [json!({}), json!({ "a": { "type": "string" } })] {
            let validator =
                compile(&json!({ "type": "object", "properties": properties, "additionalProperties": false })).unwrap();
            let violation = check(&validator, &json!({ "b": 1 })).unwrap_err();
            assert!(violation.message.contains("'b'"), "{}", violation.message);
        }
    }

    #[test]
    fn schemas_that_need_the_network_or_another_dialect_are_refused() {
        assert!(
            compile(&json!({ "type": "object", "properties": { "a": { "$ref": "https://example.com/s.json" } } }))
                .is_err()
        );
        assert!(compile(&json!({ "$schema": "http://json-schema.org/draft-04/schema#", "type": "object" })).is_err());
        assert!(compile(&json!({ "$schema": "http://json-schema.org/draft-07/schema#", "type": "object" })).is_ok());
    }

    #[test]
    fn a_catastrophic_pattern_is_refused_or_quick() {
        let Ok(validator) =
            compile(&json!({ "type": "object", "properties": { "a": { "type": "string", "pattern": "^(a+)+$" } } }))
        else {
            return;
        };
        let started = std::time::Instant::now();
        let _ = check(&validator, &json!({ "a": format!("{}b", "a".repeat(50_000)) }));
        assert!(started.elapsed().as_millis() < 500);
    }
}
