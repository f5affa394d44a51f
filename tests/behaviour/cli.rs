//! The command line, as a person and as a script use it: what is printed where, and with which exit status.

use bridge_tests::bridge_binary;
use bridge_tests::postgres::{Database, Login};
use bridge_tests::shell::{Ran, Shell};
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command};

const TENANT: &str = "11111111-2222-4333-8444-555555555555";

fn row_count(tenant_flag: &[&str], shell: &Shell) -> usize {
    let words: Vec<&str> = ["audit", "export"].iter().chain(tenant_flag).copied().collect();
    shell.run(&words).out.lines().count()
}

#[test]
fn tools_are_listed_for_people_and_for_scripts() {
    let shell = Shell::new();
    // when
    let table = shell.run(&["tools", "list"]);
    let json = shell.json(&["tools", "list", "--json"]);
    // then
    assert!(table.out.starts_with("TOOL") && table.out.contains("cyberos.cuo.list_personas"), "{}", table.out);
    assert_eq!(table.err, "", "nothing to say beside the data");
    let tools = json.as_array().unwrap();
    assert!(tools.iter().any(|tool| tool["name"] == "cyberos.cuo.list_personas"));
    assert_eq!(table.out.lines().count(), tools.len() + 1);
}

#[test]
fn a_setting_may_stand_before_or_after_the_command() {
    let shell = Shell::new();
    let elsewhere = shell.home().join("elsewhere").display().to_string();
    for words in [
        vec!["--state-dir", &elsewhere, "tools", "list"],
        vec!["tools", "list", "--state-dir", &elsewhere],
        vec!["tools", "--state-dir", &elsewhere, "list"],
    ] {
        let ran = Command::new(bridge_binary()).env_clear().args(&words).output().unwrap();
        assert!(ran.status.success(), "{words:?}: {}", String::from_utf8_lossy(&ran.stderr));
        assert!(Path::new(&elsewhere).join("bridge.db").exists(), "{words:?}");
        std::fs::remove_dir_all(&elsewhere).unwrap();
    }
}

#[test]
fn inspect_shows_what_a_tools_sandbox_may_reach() {
    let shell = Shell::new();
    let page = shell.run(&["tools", "inspect", "cyberos_cuo_list_personas"]).out;
    for part in ["Permission label", "cyberos:plugin/spawn-cuo", "network", "fuel", "Arguments"] {
        assert!(page.contains(part), "{part} is missing in {page}");
    }
    let label = &shell.json(&["tools", "inspect", "cyberos.cuo.list_personas", "--json"])["label"];
    assert_eq!(label["upstreams"], json!([]));
    assert_eq!(label["sha256"].as_str().unwrap().len(), 64);
    shell.run(&["tools", "inspect", "no.such.tool"]).assert_refused("input_validation", "tool_not_found");
}

#[test]
fn a_call_prints_its_result_and_leaves_its_two_audit_rows() {
    let shell = Shell::new();
    // when
    let result = shell.json(&["tools", "call", "cyberos.cuo.list_personas", "{}", "--json"]);
    // then
    assert_eq!(result["isError"], false);
    assert!(!result["structuredContent"]["personas"].as_array().unwrap().is_empty());
    let rows = shell.run(&["audit", "tail", "--json"]).out;
    let kinds: Vec<Value> =
        rows.lines().map(|row| serde_json::from_str::<Value>(row).unwrap()["kind"].clone()).collect();
    assert_eq!(kinds, ["mcp.tool_call_started", "mcp.tool_call_completed"]);
}

#[test]
fn arguments_come_from_the_line_a_file_or_standard_input() {
    let shell = Shell::new();
    let file = shell.file("arguments.json", r#"{"query": "write an architecture decision record"}"#);
    let call = ["tools", "call", "cyberos.cuo.route"];
    let from_file = shell.run(&[&call[..], &[&format!("@{file}")]].concat());
    let from_input = shell.run_with_input(&[&call[..], &["-"]].concat(), &std::fs::read_to_string(&file).unwrap());
    assert_eq!((from_file.status, from_input.status), (0, 0), "{}", from_file.err);
    assert_eq!(from_file.out, from_input.out);
    let missing = shell.run(&[&call[..], &["@/no/such/file"]].concat());
    missing.assert_refused("input_validation", "invalid_params");
}

#[test]
fn a_refused_call_says_class_reason_hint_and_trace_on_stderr() {
    let shell = Shell::new();
    let call = |name: &str, arguments: &str| shell.run(&["tools", "call", name, arguments]);
    call("cyberos.cuo.list_personas", r#"{"x": 1}"#).assert_refused("input_validation", "schema_violation");
    call("cyberos.cuo.list_personas", "[1]").assert_refused("input_validation", "invalid_params");
    call("no.such.tool", "{}").assert_refused("input_validation", "tool_not_found");
    // and for scripts as one line of JSON
    let scripted = shell.run(&["tools", "call", "no.such.tool", "--json"]);
    let refusal: Value = serde_json::from_str(&scripted.err).unwrap();
    assert_eq!((scripted.status, &refusal["reason"]), (2, &json!("tool_not_found")));
}

#[test]
fn a_destructive_call_needs_a_terminal_or_a_signed_token_and_the_token_works_once() {
    let shell = Shell::new();
    let arguments = r#"{"kind": "note.added", "body": {"text": "hello"}}"#;
    let call = ["tools", "call", "cyberos.memory.append_audit", arguments];
    // given nobody confirms
    let unasked = shell.run(&call);
    unasked.assert_refused("authz_denied", "confirmation_required");
    assert!(unasked.err.contains("--confirm"), "{}", unasked.err);
    // when somebody should, but there is no terminal
    shell.run(&[&call[..], &["--confirm"]].concat()).assert_refused("authz_denied", "confirmation_required");
    // when a token was signed for other arguments
    let sign = |arguments: &str| {
        let signed = shell.run(&["confirm", "sign", "--tool", "cyberos.memory.append_audit", "--arguments", arguments]);
        assert!(
            signed.err.contains("cyberos.memory.append_audit") && signed.out.lines().count() == 1,
            "{}",
            signed.err
        );
        signed.out.trim().to_owned()
    };
    let other = sign(r#"{"kind": "note.added", "body": {"text": "goodbye"}}"#);
    let confirmed = |token: &str| shell.run(&[&call[..], &["--confirmation", token]].concat());
    confirmed(&other).assert_refused("authz_denied", "confirmation_invalid");
    // then the right one passes the gate, once
    let token = sign(arguments);
    let first = confirmed(&token);
    assert_eq!(first.status, 0, "{}", first.err);
    assert_eq!(shell.run(&["audit", "tail", "--kind", "note.added", "--json"]).out.lines().count(), 1);
    confirmed(&token).assert_refused("authz_denied", "confirmation_invalid");
}

#[test]
fn a_long_running_call_is_awaited_and_kept_as_a_task() {
    let shell = Shell::new();
    let arguments = json!({
        "persona": "chief-technology-officer",
        "workflow": "adr-quick-capture",
        "inputs": { "decision": "Use Postgres", "context": "We need a store" },
    });
    // when
    let result = shell.json(&["tools", "call", "cyberos.cuo.execute_workflow", &arguments.to_string(), "--json"]);
    // then
    assert!(result["structuredContent"]["steps_executed"].as_u64().unwrap() > 0, "{result}");
    let tasks = shell.json(&["tasks", "list", "--json"]);
    let task = &tasks[0];
    assert_eq!((tasks.as_array().unwrap().len(), &task["status"]), (1, &json!("completed")));
    let id = task["task_id"].as_str().unwrap();
    assert_eq!(shell.json(&["tasks", "get", id, "--json"])["output"], result["structuredContent"]);
    // and it is nobody else's
    let foreign = ["--tenant", TENANT, "--subject", "alice"];
    shell.run(&[&["tasks", "get", id][..], &foreign].concat()).assert_refused("input_validation", "task_not_found");
    shell.run(&["tasks", "cancel", id]).assert_refused("input_validation", "task_ended");
}

#[test]
fn a_minted_token_makes_the_caller_and_binds_it_to_its_scopes() {
    let shell = Shell::new();
    let mint = |more: &[&str]| {
        let ran = shell.run(&[&["token", "mint", "--tenant", TENANT, "--subject", "alice"][..], more].concat());
        assert_eq!((ran.status, ran.out.lines().count()), (0, 1), "the token alone is on stdout: {}", ran.err);
        ran.out.trim().to_owned()
    };
    let as_alice = |token: &str| {
        let mut command = shell.command(&["tools", "call", "cyberos.cuo.list_personas", "--dev-issuer"]);
        Ran::from(command.env("CYBEROS_TOKEN", token).output().unwrap())
    };
    // when
    let allowed = as_alice(&mint(&["--scope", "cyberos:cuo:list"]));
    let powerless = as_alice(&mint(&[]));
    // then
    assert_eq!(allowed.status, 0, "{}", allowed.err);
    powerless.assert_refused("authz_denied", "insufficient_scope");
    assert_eq!(as_alice(&mint(&["--all-scopes"])).status, 0);
    as_alice("not.a.token").assert_refused("authz_denied", "token_invalid");
    // Her rows are her tenant's, not the local user's.
    assert_eq!((row_count(&["--tenant", TENANT], &shell), row_count(&[], &shell)), (5, 0));
}

#[test]
fn a_rotated_issuer_keeps_the_old_public_key_and_never_prints_a_private_one() {
    let shell = Shell::new();
    let before = shell.json(&["token", "jwks"]);
    let rotated = shell.json(&["token", "rotate", "--json"]);
    let after = shell.json(&["token", "jwks"]);
    let kids: Vec<&Value> = after["keys"].as_array().unwrap().iter().map(|key| &key["kid"]).collect();
    assert_eq!(kids, [&rotated["kid"], &before["keys"][0]["kid"]]);
    assert!(!after.to_string().contains("\"d\"") && !after.to_string().contains("pkcs8"));
}

#[test]
fn mistakes_in_what_is_minted_are_named() {
    let shell = Shell::new();
    for (words, word) in [
        (vec!["--tenant", "nobody", "--subject", "a"], "UUID"),
        (vec!["--tenant", TENANT, "--subject", "a", "--ttl", "25h"], "24 hours"),
        (vec!["--tenant", TENANT, "--subject", "a", "--ttl", "soon"], "15m"),
        (vec!["--tenant", TENANT, "--subject", "a", "--scope", "two words"], "scope"),
    ] {
        let ran = shell.run(&[&["token", "mint"][..], &words].concat());
        assert_eq!((ran.status, ran.out.as_str()), (2, ""), "{words:?}");
        assert!(ran.err.contains(word), "{words:?}: {}", ran.err);
    }
}

#[test]
fn verify_names_the_first_bad_row_of_an_export() {
    let shell = Shell::new();
    for _ in 0..3 {
        shell.json(&["tools", "call", "cyberos.cuo.list_personas", "--json"]);
    }
    let export = shell.home().join("export.jsonl").display().to_string();
    let checkpoint = shell.file("checkpoint.json", &shell.run(&["audit", "checkpoint"]).out);
    assert_eq!(shell.run(&["audit", "export", "--out", &export]).status, 0);
    let verify = |file: &str, more: &[&str]| shell.run(&[&["audit", "verify", "--file", file][..], more].concat());
    // given it is whole
    let whole = verify(&export, &["--checkpoint", &checkpoint]);
    assert_eq!(whole.status, 0, "{} {}", whole.out, whole.err);
    assert_eq!(shell.run(&["audit", "verify", "--checkpoint", &checkpoint]).status, 0);
    // when somebody has been at it
    let text = std::fs::read_to_string(&export).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 6);
    let edited = text.replacen("list_personas", "list_nothing", 1);
    let without_third = [&lines[..2], &lines[3..]].concat().join("\n");
    let swapped = [&lines[..1], &[lines[2], lines[1]], &lines[3..]].concat().join("\n");
    let doubled = [&lines[..4], &[lines[3]], &lines[4..]].concat().join("\n");
    for (name, content, seq, kind) in [
        ("edited", edited.as_str(), 1, "edited"),
        ("missing", &without_third, 3, "missing"),
        ("swapped", &swapped, 2, "missing"),
        ("doubled", &doubled, 4, "out_of_order"),
    ] {
        // then
        let report = verify(&shell.file(name, content), &["--json"]);
        assert_eq!(report.status, 1, "{name}");
        assert_eq!(report.json()["fault"], json!({ "seq": seq, "kind": kind }), "{name}");
    }
    // A lost tail shows only against a checkpoint that was kept elsewhere.
    let short = shell.file("short", lines[..4].join("\n"));
    assert_eq!(verify(&short, &[]).status, 0);
    let lost = verify(&short, &["--checkpoint", &checkpoint]);
    assert!(lost.status == 1 && lost.out.contains("rows from 5 on are missing"), "{}", lost.out);
}

#[tokio::test]
async fn verify_sees_what_was_done_to_the_store_behind_its_back() {
    for (change, seq, kind) in [
        ("UPDATE audit SET actor_id = 'somebody else' WHERE seq = 2", 2, "edited"),
        ("DELETE FROM audit WHERE seq = 3", 3, "missing"),
        ("DELETE FROM audit WHERE seq = 4", 4, "tail_lost"),
    ] {
        // given
        let shell = Shell::new();
        for _ in 0..2 {
            shell.json(&["tools", "call", "cyberos.cuo.list_personas", "--json"]);
        }
        assert_eq!(shell.run(&["audit", "verify"]).status, 0);
        // when
        let mut store = SqliteConnectOptions::new().filename(shell.state().join("bridge.db")).connect().await.unwrap();
        let guards: Vec<String> = sqlx::query_scalar("SELECT name FROM sqlite_schema WHERE type = 'trigger'")
            .fetch_all(&mut store)
            .await
            .unwrap();
        for guard in guards {
            sqlx::raw_sql(AssertSqlSafe(format!("DROP TRIGGER {guard}"))).execute(&mut store).await.unwrap();
        }
        sqlx::raw_sql(AssertSqlSafe(change)).execute(&mut store).await.unwrap();
        store.close().await.unwrap();
        // then
        let report = shell.run(&["audit", "verify", "--json"]);
        assert_eq!(report.status, 1, "{change}");
        assert_eq!(report.json()["fault"], json!({ "seq": seq, "kind": kind }), "{change}");
    }
}

#[tokio::test]
async fn a_postgres_store_is_migrated_by_its_owner_and_refused_to_the_owner_as_a_bridge() {
    let database = Database::empty().await;
    let as_login =
        |login: Login| Shell::new().with("CYBEROS_DATABASE_URL", database.url(login).expose_secret().to_owned());
    // given no schema
    let early = as_login(Login::Bridge).run(&["doctor"]);
    assert!(early.status == 1 && early.out.contains("store migrate --owner-url"), "{}", early.out);
    // when
    let owner_url = database.url(Login::Owner);
    for _ in 0..2 {
        let migrated = Shell::new().json(&["store", "migrate", "--json", "--owner-url", owner_url.expose_secret()]);
        assert!(migrated["schema_version"].as_i64().unwrap() >= 1, "{migrated}");
    }
    let mut admin = database.connect(Login::Admin).await;
    sqlx::raw_sql("GRANT cyberos_plugin_host TO bridge_login").execute(&mut admin).await.unwrap();
    // then
    let bridge = as_login(Login::Bridge);
    let healthy = bridge.run(&["doctor"]);
    assert!(healthy.status == 0 && healthy.out.contains("skew"), "{}", healthy.out);
    bridge.json(&["tools", "call", "cyberos.cuo.list_personas", "--json"]);
    assert_eq!(bridge.run(&["audit", "verify"]).status, 0);
    let refused = as_login(Login::Owner).run(&["doctor"]);
    assert!(refused.status == 1 && refused.out.contains("FAIL  store"), "{}", refused.out);
    assert_eq!(as_login(Login::Owner).run(&["tools", "list"]).status, 2);
    // A superuser can step down to the application's role, and should not have to.
    let warned = as_login(Login::Admin).run(&["doctor"]);
    assert!(warned.status == 0 && warned.out.contains("warn  role"), "{}", warned.out);
}

#[test]
fn a_call_that_is_interrupted_cancels_its_task() {
    use std::os::unix::fs::PermissionsExt;
    // given a supervisor that begins and never ends
    let shell = Shell::new();
    let supervisor = shell.file("supervisor", "#!/bin/sh\nread request\ntouch \"$0.began\"\nsleep 60\n");
    std::fs::set_permissions(&supervisor, std::fs::Permissions::from_mode(0o755)).unwrap();
    let workflow = r#"{"persona": "chief-technology-officer", "workflow": "adr-quick-capture"}"#;
    let settings = ["--cuo", "json-rpc", "--cuo-command", &supervisor];
    let call = [&settings[..], &["tools", "call", "cyberos.cuo.execute_workflow", workflow]].concat();
    let child = shell.command(&call).spawn().unwrap();
    for _ in 0..200 {
        if Path::new(&format!("{supervisor}.began")).exists() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    // when
    let process = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
    // then
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert_eq!(ran.status, 130, "{}", ran.err);
    assert_eq!(shell.json(&["tasks", "list", "--json"])[0]["status"], "cancelled");
}

#[test]
fn an_export_never_overwrites_a_file() {
    let shell = Shell::new();
    let evidence = shell.file("evidence.jsonl", "precious");
    let ran = shell.run(&["audit", "export", "--out", &evidence]);
    assert_eq!(ran.status, 2, "{}", ran.out);
    assert_eq!(std::fs::read_to_string(&evidence).unwrap(), "precious");
}

#[test]
fn tail_shows_the_newest_rows_and_what_was_asked_for() {
    let shell = Shell::new();
    for name in ["cyberos.cuo.list_personas", "no.such.tool", "cyberos.cuo.list_personas"] {
        shell.run(&["tools", "call", name]);
    }
    let seqs = |more: &[&str]| -> Vec<i64> {
        let rows = shell.run(&[&["audit", "tail", "--json"][..], more].concat()).out;
        rows.lines().map(|row| serde_json::from_str::<Value>(row).unwrap()["seq"].as_i64().unwrap()).collect()
    };
    assert_eq!(seqs(&["-n", "2"]), [4, 5]);
    assert_eq!(seqs(&["--since", "3"]), [4, 5]);
    assert_eq!(seqs(&["--kind", "mcp.tool_call_refused"]), [3]);
    assert_eq!(seqs(&["--since", "10m"]), [1, 2, 3, 4, 5]);
    assert_eq!(seqs(&["--actor", "nobody"]), Vec::<i64>::new());
}

#[test]
fn the_catalogue_can_be_searched_and_run_without_a_bridge() {
    let shell = Shell::new();
    let personas = shell.json(&["cuo", "personas", "--json"]);
    assert!(personas["personas"].as_array().unwrap().len() > 10);
    let route = shell.json(&["cuo", "route", "write", "an", "adr", "for", "the", "queue", "--json"]);
    assert_eq!(route["persona"], "chief-technology-officer");
    let out = shell.home().join("artefacts");
    let ran = shell.run(&[
        "cuo",
        "run",
        "chief-technology-officer/adr-quick-capture",
        "--input",
        "decision=Use Postgres",
        "--out",
        out.to_str().unwrap(),
    ]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    assert!(std::fs::read_dir(out).unwrap().count() > 0);
    let unknown = shell.run(&["cuo", "run", "chief-technology-officer/adr-quick-captur"]);
    unknown.assert_refused("input_validation", "schema_violation");
    assert!(unknown.err.contains("adr-quick-capture"), "it says what may have been meant: {}", unknown.err);
}

#[test]
fn a_healthy_bridge_passes_the_doctor() {
    let shell = Shell::new();
    let ran = shell.run(&["doctor", "--json"]);
    assert_eq!(ran.status, 0, "{}", ran.out);
    let findings = ran.json();
    for check in ["clock", "state", "keys", "store", "catalogue", "supervisor", "issuers", "memory", "sandbox"] {
        let found = findings.as_array().unwrap().iter().find(|finding| finding["check"] == check);
        assert!(found.is_some_and(|finding| finding["verdict"] != "fail"), "{check}: {findings}");
    }
}

#[test]
fn the_doctor_says_how_to_mend_what_is_wrong() {
    use std::os::unix::fs::PermissionsExt;
    // given
    let shell = Shell::new()
        .with("MEMORY_ENDPOINT", "http://127.0.0.1:9")
        .with("CYBEROS_ISSUER", "https://issuer.example=/no/such/keys.json");
    shell.run(&["confirm", "sign", "--tool", "cyberos.cuo.list_personas"]);
    let key = shell.state().join("confirm.key");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    // when
    let ran = shell.run(&["doctor"]);
    // then
    assert_eq!(ran.status, 1, "{}", ran.out);
    for check in ["keys", "memory", "issuers"] {
        assert!(ran.out.lines().any(|l| l.starts_with("FAIL") && l.contains(check)), "{check}: {}", ran.out);
    }
    assert!(ran.out.contains("chmod 600"), "{}", ran.out);
}

#[test]
fn no_command_shows_a_secret_of_the_settings() {
    let shell = Shell::new().with("CYBEROS_DATABASE_URL", "postgres://bridge:hunter2@127.0.0.1:9/none");
    for words in [vec!["doctor"], vec!["tools", "list"], vec!["audit", "tail"], vec!["--help"]] {
        let ran = shell.run(&words);
        assert!(!format!("{}{}", ran.out, ran.err).contains("hunter2"), "{words:?}: {}{}", ran.out, ran.err);
    }
    let migrate = shell.run(&["store", "migrate", "--owner-url", "postgres://owner:hunter2@127.0.0.1:9/none"]);
    assert_eq!(migrate.status, 2);
    assert!(migrate.err.contains("cannot be reached") && !migrate.err.contains("hunter2"), "{}", migrate.err);
}

#[test]
fn the_memory_service_serves_the_audit_log_of_its_store() {
    let shell = Shell::new();
    shell.json(&["tools", "call", "cyberos.cuo.list_personas", "--json"]);
    let serve = ["memory", "serve", "--listen", "127.0.0.1:0", "--auth", "none"];
    let mut service = Background(shell.command(&serve).spawn().unwrap());
    let address = service.first_line().trim().strip_prefix("listening on http://").unwrap().to_owned();
    let (address, path) = address.split_once('/').unwrap();
    // when
    let reply = get(address, &format!("/{path}?limit=10"), address);
    // then
    let body: Value = serde_json::from_str(reply.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    assert_eq!(body["rows"].as_array().unwrap().len(), 2, "{reply}");
    // and not under a name that a page of another site could use
    assert!(get(address, "/v1/audit", "evil.example").starts_with("HTTP/1.1 403"));
}

#[test]
fn follow_shows_rows_as_they_come() {
    let shell = Shell::new();
    shell.json(&["tools", "call", "cyberos.cuo.list_personas", "--json"]);
    let mut tail = Background(shell.command(&["audit", "tail", "--follow", "--json"]).spawn().unwrap());
    let mut lines = BufReader::new(tail.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    let kind = |line: String| serde_json::from_str::<Value>(&line).unwrap()["kind"].clone();
    assert_eq!(kind(lines.next().unwrap()), "mcp.tool_call_started");
    assert_eq!(kind(lines.next().unwrap()), "mcp.tool_call_completed");
    // when
    shell.run(&["tools", "call", "no.such.tool"]);
    // then
    assert_eq!(kind(lines.next().unwrap()), "mcp.tool_call_refused");
}

/// A process that ends with its test.
struct Background(Child);

impl Background {
    fn first_line(&mut self) -> String {
        let mut line = String::new();
        BufReader::new(self.0.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
        line
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn get(address: &str, path: &str, host: &str) -> String {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply
}
