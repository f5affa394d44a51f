//! What a guest asks of the client behind its call, and tells it: what goes out, what comes back, and what it costs. Below
//! the protocol, with clients that do as a test says.

use async_trait::async_trait;
use bridge_tests::stores::TestStore;
use cyberos_plugin_host::auth::Caller;
use cyberos_plugin_host::config::{Grants, Limits};
use cyberos_plugin_host::error::{Error, Reason, Result};
use cyberos_plugin_host::model::{
    Client, ClientFeatures, ClientPort, ElicitAnswer, Elicitation, Laps, LogLevel, PluginId, ProgressSink, TenantId,
    Trace, UpdateSink,
};
use cyberos_plugin_host::runtime::{AskTool, Ended, Plugin, PluginCall, Runtime, Services};
use cyberos_plugin_host::telemetry::{Telemetry, TelemetrySettings};
use cyberos_plugin_host::upstreams::http::HttpUpstreams;
use cyberos_plugin_host::upstreams::memory::Memory;
use serde_json::{Map, Value, json};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// What the client does with a question.
type Reaction = Box<dyn Fn() -> Result<ElicitAnswer> + Send + Sync>;

/// A client that remembers what reached it.
struct Somebody {
    features: ClientFeatures,
    reaction: Reaction,
    thinks: Duration,
    heard: Mutex<Vec<String>>,
}

impl Somebody {
    fn who(reaction: impl Fn() -> Result<ElicitAnswer> + Send + Sync + 'static) -> Somebody {
        let features = ClientFeatures { elicit_form: true, elicit_url: true, sample: true, sample_tools: false };
        Somebody { features, reaction: Box::new(reaction), thinks: Duration::ZERO, heard: Mutex::default() }
    }

    fn hears(&self, what: String) {
        self.heard.lock().unwrap().push(what);
    }

    fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }
}

#[async_trait]
impl Client for Somebody {
    fn features(&self) -> ClientFeatures {
        self.features
    }

    async fn elicit(&self, question: Elicitation) -> Result<ElicitAnswer> {
        self.hears(match &question {
            Elicitation::Form(form) => format!("form {} {}", form.message(), form.schema()),
            Elicitation::Url(visit) => format!("url {} {}", visit.url, visit.elicitation_id),
        });
        tokio::time::sleep(self.thinks).await;
        (self.reaction)()
    }

    async fn sample(&self, request: Map<String, Value>) -> Result<Map<String, Value>> {
        self.hears(format!("sample {}", Value::Object(request)));
        let answer = json!({ "role": "assistant", "model": "m", "content": { "type": "text", "text": "Because." } });
        (self.reaction)().map(|_| answer.as_object().unwrap().clone())
    }

    fn elicitation_complete(&self, elicitation_id: &str) {
        self.hears(format!("complete {elicitation_id}"));
    }

    fn log(&self, level: LogLevel, logger: &str, data: Value) {
        self.hears(format!("{} {logger} {data}", level.as_str()));
    }
}

#[derive(Default)]
struct Updates(Mutex<Vec<String>>);

impl UpdateSink for Updates {
    fn resource_updated(&self, tenant: TenantId, plugin: &PluginId, uri: &str) {
        assert_eq!(tenant, TenantId::LOCAL);
        self.0.lock().unwrap().push(format!("{plugin} {uri}"));
    }
}

struct Guest {
    plugin: Arc<Plugin>,
    updates: Arc<Updates>,
    _store: TestStore,
}

impl Guest {
    async fn load(grants: Grants) -> Guest {
        let store = TestStore::sqlite().await;
        let updates = Arc::new(Updates::default());
        let services = Services {
            cuo: None,
            http: HttpUpstreams::new(),
            memory: Arc::new(Memory::embedded(store.store.clone())),
            updates: updates.clone(),
            metrics: Telemetry::start(&TelemetrySettings::default()).unwrap().metrics.clone(),
        };
        let runtime = Runtime::new(services, None, true).unwrap();
        let built = bridge_tests::setup::target().join("plugins/wasm32-wasip2/component/guest_offers.wasm");
        let wasm = std::fs::read(built).expect("run `make guests`");
        let id = PluginId::parse("guest-offers").unwrap();
        let plugin = Arc::new(Plugin::load(&runtime, id, &wasm, grants).await.unwrap());
        Guest { plugin, updates, _store: store }
    }

    async fn call(&self, tool: &str, arguments: Value, client: &Arc<Somebody>) -> Result<Value> {
        self.call_until(tool, arguments, client, CancellationToken::new()).await.outcome
    }

    async fn call_until(
        &self,
        tool: &str,
        arguments: Value,
        client: &Arc<Somebody>,
        cancel: CancellationToken,
    ) -> Ended<Value> {
        let call = PluginCall {
            caller: Caller::local(),
            bearer: None,
            trace: Trace::start(),
            deadline: Instant::now() + Duration::from_millis(self.plugin.grants().limits.deadline_ms),
            cancel,
            progress: ProgressSink::none(),
            client: ClientPort::new(client.clone()),
            task_id: None,
            cleared_to_append: false,
        };
        let ask = AskTool { name: tool.into(), arguments: arguments.to_string() };
        let Ended { outcome, fuel } = self.plugin.call(ask, call, &mut Laps::none()).await;
        Ended { outcome: outcome.map(|result| result.structured.expect("a structured result")), fuel }
    }
}

fn granted() -> Grants {
    Grants { any_tool_name: true, elicit: true, sample: true, ..Grants::default() }
}

fn accepts(content: Value) -> impl Fn() -> Result<ElicitAnswer> {
    move || Ok(ElicitAnswer::Accept(content.as_object().unwrap().clone()))
}

#[tokio::test]
async fn a_form_made_of_a_type_goes_out_and_its_answer_comes_back() {
    // given
    let guest = Guest::load(granted()).await;
    let client = Arc::new(Somebody::who(accepts(json!({ "city": "Utrecht", "count": 2, "express": true }))));
    // when
    let came = guest.call("test.asks_form", json!({}), &client).await.unwrap();
    // then
    assert_eq!((&came["can"], &came["answer"]), (&json!(["form", "url"]), &json!("accept")), "{came:#}");
    let says: Value = serde_json::from_str(came["says"].as_str().unwrap()).unwrap();
    assert_eq!((&says["city"], &says["count"], &says["express"]), (&json!("Utrecht"), &json!(2), &json!(true)));
    let heard = client.heard();
    let schema = heard[0]
        .strip_prefix("form Plugin guest-offers asks: Please fill this in. ")
        .unwrap_or_else(|| panic!("{heard:?}"));
    let schema: Value = serde_json::from_str(schema).unwrap();
    assert_eq!(schema["properties"]["city"], json!({ "type": "string", "description": "Where it goes." }));
    assert_eq!(schema["properties"]["count"]["type"], "integer");
    assert_eq!(schema["properties"]["size"]["enum"], json!(["small", "large"]));
    assert_eq!(schema["required"], json!(["city", "express"]));
}

#[tokio::test]
async fn what_the_user_or_the_client_does_not_do_is_an_answer() {
    let guest = Guest::load(granted()).await;
    let error = |reason| move || Err(Error::new(reason, "No."));
    let clients: Vec<(&str, Arc<Somebody>)> = vec![
        ("decline", Arc::new(Somebody::who(|| Ok(ElicitAnswer::Decline)))),
        ("cancel", Arc::new(Somebody::who(|| Ok(ElicitAnswer::Cancel)))),
        ("timed-out", Arc::new(Somebody::who(error(Reason::Timeout)))),
        ("unavailable", Arc::new(Somebody::who(error(Reason::BadResponse)))),
    ];
    for (expected, client) in clients {
        for (tool, arguments) in
            [("test.asks_form", json!({})), ("test.asks_url", json!({ "url": "https://example.com/in" }))]
        {
            let came = guest.call(tool, arguments, &client).await.unwrap();
            assert_eq!(came["answer"], expected, "{tool}: {came:#}");
        }
    }
    let refuses = Arc::new(Somebody::who(error(Reason::UserDeclined)));
    assert_eq!(guest.call("test.asks_model", json!({}), &refuses).await.unwrap()["answer"], "declined");
}

#[tokio::test]
async fn what_must_not_be_asked_never_reaches_the_client() {
    let guest = Guest::load(granted()).await;
    let client = Arc::new(Somebody::who(|| panic!("nobody is to be asked")));
    let field = |name: &str| json!({ "type": "object", "properties": { name: { "type": "string" } } }).to_string();
    let many = (0..4_000).map(|n| (n.to_string(), json!({ "type": "string" }))).collect::<Map<_, _>>();
    for (tool, arguments) in [
        ("test.asks_form", json!({ "schema": field("password") })),
        ("test.asks_form", json!({ "schema": "not JSON" })),
        ("test.asks_form", json!({ "schema": json!({ "type": "object", "properties": many }).to_string() })),
        ("test.asks_form", json!({ "schema": field("name"), "message": " " })),
        ("test.asks_form", json!({ "schema": field("name"), "message": "x".repeat(4_001) })),
        ("test.asks_form", json!({ "schema": field("name"), "message": "\r\u{1b}[2KThe bridge asks:" })),
        ("test.asks_form", json!({ "schema": field("name"), "message": "Go\u{202e}on" })),
        ("test.asks_url", json!({ "url": "http://example.com/" })),
        ("test.asks_url", json!({ "url": "https://user:word@example.com/" })),
        ("test.asks_model", json!({ "request": "{}" })),
        ("test.asks_model", json!({ "request": json!({ "maxTokens": 1, "messages": [], "tools": [] }).to_string() })),
        ("test.asks_model", json!({ "request": format!("{{\"x\":\"{}\"}}", "x".repeat(1 << 20)) })),
    ] {
        let came = guest.call(tool, arguments, &client).await.unwrap();
        assert_eq!(came["answer"], "invalid", "{tool}: {came:#}");
        assert!(!came["says"].as_str().unwrap().is_empty(), "{came:#}");
    }
    // Nor what the client cannot do.
    let mut poor = Somebody::who(|| panic!("nobody is to be asked"));
    poor.features = ClientFeatures { elicit_form: true, ..ClientFeatures::default() };
    let poor = Arc::new(poor);
    for (tool, arguments) in
        [("test.asks_url", json!({ "url": "https://example.com/" })), ("test.asks_model", json!({}))]
    {
        assert_eq!(guest.call(tool, arguments, &poor).await.unwrap()["answer"], "unsupported");
    }
    assert!(client.heard().is_empty() && poor.heard().is_empty());
}

#[tokio::test]
async fn a_visit_is_completed_once_and_only_under_its_own_id() {
    let guest = Guest::load(granted()).await;
    let client = Arc::new(Somebody::who(accepts(json!({}))));
    let came = guest.call("test.asks_url", json!({ "url": "https://example.com/in?x=1" }), &client).await.unwrap();
    let id = came["says"].as_str().unwrap();
    assert_eq!(client.heard(), [format!("url https://example.com/in?x=1 {id}"), format!("complete {id}")]);
}

#[tokio::test]
async fn the_model_is_asked_what_the_plugin_may_ask() {
    let guest = Guest::load(granted()).await;
    let client = Arc::new(Somebody::who(accepts(json!({}))));
    let came = guest.call("test.asks_model", json!({ "question": "Why?" }), &client).await.unwrap();
    assert_eq!((&came["can"], &came["says"]), (&json!(["messages"]), &json!("Because.")), "{came:#}");
    let request = json!({
        "maxTokens": 5,
        "messages": [{ "role": "user", "content": { "type": "text", "text": "Hi" } }],
        "includeContext": "allServers",
        "_meta": { "progressToken": 1 },
    });
    guest.call("test.asks_model", json!({ "request": request.to_string() }), &client).await.unwrap();
    let sent: Value = serde_json::from_str(client.heard()[1].strip_prefix("sample ").unwrap()).unwrap();
    let who = json!({ "cyberos/plugin": "guest-offers" });
    assert_eq!(sent, json!({ "maxTokens": 5, "messages": request["messages"], "_meta": who }));
}

#[tokio::test]
async fn time_that_a_person_takes_is_not_the_calls() {
    // given: a call that may take half a second, and a user who takes three times that
    let limits = Limits { deadline_ms: 500, ..Limits::default() };
    let guest = Guest::load(Grants { limits, ..granted() }).await;
    let mut slow = Somebody::who(|| Ok(ElicitAnswer::Decline));
    slow.thinks = Duration::from_millis(1_500);
    // when
    let started = Instant::now();
    let came = guest.call("test.asks_form", json!({}), &Arc::new(slow)).await.unwrap();
    // then
    assert!(started.elapsed() >= Duration::from_millis(1_500));
    assert_eq!(came["answer"], "decline");
    let left = (came["left"][0].as_u64().unwrap(), came["left"][1].as_u64().unwrap());
    assert!(left.1 > 0 && left.0 - left.1 < 250, "the clock stood still: {left:?}");
}

#[tokio::test]
async fn a_call_that_waits_for_a_person_keeps_nobody_else_from_the_plugin() {
    // given: a plugin that runs one call at a time, and whose call waits
    let limits = Limits { concurrency: 1, ..Limits::default() };
    let guest = Guest::load(Grants { limits, ..granted() }).await;
    let mut slow = Somebody::who(accepts(json!({ "city": "x", "express": false })));
    slow.thinks = Duration::from_millis(800);
    let (slow, quick) = (Arc::new(slow), Arc::new(Somebody::who(|| Ok(ElicitAnswer::Decline))));
    let others = async {
        while slow.heard().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let started = Instant::now();
        for _ in 0..3 {
            guest.call("test.asks_form", json!({}), &quick).await.unwrap();
        }
        started.elapsed()
    };
    // when
    let (waited, others) = tokio::join!(guest.call("test.asks_form", json!({}), &slow), others);
    // then
    assert!(others < Duration::from_millis(700), "{others:?}");
    assert_eq!(waited.unwrap()["answer"], "accept");
    // and the turn is there again: once, and not twice
    guest.call("test.asks_form", json!({}), &quick).await.unwrap();
}

#[tokio::test]
async fn one_caller_cannot_have_everybody_wait() {
    // given: as many calls of one caller as may wait
    let guest = Guest::load(granted()).await;
    let mut slow = Somebody::who(|| Ok(ElicitAnswer::Decline));
    slow.thinks = Duration::from_secs(600);
    let slow = Arc::new(slow);
    let waiting = futures::future::join_all((0..32).map(|_| guest.call("test.asks_form", json!({}), &slow)));
    let full = async {
        while slow.heard().len() < 32 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        guest.call("test.asks_form", json!({}), &slow).await
    };
    // when
    let one_more = tokio::select! {
        _ = waiting => panic!("they wait"),
        one_more = full => one_more,
    };
    // then
    let came = one_more.unwrap();
    assert_eq!(came["answer"], "unavailable");
    assert!(came["says"].as_str().unwrap().contains("waiting"), "{came:#}");
    assert_eq!(slow.heard().len(), 32);
    // and who gave up has given its place back
    let quick = Arc::new(Somebody::who(|| Ok(ElicitAnswer::Decline)));
    assert_eq!(guest.call("test.asks_form", json!({}), &quick).await.unwrap()["answer"], "decline");
}

#[tokio::test]
async fn a_message_without_text_is_not_free() {
    let guest = Guest::load(granted()).await;
    let client = Arc::new(Somebody::who(|| Ok(ElicitAnswer::Decline)));
    let limits = Limits { log_bytes: 640, ..Limits::default() };
    let small = Guest::load(Grants { limits, ..granted() }).await;
    for (guest, most) in [(&guest, 40), (&small, 10)] {
        let before = client.heard().len();
        guest.call("test.logs", json!({ "level": "error", "message": "", "times": 100 }), &client).await.unwrap();
        let heard = client.heard().len() - before;
        assert!((1..=most).contains(&heard), "{heard}");
    }
}

#[tokio::test]
async fn a_call_that_waits_for_a_person_is_cancelled_at_once() {
    let guest = Guest::load(granted()).await;
    let mut slow = Somebody::who(|| Ok(ElicitAnswer::Decline));
    slow.thinks = Duration::from_secs(600);
    let (slow, cancel) = (Arc::new(slow), CancellationToken::new());
    let call = guest.call_until("test.asks_form", json!({}), &slow, cancel.clone());
    let cancelled = async {
        while slow.heard().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        cancel.cancel();
        Instant::now()
    };
    let (ended, at) = tokio::join!(call, cancelled);
    assert!(at.elapsed() < Duration::from_millis(100), "{:?}", at.elapsed());
    assert_eq!(ended.outcome.unwrap_err().reason(), Reason::Cancelled);
    assert!(ended.fuel > 0, "what it used before it asked is known");
}

#[tokio::test]
async fn a_call_asks_only_so_often() {
    let guest = Guest::load(granted()).await;
    let client = Arc::new(Somebody::who(accepts(json!({ "city": "x", "express": false }))));
    let asked = guest.call("test.asks_without_end", json!({}), &client).await.unwrap();
    assert_eq!(asked["answered"], 32);
    assert!(asked["last"].as_str().unwrap().contains("at most 32"), "{asked:#}");
    assert_eq!(client.heard().len(), 32);
}

#[tokio::test]
async fn the_client_hears_what_the_plugin_logs_but_is_not_flooded() {
    let guest = Guest::load(granted()).await;
    let client = || Arc::new(Somebody::who(|| Ok(ElicitAnswer::Decline)));
    for level in LogLevel::ALL {
        let client = client();
        guest.call("test.logs", json!({ "level": level.as_str(), "message": "Hello" }), &client).await.unwrap();
        assert_eq!(client.heard(), [format!("{} guest-offers \"Hello\"", level.as_str())]);
    }
    // With structure, under the plugin's own name.
    let structured = client();
    let event = json!({ "level": "notice", "data": "{\"a\":[1]}", "logger": "db" });
    guest.call("test.logs", event, &structured).await.unwrap();
    guest.call("test.logs", json!({ "level": "notice", "data": "no JSON" }), &structured).await.unwrap();
    assert_eq!(structured.heard(), ["notice guest-offers/db {\"a\":[1]}", "notice guest-offers \"no JSON\""]);
    // A thousand at once.
    let flooded = client();
    guest.call("test.logs", json!({ "level": "error", "message": "x", "times": 1_000 }), &flooded).await.unwrap();
    assert!((20..40).contains(&flooded.heard().len()), "{}", flooded.heard().len());
    // What is over the log's budget is dropped for everybody.
    let long = client();
    let message = "x".repeat(40 << 10);
    guest.call("test.logs", json!({ "level": "error", "message": message, "times": 2 }), &long).await.unwrap();
    assert_eq!(long.heard().len(), 1);
}

#[tokio::test]
async fn a_plugin_says_of_its_own_resources_that_they_changed() {
    // given: one that was not granted more
    let guest = Guest::load(granted()).await;
    let nobody = Arc::new(Somebody::who(|| Ok(ElicitAnswer::Decline)));
    let uris = json!(["test://pixel", "test://notes/a/b", "test://notes/a", "other://x", "not a uri"]);
    guest.call("test.tells_updated", json!({ "uris": uris }), &nobody).await.unwrap();
    assert_eq!(*guest.updates.0.lock().unwrap(), ["guest-offers test://pixel", "guest-offers test://notes/a/b"]);
    // and: one that may speak of others'
    let guest = Guest::load(Grants { resource_updates: true, ..granted() }).await;
    guest.call("test.tells_updated", json!({ "uris": uris }), &nobody).await.unwrap();
    assert_eq!(guest.updates.0.lock().unwrap().len(), 4, "all but what is no URI");
    // and: not without end
    let often = json!({ "uris": ["test://pixel"], "times": 500 });
    guest.call("test.tells_updated", often, &nobody).await.unwrap();
    assert_eq!(guest.updates.0.lock().unwrap().len(), 104);
}

#[tokio::test]
async fn what_was_not_granted_keeps_the_component_out() {
    let store = TestStore::sqlite().await;
    let services = Services {
        cuo: None,
        http: HttpUpstreams::new(),
        memory: Arc::new(Memory::embedded(store.store.clone())),
        updates: Arc::new(Updates::default()),
        metrics: Telemetry::start(&TelemetrySettings::default()).unwrap().metrics.clone(),
    };
    let runtime = Runtime::new(services, None, true).unwrap();
    let built = bridge_tests::setup::target().join("plugins/wasm32-wasip2/component/guest_offers.wasm");
    let wasm = std::fs::read(built).expect("run `make guests`");
    for (grants, missing) in [
        (Grants { elicit: false, ..granted() }, "elicit = true"),
        (Grants { sample: false, ..granted() }, "sample = true"),
    ] {
        let refused = Plugin::load(&runtime, PluginId::parse("guest-offers").unwrap(), &wasm, grants).await;
        let why = refused.err().expect("it imports what it was not granted").to_string();
        assert!(why.contains(missing), "{why}");
    }
}
