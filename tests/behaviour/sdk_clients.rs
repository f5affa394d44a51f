//! The official SDKs as clients: what they make of us, over both transports. `scripts/need-clients` installs them.

use bridge_tests::setup::target;
use bridge_tests::{Bridge, Recorder, Setup};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::process::Command;

#[tokio::test]
async fn the_typescript_sdk_over_stdio() {
    let setup = Bridge::stdio();
    check(&talk(typescript("client.mjs"), started_by_the_client(&setup)).await);
}

#[tokio::test]
async fn the_typescript_sdk_over_http() {
    let bridge = Bridge::http().start().await;
    check(&talk(typescript("client.mjs"), served(&bridge)).await);
}

#[tokio::test]
async fn the_python_sdk_over_stdio() {
    let setup = Bridge::stdio();
    check(&talk(python("client.py"), started_by_the_client(&setup)).await);
}

#[tokio::test]
async fn the_python_sdk_over_http() {
    let bridge = Bridge::http().start().await;
    check(&talk(python("client.py"), served(&bridge)).await);
}

#[tokio::test]
async fn the_typescript_sdk_is_asked_and_told_over_stdio() {
    check_asked(&talk(typescript("asked.mjs"), started_by_the_client(&asking(Bridge::stdio()))).await);
}

#[tokio::test]
async fn the_typescript_sdk_is_asked_and_told_over_http() {
    let bridge = asking(Bridge::http()).start().await;
    check_asked(&talk(typescript("asked.mjs"), served(&bridge)).await);
}

#[tokio::test]
async fn the_python_sdk_is_asked_and_told_over_stdio() {
    check_asked(&talk(python("asked.py"), started_by_the_client(&asking(Bridge::stdio()))).await);
}

#[tokio::test]
async fn the_python_sdk_is_asked_and_told_over_http() {
    let bridge = asking(Bridge::http()).start().await;
    check_asked(&talk(python("asked.py"), served(&bridge)).await);
}

/// Each request goes to the next of two bridges on one Postgres, as a load balancer without sticky sessions sends it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_sdks_through_two_replicas() {
    let setup = asking(Bridge::http().postgres().await);
    let (first, second) = futures::join!(setup.start(), setup.start());
    let proxy = Recorder::before(&[first.address(), second.address()]).await;
    let place = || {
        let url = format!("http://{}/mcp", proxy.address);
        json!({ "transport": "http", "url": url, "token": first.caller("alice").mint() })
    };
    check_asked(&talk(typescript("asked.mjs"), place()).await);
    check_asked(&talk(python("asked.py"), place()).await);
    for client in [typescript("client.mjs"), python("client.py")] {
        let seen = talk(client, place()).await;
        assert_eq!(seen["result"]["steps_executed"], 2, "{seen:#}");
        assert_eq!((&seen["handle"], &seen["plain"]["status"]), (&json!("running"), &json!("completed")), "{seen:#}");
    }
    let used: std::collections::BTreeSet<usize> = proxy.exchanges().iter().map(|exchange| exchange.bridge).collect();
    assert_eq!(used.len(), 2, "both were asked");
}

fn asking(setup: Setup) -> Setup {
    let grants = format!("{}[plugins.guest-misbehaves]\nany_tool_name = true\n", crate::questions::GRANTS);
    setup.guests(&["guest_offers", "guest_misbehaves"], &grants)
}

#[track_caller]
fn check_asked(seen: &Value) {
    assert_eq!(seen["form"]["answer"], "accept", "{seen:#}");
    assert!(seen["form"]["says"].as_str().unwrap().contains("Huế"), "{seen:#}");
    assert!(seen["model"]["says"].as_str().unwrap().contains("You asked: Why?"), "{seen:#}");
    assert_eq!(seen["logs"], json!(["error"]), "{seen:#}");
    let progress: Vec<i64> = seen["progress"].as_array().unwrap().iter().map(|n| n.as_f64().unwrap() as i64).collect();
    assert_eq!((progress, &seen["steps"]["steps_executed"]), (vec![1, 2, 3], &json!(3)), "{seen:#}");
    assert_eq!(seen["cancelled"], "cancelled", "{seen:#}");
    assert_eq!(seen["updated"], json!([seen["subscribed"]]), "{seen:#}");
    // A destructive call, which the user confirmed in a form.
    assert!(seen["confirmed"]["seq"].as_i64().unwrap() > 0, "{seen:#}");
    assert_eq!(seen["questions"].as_array().unwrap().last().unwrap(), &json!(["confirm"]), "{seen:#}");
}

fn typescript(script: &str) -> Command {
    let script = clients().join("ts").join(script);
    assert!(clients().join("ts/node_modules").is_dir(), "the TypeScript SDK is missing: run scripts/need-clients");
    let mut command = Command::new("node");
    command.arg(script);
    command
}

fn python(script: &str) -> Command {
    let python = target().join("clients-venv/bin/python");
    assert!(python.is_file(), "the Python SDK is missing: run scripts/need-clients");
    let mut command = Command::new(python);
    command.env("PYTHONDONTWRITEBYTECODE", "1").arg(clients().join("python").join(script));
    command
}

fn clients() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("clients")
}

fn started_by_the_client(setup: &Setup) -> Value {
    let command = setup.command();
    let command = command.as_std();
    let text = |os: &std::ffi::OsStr| os.to_str().unwrap().to_owned();
    let environment: Map<String, Value> =
        command.get_envs().filter_map(|(name, value)| Some((text(name), text(value?).into()))).collect();
    let arguments: Vec<String> = command.get_args().map(text).collect();
    json!({ "transport": "stdio", "command": text(command.get_program()), "args": arguments, "env": environment })
}

fn served(bridge: &Bridge) -> Value {
    json!({ "transport": "http", "url": bridge.url("/mcp"), "token": bridge.caller("alice").mint() })
}

async fn talk(mut client: Command, place: Value) -> Value {
    client.arg(place.to_string()).kill_on_drop(true);
    let output = tokio::time::timeout(Duration::from_secs(60), client.output()).await.expect("it ends");
    let output = output.expect("it starts");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "the client failed:\n{out}\n{err}");
    serde_json::from_str(&out).unwrap_or_else(|_| panic!("no report:\n{out}\n{err}"))
}

#[track_caller]
fn check(seen: &Value) {
    assert_eq!(seen["server"]["name"], "cyberos-mcp-bridge", "{seen:#}");
    assert_eq!(seen["tools"].as_array().unwrap().len(), 8);
    assert!(seen["personas"].as_u64().unwrap() > 40);
    // A task, followed to its end on MCP's wire, with a result that fits its schema.
    let statuses = seen["statuses"].as_array().unwrap();
    assert!(statuses.contains(&json!("working")) || statuses.contains(&json!("completed")), "{seen:#}");
    assert_eq!(seen["result"]["steps_executed"], 2, "{seen:#}");
    // And from the plain handle.
    assert_eq!((&seen["handle"], &seen["plain"]["status"]), (&json!("running"), &json!("completed")), "{seen:#}");
    // Errors that a program can act on.
    let wrong = &seen["wrongCall"];
    assert_eq!(
        (&wrong["class"], &wrong["reason"]),
        (&json!("input_validation"), &json!("schema_violation")),
        "{seen:#}"
    );
    assert_eq!((&wrong["isMcpError"], &wrong["code"]), (&json!(true), &json!(-32602)));
    assert!(wrong["hint"].as_str().unwrap().len() > 20 && wrong["trace_id"].as_str().unwrap().len() == 32);
    let unconfirmed = &seen["unconfirmed"];
    assert_eq!(
        (&unconfirmed["class"], &unconfirmed["reason"]),
        (&json!("authz_denied"), &json!("confirmation_required"))
    );
}
