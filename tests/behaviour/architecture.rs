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
    &["author", "transport"],
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

fn sources(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().flatten().map(|e| e.path());
    entries
        .flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] })
        .filter(|p| p.extension().is_some_and(|e| e == "rs"))
        .collect()
}
