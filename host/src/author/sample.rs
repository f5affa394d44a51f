//! Arguments that a schema would accept, made from the schema alone, for a first call of a tool that has no case yet.
//! They are checked by the caller: what cannot be guessed is not called.

use serde_json::{Map, Value, json};

/// Nested deeper than this is not guessed.
const DEEPEST: usize = 16;

/// The required members, each as simple as its schema allows. `None`: nothing was found that could fit.
pub fn arguments(schema: &Value) -> Option<Map<String, Value>> {
    match value(schema, schema, DEEPEST)? {
        Value::Object(map) => Some(map),
        _ => None,
    }
}

fn value(root: &Value, schema: &Value, depth: usize) -> Option<Value> {
    let depth = depth.checked_sub(1)?;
    if schema.as_bool() == Some(true) {
        return Some(json!({}));
    }
    let map = schema.as_object()?;
    for given in ["const", "default"] {
        if let Some(value) = map.get(given) {
            return Some(value.clone());
        }
    }
    for several in ["examples", "enum"] {
        if let Some(first) = map.get(several).and_then(Value::as_array).and_then(|all| all.first()) {
            return Some(first.clone());
        }
    }
    if let Some(place) = map.get("$ref").and_then(Value::as_str) {
        return value(root, root.pointer(place.strip_prefix('#')?)?, depth);
    }
    for several in ["oneOf", "anyOf"] {
        if let Some(options) = map.get(several).and_then(Value::as_array) {
            return options.iter().find_map(|option| value(root, option, depth));
        }
    }
    let kind = match map.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null")?,
        Some(Value::String(kind)) => kind,
        _ if map.contains_key("properties") => "object",
        _ => return None,
    };
    let number = |name: &str| map.get(name).and_then(Value::as_f64);
    Some(match kind {
        "object" => {
            let mut members = Map::new();
            let properties = map.get("properties").and_then(Value::as_object);
            let required = map.get("required").and_then(Value::as_array);
            for name in required.into_iter().flatten().filter_map(Value::as_str) {
                let member = properties.and_then(|properties| properties.get(name));
                members.insert(name.to_owned(), value(root, member?, depth)?);
            }
            members.into()
        }
        "array" => {
            let least = map.get("minItems").and_then(Value::as_u64).unwrap_or(0);
            let items = map.get("items").unwrap_or(&Value::Bool(true));
            (0..least.min(16)).map(|_| value(root, items, depth)).collect::<Option<Vec<_>>>()?.into()
        }
        "string" => match map.get("format").and_then(Value::as_str) {
            Some("date") => "2025-01-31".into(),
            Some("date-time") => "2025-01-31T12:00:00Z".into(),
            Some("time") => "12:00:00Z".into(),
            Some("email") => "ada@example.com".into(),
            Some("uri" | "url") => "https://example.com/".into(),
            Some("uuid") => "00000000-0000-4000-8000-000000000001".into(),
            Some("hostname") => "example.com".into(),
            _ => {
                let least = map.get("minLength").and_then(Value::as_u64).unwrap_or(1).clamp(1, 10_000);
                "a".repeat(usize::try_from(least).ok()?).into()
            }
        },
        "integer" => {
            let least = number("minimum").or(number("exclusiveMinimum").map(|above| above + 1.0));
            let most = number("maximum").or(number("exclusiveMaximum").map(|below| below - 1.0));
            let whole = least.unwrap_or(1.0).ceil().min(most.unwrap_or(f64::INFINITY).floor());
            #[allow(clippy::cast_possible_truncation)]
            let whole = whole as i64;
            whole.into()
        }
        "number" => {
            let least = number("minimum").or(number("exclusiveMinimum").map(|above| above + 0.5));
            let most = number("maximum").or(number("exclusiveMaximum").map(|below| below - 0.5));
            json!(least.unwrap_or(1.0).min(most.unwrap_or(f64::INFINITY)))
        }
        "boolean" => false.into(),
        "null" => Value::Null,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn required_members_are_made_from_what_the_schema_says() {
        let schema = json!({
            "type": "object",
            "required": ["name", "count", "kind", "tags", "place", "on", "maybe"],
            "properties": {
                "name": { "type": "string", "minLength": 3 },
                "count": { "type": "integer", "exclusiveMinimum": 4 },
                "kind": { "enum": ["a", "b"] },
                "tags": { "type": "array", "minItems": 2, "items": { "type": "boolean" } },
                "place": { "$ref": "#/$defs/place" },
                "on": { "type": "string", "format": "date" },
                "maybe": { "anyOf": [{ "type": "null" }, { "type": "string" }] },
                "optional": { "type": "string" },
            },
            "$defs": { "place": { "type": "object", "required": ["x"], "properties": { "x": { "type": "number", "maximum": 0 } } } },
        });
        assert_eq!(
            Value::Object(arguments(&schema).unwrap()),
            json!({ "name": "aaa", "count": 5, "kind": "a", "tags": [false, false], "place": { "x": 0.0 },
                "on": "2025-01-31", "maybe": null })
        );
    }

    #[test]
    fn what_cannot_be_guessed_is_not() {
        let endless = json!({ "type": "object", "required": ["a"], "properties": { "a": { "$ref": "#" } } });
        assert!(arguments(&endless).is_none());
        let untyped = json!({ "type": "object", "required": ["a"], "properties": { "a": {} } });
        assert!(arguments(&untyped).is_none());
    }
}
