//! Schemas: would a host take them, and do they tell an agent what it may pass and how much of it.

use serde_json::Value;

use super::Findings;
use crate::broker::schema::compile;

/// Places named in one finding; the rest is counted.
const NAMED: usize = 6;
/// A schema that refers to itself ends here.
const DEEPEST: usize = 32;

pub fn look_at_input(name: &str, schema: &Value, findings: &mut Findings) {
    if !compiles(name, "input", schema, findings) {
        return;
    }
    let mut seen = Seen::default();
    seen.walk(schema, "", DEEPEST);
    seen.open.told(
        name,
        findings,
        "takes members that it does not know, so that a misspelt argument passes unnoticed",
        "Write `\"additionalProperties\": false` there.",
    );
    seen.undescribed.told(
        name,
        findings,
        "has no description, so that agents guess what to pass",
        "Describe it: what it means, its unit, an example.",
    );
    seen.long_strings.told(
        name,
        findings,
        "is a string of any length",
        "Set `maxLength` (or `enum`), so that nobody can make the tool chew on megabytes.",
    );
    seen.long_arrays.told(name, findings, "is an array of any length", "Set `maxItems`.");
    seen.unbounded_numbers.hinted(
        name,
        findings,
        "is a number without bounds",
        "Set `minimum` and `maximum` where there are any.",
    );
    seen.untyped.hinted(name, findings, "has no type", "Say what it is.");
}

pub fn look_at_output(name: &str, schema: &Value, findings: &mut Findings) {
    if !compiles(name, "output", schema, findings) {
        return;
    }
    let mut seen = Seen::default();
    seen.walk(schema, "", DEEPEST);
    seen.undescribed.hinted(
        name,
        findings,
        "of the result has no description",
        "Describe it: agents read it before they use the value.",
    );
}

fn compiles(name: &str, which: &str, schema: &Value, findings: &mut Findings) -> bool {
    let dialect = schema.get("$schema").and_then(Value::as_str);
    if dialect.is_some_and(|dialect| dialect.contains("draft-07")) {
        findings.note(
            name,
            format!("Its {which} schema is of draft-07"),
            "Write it in 2020-12, which is the default of MCP.",
        );
    }
    match compile(schema) {
        Ok(_) => true,
        Err(why) => {
            findings.error(
                name,
                format!("Its {which} schema {why}"),
                "Correct the schema: JSON Schema 2020-12, with references inside it alone, that do not multiply.",
            );
            false
        }
    }
}

/// Places (JSON pointers) of one kind.
#[derive(Default)]
struct Places(Vec<String>);

impl Places {
    fn told(&self, name: &str, findings: &mut Findings, says: &str, fix: &str) {
        if !self.0.is_empty() {
            findings.warn(name, format!("{} {says}", self.named()), fix);
        }
    }

    fn hinted(&self, name: &str, findings: &mut Findings, says: &str, fix: &str) {
        if !self.0.is_empty() {
            findings.note(name, format!("{} {says}", self.named()), fix);
        }
    }

    fn named(&self) -> String {
        let shown: Vec<&str> =
            self.0.iter().take(NAMED).map(|at| if at.is_empty() { "its arguments' object" } else { at }).collect();
        let more = self.0.len().saturating_sub(NAMED);
        let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{}{rest}", shown.join(", "))
    }
}

#[derive(Default)]
struct Seen {
    open: Places,
    undescribed: Places,
    long_strings: Places,
    long_arrays: Places,
    unbounded_numbers: Places,
    untyped: Places,
}

impl Seen {
    fn walk(&mut self, schema: &Value, at: &str, depth: usize) {
        let (Some(map), Some(depth)) = (schema.as_object(), depth.checked_sub(1)) else { return };
        let is = |kind: &str| match map.get("type") {
            Some(Value::String(one)) => one == kind,
            Some(Value::Array(several)) => several.iter().any(|one| one == kind),
            _ => false,
        };
        let has = |keyword: &str| map.contains_key(keyword);
        let fixed = has("enum") || has("const");
        if is("object") && !has("additionalProperties") && !has("unevaluatedProperties") {
            self.open.0.push(at.to_owned());
        }
        if is("string") && !fixed && !has("maxLength") && !has("format") && !has("pattern") {
            self.long_strings.0.push(at.to_owned());
        }
        if is("array") && !has("maxItems") {
            self.long_arrays.0.push(at.to_owned());
        }
        let bounded = (has("minimum") || has("exclusiveMinimum")) && (has("maximum") || has("exclusiveMaximum"));
        if (is("integer") || is("number")) && !fixed && !bounded {
            self.unbounded_numbers.0.push(at.to_owned());
        }
        let members = |keyword: &str| map.get(keyword).and_then(Value::as_object).into_iter().flatten();
        for (name, property) in members("properties") {
            let at = format!("{at}/{name}");
            let described =
                property.get("description").and_then(Value::as_str).is_some_and(|text| !text.trim().is_empty());
            let elsewhere = property.get("$ref").is_some();
            if !described && !elsewhere {
                self.undescribed.0.push(at.clone());
            }
            let typed = ["type", "enum", "const", "$ref", "anyOf", "oneOf", "allOf"];
            if property.is_object() && !typed.iter().any(|keyword| property.get(keyword).is_some()) {
                self.untyped.0.push(at.clone());
            }
            self.walk(property, &at, depth);
        }
        for keyword in ["$defs", "definitions"] {
            for (name, definition) in members(keyword) {
                self.walk(definition, &format!("#{name}"), depth);
            }
        }
        for keyword in ["items", "additionalProperties"] {
            if let Some(items) = map.get(keyword) {
                self.walk(items, &format!("{at}/*"), depth);
            }
        }
        for keyword in ["anyOf", "oneOf", "allOf", "prefixItems"] {
            for (n, option) in map.get(keyword).and_then(Value::as_array).into_iter().flatten().enumerate() {
                self.walk(option, &format!("{at}({})", n + 1), depth);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;
    use serde_json::json;

    #[test]
    fn a_tight_schema_gets_no_finding_and_a_loose_one_a_finding_for_each_kind() {
        let tight = json!({
            "type": "object", "additionalProperties": false, "required": ["name"],
            "properties": { "name": { "type": "string", "description": "Who.", "maxLength": 100 } },
        });
        let mut findings = Findings::default();
        look_at_input("a.b", &tight, &mut findings);
        assert!(findings.0.is_empty(), "{:?}", findings.0);
        let loose = json!({
            "type": "object",
            "properties": { "name": { "type": "string" }, "tags": { "type": "array", "items": { "type": "object" } } },
        });
        look_at_input("a.b", &loose, &mut findings);
        let says: Vec<&str> = findings.0.iter().map(|finding| finding.says.as_str()).collect();
        let has = |text: &str| says.iter().any(|says| says.contains(text));
        assert!(
            has("its arguments' object, /tags/*") && has("/name is a string") && has("/tags is an array"),
            "{says:?}"
        );
        assert!(has("/name, /tags has no description"), "{says:?}");
    }

    #[test]
    fn what_the_host_does_not_compile_is_an_error() {
        let mut findings = Findings::default();
        look_at_input("a.b", &json!({ "type": "object", "allOf": [{ "$ref": "#" }] }), &mut findings);
        assert!(findings.0[0].level == Level::Error && findings.0[0].says.contains("without end"), "{:?}", findings.0);
    }
}
