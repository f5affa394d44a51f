//! Arrows between modules go one way (ARCHITECTURE.md, the map).

use bridge_tests::root;
use std::fs;
use std::path::{Path, PathBuf};

/// From the bottom to the top. A module may use those of lower rank, and its own.
const RANKS: [&[&str]; 7] = [
    &["model", "error", "config", "telemetry"],
    &["upstreams", "store"],
    &["auth", "runtime"],
    &["broker"],
    &["protocol"],
    &["author", "plugins", "transport"],
    &["app", "cli"],
];

/// Known exceptions, each with its reason.
const ALLOWED: [(&str, &str); 4] = [
    // A verified caller is a value that lower layers carry, not a service that they call.
    ("upstreams", "auth"),
    // The error view names a trace; the trace knows nothing of errors.
    ("error", "model"),
    // Outcomes of calls are what telemetry is about.
    ("telemetry", "model"),
    ("telemetry", "error"),
];

#[test]
fn no_module_looks_up() {
    let rank = |module: &str| RANKS.iter().position(|level| level.contains(&module));
    let mut upward = vec![];
    for file in sources(&root().join("host/src")) {
        let relative = file.strip_prefix(root().join("host/src")).unwrap().to_string_lossy().into_owned();
        let from = relative.split(['/', '.']).next().unwrap().to_owned();
        let Some(own) = rank(&from) else { continue };
        let text = fs::read_to_string(&file).unwrap();
        // Tests may reach for whatever shows that the code is right.
        let code = text.split("#[cfg(test)]").next().unwrap();
        if relative.contains("tests") {
            continue;
        }
        for to in code.lines().filter_map(|l| l.trim().split("use crate::").nth(1)) {
            let to = to.split([':', ';', ' ']).next().unwrap();
            let sideways = own == 0 && rank(to) == Some(0);
            if rank(to).is_some_and(|r| r > own) && !ALLOWED.contains(&(from.as_str(), to)) && !sideways {
                upward.push(format!("{relative} uses {to}"));
            }
        }
    }
    assert!(upward.is_empty(), "{upward:#?}");
}

/// What changes grants is an operator's, at a shell. Were it within reach of what answers calls, a tool, or a model behind
/// one, could come to hold it.
#[test]
fn no_tool_reaches_what_changes_grants() {
    // given: what edits plugins.toml, approves, or changes the set
    let control = ["crate::plugins", "toml_edit", "approvals"];
    // then: nothing on a call's way names it
    let mut reaching = vec![];
    for layer in ["broker", "protocol", "transport", "runtime", "upstreams", "auth", "store", "model"] {
        for file in sources(&root().join("host/src").join(layer)) {
            let text = fs::read_to_string(&file).unwrap();
            let named = control.iter().filter(|words| text.contains(**words));
            reaching.extend(named.map(|words| format!("{} says {words}", file.display())));
        }
    }
    assert!(reaching.is_empty(), "{reaching:#?}");
    // and commands alone call what edits and approves
    let own = |file: &PathBuf| {
        ["/cli/", "plugins/edit.rs", "plugins/approvals.rs"].iter().any(|p| file.to_string_lossy().contains(p))
    };
    let all = sources(&root().join("host/src"));
    let calls = |file: &&PathBuf| {
        let text = fs::read_to_string(file).unwrap();
        ["edit::grant(", "edit::revoke(", "edit::move_pin(", "edit::write(", "approve_waiting("]
            .iter()
            .any(|call| text.contains(call))
    };
    let outside: Vec<_> = all.iter().filter(|file| !own(file)).filter(calls).collect();
    assert!(outside.is_empty(), "{outside:#?}");
    assert!(all.iter().filter(|file| own(file)).filter(calls).count() >= 3, "or this could not fail");
}

/// Imports are a guest's way out: none of them is about plugins or grants.
#[test]
fn no_import_and_no_tool_of_ours_manages_plugins() {
    let managing = ["plugin", "grant", "revoke", "approve", "policy", "install", "reload"];
    let named = |name: &str| managing.iter().any(|word| name.contains(word));
    for file in ["wit/host.wit", "wit/world.wit"] {
        let text = fs::read_to_string(root().join(file)).unwrap();
        let names = text.lines().filter_map(|line| line.trim().strip_prefix("interface ")?.split_whitespace().next());
        let found: Vec<_> = names.filter(|name| named(name)).collect();
        assert!(found.is_empty(), "{file}: {found:?}");
    }
    let tools: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(root().join("tests/snapshots/tools_list.json")).unwrap()).unwrap();
    let tools = tools.as_array().or(tools["tools"].as_array()).expect("a list of tools");
    let found: Vec<_> = tools.iter().filter_map(|tool| tool["name"].as_str()).filter(|name| named(name)).collect();
    assert!(found.is_empty() && !tools.is_empty(), "{found:?}");
}

fn sources(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().flatten().map(|e| e.path());
    entries
        .flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] })
        .filter(|p| p.extension().is_some_and(|e| e == "rs"))
        .collect()
}
