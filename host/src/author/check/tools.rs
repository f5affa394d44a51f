//! Each tool: its name, its schemas, its annotations, its scopes.

use super::{COMPONENT, Findings, ToolSummary, schema, wording};
use crate::model::{TaskSupport, Tool};
use crate::runtime::Examination;

/// Words of verbs that change something.
const CHANGES: [&str; 14] = [
    "delete", "remove", "purge", "drop", "send", "post", "create", "update", "write", "append", "set", "cancel", "pay",
    "publish",
];

pub fn look(examined: &Examination, findings: &mut Findings) {
    let mut tools: Vec<&Tool> = vec![];
    for declared in &examined.tools {
        match &declared.tool {
            Ok(tool) => {
                look_at(tool, findings);
                twins(&tools, tool, findings);
                tools.push(tool);
            }
            Err(why) => {
                let name = if declared.name.is_empty() { COMPONENT } else { &declared.name };
                findings.error(
                    name,
                    format!("Its declaration cannot be served: {why}"),
                    "Correct what the sentence names.",
                );
            }
        }
    }
    together(&tools, examined, findings);
}

/// What is said once for all of them.
fn together(tools: &[&Tool], examined: &Examination, findings: &mut Findings) {
    let foreign: Vec<&str> = tools.iter().filter(|t| !t.name.is_federated()).map(|t| t.name.as_str()).collect();
    if !foreign.is_empty() {
        let (names, match_) = (foreign.join(", "), if foreign.len() == 1 { "does" } else { "do" });
        findings.warn(
            COMPONENT,
            format!("{names} {match_} not match cyberos.<module>.<verb_noun>, and is served only where the operator allows that"),
            "Rename, or ask for `any_tool_name = true` in grants.toml.",
        );
    }
    let reaches = examined.imports.iter().any(|i| i.name.contains("/http-fetch@") || i.name.starts_with("wasi:http/"));
    if reaches && !tools.iter().any(|tool| tool.annotations.open_world) {
        findings.warn(
            COMPONENT,
            "It asks services on the network, and none of its tools is marked open-world",
            "Mark the tools open-world that do.",
        );
    }
}

pub fn summary(tool: &Tool) -> ToolSummary {
    let a = tool.annotations;
    ToolSummary {
        name: tool.name.to_string(),
        title: tool.title.clone(),
        effect: match () {
            () if a.destructive => "destructive",
            () if a.external_effect => "external effect",
            () if a.write => "write",
            () if a.read_only => "read-only",
            () => "unsaid",
        },
        scopes: tool.scopes.clone(),
        task_support: tool.task_support,
    }
}

fn look_at(tool: &Tool, findings: &mut Findings) {
    let name = tool.name.as_str();
    wording::look_at(name, &tool.title, &tool.description, findings);
    schema::look_at_input(name, &tool.input_schema, findings);
    match &tool.output_schema {
        Some(output) => schema::look_at_output(name, output, findings),
        None => findings.warn(
            name,
            "It has no output schema, so that its results are checked by nobody and agents must guess their shape",
            "Return structured results and declare their schema.",
        ),
    }
    annotations(tool, findings);
    scopes(tool, findings);
    tasks(tool, findings);
}

fn annotations(tool: &Tool, findings: &mut Findings) {
    let (name, a) = (tool.name.as_str(), tool.annotations);
    if !(a.read_only || a.write || a.destructive || a.external_effect) {
        findings.warn(
            name,
            "It is marked neither read-only nor as changing anything, so that hosts must fear the worst",
            "Mark it read-only, or write, destructive or external-effect.",
        );
    }
    if a.destructive && !a.write {
        findings.warn(name, "It is marked destructive and not write", "Mark it write too: what destroys, changes.");
    }
    if a.external_effect && !a.open_world {
        findings.warn(
            name,
            "It is marked with an external effect in a closed world",
            "Mark it open-world: it acts on something outside.",
        );
    }
    if a.read_only && a.external_effect {
        findings.warn(name, "It is marked read-only with an external effect", "Take one of the two out.");
    }
    let verb = tool.name.as_str().rsplit('.').next().unwrap_or_default().to_lowercase();
    let changes = verb.split(['_', '-']).find(|word| CHANGES.contains(word));
    if let Some(word) = changes.filter(|_| a.read_only) {
        findings.warn(
            name,
            format!("It is marked read-only, and its name says `{word}`"),
            "Mark what it changes, or give it a name that does not frighten.",
        );
    }
    if a.needs_confirmation() {
        findings.note(name, "A person confirms each of its calls", "Write `confirm = true` into its cases.");
    }
}

fn scopes(tool: &Tool, findings: &mut Findings) {
    let name = tool.name.as_str();
    let changes = tool.annotations.write || tool.annotations.destructive || tool.annotations.external_effect;
    if tool.scopes.is_empty() {
        match changes {
            true => findings.warn(
                name,
                "It changes something and asks for no scope, so that every caller may",
                "Ask for a scope such as `cyberos:demo:write`.",
            ),
            false => findings.note(
                name,
                "It asks for no scope: every caller may call it",
                "Ask for one if its data is not for all.",
            ),
        }
    }
    // RFC 6749, section 3.3.
    let token = |scope: &str| {
        !scope.is_empty()
            && scope.bytes().all(|b| b == 0x21 || (0x23..=0x5b).contains(&b) || (0x5d..=0x7e).contains(&b))
    };
    for (n, scope) in tool.scopes.iter().enumerate() {
        if !token(scope) {
            findings.warn(
                name,
                format!("No token can carry the scope {scope:?}"),
                "Use letters, digits and `:._-` alone, such as `cyberos:demo:read`.",
            );
        }
        if tool.scopes[..n].contains(scope) {
            findings.warn(name, format!("It asks for the scope {scope} twice"), "Name it once.");
        }
    }
}

fn tasks(tool: &Tool, findings: &mut Findings) {
    let name = tool.name.as_str();
    if tool.idempotent_task && tool.task_support == TaskSupport::Forbidden {
        findings.warn(
            name,
            "It says that its task may be run again, and it has no tasks",
            "Allow tasks (`task-support`), or take `idempotent-task` out.",
        );
    }
    let has_timeout = tool.input_schema.pointer("/properties/timeout_seconds").is_some();
    if tool.task_support != TaskSupport::Forbidden && !has_timeout {
        findings.note(
            name,
            "Its tasks run for ten minutes at most, and a caller cannot ask for more or less",
            "Take an argument `timeout_seconds`, an integer of 1 to 3600, which the host obeys.",
        );
    }
}

/// Names that a person, or a client without dots, could not tell apart.
fn twins(before: &[&Tool], tool: &Tool, findings: &mut Findings) {
    let name = tool.name.as_str();
    if let Some(other) = before.iter().find(|other| other.name.underscored() == tool.name.underscored()) {
        let says = match other.name == tool.name {
            true => "It is declared twice".to_owned(),
            false => format!("It and {} are one name with underscores, as some clients see them", other.name),
        };
        findings.error(name, says, "Rename one of them.");
    } else if let Some(other) = before.iter().find(|other| skeleton(other.name.as_str()) == skeleton(name)) {
        findings.warn(
            name,
            format!("It looks like {}", other.name),
            "Rename one of them: people must tell them apart.",
        );
    }
}

/// Equal for names that look alike.
fn skeleton(name: &str) -> String {
    let letters = name.to_lowercase().replace("rn", "m").replace("vv", "w");
    letters
        .chars()
        .filter(|c| !"_-.".contains(*c))
        .map(|c| match c {
            '0' => 'o',
            '1' | 'i' | '|' => 'l',
            '5' => 's',
            c => c,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_look_alike_have_one_skeleton() {
        for (one, other) in
            [("cyberos.mail.list", "cyberos.mai1.list"), ("a.form", "a.forrn"), ("notes.get_all", "notes.getall")]
        {
            assert_eq!(skeleton(one), skeleton(other));
        }
        assert_ne!(skeleton("cyberos.a.get"), skeleton("cyberos.a.put"));
    }
}
