//! `docs/acceptance.md` promises a test for every criterion, failure and point of the platform; this holds it to that.

use std::fs;
use std::path::Path;

#[test]
fn every_row_has_a_test_and_every_test_is_there() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(here.join("../docs/acceptance.md")).unwrap();
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter(|line| ["| A", "| F", "| P"].iter().any(|row| line.starts_with(row)))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let numbers: Vec<String> = rows.iter().map(|row| row[0].to_owned()).collect();
    let tables = [("A", 24), ("F", 15), ("P", 11)];
    let expected: Vec<String> =
        tables.iter().flat_map(|(letter, rows)| (1..=*rows).map(move |n| format!("{letter}{n}"))).collect();
    assert_eq!(numbers, expected, "24 criteria, 15 failures and 11 points of the plugin platform, in order");
    for row in &rows {
        // Every second piece between backticks is code; a test is `module::…::name`.
        let shown_by = row.last().unwrap();
        let tests: Vec<&str> = shown_by.split('`').skip(1).step_by(2).filter(|code| code.contains("::")).collect();
        assert!(!tests.is_empty(), "{} has no test", row[0]);
        for test in tests {
            check(here, row[0], test);
        }
    }
}

fn check(here: &Path, row: &str, test: &str) {
    let (module, rest) = test.split_once("::").unwrap();
    let name = rest.strip_prefix("{stdio,http}::").unwrap_or(rest);
    let main = fs::read_to_string(here.join("behaviour/main.rs")).unwrap();
    assert!(main.lines().any(|line| line == format!("mod {module};")), "{row}: module {module} is not compiled");
    let source = fs::read_to_string(here.join(format!("behaviour/{module}.rs"))).unwrap_or_default();
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let declared =
        |line: &str| line.starts_with(&format!("fn {name}(")) || line.starts_with(&format!("async fn {name}("));
    let at = lines.iter().position(|line| declared(line)).unwrap_or_else(|| panic!("{row}: there is no test {test}"));
    // Either the function is a test, or a macro makes one of it for each transport or store.
    let itself = lines[..at].iter().rev().take_while(|line| line.starts_with('#')).any(|line| line.contains("test"));
    let by_macro = lines[..at].contains(&name);
    match rest.starts_with("{stdio,http}::") {
        true => {
            assert!(by_macro && source.contains("on_both_transports! {"), "{row}: {test} is not run on both transports")
        }
        false => assert!(itself || by_macro, "{row}: {test} is a function and no test"),
    }
}
