//! Personas: somebody with a name, a tenant and scopes, who asks the bridge for things.

use serde_json::{Map, Value, json};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::bridge::{Answer, Bridge};
use crate::events::{self, Events};
use crate::reply::Reply;
use crate::stdio::PATIENCE;
use crate::tokens::claims;

pub const TENANT_A: &str = "aaaaaaaa-0000-4000-8000-000000000001";
pub const TENANT_B: &str = "bbbbbbbb-0000-4000-8000-000000000002";

pub const ALL_SCOPES: [&str; 8] = [
    "cyberos:cuo:list",
    "cyberos:cuo:route",
    "cyberos:cuo:execute",
    "cyberos:memory:read",
    "cyberos:memory:write",
    "cyberos:skill:list",
    "cyberos:skill:invoke",
    "test:use",
];

#[derive(Clone)]
pub struct Caller<'b> {
    pub(crate) bridge: &'b Bridge,
    subject: String,
    tenant: String,
    scopes: Vec<String>,
    shows: Shows,
    headers: Vec<(String, String)>,
    /// A proxy between this caller and the bridge.
    via: Option<SocketAddr>,
}

#[derive(Clone)]
enum Shows {
    /// A new token for every request.
    Minted,
    This(String),
    Nothing,
}

impl<'b> Caller<'b> {
    pub(crate) fn new(bridge: &'b Bridge, name: &str) -> Self {
        Caller {
            bridge,
            subject: name.into(),
            tenant: TENANT_A.into(),
            scopes: ALL_SCOPES.map(str::to_owned).into(),
            shows: if bridge.setup.bearer { Shows::Minted } else { Shows::Nothing },
            headers: vec![],
            via: None,
        }
    }

    pub fn tenant(mut self, tenant: &str) -> Self {
        self.tenant = tenant.into();
        self
    }

    pub fn scopes(mut self, scopes: &[&str]) -> Self {
        self.scopes = scopes.iter().map(|s| (*s).to_owned()).collect();
        self
    }

    /// Shows exactly this token.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.shows = Shows::This(token.into());
        self
    }

    pub fn no_token(mut self) -> Self {
        self.shows = Shows::Nothing;
        self
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// HTTP: asks at this address, behind which the bridge is.
    pub fn via(mut self, proxy: SocketAddr) -> Self {
        self.via = Some(proxy);
        self
    }

    /// Claims of a good token of this caller, for a test to spoil.
    pub fn claims(&self) -> Value {
        claims(&self.subject, &self.tenant, &self.scopes)
    }

    /// Tenant and subject as the bridge knows this caller.
    pub fn identity(&self) -> (&str, &str) {
        match self.bridge.setup.bearer {
            true => (&self.tenant, &self.subject),
            false => (local_tenant(), "local"),
        }
    }

    // Verbs.

    pub async fn initialize(&self) -> Reply {
        self.initialize_with("2025-11-25", json!({})).await
    }

    pub async fn initialize_with(&self, version: &str, capabilities: Value) -> Reply {
        let client = json!({ "name": "bridge-tests", "version": "1.0.0" });
        let params = json!({ "protocolVersion": version, "capabilities": capabilities, "clientInfo": client });
        self.request("initialize", params).await
    }

    pub async fn list(&self) -> Reply {
        self.request("tools/list", json!({})).await
    }

    pub async fn call(&self, tool: &str, arguments: Value) -> Reply {
        self.request("tools/call", json!({ "name": tool, "arguments": arguments })).await
    }

    /// A call with `_meta`.
    pub async fn call_with(&self, tool: &str, arguments: Value, meta: Value) -> Reply {
        self.request("tools/call", json!({ "name": tool, "arguments": arguments, "_meta": meta })).await
    }

    /// A call that its user confirmed with a signed token.
    pub async fn call_confirmed(&self, tool: &str, arguments: Value) -> Reply {
        let token = self.confirmation(tool, &arguments);
        self.call_with(tool, arguments, json!({ "cyberos/confirmation_token": token })).await
    }

    pub fn confirmation(&self, tool: &str, arguments: &Value) -> String {
        self.bridge.confirmation(self, tool, arguments.as_object().unwrap_or(&Map::new()))
    }

    /// A call as a task on MCP's own wire.
    pub async fn call_as_task(&self, tool: &str, arguments: Value) -> Reply {
        self.request("tools/call", json!({ "name": tool, "arguments": arguments, "task": { "ttl": 600_000 } })).await
    }

    /// A task in the bridge's plain form.
    pub async fn task_get(&self, id: &str) -> Reply {
        self.request("tasks/get", json!({ "id": id })).await
    }

    pub async fn task_cancel(&self, id: &str) -> Reply {
        self.request("tasks/cancel", json!({ "id": id })).await
    }

    pub async fn task_result(&self, id: &str) -> Reply {
        self.request("tasks/result", json!({ "taskId": id })).await
    }

    /// The task in its plain form once it has ended.
    pub async fn follow(&self, id: &str) -> Value {
        self.follow_until(id, |task| task["status"] != "running").await
    }

    pub async fn follow_until(&self, id: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let give_up = Instant::now() + PATIENCE;
        loop {
            let task = self.task_get(id).await.result().clone();
            if is_it(&task) {
                return task;
            }
            assert!(Instant::now() < give_up, "the task did not get there: {task:#}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub async fn request(&self, method: &str, params: Value) -> Reply {
        self.send(&self.message(method, params)).await
    }

    /// A request with an id that nobody used.
    pub fn message(&self, method: &str, params: Value) -> Value {
        json!({ "jsonrpc": "2.0", "id": self.bridge.next_id(), "method": method, "params": params })
    }

    /// A request whose id the test knows.
    pub async fn send(&self, message: &Value) -> Reply {
        if self.bridge.is_stdio() {
            return Reply::of_line(self.bridge.line().request(message).await);
        }
        let answer = self.post(message.to_string().into_bytes()).await;
        if answer.text.starts_with("id:") {
            // A reply that streamed: the answer is the message with our id.
            let body = events::messages(&answer.text).into_iter().find(|m| m["id"] == message["id"]);
            let body = body.unwrap_or_else(|| panic!("a stream without its answer: {:?}", answer.text));
            return Reply { body, status: Some(answer.status), headers: answer.headers };
        }
        let body = serde_json::from_str(&answer.text)
            .unwrap_or_else(|_| panic!("status {} and no JSON: {:?}", answer.status, answer.text));
        Reply { body, status: Some(answer.status), headers: answer.headers }
    }

    pub async fn notify(&self, method: &str, params: Value) {
        self.say_nothing_back(&json!({ "jsonrpc": "2.0", "method": method, "params": params })).await;
    }

    /// Any bytes at all as one message; the answer, or `None` where there must be none (a notification).
    pub async fn say(&self, bytes: &[u8]) -> Reply {
        if self.bridge.is_stdio() {
            self.bridge.line().send_bytes(&[bytes, b"\n"].concat()).await;
            return Reply::of_line(self.bridge.line().next().await);
        }
        let answer = self.post(bytes.to_vec()).await;
        let body = serde_json::from_str(&answer.text).unwrap_or_else(|_| panic!("no JSON: {answer:?}"));
        Reply { body, status: Some(answer.status), headers: answer.headers }
    }

    /// HTTP: a body for `/mcp` with this caller's headers.
    pub async fn post(&self, body: Vec<u8>) -> Answer {
        self.ask("POST", &[], body).await
    }

    /// HTTP: a message whose answer may be a stream.
    pub async fn open(&self, message: &Value) -> Events {
        self.stream("POST", &[], message.to_string().into_bytes()).await
    }

    /// HTTP: listen, or read on behind an event.
    pub async fn listen(&self, last_event_id: Option<&str>) -> Events {
        let last: Vec<_> = last_event_id.iter().map(|id| ("last-event-id", *id)).collect();
        self.stream("GET", &last, vec![]).await
    }

    /// HTTP: any verb at `/mcp` with this caller's headers.
    pub async fn ask(&self, method: &str, more: &[(&str, &str)], body: Vec<u8>) -> Answer {
        let events = self.stream(method, more, body).await;
        let (status, headers) = (events.status, events.headers.clone());
        Answer { status, headers, text: events.text().await }
    }

    async fn stream(&self, method: &str, more: &[(&str, &str)], body: Vec<u8>) -> Events {
        let mut headers = vec![("accept".to_owned(), "application/json, text/event-stream".to_owned())];
        match &self.shows {
            Shows::Minted => headers.push(("authorization".into(), format!("Bearer {}", self.mint()))),
            Shows::This(token) => headers.push(("authorization".into(), format!("Bearer {token}"))),
            Shows::Nothing => {}
        }
        headers.extend(self.headers.clone());
        let headers: Vec<(&str, &str)> = headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        let headers = [headers.as_slice(), more].concat();
        let address = self.via.unwrap_or_else(|| self.bridge.address());
        Events::new(self.bridge.open(method, &format!("http://{address}/mcp"), &headers, body).await)
    }

    /// The answer to a request of the bridge's.
    pub async fn answer(&self, question: &Value, result: Value) {
        self.say_nothing_back(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": result })).await;
    }

    /// A message that has no answer.
    pub async fn say_nothing_back(&self, message: &Value) {
        if self.bridge.is_stdio() {
            return self.bridge.line().send(&message.to_string()).await;
        }
        let answer = self.post(message.to_string().into_bytes()).await;
        assert_eq!((answer.status, answer.text.as_str()), (202, ""), "this has no answer");
    }

    pub fn bridge(&self) -> &'b Bridge {
        self.bridge
    }

    /// The same caller in a new session, opened with these client capabilities. Over stdio the connection is the session.
    pub async fn in_session(self, capabilities: Value) -> Caller<'b> {
        let opened = self.initialize_with("2025-11-25", capabilities).await;
        if self.bridge.is_stdio() {
            return self;
        }
        let id = opened.headers["mcp-session-id"].to_str().expect("an id is text").to_owned();
        self.header("mcp-session-id", &id)
    }

    pub fn mint(&self) -> String {
        self.bridge.setup.key.sign(&self.claims())
    }
}

/// The tenant of the local principal.
pub fn local_tenant() -> &'static str {
    use cyberos_plugin_host::model::TenantId;
    static TEXT: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    TEXT.get_or_init(|| TenantId::LOCAL.to_string())
}
