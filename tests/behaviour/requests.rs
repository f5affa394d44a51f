//! What a plugin asks for travels with its component: an operator reads it before anything runs, grants it by one command,
//! and a version that asks for more than the one before waits until somebody has agreed.

use bridge_tests::oci_registry::{Kind, OciRegistry};
use bridge_tests::shell::{Ran, Shell};
use bridge_tests::{Bridge, Setup, on_both_transports};
use serde_json::{Value, json};
use std::fs;
use wasm_encoder::{CustomSection, Section};

use crate::authors::Author;
use crate::hot_swap::{answers, component, grant, plugins, put, serving, version};

on_both_transports! {
    a_version_that_asks_for_one_more_host_waits_until_that_is_granted
}

/// The component, with this in the section that `plugin build` writes.
fn saying(wasm: &[u8], text: &str) -> Vec<u8> {
    let mut bytes = wasm.to_vec();
    CustomSection { name: "cyberos:grants".into(), data: text.as_bytes().into() }.append_to(&mut bytes);
    bytes
}

fn asking(wasm: &[u8], asks: &Value) -> Vec<u8> {
    saying(wasm, &json!({ "version": 1, "asks": asks }).to_string())
}

fn upstream(url: &str) -> Value {
    json!({ "url": url, "methods": ["GET"], "paths": ["/v1/**"] })
}

fn first() -> Value {
    json!({ "upstreams": { "api": upstream("https://api.example.com") } })
}

fn second() -> Value {
    let maps = upstream("https://maps.example.com");
    json!({ "upstreams": { "api": upstream("https://api.example.com"), "maps": maps } })
}

const GRANTED: &str =
    "# Ours.\n[plugins.notes.upstreams.api]\nurl = \"https://api.example.com\"\npaths = [\"/v1/**\"]\n";

fn flag(setup: &Setup) -> String {
    format!("--plugins={}", plugins(setup).display())
}

/// Serves `notes`, version one, which asks for what it was granted.
fn granted_as_asked(setup: Setup) -> Setup {
    let setup = serving(setup, "one");
    put(&setup, "notes.wasm", &asking(&component("one"), &first()));
    grant(&setup, GRANTED);
    setup
}

async fn health(bridge: &Bridge, expected: &str) {
    let patience = std::time::Instant::now() + bridge_tests::stdio::PATIENCE;
    while bridge.get("/healthz").await.text != expected {
        assert!(std::time::Instant::now() < patience, "{expected:?} is not said:\n{}", bridge.log());
        tokio::time::sleep(std::time::Duration::from_millis(25)).await;
    }
}

async fn a_version_that_asks_for_one_more_host_waits_until_that_is_granted(setup: Setup) {
    // given
    let setup = granted_as_asked(setup);
    let bridge = setup.start().await;
    let alice = bridge.caller("alice");
    assert_eq!(version(&alice).await, "one");
    // when
    put(&setup, "notes.wasm", &asking(&component("two"), &second()));
    let line = bridge.logged("plugin notes: it asks for more than the version before").await;
    // then: what is new is said, and nothing else
    for says in ["upstream maps: GET https://maps.example.com /v1/**", "--as-asked", "quarantined", "asks_more"] {
        assert!(line.contains(says), "{says}: {line}");
    }
    assert!(!line.contains("api.example.com"), "{line}");
    assert_eq!(version(&alice).await, "one", "the version before goes on");
    if !bridge.is_stdio() {
        health(&bridge, "degraded\nplugin notes: quarantined asks_more\n").await;
        let metrics = bridge.get("/metrics").await.text;
        assert!(metrics.contains("cyberos_bridge_plugins_rejected_total{why=\"asks_more\"} 1"), "{metrics}");
    }
    let (shell, flag) = (Shell::beside(&setup), flag(&setup));
    let label = shell.run(&["plugins", "inspect", "notes", &flag, "--json"]);
    assert_eq!(label.status, 1, "{}", label.out);
    assert_eq!(label.json()["asks"], second());
    assert_eq!(label.json()["asks_not_granted"]["upstreams"]["maps"]["url"], "https://maps.example.com");
    assert_eq!(label.json()["asks_not_granted"]["upstreams"].as_object().unwrap().len(), 1);
    let listed = shell.text(&["plugins", "list", &flag]);
    assert!(listed.contains("is quarantined (asks_more): it asks for more"), "{listed}");
    // and looking at it with other grants is nobody's consent
    let agreed = || fs::read(setup.state_dir().join("plugins/approved.json")).unwrap();
    let before = agreed();
    let other = setup.home().join("other.toml");
    let maps = "[plugins.notes.upstreams.maps]\nurl = \"https://maps.example.com\"\npaths = [\"/v1/**\"]\n";
    fs::write(&other, format!("{GRANTED}{maps}")).unwrap();
    let others = format!("--plugins-file={}", other.display());
    for command in ["plugins", "tools"] {
        shell.text(&[command, "list", &flag, &others]);
        assert_eq!(agreed(), before, "{command} list");
    }
    // and nobody grants it by the way
    let ask = ["plugins", "grant", "notes", "--as-asked", &flag];
    let nobody = shell.run(&ask);
    assert!(nobody.status == 2 && nobody.err.contains("--yes"), "{} {}", nobody.status, nobody.err);
    assert!(nobody.out.contains("upstream maps: GET https://maps.example.com /v1/**"), "{}", nobody.out);
    let file = plugins(&setup).join("plugins.toml");
    assert_eq!(fs::read_to_string(&file).unwrap(), GRANTED);
    assert!(shell.text(&[&ask[..], &["--dry-run"]].concat()).contains("Nothing was written"));
    assert_eq!(fs::read_to_string(&file).unwrap(), GRANTED);
    // and when an operator grants it, it serves without more ado
    let done = shell.text(&[&ask[..], &["--yes"]].concat());
    assert!(done.contains("+url = \"https://maps.example.com\""), "{done}");
    answers(&alice, "two").await;
    assert!(fs::read_to_string(&file).unwrap().starts_with(GRANTED));
    if !bridge.is_stdio() {
        health(&bridge, "ok\n").await;
    }
    let rows = bridge.plugin_audit().await;
    let quarantined: Vec<&Value> =
        rows.iter().filter(|row| row.kind == "plugin.quarantined").map(|row| &row.body["reason"]).collect();
    assert_eq!(quarantined, [&json!("asks_more")], "{rows:#?}");
    let again = shell.text(&[&ask[..], &["--yes"]].concat());
    assert!(again.contains("nothing that is not granted") && again.contains("says so already"), "{again}");
}

#[tokio::test]
async fn whoever_grants_less_on_purpose_agrees_once_and_it_serves_also_after_a_restart() {
    // given: a version that waits, seen by a bridge that has ended
    let setup = granted_as_asked(Bridge::http());
    let bridge = setup.start().await;
    assert_eq!(version(&bridge.caller("alice")).await, "one");
    put(&setup, "notes.wasm", &asking(&component("two"), &second()));
    bridge.logged("it asks for more than the version before").await;
    bridge.kill().await;
    let (shell, flag) = (Shell::beside(&setup), flag(&setup));
    // when: somebody looks, and the bridge starts again
    assert!(shell.text(&["plugins", "list", &flag]).contains("asks_more"));
    let bridge = setup.start().await;
    // then
    assert_eq!(version(&bridge.caller("alice")).await, "one");
    assert_eq!(bridge.get("/healthz").await.text, "degraded\nplugin notes: quarantined asks_more\n");
    let shown = shell.run(&["plugins", "approve", "notes", &flag]);
    assert!(shown.status == 2 && shown.err.contains("--yes"), "{} {}", shown.status, shown.err);
    assert!(shown.out.contains("https://maps.example.com") && !shown.out.contains("api.example.com"), "{}", shown.out);
    // when
    let done = shell.json(&["plugins", "approve", "notes", "--yes", "--json", &flag]);
    // then: it serves with what was granted, and no more
    assert_eq!(done["not_granted"]["upstreams"]["maps"]["methods"], json!(["GET"]), "{done:#}");
    answers(&bridge.caller("alice"), "two").await;
    assert_eq!(fs::read_to_string(plugins(&setup).join("plugins.toml")).unwrap(), GRANTED);
    bridge.kill().await;
    let bridge = setup.start().await;
    let alice = bridge.caller("alice");
    assert_eq!(version(&alice).await, "two");
    // and what asks for no more than that serves as well, and what asks for still more waits
    put(&setup, "notes.wasm", &asking(&component("one"), &second()));
    answers(&alice, "one").await;
    let mut third = second();
    third["directories"] = json!({ "/data": "read_write" });
    put(&setup, "notes.wasm", &asking(&component("two"), &third));
    let line = bridge.logged("directory /data: read and write").await;
    assert!(!line.contains("maps.example.com"), "{line}");
    assert_eq!(version(&alice).await, "one");
    // and the way back needs nobody's yes
    shell.text(&["plugins", "rollback", "notes", &flag]);
    health(&bridge, "ok\n").await;
    assert_eq!(version(&alice).await, "one");
}

#[tokio::test]
async fn an_update_that_asks_for_more_leaves_the_version_before_serving_though_the_pin_has_moved() {
    // given: as `plugin add` leaves it
    let setup = Bridge::http().guests(&[], "").unlimited();
    let (shell, flag) = (Shell::beside(&setup), flag(&setup));
    let to = plugins(&setup).display().to_string();
    let one = shell.file("one.wasm", asking(&component("one"), &json!({})));
    let two = shell.file("two.wasm", asking(&component("two"), &first()));
    shell.text(&["plugin", "add", &one, "--name=notes", "--to", &to]);
    let bridge = setup.start().await;
    let alice = bridge.caller("alice");
    assert_eq!(version(&alice).await, "one");
    // when
    let page = shell.text(&["plugin", "add", &two, "--name=notes", "--update", "--to", &to]);
    // then
    assert!(page.contains("upstream api: GET https://api.example.com /v1/**"), "{page}");
    health(&bridge, "degraded\nplugin notes: quarantined asks_more\n").await;
    assert_eq!(version(&alice).await, "one");
    bridge.kill().await;
    let bridge = setup.start().await;
    let alice = bridge.caller("alice");
    assert_eq!(version(&alice).await, "one", "also after a restart");
    // and a yes ends the wait
    shell.text(&["plugins", "approve", "notes", "--yes", &flag]);
    answers(&alice, "two").await;
    health(&bridge, "ok\n").await;
    // but a pin that names what is not there keeps all others out
    let pinned = format!("[plugins.notes]\ndigest = \"sha256:{}\"\n", "0".repeat(64));
    grant(&setup, &pinned);
    health(&bridge, "degraded\nplugin notes: refused wrong_digest\n").await;
    alice.call(crate::hot_swap::TOOL, json!({})).await.assert_error("input_validation", "tool_not_found");
}

#[tokio::test]
async fn the_first_version_serves_with_what_is_granted_and_the_log_says_what_it_lacks() {
    // given
    let setup = serving(Bridge::http(), "one");
    put(&setup, "notes.wasm", &asking(&component("one"), &second()));
    grant(&setup, GRANTED);
    // when
    let bridge = setup.start().await;
    // then
    let line = bridge.logged("plugin notes: it asks for what is not granted").await;
    assert!(line.contains("maps.example.com") && !line.contains("api.example.com"), "{line}");
    assert_eq!(version(&bridge.caller("alice")).await, "one");
    assert_eq!(bridge.get("/healthz").await.text, "ok\n");
    // and the next start does not say it again
    bridge.kill().await;
    let bridge = setup.start().await;
    assert_eq!(version(&bridge.caller("alice")).await, "one");
    assert!(!bridge.log().contains("asks for what is not granted"), "{}", bridge.log());
}

#[tokio::test]
async fn a_request_that_nobody_can_read_is_refused_and_harms_no_terminal() {
    // given
    let setup = serving(Bridge::http(), "one");
    let escape = "\\u001b[2J\\u001b]0;owned\\u0007";
    let plain = component("two");
    let twice = asking(&asking(&plain, &json!({})), &json!({ "imports": ["cuo"] }));
    let forged = format!("{{\"version\":1,\"asks\":{{\"config\":[\"{escape}\"]}}}}");
    let field = format!("{{\"version\":1,\"asks\":{{\"{escape}\":true}}}}");
    let fake = json!({ "config": ["x\nplugin  trusted\nNOT GRANTED  nothing"] });
    for (wasm, says) in [
        (saying(&plain, &forged), "the name of a setting"),
        (saying(&plain, &field), "unknown field"),
        (asking(&plain, &fake), "the name of a setting"),
        (asking(&plain, &json!({ "config": ["\u{202e}stinu"] })), "the name of a setting"),
        (asking(&plain, &json!({ "upstreams": { "a": upstream("https://\u{430}pi.example.com") } })), "one spelling"),
        (twice, "has 2 sections"),
        (saying(&plain, "what?"), "cannot be used"),
        (saying(&plain, "{\"version\":9,\"asks\":{}}"), "version 9"),
        (saying(&plain, &format!("{{\"version\":1,\"asks\":{{}}}}{}", " ".repeat(70_000))), "65536"),
    ] {
        put(&setup, "forged.wasm", &wasm);
        let (shell, flag) = (Shell::beside(&setup), flag(&setup));
        let file = plugins(&setup).join("forged.wasm").display().to_string();
        // when
        let looks: Vec<Ran> = [
            &["plugins", "inspect", "forged", &flag][..],
            &["plugins", "inspect", "forged", "--json", &flag],
            &["plugin", "check", &file],
            &["plugins", "grant", "forged", "--as-asked", "--yes", &flag],
        ]
        .iter()
        .map(|words| shell.run(words))
        .collect();
        // then
        assert_eq!(looks.iter().map(|ran| ran.status).collect::<Vec<_>>(), [1, 1, 1, 2], "{says}");
        for ran in &looks {
            let text = format!("{}{}", ran.out, ran.err);
            assert!(text.contains(says), "{says}: {text}");
            let harmful = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
            assert!(!text.contains(harmful) && !text.contains("\nplugin  trusted"), "{text:?}");
        }
        assert_eq!(looks[1].json()["asks"], Value::Null);
    }
    // and it is not served, and the others are
    let bridge = setup.start().await;
    let line = bridge.logged("plugin forged: ").await;
    assert!(line.contains("refused") && line.contains("bad_request") && line.contains("plugin build"), "{line}");
    assert_eq!(version(&bridge.caller("alice")).await, "one");
    assert_eq!(bridge.get("/healthz").await.text, "degraded\nplugin forged: refused bad_request\n");
}

#[test]
fn a_request_travels_from_grants_toml_over_a_registry_to_plugins_toml_without_a_secret() {
    // given: an author whose machine holds what is nobody else's business
    let author = Author::new();
    let project = author.project("demo-asks", "c");
    let grants = r#"[plugins.demo-asks]
elicit = true
config = { units = "canary-setting" }
environment = { TZ = "canary-variable" }
limits = { fuel = 5_000_000_000 }

[plugins.demo-asks.upstreams.api]
url = "https://api.example.com"
methods = ["GET", "POST"]
paths = ["/v1/*"]
credential = { header = "x-api-key", secret = "file:/canary/home/weather.key" }

[plugins.demo-asks.directories."/data"]
host_path = "/canary/directory"
"#;
    fs::write(project.join("grants.toml"), grants).unwrap();
    let here = project.display().to_string();
    // when
    let mut build = author.at_home(&bridge_tests::bridge_binary());
    let built = build.args(["plugin", "build", &here]).env("WEATHER_KEY", "canary-secret").output().unwrap();
    // then
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let file = project.join("build/demo-asks.wasm");
    let wasm = fs::read(&file).unwrap();
    assert!(!wasm.windows(6).any(|bytes| bytes == b"canary"), "a value or a place travels");
    assert!(wasm.windows(11).any(|bytes| bytes == b"weather.key"), "what the secret is called does");

    // when: published, and taken by an operator who reads what it asks for before anything of it runs
    let registry = OciRegistry::start(Kind::Plain);
    let reference = registry.oci("tools/asks:1");
    let ran = author.bridge(&["plugin", "publish", &file.display().to_string(), &reference]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    let shell = Shell::new();
    let to = shell.home().join("plugins").display().to_string();
    fs::create_dir(&to).unwrap();
    let page = shell.text(&["plugin", "add", &reference, "--to", &to]);
    // then
    let flag = format!("--plugins={to}");
    for says in [
        "upstream api: GET|POST https://api.example.com /v1/*, a secret (weather.key) in x-api-key",
        "directory /data: read",
        "ask the caller's user",
        "variable TZ",
        "setting units",
        "limit fuel = 5000000000",
        "plugins grant asks --as-asked --secret api=PLACE --directory /data=DIR --set units=VALUE --environment TZ=VALUE",
        "Nothing was granted",
    ] {
        assert!(page.contains(says), "{says}: {page}");
    }
    let label = shell.text(&["plugins", "inspect", "asks", &flag]);
    assert!(label.contains("asks for") && label.contains("NOT GRANTED  upstream api: GET|POST"), "{label}");

    // when: what only the operator knows is left out
    let refused = shell.run(&["plugins", "grant", "asks", "--as-asked", "--yes", &flag]);
    // then: all of it is named at once, and nothing is granted
    assert_eq!(refused.status, 2);
    for says in
        ["(its author calls it weather.key)", "--secret api=env:NAME", "--directory /data=DIR", "--set units=VALUE"]
    {
        assert!(refused.err.contains(says), "{says}: {}", refused.err);
    }
    let pinned = fs::read_to_string(format!("{to}/plugins.toml")).unwrap();
    assert!(!pinned.contains("api.example.com"), "{pinned}");

    // when
    let data = shell.home().join("data");
    fs::create_dir(&data).unwrap();
    let directory = format!("/data={}", data.display());
    let told = ["--secret=api=env:OUR_KEY", "--directory", &directory, "--set=units=metric", "--environment=TZ=UTC"];
    let grant = ["plugins", "grant", "asks", "--as-asked", "--yes", &flag];
    shell.text(&[&grant[..], &told].concat());
    // then
    let label = shell.json(&["plugins", "inspect", "asks", &flag, "--json"]);
    assert_eq!(label["asks_not_granted"], json!({}), "{label:#}");
    let api = &label["upstreams"][0];
    assert_eq!((&api["credential_header"], &api["secret"]), (&json!("x-api-key"), &json!("env:OUR_KEY")));
    assert_eq!(
        (&label["limits"]["fuel"], &label["directories"][0]["writable"]),
        (&json!(5_000_000_000_u64), &json!(false))
    );
    let granted = fs::read_to_string(format!("{to}/plugins.toml")).unwrap();
    assert!(granted.starts_with(&pinned) && granted.contains("elicit = true"), "{granted}");

    // when: the same project asks for nothing any more
    fs::remove_file(project.join("grants.toml")).unwrap();
    assert_eq!(author.bridge(&["plugin", "build", &here]).status, 0);
    // then
    assert!(!fs::read(&file).unwrap().windows(14).any(|bytes| bytes == b"cyberos:grants"));
    // and what cannot be asked for is said before anything is compiled
    for (grants, says) in [
        ("[plugins.demo-asks]\ncuo = 7\n", "grants.toml:2:7: "),
        ("[plugins.other]\ncuo = true\n", "none for demo-asks"),
        ("[plugins.demo-asks]\nconfig = { \"a b\" = \"\" }\n", "the name of a setting"),
    ] {
        fs::write(project.join("grants.toml"), grants).unwrap();
        let ran = author.bridge(&["plugin", "build", &here]);
        assert!(ran.status == 2 && ran.err.contains(says), "{says}: {}", ran.err);
    }
}

#[test]
fn an_upstream_that_moves_takes_no_credential_along() {
    // given: granted with a secret, and now asked for at another address
    let shell = Shell::new();
    let grants = format!("{GRANTED}methods = [\"GET\", \"DELETE\"]\ncredential = {{ secret = \"env:KEY\" }}\n");
    shell.file("plugins/plugins.toml", &grants);
    let mut moved = first();
    moved["upstreams"]["api"] = upstream("https://collector.example");
    moved["upstreams"]["api"]["secret"] = json!({ "name": "KEY", "header": "authorization", "scheme": "Bearer" });
    shell.file("plugins/notes.wasm", asking(&component("one"), &moved));
    let flag = format!("--plugins={}", shell.home().join("plugins").display());
    let grant = ["plugins", "grant", "notes", "--as-asked", "--yes", &flag];
    // when, then
    let refused = shell.run(&grant);
    assert!(refused.status == 2 && refused.err.contains("--secret api="), "{}", refused.err);
    let pasted = shell.run(&[&grant[..], &["--secret", "api=hunter2"]].concat());
    assert!(pasted.status == 2 && !pasted.err.contains("hunter2"), "{}", pasted.err);
    let more = shell.run(&[&grant[..], &["--secret=api=env:NEW", "--set=units=metric"]].concat());
    assert!(more.status == 2 && more.err.contains("does not ask for all that you name"), "{}", more.err);
    shell.text(&[&grant[..], &["--secret=env:NEW"]].concat());
    let label = shell.json(&["plugins", "inspect", "notes", &flag, "--json"]);
    let api = &label["upstreams"][0];
    assert_eq!((&api["url"], &api["secret"]), (&json!("https://collector.example"), &json!("env:NEW")));
    assert_eq!(api["methods"], json!(["GET"]), "what was granted elsewhere is not granted here");
    // and a file that may not serve has no say in what its name is granted
    let pinned = format!("{GRANTED}\n[plugins.notes]\ndigest = \"sha256:{}\"\n", "0".repeat(64));
    shell.file("plugins/plugins.toml", &pinned);
    let refused = shell.run(&grant);
    assert!(refused.status == 2 && refused.err.contains("pins notes to"), "{}", refused.err);
}

#[test]
fn check_holds_what_is_asked_for_against_what_is_imported() {
    let shell = Shell::new();
    let path = bridge_tests::setup::target().join("plugins/wasm32-wasip2/component/examples/asks_ungranted.wasm");
    let wasm = fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}; run `make guests`", path.display()));
    let check = |asks: &Value| {
        let file = shell.file("asks-ungranted.wasm", asking(&wasm, asks));
        let ran = shell.run(&["plugin", "check", &file, "--json"]);
        let report = ran.json();
        assert_eq!(report["asks"], *asks);
        let says = |finding: &Value| format!("{}: {}", finding["level"].as_str().unwrap(), finding["says"]);
        report["findings"].as_array().unwrap().iter().map(says).collect::<Vec<_>>().join("\n")
    };
    // one that asks for what it uses
    let good = check(&json!({ "imports": ["cuo"] }));
    assert!(!good.contains("asks for cuo") && !good.contains("must grant"), "{good}");
    // one that uses what it does not ask for
    let silent = check(&json!({}));
    assert!(
        silent.contains("warning: \"It imports cyberos:plugin/spawn-cuo@1.0.0")
            && silent.contains("does not ask for it"),
        "{silent}"
    );
    // and one that asks for what it cannot use
    let greedy = check(&json!({ "imports": ["cuo", "elicit"], "config": ["units"] }));
    for says in ["asks for elicit, and does not import cyberos:plugin/elicit", "asks for config, and does not import"] {
        assert!(greedy.contains(says), "{says}: {greedy}");
    }
    let shown = shell.run(&["plugin", "check", &shell.file("asks-ungranted.wasm", asking(&wasm, &first()))]);
    assert!(shown.out.contains("upstream api: GET https://api.example.com /v1/**"), "{}", shown.out);
}
