//! What a skill without a template gives: a structured brief, built from its SKILL.md, of what has to be done.
//!
//! Real CyberOS skills are instructions for a model. Without one, the useful and honest result is the work order: what
//! the skill expects, what was supplied, what it builds on, and its sections to go through.

use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::fmt::Write;

use crate::upstreams::cuo::frontmatter::{self, text_of, texts_of};
use crate::upstreams::cuo::text::title_of_slug;

/// Sections and values that are listed; the rest is counted.
const MAX_LISTED: usize = 40;
const MAX_VALUE_CHARS: usize = 2_000;

/// `skill_md`: the whole file, as far as it can be read. `previous`: names of earlier artefacts.
pub fn write(skill: &str, skill_md: &str, inputs: &Map<String, Value>, previous: &[String], header: &str) -> String {
    let document = frontmatter::parse(skill_md).ok();
    let empty = Map::new();
    let fields = document.as_ref().map_or(&empty, |d| &d.fields);
    let body = document.as_ref().map_or(skill_md, |d| d.body.as_str());
    let mut brief = format!("# Brief: {}\n\n{header}\n", title_of_slug(skill));
    let mut section = |title: &str, text: String| {
        if !text.is_empty() {
            let _ = write!(brief, "\n## {title}\n\n{}\n", text.trim_end());
        }
    };

    section("Purpose", text_of(fields, &["description"]).unwrap_or_default());
    let expects = fields.get("expects").and_then(Value::as_object).unwrap_or(&empty);
    let required = texts_of(expects, "required_fields");
    section("Supplied", supplied(inputs));
    let missing: Vec<&String> = required.iter().filter(|name| !inputs.contains_key(*name)).collect();
    section("Still needed", bullets(missing.iter().map(|name| format!("[ ] {name}"))));
    section("Builds on", bullets(previous.iter().map(|name| format!("`{name}`"))));
    section("Steps to go through", bullets(headings(body).into_iter().map(|h| format!("[ ] {h}"))));
    section("Produces", bullets(texts_of(fields, "produces").into_iter()));
    section("Escalate when", bullets(texts_of(fields, "escalation").into_iter()));
    brief
}

fn supplied(inputs: &Map<String, Value>) -> String {
    bullets(inputs.iter().map(|(name, value)| {
        let text = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let cut: String = text.chars().take(MAX_VALUE_CHARS).collect();
        let more = if cut.len() < text.len() { " …" } else { "" };
        format!("**{name}**: {}{more}", cut.replace('\n', "\n  "))
    }))
}

fn bullets(items: impl Iterator<Item = String>) -> String {
    let items: Vec<String> = items.collect();
    let mut text: String = items.iter().take(MAX_LISTED).map(|item| format!("- {item}\n")).collect();
    if items.len() > MAX_LISTED {
        let _ = writeln!(text, "- and {} more", items.len() - MAX_LISTED);
    }
    text
}

/// Second- and third-level headings of the prose, in order, each once; code blocks are not prose.
fn headings(body: &str) -> Vec<String> {
    let (mut seen, mut found, mut in_code) = (BTreeSet::new(), Vec::new(), false);
    for line in body.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        let heading = line.strip_prefix("## ").or_else(|| line.strip_prefix("### ")).map(str::trim);
        if let Some(heading) = heading.filter(|h| !in_code && !h.is_empty())
            && seen.insert(heading.to_owned())
        {
            found.push(heading.to_owned());
        }
    }
    found
}
