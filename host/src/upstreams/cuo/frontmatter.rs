//! YAML frontmatter of a Markdown file, read leniently.
//!
//! Knows the fence and the shapes that people really write (a number where text is meant, one name where a list is
//! meant); does not know what a persona or a skill is. Source: facts of the CyberOS checkout, formats of
//! `modules/cuo` and `modules/skill`.

use serde_json::{Map, Value};

/// A file's frontmatter as JSON, and the prose below it.
#[derive(Debug)]
pub struct Document {
    pub fields: Map<String, Value>,
    pub body: String,
}

/// Split and parse. The error is one sentence, fit for a list of problems.
pub fn parse(text: &str) -> Result<Document, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (head, body) = split(text)?;
    let value: Value = serde_norway::from_str(head).map_err(|e| format!("the frontmatter is no valid YAML: {e}"))?;
    match value {
        Value::Object(fields) => Ok(Document { fields, body: body.to_owned() }),
        _ => Err("the frontmatter is no YAML mapping".into()),
    }
}

fn split(text: &str) -> Result<(&str, &str), String> {
    let mut lines = text.split_inclusive('\n');
    let first = lines.next().unwrap_or_default();
    if first.trim_end() != "---" {
        return Err("there is no frontmatter: the first line is not ---".into());
    }
    let start = first.len();
    let mut at = start;
    for line in lines {
        if matches!(line.trim_end(), "---" | "...") {
            return Ok((&text[start..at], &text[at + line.len()..]));
        }
        at += line.len();
    }
    Err("the frontmatter has no closing ---".into())
}

/// Any scalar as text; numbers and booleans as they are spelled, everything else absent.
pub fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(s) => Some(s.trim().to_owned()).filter(|s| !s.is_empty()),
        Value::Number(n) => Some(n.to_string()),
        Value::Bool(b) => Some(b.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// The first of several spellings of one key, as text.
pub fn text_of(fields: &Map<String, Value>, keys: &[&str]) -> Option<String> {
    keys.iter().find_map(|key| fields.get(*key).and_then(text))
}

/// A list of texts: a list of scalars or of mappings with a name, or a single scalar.
pub fn texts_of(fields: &Map<String, Value>, key: &str) -> Vec<String> {
    let one = |value: &Value| match value {
        Value::Object(map) => text_of(map, &["name", "id", "slug", "skill", "persona"]),
        other => text(other),
    };
    match fields.get(key) {
        Some(Value::Array(items)) => items.iter().filter_map(one).collect(),
        Some(value) => one(value).into_iter().collect(),
        None => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_split_at_its_fences_whatever_the_line_ends() {
        for text in
            ["---\nname: a\n---\nbody\n", "\u{feff}---\r\nname: a\r\n---\r\nbody\n", "---\nname: a\n...\nbody\n"]
        {
            let document = parse(text).unwrap();
            assert_eq!(document.fields["name"], "a");
            assert_eq!(document.body, "body\n");
        }
    }

    #[test]
    fn what_is_ill_formed_is_said_in_one_sentence() {
        for (text, said) in [
            ("", "no frontmatter"),
            ("# Title\n", "no frontmatter"),
            ("---\nname: a\n", "no closing"),
            ("---\n- a\n---\n", "no YAML mapping"),
            ("---\nname: [a\n---\n", "no valid YAML"),
            ("---\nname: \"a\n---\n", "no valid YAML"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(said), "{text:?}: {error}");
        }
    }

    #[test]
    fn numbers_and_single_names_are_taken_as_meant() {
        let document = parse("---\nversion: 1.5\nconsults: [a, {persona: b}, 3]\nescalates_to: c\n---\n").unwrap();
        assert_eq!(text_of(&document.fields, &["workflow_version", "version"]).as_deref(), Some("1.5"));
        assert_eq!(texts_of(&document.fields, "consults"), ["a", "b", "3"]);
        assert_eq!(texts_of(&document.fields, "escalates_to"), ["c"]);
    }

    #[test]
    fn a_yaml_bomb_is_refused() {
        let mut text = String::from("---\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for i in 1..12 {
            let before = format!("*a{}, ", i - 1).repeat(10);
            text.push_str(&format!("a{i}: &a{i} [{before}]\n"));
        }
        text.push_str("---\n");
        assert!(parse(&text).is_err());
    }
}
