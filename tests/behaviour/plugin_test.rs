//! `plugin test`: an author's cases, in the real sandbox, behind the real pipeline and the real policy.

use crate::authors::Author;
use bridge_tests::{Bridge, Setup, bridge_binary, root};
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// One guest with its cases, and a machine on which it was compiled before.
struct Bench {
    setup: Setup,
    component: PathBuf,
}

struct Tested {
    status: i32,
    out: String,
    err: String,
}

const REACHES: &str = r#"
[plugins.guest-reaches]
any_tool_name = true
cuo = true
audit_append = true
audit_read = true
config = { colour = "green" }

[plugins.guest-reaches.upstreams.api]
url = "https://api.example.com"
methods = ["GET", "POST"]
paths = ["/v1/**"]
max_response_bytes = 64
credential = { scheme = "Bearer", secret = "env:NOBODY_SET_THIS" }
"#;

impl Bench {
    fn new(guest: &str, grants: &str, cases: &[(&str, &str)]) -> Bench {
        Bench::of(Bridge::http().guests(&[guest], ""), guest, grants, cases)
    }

    /// With a guest that another language was written in.
    fn of_author(guest: &str, grants: &str, cases: &[(&str, &str)]) -> Bench {
        Bench::of(Bridge::http().author_guests(&[guest], ""), guest, grants, cases)
    }

    fn of(setup: Setup, guest: &str, grants: &str, cases: &[(&str, &str)]) -> Bench {
        let component = setup.home().join(format!("plugins/{guest}.wasm"));
        let bench = Bench { setup, component };
        fs::write(bench.setup.home().join("grants.toml"), grants).unwrap();
        fs::create_dir(bench.cases()).unwrap();
        for (name, text) in cases {
            fs::write(bench.cases().join(format!("{name}.toml")), text).unwrap();
        }
        bench
    }

    fn cases(&self) -> PathBuf {
        self.setup.home().join("cases")
    }

    fn run(&self, words: &[&str]) -> Tested {
        let mut command = Command::new(bridge_binary());
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", self.setup.home());
        command.arg("--state-dir").arg(self.setup.state_dir()).args(["plugin", "test"]).arg(&self.component);
        command.arg("--cases").arg(self.cases()).arg("--grants").arg(self.setup.home().join("grants.toml")).args(words);
        let output = command.output().unwrap();
        Tested {
            status: output.status.code().expect("it was not killed"),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Every case is as it expects; what was said of each.
    #[track_caller]
    fn passes(&self) -> Value {
        let tested = self.run(&["--json"]);
        assert_eq!(tested.status, 0, "{}\n{}", tested.out, tested.err);
        serde_json::from_str(&tested.out).unwrap()
    }

    /// What was said of the one case, which is not as it expects.
    #[track_caller]
    fn fails(&self) -> String {
        let tested = self.run(&[]);
        assert_eq!(tested.status, 1, "{}\n{}", tested.out, tested.err);
        assert!(tested.out.contains("FAILED") && tested.out.contains("1 failed"), "{}", tested.out);
        tested.out
    }

    /// What was said when nothing could be run.
    #[track_caller]
    fn refuses(&self, words: &[&str]) -> String {
        let tested = self.run(words);
        assert_eq!((tested.status, tested.out.as_str()), (2, ""), "{}", tested.err);
        tested.err
    }
}

const ECHO: &str = "tool = \"cyberos.fixture.echo\"\narguments = { text = \"hello\" }\n";

fn echo(rest: &str) -> Bench {
    Bench::new("fixture_echo", "", &[("echoes", &format!("{ECHO}{rest}"))])
}

#[test]
fn a_case_passes_and_says_what_it_used() {
    // given
    let bench = echo("[expect]\nstructured = { text = \"hello\" }\ntext = '{\"text\":\"hello\"}'\n");
    // when
    let report = bench.passes();
    // then
    assert_eq!((&report["passed"], &report["failed"]), (&json!(1), &json!(0)));
    let case = &report["cases"][0];
    assert_eq!((&case["name"], &case["ok"]), (&json!("echoes"), &json!(true)));
    assert!(case["fuel"].as_u64().unwrap() > 100 && case["memory_bytes"].as_u64().unwrap() >= 65_536, "{case}");
    assert!(case["time_ms"].as_f64().unwrap() > 0.0, "{case}");
    let shown = bench.run(&[]).out;
    assert!(shown.contains("ok") && shown.contains("fuel") && shown.contains("1 passed, 0 failed"), "{shown}");
}

#[test]
fn a_difference_is_shown_line_by_line() {
    let said = echo("[expect]\nstructured = { text = \"bye\" }\n").fails();
    assert!(said.contains("-  \"text\": \"bye\"") && said.contains("+  \"text\": \"hello\""), "{said}");
    let said = echo("[expect]\nerror = { reason = \"out_of_fuel\" }\n").fails();
    assert!(said.contains("an error was expected"), "{said}");
    let said = echo("[expect]\nis_error = true\n").fails();
    assert!(said.contains("the tool succeeded, and was to have failed"), "{said}");
    // Nothing expected: success is.
    let bench = Bench::new("fixture_echo", "", &[("echoes", "tool = \"cyberos.fixture.echo\"\n")]);
    let said = bench.fails();
    assert!(said.contains("input_validation/schema_violation") && said.contains("text"), "{said}");
}

#[test]
fn a_bound_that_is_passed_fails_the_case() {
    let said = echo("[limits]\nfuel = 10\nmemory_bytes = 1000\n").fails();
    assert!(said.contains("of fuel; 10 are allowed") && said.contains("bytes of memory; 1000 are allowed"), "{said}");
    echo("[limits]\nfuel = 10000000\nmemory_bytes = 10000000\ntime_ms = 60000\n").passes();
}

#[test]
fn an_upstream_is_answered_by_the_case_under_the_policy_of_the_grants() {
    let fetch = |arguments: &str, rest: &str| {
        format!("tool = \"test.fetches\"\narguments = {{ upstream = \"api\", {arguments} }}\n{rest}")
    };
    let answer = |path: &str, rest: &str| format!("[[upstream]]\nname = \"api\"\npath = \"{path}\"\n{rest}\n");
    let expect = |text: &str| format!("[expect]\ncontains = '{text}'\n");
    Bench::new(
        "guest_reaches",
        REACHES,
        &[
            // The credential is sent although its secret is nowhere, and is hidden where the upstream echoes it.
            (
                "answers",
                &fetch(
                    "path = \"/v1/x?a=1\"",
                    &(expect(r#""body":"{\"a\":1}""#)
                        + &answer("/v1/x?a=1", "status = 201\nheaders = { content-type = \"application/json\" }\nbody = '{\"a\":1}'\nsent = { headers = { authorization = \"Bearer test-secret\" } }")),
                ),
            ),
            ("redacts", &fetch("path = \"/v1/x\"", &(expect("you sent ***") + &answer("/v1/x", "body = \"you sent test-secret\"")))),
            (
                "posts",
                &fetch(
                    "path = \"/v1/x\", method = \"POST\", body = '{\"b\": 2}'",
                    &(expect(r#""status":204"#) + &answer("/v1/x", "method = \"POST\"\nstatus = 204\nsent = { json = { b = 2 } }")),
                ),
            ),
            (
                "follows",
                &fetch(
                    "path = \"/v1/x\"",
                    &(expect(r#""body":"there""#)
                        + &answer("/v1/x", "status = 302\nheaders = { location = \"/v1/y\" }")
                        + &answer("/v1/y", "body = \"there\"")),
                ),
            ),
            // What the grant does not allow never reaches the script.
            ("method", &fetch("path = \"/v1/x\", method = \"DELETE\"", &expect("not-granted"))),
            ("path", &fetch("path = \"/v2/x\"", &expect("not-granted"))),
            ("header", &fetch("path = \"/v1/x\", headers = { host = \"evil.example\" }", &expect("invalid-request"))),
            ("large", &fetch("path = \"/v1/x\"", &(expect("too-large") + &answer("/v1/x", &format!("body = \"{}\"", "x".repeat(65)))))),
            (
                "away",
                &fetch(
                    "path = \"/v1/x\"",
                    &(expect("address-refused") + &answer("/v1/x", "status = 302\nheaders = { location = \"https://evil.example/\" }")),
                ),
            ),
            ("late", &fetch("path = \"/v1/x\"", &(expect(r#""error":"timeout""#) + &answer("/v1/x", "trouble = \"timeout\"")))),
            ("gone", &fetch("path = \"/v1/x\"", &(expect(r#""error":"unreachable""#) + &answer("/v1/x", "trouble = \"unreachable\"")))),
        ],
    )
    .passes();
}

/// What [`REACHES`] grants, for a plugin that asks by URL.
const FETCHES: &str = r#"
[plugins.js.upstreams.api]
url = "https://api.example.com"
methods = ["GET", "POST"]
paths = ["/v1/**"]
max_response_bytes = 64
credential = { scheme = "Bearer", secret = "env:NOBODY_SET_THIS" }
"#;

#[test]
fn fetch_of_another_language_is_answered_by_the_case_under_the_same_policy() {
    let fetch = |url: &str, arguments: &str, rest: &str| {
        format!("tool = \"cyberos.js.fetch\"\narguments = {{ url = \"{url}\"{arguments} }}\n{rest}")
    };
    let answer = |path: &str, rest: &str| format!("[[upstream]]\nname = \"api\"\npath = \"{path}\"\n{rest}\n");
    let expect = |text: &str| format!("[expect]\ncontains = '{text}'\n");
    let refused = expect("NetworkError");
    let api = "https://api.example.com";
    let cases = [
        (
            "answers",
            fetch(
                &format!("{api}/v1/x?a=1"),
                "",
                &(expect(r#""body":"{\"a\":1}""#)
                    + &answer(
                        "/v1/x?a=1",
                        "status = 201\nheaders = { x-colour = \"green\" }\nbody = '{\"a\":1}'\nsent = { headers = { authorization = \"Bearer test-secret\" } }",
                    )),
            ),
        ),
        (
            "header",
            fetch(
                &format!("{api}/v1/x"),
                "",
                &(expect(r#""x-colour":"green""#) + &answer("/v1/x", "headers = { x-colour = \"green\" }")),
            ),
        ),
        (
            "redacts",
            fetch(
                &format!("{api}/v1/x"),
                "",
                &(expect("you sent ***") + &answer("/v1/x", "body = \"you sent test-secret\"")),
            ),
        ),
        (
            "posts",
            fetch(
                &format!("{api}/v1/x"),
                ", method = \"POST\", body = '{\"b\": 2}'",
                &(expect(r#""status":204"#)
                    + &answer("/v1/x", "method = \"POST\"\nstatus = 204\nsent = { json = { b = 2 } }")),
            ),
        ),
        (
            "follows",
            fetch(
                &format!("{api}/v1/x"),
                "",
                &(expect(r#""body":"there""#)
                    + &answer("/v1/x", "status = 302\nheaders = { location = \"/v1/y\" }")
                    + &answer("/v1/y", "body = \"there\"")),
            ),
        ),
        // What no grant names is an error that the guest can catch, and the script hears nothing of it.
        ("host", fetch("https://evil.example/v1/x", "", &refused)),
        ("port", fetch("https://api.example.com:8443/v1/x", "", &refused)),
        ("scheme", fetch("http://api.example.com/v1/x", "", &refused)),
        ("path", fetch(&format!("{api}/v2/x"), "", &refused)),
        ("method", fetch(&format!("{api}/v1/x"), ", method = \"DELETE\"", &refused)),
        (
            "away",
            fetch(
                &format!("{api}/v1/x"),
                "",
                &(refused.clone()
                    + &answer("/v1/x", "status = 302\nheaders = { location = \"https://evil.example/\" }")),
            ),
        ),
        (
            "large",
            fetch(
                &format!("{api}/v1/x"),
                "",
                &(refused.clone() + &answer("/v1/x", &format!("body = \"{}\"", "x".repeat(65)))),
            ),
        ),
        ("late", fetch(&format!("{api}/v1/x"), "", &(refused.clone() + &answer("/v1/x", "trouble = \"timeout\"")))),
        ("gone", fetch(&format!("{api}/v1/x"), "", &(refused.clone() + &answer("/v1/x", "trouble = \"unreachable\"")))),
    ];
    let cases: Vec<(&str, &str)> = cases.iter().map(|(name, text)| (*name, text.as_str())).collect();
    Bench::of_author("js", FETCHES, &cases).passes();
    // and what is granted and has no answer is named, with what has an answer and was not asked for
    let asks = fetch(&format!("{api}/v1/x"), "", &answer("/v1/y", ""));
    let said = Bench::of_author("js", FETCHES, &[("asks", &asks)]).fails();
    assert!(said.contains("it asked for GET https://api.example.com/v1/x, which the case does not answer"), "{said}");
    assert!(said.contains("it did not ask api for GET /v1/y"), "{said}");
}

#[test]
fn a_request_without_an_answer_fails_the_case_and_is_named() {
    let asks = "tool = \"test.fetches\"\narguments = { upstream = \"api\", path = \"/v1/x\" }\n";
    let one = |rest: &str| Bench::new("guest_reaches", REACHES, &[("asks", &format!("{asks}{rest}"))]);
    let said = one("").fails();
    assert!(said.contains("it asked for GET https://api.example.com/v1/x, which the case does not answer"), "{said}");
    let answer = |path: &str, more: &str| format!("[[upstream]]\nname = \"api\"\npath = \"{path}\"\n{more}\n");
    let said = one(&(answer("/v1/x", "") + &answer("/v1/y", ""))).fails();
    assert!(said.contains("it did not ask api for GET /v1/y"), "{said}");
    let said = one(&answer("/v1/x", "sent = { headers = { accept = \"text/csv\" } }")).fails();
    assert!(said.contains("header accept is to be \"text/csv\", and there was"), "{said}");
    let said = one("[[upstream]]\nname = \"other\"\npath = \"/\"\n").fails();
    assert!(said.contains("no such upstream is granted"), "{said}");
}

#[test]
fn a_destructive_tool_is_confirmed_by_its_case_and_each_case_has_a_log_of_its_own() {
    let append = "tool = \"test.appends_audit_confirmed\"\narguments = { kind = \"note.made\", body = '{}' }\n";
    let first = "[expect]\ncontains = '\"seqs\":[2]'\n";
    Bench::new(
        "guest_reaches",
        REACHES,
        &[
            ("confirmed", &format!("{append}confirm = true\n{first}")),
            ("again", &format!("{append}confirm = true\n{first}")),
            (
                "unconfirmed",
                &format!(
                    "{append}[expect]\nerror = {{ class = \"authz_denied\", reason = \"confirmation_required\" }}\n"
                ),
            ),
        ],
    )
    .passes();
}

#[test]
fn whatever_a_plugin_does_ends_its_own_case_and_no_other() {
    // given: more failures than would let a served plugin rest
    let mut cases: Vec<(String, String)> = vec![];
    for n in 0..12 {
        let text =
            "tool = \"test.panics\"\n[expect]\nerror = { class = \"internal_error\", reason = \"plugin_trapped\" }\n";
        cases.push((format!("a-panic-{n}"), text.to_owned()));
    }
    cases.push((
        "b-spins".into(),
        "tool = \"test.spins_forever\"\n[expect]\nerror = { reason = \"out_of_fuel\" }\n".into(),
    ));
    cases.push((
        "c-lies".into(),
        "tool = \"test.breaks_output_schema\"\n[expect]\nerror = { reason = \"invalid_result\" }\n".into(),
    ));
    cases.push((
        "d-long".into(),
        "tool = \"test.long_task\"\narguments = { steps = 2, ms = 1 }\n[expect]\nstructured = { steps_executed = 2 }\n"
            .into(),
    ));
    cases.push((
        "e-other".into(),
        "tool = \"test.nothing\"\n[expect]\nerror = { reason = \"tool_not_found\" }\n".into(),
    ));
    cases.push(("f-fine".into(), "tool = \"test.counts_itself\"\n[expect]\nstructured = { count = 1 }\n".into()));
    let cases: Vec<(&str, &str)> = cases.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let grants =
        "[plugins.guest-misbehaves]\nany_tool_name = true\n[plugins.guest-misbehaves.limits]\nfuel = 50000000\n";
    // when, then
    let report = Bench::new("guest_misbehaves", grants, &cases).passes();
    assert_eq!(report["passed"], 17);
    assert!(report["cases"][12]["fuel"].as_u64().unwrap() >= 49_000_000, "{}", report["cases"][12]);
    assert_eq!(report["cases"][15]["fuel"], Value::Null, "it never ran");
}

#[test]
fn the_user_and_the_model_answer_as_the_case_says() {
    let grants = "[plugins.guest-offers]\nany_tool_name = true\nelicit = true\nsample = true\n";
    let form = "tool = \"test.asks_form\"\n[expect]\ncontains = ";
    Bench::new(
        "guest_offers",
        grants,
        &[
            (
                "accepts",
                &format!("{form}'\\\"city\\\":\\\"Graz\\\"'\n[[answer]]\nelicit = {{ action = \"accept\", content = {{ city = \"Graz\", express = true }} }}\n"),
            ),
            ("declines", &format!("{form}'\"answer\":\"decline\"'\n[[answer]]\nelicit = {{ action = \"decline\" }}\n")),
            ("nobody", &format!("{form}'\"answer\":\"unsupported\"'\n")),
            (
                "models",
                "tool = \"test.asks_model\"\narguments = { question = \"Why?\" }\n[expect]\ncontains = 'Because.'\n[[answer]]\nsample = \"Because.\"\n",
            ),
            (
                "in-a-task",
                "tool = \"test.asks_form_as_task\"\n[expect]\ncontains = '\"answer\":\"cancel\"'\n[[answer]]\nelicit = { action = \"cancel\" }\n",
            ),
        ],
    )
    .passes();
}

#[test]
fn a_case_can_say_who_calls() {
    // A component of ours that needs a scope.
    let bench = Bench::new(
        "memory_read_audit",
        "[plugins.memory-read-audit]\naudit_read = true\n",
        &[
            (
                "without",
                "tool = \"cyberos.memory.read_audit\"\nscopes = []\n[expect]\nerror = { class = \"authz_denied\", reason = \"insufficient_scope\" }\n",
            ),
            (
                "with",
                "tool = \"cyberos.memory.read_audit\"\nscopes = [\"cyberos:memory:read\"]\n[expect]\nis_error = false\n",
            ),
        ],
    );
    bench.passes();
}

#[test]
fn a_snapshot_is_written_once_and_compared_from_then_on() {
    // given
    let bench = echo("[expect]\nsnapshot = true\n");
    let said = bench.fails();
    assert!(said.contains("is not there yet; run with --update"), "{said}");
    // when
    let updated = bench.run(&["--update"]);
    // then
    assert!(updated.status == 0 && updated.out.contains("snapshot written"), "{}", updated.out);
    let path = bench.cases().join("snapshots/echoes.json");
    let kept: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(kept["structuredContent"], json!({ "text": "hello" }));
    assert_eq!(bench.passes()["cases"][0]["snapshot"], "same");
    // when: the tool answers otherwise than it did
    fs::write(&path, kept.to_string().replace("hello", "hi")).unwrap();
    let said = bench.fails();
    assert!(said.contains("it is not as in the snapshot") && said.contains("+    \"text\": \"hello\""), "{said}");
}

#[test]
fn what_cannot_be_run_is_told_with_its_place() {
    let said = echo("[expect]\nresult = 1\n").refuses(&[]);
    assert!(said.contains("echoes.toml") && said.contains("line 4, column 1") && said.contains("result"), "{said}");
    let said = echo("").refuses(&["--filter", "nothing"]);
    assert!(said.contains("no case has \"nothing\""), "{said}");
    let said = Bench::new("fixture_echo", "", &[]).refuses(&[]);
    assert!(said.contains("there are no cases") && said.contains("[expect]"), "{said}");
    let said = Bench::new("fixture_echo", "[plugins.other]\n", &[("a", ECHO)]).refuses(&[]);
    assert!(said.contains("other") && said.contains("none for fixture-echo"), "{said}");
    let said = Bench::new("guest_reaches", "[plugins.guest-reaches]\n", &[("a", ECHO)]).refuses(&[]);
    assert!(said.contains("its grants do not allow"), "{said}");
}

#[test]
fn only_the_cases_that_are_asked_for_run() {
    let other = ECHO.replace("hello", "other");
    let bench = Bench::new("fixture_echo", "", &[("one", ECHO), ("two", &other)]);
    let tested = bench.run(&["--filter", "two", "--json"]);
    let report: Value = serde_json::from_str(&tested.out).unwrap();
    assert_eq!((&report["passed"], &report["cases"][0]["name"]), (&json!(1), &json!("two")));
}

#[test]
fn a_new_project_is_built_and_its_cases_pass() {
    // given
    let author = Author::new();
    let project = author.project("demo-cases", "rust");
    // when
    let ran = author.bridge(&["plugin", "test", "--json", project.to_str().unwrap()]);
    // then
    assert_eq!(ran.status, 0, "{}\n{}", ran.out, ran.err);
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    assert!(report["passed"].as_u64().unwrap() >= 2 && report["failed"] == 0, "{report}");
    // when: it no longer builds
    fs::write(project.join("src/lib.rs"), "this is no Rust").unwrap();
    let ran = author.bridge(&["plugin", "test", project.to_str().unwrap()]);
    // then
    assert!(ran.status == 1 && ran.err.contains("error"), "{}", ran.err);
}

#[test]
fn the_page_shows_what_a_case_can_hold() {
    let page = fs::read_to_string(root().join("docs/plugin-authors/test.md")).unwrap();
    for field in [
        "arguments",
        "confirm",
        "scopes",
        "structured",
        "text",
        "contains",
        "is_error",
        "error",
        "snapshot",
        "fuel",
        "memory_bytes",
        "time_ms",
        "[[upstream]]",
        "status",
        "headers",
        "body",
        "trouble",
        "sent",
        "[[answer]]",
        "elicit",
        "sample",
    ] {
        assert!(page.contains(field), "docs/plugin-authors/test.md does not name {field}");
    }
}
