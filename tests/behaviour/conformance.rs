//! The official conformance suite, told by nobody to be lenient: every check of every scenario of revision 2025-11-25
//! must have been made and must have succeeded, also where the suite itself would only warn or take note, and what the
//! fixture answered must be what it has to say. `scripts/need-clients` installs the suite.

use bridge_tests::setup::target;
use bridge_tests::{Bridge, Recorder, Setup, root};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::process::Command;

mod answers;
mod scenarios;

use scenarios::SCENARIOS;

const REVISION: &str = "2025-11-25";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_official_suite_finds_nothing_and_every_answer_is_a_good_one() {
    // given
    let bridge = serving_the_fixture().start().await;
    let recorder = Recorder::before(&[bridge.address()]).await;
    // when
    let results = run_the_suite(&recorder, bridge.setup.home()).await;
    // then
    let mut wrong = vec![];
    for (scenario, more) in SCENARIOS {
        let checks = results.get(*scenario).map_or(&[][..], Vec::as_slice);
        scenarios::judge(scenario, more, checks, &mut wrong);
    }
    let known: BTreeSet<&str> = SCENARIOS.iter().map(|(scenario, _)| *scenario).collect();
    wrong.extend(results.keys().filter(|s| !known.contains(s.as_str())).map(|s| format!("{s}: ran and is not listed")));
    answers::answers_are_good(&recorder.exchanges(), &mut wrong);
    assert!(wrong.is_empty(), "{} things are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn the_suite_requires_what_is_listed_here() {
    let path = suite().join("requirements").join(format!("{REVISION}.yaml"));
    let text = std::fs::read_to_string(&path).expect("the suite is installed: run scripts/need-clients");
    let mut section = "";
    let (mut scored, mut not_scored) = (vec![], vec![]);
    let mut lines = text.lines().filter(|line| !line.starts_with('#')).peekable();
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_suffix(':').filter(|l| !l.starts_with(' ')) {
            section = name;
        } else if let Some(scenario) = line.strip_prefix("  - scenario: ") {
            if lines.peek().is_some_and(|next| next.trim() == "leg: server") {
                not_scored.push(scenario);
            }
        } else if let Some(scenario) = line.strip_prefix("  - ").filter(|_| section == "server") {
            scored.push(scenario);
        }
    }
    assert_eq!((scored.len(), not_scored.len()), (30, 3), "{scored:?} {not_scored:?}");
    scored.extend(not_scored);
    assert_eq!(SCENARIOS.iter().map(|(scenario, _)| *scenario).collect::<Vec<_>>(), scored);
}

#[tokio::test]
async fn a_schema_of_2020_12_reaches_clients_as_it_was_written_and_is_enforced() {
    let bridge = serving_the_fixture().start().await;
    let alice = bridge.caller("alice");
    let listed = alice.list().await.result()["tools"].as_array().unwrap().clone();
    let tool = listed.iter().find(|tool| tool["name"] == "json_schema_2020_12_tool").expect("it is listed");
    let expected = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": { "address": { "$anchor": "addressDef", "type": "object",
            "properties": { "street": { "type": "string" }, "city": { "type": "string" } } } },
        "properties": {
            "name": { "type": "string" },
            "address": { "$ref": "#/$defs/address" },
            "contactMethod": { "type": "string", "enum": ["phone", "email"] },
            "phone": { "type": "string" },
            "email": { "type": "string" },
        },
        "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
        "if": { "properties": { "contactMethod": { "const": "phone" } }, "required": ["contactMethod"] },
        "then": { "required": ["phone"] },
        "else": { "required": ["email"] },
        "additionalProperties": false,
    });
    assert_eq!(tool["inputSchema"], expected);
    for good in
        [json!({ "contactMethod": "phone", "phone": "1" }), json!({ "email": "a@b.c", "address": { "city": "X" } })]
    {
        let reply = alice.call("json_schema_2020_12_tool", good.clone()).await;
        let said = reply.result()["content"][0]["text"].as_str().unwrap().to_owned();
        assert_eq!(serde_json::from_str::<Value>(&said).unwrap(), good);
    }
    for bad in [
        json!({}),
        json!({ "contactMethod": "phone", "email": "a@b.c" }),
        json!({ "phone": "1" }),
        json!({ "email": "a@b.c", "address": { "city": 1 } }),
        json!({ "email": "a@b.c", "fax": "2" }),
    ] {
        alice.call("json_schema_2020_12_tool", bad).await.assert_error("input_validation", "schema_violation");
    }
}

fn serving_the_fixture() -> Setup {
    Bridge::http()
        .auth_none()
        // `test_reconnection` takes one and a half of these.
        .flag("--stream-hold-ms=1000")
        .guests(&["fixture_conformance"], include_str!("../components/conformance/plugins.toml"))
}

fn suite() -> PathBuf {
    target().join("clients-conformance/node_modules/@modelcontextprotocol/conformance")
}

/// The checks of each scenario that ran.
async fn run_the_suite(recorder: &Recorder, home: &Path) -> BTreeMap<String, Vec<Value>> {
    let node = Command::new(root().join("scripts/need-node22")).output().await.expect("the script runs");
    assert!(node.status.success(), "{}", String::from_utf8_lossy(&node.stderr));
    let results = home.join("conformance");
    let mut command = Command::new(String::from_utf8_lossy(&node.stdout).trim());
    command.arg(suite().join("dist/index.js")).args(["server", "--requirements", REVISION]);
    command.arg("--url").arg(recorder.url("/mcp")).arg("--output-dir").arg(&results).kill_on_drop(true);
    let output = tokio::time::timeout(Duration::from_secs(120), command.output()).await.expect("the suite ends");
    let output = output.expect("the suite starts");
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let entries = std::fs::read_dir(&results).unwrap_or_else(|_| panic!("the suite left no results:\n{said}"));
    let mut checks = BTreeMap::new();
    for entry in entries.map(|e| e.unwrap().path()) {
        let directory = entry.file_name().unwrap().to_str().unwrap();
        // `server-<scenario>-<timestamp>`
        let known = SCENARIOS.iter().map(|(scenario, _)| *scenario);
        let matching = known.filter(|s| directory.starts_with(&format!("server-{s}-2"))).max_by_key(|s| s.len());
        let text = std::fs::read_to_string(entry.join("checks.json")).expect("a scenario's checks");
        let list = serde_json::from_str(&text).expect("checks are JSON");
        checks.insert(matching.unwrap_or(directory).to_owned(), list);
    }
    checks
}
