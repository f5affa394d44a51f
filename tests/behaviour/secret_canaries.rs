//! Planted secrets are nowhere but in the request to their upstream: not with the guest, not in anything that the process
//! writes, says or sends, with everything turned on that could write them.

use axum::extract::Request;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bridge_tests::otlp::Collector;
use bridge_tests::shell::Shell;
use bridge_tests::{Bridge, Setup};
use keyring_core::api::CredentialStoreApi;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};

const FROM_ENVIRONMENT: &str = "canary-Env/0123456789+x";
const FROM_FILE: &str = "canary-File/abcdefghij+y";
const FROM_KEYRING: &str = "canary-Ring/ABCDEFGHIJ+z";

/// An upstream that says everything it was told, in every way it can think of.
#[derive(Clone, Default)]
struct Parrot(Arc<Mutex<Vec<HeaderMap>>>);

impl Parrot {
    async fn start(&self) -> SocketAddr {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let this = self.clone();
        let routes = axum::Router::new().fallback(async move |request: Request| this.answer(&request));
        tokio::spawn(async move { axum::serve(listener, routes).await });
        address
    }

    fn answer(&self, request: &Request) -> Response {
        self.0.lock().unwrap().push(request.headers().clone());
        let sent = request.headers().get("authorization").or(request.headers().get("x-api-key"));
        let sent = sent.map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default();
        let secret = sent.trim_start_matches("Bearer ").to_owned();
        let body = json!({
            "plain": sent,
            "lower": secret.to_lowercase(),
            "base64": [STANDARD.encode(&secret), URL_SAFE_NO_PAD.encode(&secret), STANDARD.encode(&sent), STANDARD.encode(format!("x{secret}!"))],
            "escaped": [secret.replace('/', "%2F").replace('+', "%2B"), secret.replace('/', "\\/")],
            "hex": hex::encode(&secret),
        });
        match request.uri().path() {
            // In pieces that end in the middle of the secret.
            "/v1/pieces" => {
                let text = format!("before {secret} after");
                let pieces = text.into_bytes().into_iter().map(|byte| Ok::<_, std::io::Error>(vec![byte]));
                axum::body::Body::from_stream(futures::stream::iter(pieces)).into_response()
            }
            "/v1/broken" => (axum::http::StatusCode::UNAUTHORIZED, format!("bad key {secret}")).into_response(),
            "/v1/away" => axum::response::Redirect::temporary(&format!("/v1/echo?key={secret}")).into_response(),
            _ => ([("x-echo", sent.clone()), ("x-echo-base64", STANDARD.encode(&sent))], body.to_string())
                .into_response(),
        }
    }
}

/// A key in the session keyring, which the bridge inherits; gone with the test.
struct Key(keyring_core::Entry);

impl Key {
    /// `None` where the kernel has no keyrings for us.
    fn add(name: &str, secret: &str) -> Option<Key> {
        let store = linux_keyutils_keyring_store::Store::new().ok()?;
        let entry = store.build("", "", Some(&HashMap::from([("description", name)]))).ok()?;
        entry.set_password(secret).ok()?;
        Some(Key(entry))
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        let _ = self.0.delete_credential();
    }
}

fn planted(setup: Setup, upstream: SocketAddr, key: Option<&str>) -> Setup {
    let file = setup.home().join("weather.key");
    fs::write(&file, format!("{FROM_FILE}\n")).unwrap();
    let mut grants = String::from(
        "[plugins.guest-reaches]\nany_tool_name = true\ncuo = true\naudit_append = true\naudit_read = true\n\
         config = { colour = \"green\" }\nenvironment = { HARMLESS = \"yes\" }\n",
    );
    let mut places = vec![
        ("by-environment", "env:WEATHER_KEY".to_owned(), "scheme = \"Bearer\", "),
        ("by-file", format!("file:{}", file.display()), "header = \"x-api-key\", "),
    ];
    places.extend(key.map(|name| ("by-keyring", format!("keyring:{name}"), "scheme = \"Bearer\", ")));
    for (name, place, how) in places {
        grants += &format!(
            "[plugins.guest-reaches.upstreams.{name}]\nurl = \"http://{upstream}\"\nmethods = [\"GET\", \"POST\"]\n\
             paths = [\"/v1/*\"]\nallow_private = true\ncredential = {{ {how}secret = \"{place}\" }}\n"
        );
    }
    setup.guests(&["guest_reaches"], &grants).env("WEATHER_KEY", FROM_ENVIRONMENT)
}

/// Every spelling that would be as good as the secret.
fn spellings(secret: &str) -> Vec<String> {
    let middle = &STANDARD.encode(format!("Bearer {secret}"))[12..30];
    vec![
        secret.to_owned(),
        secret.to_lowercase(),
        STANDARD.encode(secret),
        URL_SAFE_NO_PAD.encode(secret),
        middle.to_owned(),
        hex::encode(secret),
        secret.replace('/', "%2F").replace('+', "%2B"),
        secret.replace('/', "\\/"),
        // Enough of it to go on with.
        secret[..16].to_owned(),
    ]
}

fn assert_clean(what: &str, text: &str) {
    for secret in [FROM_ENVIRONMENT, FROM_FILE, FROM_KEYRING] {
        for spelling in spellings(secret) {
            if let Some(at) = text.find(&spelling) {
                let from = text[..at].char_indices().rev().nth(120).map_or(0, |(at, _)| at);
                panic!("{what} holds {spelling:?}: …{}", &text[from..at]);
            }
        }
    }
}

/// Every file below, as text; databases hold text as it is.
fn assert_no_file_below(directory: &Path) -> usize {
    let mut seen = 0;
    for entry in fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            seen += assert_no_file_below(&path);
        } else if let Ok(bytes) = fs::read(&path) {
            assert_clean(&path.display().to_string(), &String::from_utf8_lossy(&bytes));
            seen += 1;
        }
    }
    seen
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_planted_secret_leaves_by_any_other_way_than_to_its_upstream() {
    // given
    let (parrot, collector) = (Parrot::default(), Collector::start().await);
    let upstream = parrot.start().await;
    let name = format!("cyberos-canary-{}", std::process::id());
    let key = Key::add(&name, FROM_KEYRING);
    if key.is_none() {
        eprintln!("the kernel gives this process no keyring: keyring: is not shown here");
    }
    let setup = planted(Bridge::http(), upstream, key.as_ref().map(|_| name.as_str()));
    let setup = setup
        .flag("--log=trace,hyper=trace,reqwest=trace,h2=trace,rustls=trace")
        .flag("--log-format=json")
        .flag(format!("--otlp-endpoint={}", collector.endpoint()))
        .unlimited();
    let bridge = setup.start().await;
    let alice = bridge.caller("alice");
    let mut upstreams = vec!["by-environment", "by-file"];
    upstreams.extend(key.as_ref().map(|_| "by-keyring"));
    // when: the guest looks wherever it may
    let mut answers = String::new();
    for name in &upstreams {
        for (path, more) in [
            ("/v1/echo", json!({})),
            ("/v1/pieces", json!({})),
            ("/v1/broken", json!({})),
            ("/v1/away", json!({})),
            ("/v1/echo?q=1", json!({ "headers": { "Authorization": "Bearer mine" } })),
            ("/v1/echo", json!({ "method": "POST", "body": "give it to me" })),
            ("/v2/elsewhere", json!({})),
        ] {
            let mut arguments = json!({ "upstream": name, "path": path });
            arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let reply = alice.call("test.fetches", arguments).await;
            answers += &reply.result().to_string();
        }
    }
    for setting in ["WEATHER_KEY", "secret", "credential", "colour"] {
        answers += &alice.call("test.reads_config", json!({ "name": setting })).await.result().to_string();
    }
    let bad = alice.call("test.fetches", json!({ "upstream": 1 })).await;
    answers += &bad.error().to_string();
    // then: each secret reached its upstream, or this could not fail
    let heard = |secret: &str| {
        let heard = parrot.0.lock().unwrap();
        heard.iter().any(|all| all.values().any(|value| value.to_str().is_ok_and(|text| text.ends_with(secret))))
    };
    assert!(heard(FROM_ENVIRONMENT) && heard(FROM_FILE) && (key.is_none() || heard(FROM_KEYRING)));
    assert!(answers.contains("***"), "the echo was redacted: {answers}");
    assert_clean("what the guest could see", &answers);
    // and nothing else that the process wrote, said or sent holds one
    assert_clean("metrics", &bridge.get("/metrics").await.text);
    assert_clean("health", &bridge.get("/mcp/healthz").await.text);
    let spans = collector.wait_for_spans(upstreams.len() * 7).await;
    assert_clean("traces", &format!("{spans:?}"));
    let rows = bridge.audit(bridge_tests::TENANT_A).await;
    assert!(rows.len() > 10);
    assert_clean("audit", &format!("{rows:?}"));
    drop(alice);
    bridge.signal(rustix::process::Signal::TERM);
    bridge.exit_within(std::time::Duration::from_secs(20)).await;
    let log = bridge.log();
    assert!(log.contains("\"TRACE\"") && log.contains("hyper"), "it is talkative");
    assert_clean("the log", &log);
    assert!(assert_no_file_below(&setup.state_dir()) > 1, "there is a store");
    // and no command shows one
    let plugins = format!("--plugins={}", setup.home().join("plugins").display());
    let shell = Shell::beside(&setup).with("WEATHER_KEY", FROM_ENVIRONMENT);
    for words in [
        &["plugins", "inspect", "guest-reaches"][..],
        &["plugins", "inspect", "guest-reaches", "--json"],
        &["tools", "inspect", "test.fetches"],
        &["tools", "inspect", "test.fetches", "--json"],
        &["tools", "call", "test.fetches", "{\"upstream\":\"by-environment\",\"path\":\"/v1/echo\"}", "--json"],
        &["doctor"],
        &["doctor", "--json"],
        &["audit", "export", "--tenant", bridge_tests::TENANT_A, "--subject", "alice"],
        &["plugins", "grant", "guest-reaches", "--import", "elicit", "--dry-run"],
    ] {
        let ran = shell.run(&[words, &[plugins.as_str(), "--log=trace"]].concat());
        assert_clean(&format!("{words:?}"), &format!("{}{}", ran.out, ran.err));
    }
    let label: Value = shell.json(&["plugins", "inspect", "guest-reaches", &plugins, "--json"]);
    assert!(label["upstreams"].to_string().contains("env:WEATHER_KEY"), "places are named: {label:#}");
}

#[tokio::test]
async fn a_secret_that_is_not_there_stops_the_start_and_says_where_it_was_sought() {
    for (place, says) in [
        ("env:NOT_SET_ANYWHERE", "NOT_SET_ANYWHERE is not set"),
        ("file:/no/such/key", "/no/such/key cannot be read"),
        ("keyring:cyberos-no-such-key", "cyberos-no-such-key"),
        ("hunter2-pasted", "env:NAME, file:PATH or keyring:NAME"),
    ] {
        let shell = Shell::new();
        let grants = format!(
            "[plugins.w.upstreams.api]\nurl = \"https://api.example.com\"\npaths = []\ncredential = {{ secret = \"{place}\" }}\n"
        );
        let file = shell.file("plugins.toml", grants);
        let ran = shell.run(&["tools", "list", "--plugins-file", &file]);
        assert_eq!(ran.status, 2, "{place}");
        assert!(ran.err.contains(says) && ran.err.contains(":4:25:"), "{place}: {}", ran.err);
        assert!(!ran.err.contains("hunter2"), "what may be the secret is not repeated: {}", ran.err);
    }
}
