//! `plugins.toml`: every mistake is told with its place, a component's permission label is read before anything of it
//! runs, and commands change the file without disturbing it.

use bridge_tests::root;
use bridge_tests::setup::target;
use bridge_tests::shell::Shell;
use cyberos_plugin_host::config::PluginsFile;
use serde_json::Value;
use std::fs;

/// A component of `tests/components`, as it was built.
fn built(path: &str) -> Vec<u8> {
    let path = target().join("plugins/wasm32-wasip2/component").join(path);
    fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}; run `make guests`", path.display()))
}

/// A shell with a directory of plugins, and the flag that names it.
fn shell_with(grants: &str, components: &[(&str, &str)]) -> (Shell, String) {
    let shell = Shell::new();
    shell.file("plugins/plugins.toml", grants);
    for (name, path) in components {
        shell.file(&format!("plugins/{name}.wasm"), built(path));
    }
    let flag = format!("--plugins={}", shell.home().join("plugins").display());
    (shell, flag)
}

fn grants_of(shell: &Shell) -> String {
    fs::read_to_string(shell.home().join("plugins/plugins.toml")).unwrap()
}

#[test]
fn every_mistake_stops_the_start_with_its_file_line_column_and_remedy() {
    // given
    let grants = r#"[policy]
signatures = "required"

[plugins.weather]
cuo = "yes"
digest = "sha256:abc"

[plugins.weather.directories."/data"]
host_path = "/no/such/directory"

[plugins.weather.upstreams.api]
url = "https://api.example.com/v1"
methods = ["GET", "FETCH"]
paths = ["/v1/n*"]
credential = { secret = "env:NOT_SET_ANYWHERE" }

[plugins.weather.limits]
memory_bytes = 999999999999
"#;
    let (shell, flag) = shell_with(grants, &[]);
    // when
    let ran = shell.run(&["tools", "list", &flag]);
    // then
    assert_eq!(ran.status, 2, "{}", ran.out);
    let file = shell.home().join("plugins/plugins.toml").display().to_string();
    let told: Vec<&str> = ran.err.lines().filter(|line| line.contains(&file)).collect();
    let expected = [
        (":2:14: policy.signatures: ", "Add `keys"),
        (":5:7: plugins.weather.cuo: ", "true or false"),
        (":6:10: plugins.weather.digest: ", "plugins inspect"),
        (":9:13: plugins.weather.directories./data.host_path: ", "Create it"),
        (":12:7: plugins.weather.upstreams.api.url: ", "Move the path to `paths`"),
        (":13:19: plugins.weather.upstreams.api.methods.1: ", "none of GET"),
        (":14:10: plugins.weather.upstreams.api.paths.0: ", "/v1/**"),
        (":15:25: plugins.weather.upstreams.api.credential.secret: ", "NOT_SET_ANYWHERE is not set"),
        (":18:16: plugins.weather.limits.memory_bytes: ", "at most 268435456"),
    ];
    assert_eq!(told.len(), expected.len(), "{}", ran.err);
    for (line, (place, says)) in told.iter().zip(expected) {
        assert!(line.contains(&format!("{file}{place}")) && line.contains(says), "{place} {says}: {line}");
    }
}

#[test]
fn the_schema_is_the_committed_one_and_fits_the_documented_example() {
    // given
    let printed: Value = Shell::new().json(&["plugins", "schema"]);
    let path = root().join("docs/operators/plugins.schema.json");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, format!("{}\n", serde_json::to_string_pretty(&printed).unwrap())).unwrap();
    }
    // then
    let committed: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(printed, committed, "docs/operators/plugins.schema.json is out of date; UPDATE_DOCS=1 rewrites it");
    let schema = jsonschema::validator_for(&committed).unwrap();
    let page = fs::read_to_string(root().join("docs/operators/plugins.md")).unwrap();
    let examples: Vec<&str> = page.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(!examples.is_empty());
    for example in examples {
        let file: Value = toml_to_json(example);
        let wrong: Vec<String> = schema.iter_errors(&file).map(|e| format!("{}: {e}", e.instance_path())).collect();
        assert!(wrong.is_empty(), "{example}: {wrong:?}");
        let misspelt = example.replace("[plugins.", "[plugin.").replace("[policy]", "[policies]");
        assert!(!schema.is_valid(&toml_to_json(&misspelt)), "unknown fields are refused");
    }
    assert_eq!(PluginsFile::schema(), committed);
}

fn toml_to_json(text: &str) -> Value {
    let value: toml::Table = toml::from_str(text).unwrap();
    serde_json::to_value(value).unwrap()
}

#[test]
fn a_label_is_read_without_running_anything() {
    // given: a component that would spin, or trap, as soon as it is asked what it offers
    let (shell, flag) = shell_with(
        "[plugins.list-spins]\nconfig = { colour = \"green\" }\n",
        &[("list_spins", "examples/list_spins.wasm"), ("list_traps", "examples/list_traps.wasm")],
    );
    for name in ["list-spins", "list_traps"] {
        // when
        let label = shell.json(&["plugins", "inspect", name, &flag, "--json"]);
        // then
        assert_eq!(label["serves"], true, "{label:#}");
        assert_eq!(label["provenance"]["digest"].as_str().unwrap().len(), 64);
        assert!(!label["imports"].as_array().unwrap().is_empty(), "{label:#}");
        let producers = label["provenance"]["producers"].to_string();
        assert!(producers.contains("wit-bindgen"), "{producers}");
    }
    assert!(!shell.state().exists(), "looking writes nothing");
    let text = shell.text(&["plugins", "inspect", "list-spins", &flag]);
    for says in ["settings", "colour", "signature", "none", "sha256:", "limits", "known once it was served"] {
        assert!(text.contains(says), "{says}: {text}");
    }
}

#[test]
fn what_is_missing_is_told_and_granted_by_command() {
    // given
    let comment = "# Grants, by hand.\n[plugins.other] # stays\naudit_read = true\n";
    let (shell, flag) = shell_with(comment, &[("asks_ungranted", "examples/asks_ungranted.wasm")]);
    let before = shell.run(&["plugins", "inspect", "asks-ungranted", &flag]);
    assert_eq!(before.status, 1);
    assert!(before.out.contains("NOT GRANTED  cyberos:plugin/spawn-cuo@1.0.0"), "{}", before.out);
    // when: first only looked at
    let grant = ["plugins", "grant", "asks-ungranted", "--import", "cuo", &flag];
    let dry = shell.text(&[&grant[..], &["--dry-run"]].concat());
    assert!(dry.contains("+cuo = true") && dry.contains("Nothing was written"), "{dry}");
    assert_eq!(grants_of(&shell), comment);
    shell.text(&grant);
    // then
    assert!(grants_of(&shell).starts_with(comment), "{}", grants_of(&shell));
    let label = shell.json(&["plugins", "inspect", "asks-ungranted", &flag, "--json"]);
    assert_eq!(label["serves"], true, "{label:#}");
    // and back
    let revoke = ["plugins", "revoke", "asks-ungranted", "--import", "cuo", &flag];
    shell.text(&revoke);
    let again = shell.run(&revoke);
    assert_eq!(again.status, 2);
    assert!(again.err.contains("cuo is not granted to asks-ungranted"), "{}", again.err);
    assert_eq!(shell.run(&["plugins", "inspect", "asks-ungranted", &flag]).status, 1);
}

#[test]
fn an_upstream_is_granted_shown_and_revoked_by_command() {
    // given: no file yet
    let shell = Shell::new();
    shell.file("plugins/guest_reaches.wasm", built("guest_reaches.wasm"));
    let flag = format!("--plugins={}", shell.home().join("plugins").display());
    let grant = |more: &[&str]| shell.run(&[&["plugins", "grant", "guest-reaches", &flag], more].concat());
    // when
    let upstream = ["--upstream", "api=https://api.example.com", "--methods", "GET,POST", "--path", "/v1/*"];
    let ran = grant(&[&upstream[..], &["--secret", "env:WEATHER_KEY", "--scheme", "Bearer"]].concat());
    assert_eq!(ran.status, 0, "{}", ran.err);
    assert!(ran.err.contains("WEATHER_KEY is not set"), "the shell's own lack is a note: {}", ran.err);
    let path = shell.home().join("data").display().to_string();
    fs::create_dir(&path).unwrap();
    assert_eq!(grant(&["--directory", &format!("/data={path}"), "--limit", "fuel=5_000"]).status, 0);
    // then
    let label = shell.run(&["plugins", "inspect", "guest-reaches", &flag, "--json"]).json();
    let api = &label["upstreams"][0];
    assert_eq!(api["methods"], serde_json::json!(["GET", "POST"]));
    assert_eq!((api["paths"][0].as_str(), api["secret"].as_str()), (Some("/v1/*"), Some("env:WEATHER_KEY")));
    assert_eq!((&label["directories"][0]["path"], &label["limits"]["fuel"]), (&"/data".into(), &5000.into()));
    // and what makes no sense changes nothing
    let good = grants_of(&shell);
    for (wrong, says) in [
        (&["--upstream", "api=ftp://x.example"][..], "upstreams.api.url"),
        (&["--upstream", "new=https://x.example"], "--path"),
        (&["--limit", "memory_bytes=999999999999"], "at most"),
        (&["--limit", "fule=1"], "Did you mean `fuel`?"),
        (&["--directory", "/x=/no/such/place"], "is not a directory"),
        (&["--digest", "abc"], "sha256:"),
        (&["--upstream", "api", "--secret", "hunter2"], "Name the place"),
        (&[], "grant what?"),
    ] {
        let ran = grant(wrong);
        assert_eq!(ran.status, 2, "{wrong:?}");
        assert!(ran.err.contains(says) && !ran.err.contains("hunter2"), "{says}: {}", ran.err);
        assert_eq!(grants_of(&shell), good, "{wrong:?}");
    }
    shell.text(&["plugins", "revoke", "guest-reaches", "--upstream", "api", "--methods", "POST", &flag]);
    assert!(!grants_of(&shell).contains("POST"));
    shell.text(&["plugins", "revoke", "guest-reaches", "--everything", &flag]);
    assert!(!grants_of(&shell).contains("guest-reaches"));
}

#[test]
fn a_label_says_the_language_of_the_author_and_not_of_the_adapter() {
    for (guest, languages) in [("js", vec!["language JavaScript"]), ("python", vec![])] {
        // given: both have an adapter that was written in Rust, and an engine that was written in C
        let component = bridge_tests::setup::target().join(format!("plugins/authors/{guest}.wasm"));
        // when
        let ran = Shell::new().run(&["plugins", "inspect", component.to_str().unwrap(), "--json"]);
        // then
        let label = ran.json();
        let producers = label["provenance"]["producers"].as_array().unwrap();
        let said: Vec<&str> =
            producers.iter().filter_map(Value::as_str).filter(|l| l.starts_with("language ")).collect();
        assert_eq!(said, languages, "{producers:?}");
    }
}
