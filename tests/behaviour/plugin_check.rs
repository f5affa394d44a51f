//! `plugin check`: an author hears before publishing what a host would say, and what to do about it.

use bridge_tests::bridge_binary;
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

fn built(path: &str) -> PathBuf {
    let path = bridge_tests::setup::target().join("plugins/wasm32-wasip2/component").join(path);
    assert!(path.is_file(), "{} is not built: run `make guests`", path.display());
    path
}

struct Checked {
    status: i32,
    out: String,
    err: String,
}

/// In an empty home, on a machine that never saw the component.
fn run(words: &[&str]) -> Checked {
    let home = TempDir::with_prefix("check-").unwrap();
    let mut command = Command::new(bridge_binary());
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", home.path());
    let output = command.args(["plugin", "check"]).args(words).output().unwrap();
    Checked {
        status: output.status.code().expect("it was not killed"),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

#[track_caller]
fn check(path: &str, status: i32) -> Value {
    let checked = run(&["--json", built(path).to_str().unwrap()]);
    assert_eq!(checked.status, status, "{path}: {}{}", checked.out, checked.err);
    serde_json::from_str(&checked.out).unwrap()
}

fn findings(report: &Value, level: &str) -> Vec<(String, String)> {
    let all = report["findings"].as_array().unwrap().iter();
    let text = |finding: &Value, field: &str| finding[field].as_str().unwrap().to_owned();
    all.filter(|finding| finding["level"] == level)
        .map(|finding| {
            assert!(text(finding, "fix").len() > 10, "every finding has a fix: {finding}");
            (text(finding, "about"), text(finding, "says"))
        })
        .collect()
}

#[test]
fn a_good_component_is_described_and_a_first_call_is_measured() {
    // when
    let report = check("fixture_echo.wasm", 0);
    // then
    assert_eq!(report["world"], "cyberos:plugin/plugin@1.0.0");
    assert_eq!(report["sha256"].as_str().unwrap().len(), 64);
    assert!(report["bytes"].as_u64().unwrap() > 10_000 && report["compile_ms"].as_f64().unwrap() > 0.0, "{report}");
    assert!(report["describe_fuel"].as_u64().unwrap() > 0, "{report}");
    let imports = report["imports"].as_array().unwrap();
    assert!(imports.contains(&json!({ "interface": "cyberos:plugin/types@1.0.0", "grant": null })), "{imports:?}");
    assert_eq!(report["tools"][0]["name"], "cyberos.fixture.echo");
    let call = &report["first_calls"][0];
    assert_eq!((&call["tool"], &call["error"]), (&json!("cyberos.fixture.echo"), &Value::Null));
    assert!(call["fuel"].as_u64().unwrap() > 0 && call["memory_bytes"].as_u64().unwrap() > 0, "{call}");
    assert_eq!(findings(&report, "error"), []);
    assert_eq!(findings(&report, "warning"), []);
    // as a person reads it
    let shown = run(&[built("fixture_echo.wasm").to_str().unwrap()]).out;
    assert!(shown.contains("A host serves it.") && shown.contains("wasi:io@0.2."), "{shown}");
}

/// What refuses a component when a bridge starts, refuses it here.
#[test]
fn what_a_host_refuses_is_an_error_with_a_fix() {
    for (component, about, says) in [
        ("imports_unknown", "component", "test:vault/vault@1.0.0"),
        ("wrong_world", "component", "exports neither cyberos:plugin/tools@1.0.0"),
        ("list_traps", "component", "list-tools did not answer"),
        ("list_spins", "component", "list-tools did not answer"),
        ("list_calls_host", "component", "host call limit"),
        ("lists_nothing", "component", "declares 0 tools"),
        ("lists_too_many", "component", "declares 65 tools"),
        ("lists_twice", "cyberos.test.good", "twice"),
        ("lists_look_alikes", "notes_delete.all", "notes.delete_all"),
        ("lists_empty_title", "cyberos.test.good", "title is not 1 to 80 characters"),
        ("lists_short_description", "cyberos.test.good", "description is not 30 to 2000 characters"),
        ("lists_hidden_characters", "cyberos.test.good", "invisible characters"),
        ("lists_schema_not_json", "cyberos.test.good", "inputSchema"),
        ("lists_schema_not_object", "cyberos.test.good", "inputSchema"),
        ("lists_schema_impossible", "cyberos.test.good", "input schema"),
        ("lists_schema_remote", "cyberos.test.good", "input schema"),
        ("lists_contradiction", "cyberos.test.good", "read-only"),
        ("lists_script_icon", "cyberos.test.good", "icons"),
        ("prompt_http_icon", "component", "icons"),
        ("resource_https", "component", "the scheme https is not served"),
        ("template_reserved", "component", "level 1"),
    ] {
        let report = check(&format!("examples/{component}.wasm"), 1);
        let errors = findings(&report, "error");
        let told = errors.iter().any(|(who, what)| who == about && what.contains(says));
        assert!(told, "{component}: {about}: {says:?} is not among {errors:?}");
    }
}

#[test]
fn what_an_operator_must_grant_is_named_and_nothing_is_granted_meanwhile() {
    // when
    let report = check("guest_reaches.wasm", 0);
    // then
    let import = |name: &str| {
        let all = report["imports"].as_array().unwrap().iter();
        all.clone().find(|import| import["interface"] == name).unwrap()["grant"].clone()
    };
    assert_eq!(import("cyberos:plugin/spawn-cuo@1.0.0"), "cuo = true");
    assert!(import("cyberos:plugin/http-fetch@1.0.0").as_str().unwrap().contains("upstreams"));
    assert_eq!(report["first_calls"], json!([]), "what needs grants is not called");
    let notes = findings(&report, "note");
    assert!(notes.iter().any(|(_, says)| says.contains("It was not called")), "{notes:?}");
    // A component that asks for a host function while it is asked for its tools gets none: `list_calls_host`, above.
}

#[test]
fn what_would_be_served_and_should_not_be_is_a_warning() {
    let report = check("guest_reaches.wasm", 0);
    let warnings = findings(&report, "warning");
    let has = |about: &str, says: &str| warnings.iter().any(|(who, what)| who == about && what.contains(says));
    assert!(has("component", "test.fetches"), "names: {warnings:?}");
    assert!(has("test.fetches", "/upstream has no description"), "{warnings:?}");
    assert!(has("test.fetches", "is a string of any length"), "{warnings:?}");
    assert!(has("test.fetches", "asks for no scope"), "{warnings:?}");
    let path = built("guest_reaches.wasm");
    assert_eq!(run(&["--strict", path.to_str().unwrap()]).status, 1);
    let foreign = check("examples/lists_foreign_name.wasm", 0);
    assert!(findings(&foreign, "warning").iter().any(|(_, says)| says.contains("deleteNote")), "{foreign}");
}

#[test]
fn only_tools_that_read_are_called() {
    let report = check("guest_misbehaves.wasm", 0);
    let called: Vec<&str> =
        report["first_calls"].as_array().unwrap().iter().map(|c| c["tool"].as_str().unwrap()).collect();
    assert!(!called.is_empty());
    for tool in report["tools"].as_array().unwrap() {
        let name = tool["name"].as_str().unwrap();
        assert!(tool["effect"] == "read-only" || !called.contains(&name), "{name} was called");
    }
    let ended = findings(&report, "warning")
        .into_iter()
        .any(|(who, what)| who == "test.panics" && what.contains("plugin_trapped"));
    assert!(ended, "how a first call fails is said: {report}");
}

#[test]
fn arguments_of_a_case_are_taken_for_the_first_call() {
    // given
    let home = TempDir::with_prefix("check-").unwrap();
    let component = home.path().join("fixture-echo.wasm");
    fs::copy(built("fixture_echo.wasm"), &component).unwrap();
    fs::create_dir(home.path().join("cases")).unwrap();
    fs::write(home.path().join("cases/says.toml"), "tool = \"cyberos.fixture.echo\"\narguments = { text = \"hi\" }\n")
        .unwrap();
    // when
    let checked = run(&["--json", component.to_str().unwrap()]);
    // then
    let report: Value = serde_json::from_str(&checked.out).unwrap();
    let call = &report["first_calls"][0];
    assert_eq!((&call["case"], &call["arguments"]), (&json!("says"), &json!({ "text": "hi" })));
}

#[test]
fn what_is_no_component_is_told_how_to_become_one() {
    let home = TempDir::with_prefix("check-").unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = home.path().join(name);
        fs::write(&path, bytes).unwrap();
        path.display().to_string()
    };
    // The smallest core module.
    let checked = run(&[&file("core.wasm", b"\0asm\x01\0\0\0")]);
    assert!(checked.status == 1 && checked.out.contains("core module"), "{}", checked.out);
    assert!(checked.out.contains("wasm-tools component new"), "{}", checked.out);
    let checked = run(&[&file("text.wasm", b"hello")]);
    assert!(checked.status == 1 && checked.out.contains("It is not WebAssembly"), "{}", checked.out);
    let checked = run(&["/no/such.wasm"]);
    assert!(checked.status == 2 && checked.err.contains("cannot be read"), "{}", checked.err);
    let checked = run(&[home.path().to_str().unwrap()]);
    assert!(checked.status == 2 && checked.err.contains("plugin.toml"), "{}", checked.err);
}
