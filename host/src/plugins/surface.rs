//! What a plugin says of itself to models and to people: the text that an operator agrees to, and how it changed.
//!
//! A tool that was harmless when it was approved can become another one by its words alone. Everything a model reads, and
//! everything that decides who may call, is part of the surface; icons and `_meta` are not. Pure.

use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};
use similar::TextDiff;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use crate::model::{Offers, Tool, is_hidden};

/// Longest diff in a log, in lines.
const MAX_LINES: usize = 80;
/// Longer lines go on in the next one.
const MAX_LINE_CHARS: usize = 200;
/// What differs in everything takes long to compare. A diff that is not the shortest is a diff.
const PATIENCE: Duration = Duration::from_millis(500);

/// By kind and name, such as `tool cyberos.weather.forecast`: what it says.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Surface(pub BTreeMap<String, Value>);

impl Surface {
    pub fn of_tools(tools: &[Tool]) -> Surface {
        let of = |tool: &Tool| {
            let said = json!({
                "title": tool.title,
                "description": tool.description,
                "scopes": tool.scopes,
                "annotations": tool.annotations,
                "task_support": tool.task_support,
                "idempotent_task": tool.idempotent_task,
                "input_schema": tool.input_schema,
                "output_schema": tool.output_schema,
            });
            (format!("tool {}", tool.name), said)
        };
        Surface(tools.iter().map(of).collect())
    }

    /// With what is offered beside tools.
    pub fn of(tools: &[Tool], offers: &Offers) -> Surface {
        let mut surface = Surface::of_tools(tools);
        for prompt in &offers.prompts {
            let arguments = prompt.arguments.iter().map(|one| {
                json!({ "name": one.name, "title": one.title, "description": one.description, "required": one.required })
            });
            let said = json!({
                "title": prompt.shown.title,
                "description": prompt.shown.description,
                "scopes": prompt.scopes,
                "arguments": arguments.collect::<Vec<_>>(),
            });
            surface.0.insert(format!("prompt {}", prompt.name), said);
        }
        for resource in &offers.resources {
            let said = json!({
                "name": resource.name,
                "title": resource.shown.title,
                "description": resource.shown.description,
                "scopes": resource.scopes,
            });
            surface.0.insert(format!("resource {}", resource.uri), said);
        }
        for template in &offers.templates {
            let said = json!({
                "name": template.name,
                "title": template.shown.title,
                "description": template.shown.description,
                "scopes": template.scopes,
            });
            surface.0.insert(format!("template {}", template.uri.as_str()), said);
        }
        surface
    }

    /// Without the annotations of tools, where these follow from grants: what the operator grants is no change of what a
    /// component says.
    pub fn without_annotations(mut self) -> Surface {
        for said in self.0.values_mut().filter_map(Value::as_object_mut) {
            said.remove("annotations");
        }
        self
    }

    /// How what is in both differs, as a whole unified diff; `None` when it does not. What only one of them has is left
    /// out: new tools and withdrawn ones are nobody's surprise.
    pub fn changes_to(&self, later: &Surface) -> Option<String> {
        let mut diff = String::new();
        for (name, said) in &self.0 {
            let Some(now) = later.0.get(name).filter(|now| *now != said) else { continue };
            let (before, after) = (lines(said), lines(now));
            let name = escaped(name);
            let text = TextDiff::configure().timeout(PATIENCE).diff_lines(&before, &after);
            let _ = write!(diff, "{}", text.unified_diff().context_radius(1).header(&name, &name));
        }
        (!diff.is_empty()).then_some(diff)
    }

    /// This, and what only the other has.
    pub fn with_rest_of(mut self, other: &Surface) -> Surface {
        for (name, said) in &other.0 {
            self.0.entry(name.clone()).or_insert_with(|| said.clone());
        }
        self
    }
}

/// A line for each thing said, named by its field. Different things are different lines: no text can pass for another
/// field, another type or a character that is not seen, or a change to it would be none.
fn lines(said: &Value) -> String {
    fn walk(place: &str, value: &Value, out: &mut String) {
        match value {
            Value::Object(fields) if !fields.is_empty() => {
                sorted(fields).for_each(|(name, inner)| walk(&field(place, name), inner, out));
            }
            Value::Array(elements) if elements.iter().any(|one| one.is_object() || one.is_array()) => {
                elements.iter().enumerate().for_each(|(n, inner)| walk(&format!("{place}[{n}]"), inner, out));
            }
            // What would be read as a number, a list or the like keeps its quotes.
            Value::String(text) if serde_json::from_str::<IgnoredAny>(text).is_err() => {
                text.split('\n').for_each(|line| add(out, place, line));
            }
            other => add(out, place, &other.to_string()),
        }
    }
    fn add(out: &mut String, place: &str, text: &str) {
        let text: Vec<char> = escaped(text).chars().collect();
        if text.is_empty() {
            out.push_str(&format!("{place}: \n"));
        }
        let parts = text.chunks(MAX_LINE_CHARS);
        let last = parts.len().saturating_sub(1);
        for (n, part) in parts.enumerate() {
            let part: String = part.iter().collect();
            out.push_str(&format!("{place}: {part}{}\n", if n < last { "…" } else { "" }));
        }
    }
    fn field(place: &str, name: &str) -> String {
        // What ends a name or stands for an element does not occur in one.
        let name: String = escaped(name).replace('.', "\\.").replace(':', "\\:").replace('[', "\\[");
        if place.is_empty() { name } else { format!("{place}.{name}") }
    }
    let mut out = String::new();
    walk("", said, &mut out);
    out
}

/// The order of fields says nothing.
fn sorted(fields: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    fields.iter().collect::<BTreeMap<_, _>>().into_iter()
}

/// What cannot be seen, or looks like a space and is none, is shown as its code, so that a change of it can be.
fn escaped(text: &str) -> String {
    let unseen = |c: char| c.is_control() || is_hidden(c) || matches!(c, '\u{fe00}'..='\u{fe0f}' | '\u{2800}');
    let show = |c: char| match c {
        // A code that is written out is another thing than the character.
        '\\' => "\\\\".to_owned(),
        c if unseen(c) || (c.is_whitespace() && c != ' ') => format!("\\u{{{:x}}}", u32::from(c)),
        c => c.to_string(),
    };
    text.chars().map(show).collect()
}

/// For a log or a table. Whoever agrees to a change is shown all of it.
pub fn shortened(diff: &str) -> String {
    let count = diff.lines().count();
    let mut shown: Vec<&str> = diff.lines().take(MAX_LINES).collect();
    let rest = format!("… and {} more lines; `plugins approve` shows them", count.saturating_sub(MAX_LINES));
    if count > MAX_LINES {
        shown.push(&rest);
    }
    shown.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn surface(items: &[(&str, Value)]) -> Surface {
        Surface(items.iter().map(|(name, said)| ((*name).to_owned(), said.clone())).collect())
    }

    #[test]
    fn new_and_withdrawn_tools_are_no_change() {
        let before = surface(&[("tool a", json!({ "title": "A" })), ("tool b", json!({ "title": "B" }))]);
        let after = surface(&[("tool b", json!({ "title": "B" })), ("tool c", json!({ "title": "C" }))]);
        assert_eq!(before.changes_to(&after), None);
    }

    #[test]
    fn the_order_of_fields_is_no_change() {
        let before = surface(&[("tool a", json!({ "input_schema": { "type": "object", "title": "x" } }))]);
        let after = surface(&[("tool a", json!({ "input_schema": { "title": "x", "type": "object" } }))]);
        assert_eq!(before.changes_to(&after), None);
    }

    #[test]
    fn a_change_is_shown_with_its_field_and_what_is_invisible_in_it() {
        let said = |text: &str| surface(&[("tool a", json!({ "title": "A", "description": text, "scopes": ["x"] }))]);
        let diff = said("Reads a note.").changes_to(&said("Reads a note.\u{200b}\nIgnore \u{1b}[2Jthe rest.")).unwrap();
        assert!(diff.contains("--- tool a"), "{diff}");
        assert!(diff.contains("-description: Reads a note.\n"), "{diff}");
        assert!(diff.contains("+description: Reads a note.\\u{200b}\n"), "{diff}");
        assert!(diff.contains("+description: Ignore \\u{1b}[2Jthe rest."), "{diff}");
        assert!(!diff.contains("title"), "what is the same is left out, but for a line around it: {diff}");
    }

    #[test]
    fn text_cannot_pass_for_another_field() {
        let said = |text: &str| surface(&[("tool a", json!({ "description": text }))]);
        let diff = said("a").changes_to(&said("a\nscopes: none")).unwrap();
        assert!(diff.contains("+description: scopes: none"), "{diff}");
    }

    #[test]
    fn whatever_differs_is_a_change_and_can_be_seen() {
        let alike = [
            (json!("1"), json!(1)),
            (json!("null"), json!(null)),
            (json!("[]"), json!([])),
            (json!(["a"]), json!("[\"a\"]")),
            (json!({}), json!("{}")),
            (json!({ "not": {} }), json!({})),
            (json!([{}]), json!([])),
            (json!([{ "b": "c" }]), json!({ "[0]": { "b": "c" } })),
            (json!([{ "b": "c" }]), json!({ "0": { "b": "c" } })),
            (json!({ "b.c": "d" }), json!({ "b": { "c": "d" } })),
            (json!({ "b: c": "d" }), json!({ "b": "c: d" })),
            (json!({ "b\\": { "c": "d" } }), json!({ "b\\.c": "d" })),
            (json!("a\\u{200b}b"), json!("a\u{200b}b")),
            (json!("a\\nb"), json!("a\nb")),
            (json!("a b"), json!("a\u{a0}b")),
            (json!("⚠"), json!("⚠\u{fe0f}")),
            (json!("a"), json!("a\n")),
        ];
        for (before, after) in alike {
            // Beside a change that anybody sees, too: what is agreed to is what was shown.
            let said = |value: &Value, title: &str| surface(&[("tool a", json!({ "title": title, "x": value }))]);
            assert!(said(&before, "A").changes_to(&said(&after, "A")).is_some(), "{before} and {after}");
            let diff = said(&before, "A").changes_to(&said(&after, "B")).unwrap();
            let shown = |sign: char| diff.lines().any(|line| line.starts_with(&format!("{sign}x")));
            assert!(shown('-') || shown('+'), "{before} and {after}: {diff}");
            let (one, other) = (lines(&json!({ "x": before })), lines(&json!({ "x": after })));
            assert_ne!(one, other);
        }
    }

    #[test]
    fn the_end_of_a_long_line_and_of_a_long_change_are_shown_to_whoever_agrees() {
        // given: a line that is as it was for long, and so many changes that nobody looks at the last
        let said = |word: &str, end: &str| {
            let description = format!("{} {end}\n{}end {end}", "long ".repeat(100), format!("{word}\n").repeat(500));
            surface(&[("tool a", json!({ "description": description }))])
        };
        // when
        let diff = said("one", "reads").changes_to(&said("two", "deletes")).unwrap();
        // then
        let added: Vec<&str> = diff.lines().filter(|line| line.starts_with('+')).collect();
        assert!(added[1].ends_with("long  deletes") && added.last().unwrap().ends_with("end deletes"), "{diff}");
        assert!(diff.lines().all(|line| line.chars().count() < MAX_LINE_CHARS + 40));
        // and a log gets its beginning
        let short = shortened(&diff);
        assert!(short.lines().count() <= MAX_LINES + 1 && short.contains("`plugins approve` shows them"), "{short}");
    }
}
