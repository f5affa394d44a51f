//! What a tool is, as plugins declare it and callers see it.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;

/// A tool's canonical name: 1 to 64 characters of `A-Za-z0-9_.-` (the intersection of SEP-986 and what clients accept).
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ToolName(String);

impl ToolName {
    pub const MAX_CHARS: usize = 64;

    /// `None` when the name is empty, too long or holds another character.
    pub fn parse(name: &str) -> Option<Self> {
        let good = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
        (!name.is_empty() && name.len() <= Self::MAX_CHARS && name.bytes().all(good)).then(|| ToolName(name.to_owned()))
    }

    /// Does it follow the rule for first-party and federated tools,
    /// `^cyberos\.[a-z][a-z0-9]*\.[a-z][a-z0-9_]*$`?
    pub fn is_federated(&self) -> bool {
        let lower = |s: &str, also: &[u8]| {
            s.bytes().next().is_some_and(|b| b.is_ascii_lowercase())
                && s.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || also.contains(&b))
        };
        let mut parts = self.0.split('.');
        let (Some("cyberos"), Some(module), Some(verb), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return false;
        };
        lower(module, b"") && lower(verb, b"_")
    }

    /// For clients that refuse dots.
    pub fn underscored(&self) -> String {
        self.0.replace('.', "_")
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl fmt::Debug for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A plugin's name in grants, logs and metrics: the component's file stem.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PluginId(String);

impl PluginId {
    /// `^[a-z0-9][a-z0-9-]{0,62}$`
    pub fn parse(id: &str) -> Option<Self> {
        let good = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        (!id.is_empty() && id.len() <= 63 && !id.starts_with('-') && id.bytes().all(good))
            .then(|| PluginId(id.to_owned()))
    }
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
impl fmt::Display for PluginId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl fmt::Debug for PluginId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Both vocabularies, always explicit: MCP's four hints (2025-11-25, tools) and the bridge's own three flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Annotations {
    pub read_only: bool,
    pub destructive: bool,
    pub idempotent: bool,
    pub open_world: bool,
    /// The tool changes something, whether or not that can be undone.
    pub write: bool,
    /// The tool acts on something outside CyberOS, such as sending mail.
    pub external_effect: bool,
}

impl Annotations {
    /// Must a person agree to each call?
    pub fn needs_confirmation(&self) -> bool {
        self.destructive || self.external_effect
    }
}

/// May a call of this tool become a task? (MCP 2025-11-25, `execution.taskSupport`)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskSupport {
    Forbidden,
    /// Long-running: a plain call is answered with a task handle at once.
    Optional,
    Required,
}

/// One tool as its component declared it.
#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    pub name: ToolName,
    pub title: String,
    pub description: String,
    /// JSON Schema 2020-12 with an object at its root, passed through unchanged.
    pub input_schema: Value,
    pub output_schema: Option<Value>,
    pub annotations: Annotations,
    /// All of them are needed to call it.
    pub scopes: Vec<String>,
    pub task_support: TaskSupport,
    /// A task whose worker died may simply be run again.
    pub idempotent_task: bool,
    pub icons: Vec<Value>,
    pub meta: Option<Value>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_three_part_lower_case_names_are_federated() {
        let federated = |n: &str| ToolName::parse(n).is_some_and(|n| n.is_federated());
        assert!(federated("cyberos.cuo.list_personas"));
        for other in [
            "cyberos.cuo",
            "cyberos.Cuo.list",
            "cyberos.cuo.list.all",
            "other.cuo.list",
            "cyberos.cuo.2list",
            "cyberos..x",
        ] {
            assert!(!federated(other), "{other}");
        }
        assert!(ToolName::parse("with space").is_none() && ToolName::parse(&"a".repeat(65)).is_none());
    }
}
