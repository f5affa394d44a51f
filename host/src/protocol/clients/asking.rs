//! Requests of ours to a client: sent on the stream of the call that needs the answer, and waited for.
//!
//! An answer counts only when it comes from the client that was asked. Source: MCP 2025-11-25, elicitation, sampling,
//! and lifecycle, timeouts.

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;

use super::streams::owner;
use super::{Clients, Sink};
use crate::error::{Error, Reason, Result};
use crate::model::{Client, ClientFeatures, ElicitAnswer, Elicitation, LogLevel};
use crate::protocol::peer::Peer;

/// Questions at once to all clients together; beyond that calls are told to wait.
const MOST_PENDING: usize = 10_000;
/// Of them, those to one subject: a person answers one at a time, and nobody may use up everybody's.
const MOST_OF_ONE: usize = 64;

pub struct Asking {
    replica: Arc<str>,
    timeout: Duration,
    next: AtomicU64,
    pending: Mutex<HashMap<String, Pending>>,
}

struct Pending {
    /// Who was asked.
    key: Arc<str>,
    answer: oneshot::Sender<Outcome>,
}

/// A JSON-RPC result, or its error object.
pub type Outcome = std::result::Result<Value, Value>;

/// Where an answer belongs.
#[derive(Debug, PartialEq, Eq)]
pub enum Belongs {
    /// It was delivered.
    Here,
    /// This replica asked.
    To(String),
    /// Nobody asked, or somebody else was asked, or it comes too late.
    Nowhere,
}

impl Asking {
    pub(super) fn new(replica: Arc<str>, timeout: Duration) -> Self {
        Asking { replica, timeout, next: AtomicU64::new(1), pending: Mutex::default() }
    }

    /// Send and wait. When this future is dropped, or nobody answered in time, the client is told that the question is
    /// void.
    async fn ask(&self, key: &Arc<str>, sink: &Arc<dyn Sink>, method: &str, params: Value) -> Result<Outcome> {
        let id = format!("{}-{}", self.replica, self.next.fetch_add(1, Ordering::Relaxed));
        let (answer, answered) = oneshot::channel();
        {
            let mut pending = self.lock();
            let asked = owner(key);
            let of_one = || pending.values().filter(|pending| owner(&pending.key) == asked).count();
            if pending.len() >= MOST_PENDING || (pending.len() >= MOST_OF_ONE && of_one() >= MOST_OF_ONE) {
                return Err(Error::new(Reason::Busy, "Too many questions to clients are open.")
                    .hint("Answer those that are open.")
                    .with("retry_after_ms", 1_000));
            }
            pending.insert(id.clone(), Pending { key: key.clone(), answer });
        }
        let mut question = Question { asking: self, sink, id: &id, open: true };
        if !sink.send(json!({ "jsonrpc": "2.0", "id": id.as_str(), "method": method, "params": params })) {
            question.open = false;
            return Err(Error::new(Reason::Unreachable, "The client does not read what it is sent."));
        }
        match tokio::time::timeout(self.timeout, answered).await {
            Ok(outcome) => {
                question.open = false;
                Ok(outcome.expect("a question is answered or given up by its own guard"))
            }
            Err(_) => Err(Error::new(Reason::Timeout, "The client did not answer in time.")
                .hint("Answer the client's prompt, then call again.")),
        }
    }

    /// An answer has come from the client with this key.
    pub fn settle(&self, key: &str, id: &str, outcome: Outcome) -> Belongs {
        let Some((replica, _)) = id.split_once('-') else { return Belongs::Nowhere };
        if replica != &*self.replica {
            let is_replica = replica.len() == self.replica.len() && replica.bytes().all(|b| b.is_ascii_hexdigit());
            return if is_replica { Belongs::To(replica.to_owned()) } else { Belongs::Nowhere };
        }
        let mut pending = self.lock();
        if pending.get(id).is_none_or(|pending| &*pending.key != key) {
            return Belongs::Nowhere;
        }
        let asked = pending.remove(id).expect("it was just there");
        drop(pending);
        match asked.answer.send(outcome) {
            Ok(()) => Belongs::Here,
            Err(_) => Belongs::Nowhere,
        }
    }

    /// Is an answer of this client awaited?
    pub fn awaits(&self, key: &str) -> bool {
        self.lock().values().any(|pending| &*pending.key == key)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Pending>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Withdraws a question that is open when it is dropped.
struct Question<'a> {
    asking: &'a Asking,
    sink: &'a Arc<dyn Sink>,
    id: &'a str,
    open: bool,
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        self.asking.lock().remove(self.id);
        if self.open {
            let params = json!({ "requestId": self.id, "reason": "The answer is not needed any more." });
            self.sink.send(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }));
        }
    }
}

/// The client of one request, as the request's call sees it.
pub struct PeerClient {
    clients: Arc<Clients>,
    peer: Peer,
    /// Set when what is said belongs to a task (MCP 2025-11-25, tasks, related-task metadata).
    task: Option<String>,
}

const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";

impl PeerClient {
    pub fn new(clients: Arc<Clients>, peer: Peer, task: Option<String>) -> Self {
        PeerClient { clients, peer, task }
    }

    async fn ask(&self, method: &str, mut params: Map<String, Value>) -> Result<Outcome> {
        let Some(sink) = &self.peer.sink else {
            return Err(Error::new(Reason::ClientUnsupported, "This request's answer cannot be streamed.")
                .hint("Send Accept: application/json, text/event-stream."));
        };
        self.relate(&mut params);
        self.clients.asking.ask(&self.peer.key, sink, method, params.into()).await
    }

    fn relate(&self, params: &mut Map<String, Value>) {
        if let Some(task) = &self.task {
            let meta = params.entry("_meta").or_insert_with(|| json!({}));
            meta[RELATED_TASK] = json!({ "taskId": task });
        }
    }
}

#[async_trait]
impl Client for PeerClient {
    fn features(&self) -> ClientFeatures {
        match self.peer.sink {
            Some(_) => self.peer.session.facts().features,
            None => ClientFeatures::default(),
        }
    }

    async fn elicit(&self, question: Elicitation) -> Result<ElicitAnswer> {
        let features = self.features();
        let (declared, params) = match &question {
            Elicitation::Form(form) => (
                features.elicit_form,
                json!({ "mode": "form", "message": form.message(), "requestedSchema": form.schema() }),
            ),
            Elicitation::Url(visit) => (
                features.elicit_url,
                json!({ "mode": "url", "message": visit.message, "url": visit.url, "elicitationId": visit.elicitation_id }),
            ),
        };
        if !declared {
            return Err(unsupported("elicitation"));
        }
        let Value::Object(params) = params else { unreachable!("both arms make an object") };
        let answer = self.ask("elicitation/create", params).await?.map_err(refused)?;
        read_answer(&question, answer)
    }

    async fn sample(&self, request: Map<String, Value>) -> Result<Map<String, Value>> {
        let features = self.features();
        let needs_tools = request.contains_key("tools") || request.contains_key("toolChoice");
        if !features.sample || (needs_tools && !features.sample_tools) {
            return Err(unsupported("sampling"));
        }
        match self.ask("sampling/createMessage", request).await?.map_err(refused)? {
            Value::Object(result) if result.get("content").is_some_and(|c| c.is_object() || c.is_array()) => Ok(result),
            _ => Err(unusable("a sampling result needs content")),
        }
    }

    fn elicitation_complete(&self, elicitation_id: &str) {
        self.peer.notify("notifications/elicitation/complete", json!({ "elicitationId": elicitation_id }));
    }

    fn log(&self, level: LogLevel, logger: &str, data: Value) {
        if level < self.peer.session.log_level() {
            return;
        }
        let mut params = Map::new();
        params.insert("level".into(), level.as_str().into());
        params.insert("logger".into(), logger.into());
        params.insert("data".into(), data);
        self.relate(&mut params);
        self.peer.notify("notifications/message", params.into());
    }
}

fn read_answer(question: &Elicitation, answer: Value) -> Result<ElicitAnswer> {
    match (answer["action"].as_str(), question) {
        (Some("accept"), Elicitation::Form(form)) => {
            let content = match answer.get("content") {
                None | Some(Value::Null) => Map::new(),
                Some(Value::Object(content)) => content.clone(),
                Some(_) => return Err(unusable("content must be an object")),
            };
            form.accept(content).map(ElicitAnswer::Accept).map_err(|why| unusable(&why))
        }
        (Some("accept"), Elicitation::Url(_)) => Ok(ElicitAnswer::Accept(Map::new())),
        (Some("decline"), _) => Ok(ElicitAnswer::Decline),
        (Some("cancel"), _) => Ok(ElicitAnswer::Cancel),
        _ => Err(unusable("action must be accept, decline or cancel")),
    }
}

fn unsupported(what: &str) -> Error {
    Error::new(Reason::ClientUnsupported, format!("The client did not declare {what} in this form."))
}

/// The answer itself may hold what a person typed: it is in no text.
fn unusable(why: &str) -> Error {
    Error::new(Reason::BadResponse, "The client's answer does not fit the question.").detail(why)
}

/// The client's error object. -1 is a person's refusal (MCP 2025-11-25, sampling, error handling).
fn refused(error: Value) -> Error {
    match error["code"].as_i64() {
        Some(-1) => Error::new(Reason::UserDeclined, "The user declined the request."),
        Some(-32601 | -32602) => unsupported("a request").detail(&error["message"]),
        _ => Error::new(Reason::BadResponse, "The client could not answer.").detail(&error["message"]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::mpsc;

    struct Outbox(mpsc::UnboundedSender<Value>);

    impl Sink for Outbox {
        fn send(&self, message: Value) -> bool {
            self.0.send(message).is_ok()
        }
        fn is_open(&self) -> bool {
            !self.0.is_closed()
        }
    }

    fn asking(timeout: Duration) -> (Asking, Arc<dyn Sink>, mpsc::UnboundedReceiver<Value>) {
        let (sender, sent) = mpsc::unbounded_channel();
        (Asking::new("0123456789ab".into(), timeout), Arc::new(Outbox(sender)), sent)
    }

    #[tokio::test]
    async fn an_answer_counts_once_and_only_from_who_was_asked() {
        let (asking, sink, mut sent) = asking(Duration::from_secs(5));
        let key: Arc<str> = "alice".into();
        let answer = async {
            let id = sent.recv().await.unwrap()["id"].as_str().unwrap().to_owned();
            assert_eq!(asking.settle("bob", &id, Ok(json!(1))), Belongs::Nowhere);
            assert_eq!(asking.settle("alice", &id, Ok(json!(2))), Belongs::Here);
            assert_eq!(asking.settle("alice", &id, Ok(json!(3))), Belongs::Nowhere);
        };
        let (outcome, ()) = tokio::join!(asking.ask(&key, &sink, "elicitation/create", json!({})), answer);
        assert_eq!(outcome.unwrap(), Ok(json!(2)));
        assert!(asking.lock().is_empty());
    }

    #[tokio::test]
    async fn a_question_that_nobody_answers_is_withdrawn() {
        let (asking, sink, mut sent) = asking(Duration::from_millis(20));
        let error = asking.ask(&"alice".into(), &sink, "sampling/createMessage", json!({})).await.unwrap_err();
        assert_eq!(error.reason(), Reason::Timeout);
        let asked = sent.recv().await.unwrap();
        let withdrawn = sent.recv().await.unwrap();
        assert_eq!(withdrawn["method"], "notifications/cancelled");
        assert_eq!(withdrawn["params"]["requestId"], asked["id"]);
        assert!(!asking.awaits("alice"));
    }

    #[tokio::test]
    async fn a_subject_that_answers_nothing_is_asked_only_so_much_and_others_are_asked() {
        let (asking, sink, _sent) = asking(Duration::from_millis(200));
        let ask = async |key: &str| {
            let outcome = asking.ask(&key.into(), &sink, "elicitation/create", json!({})).await;
            outcome.unwrap_err().reason()
        };
        let keys: Vec<String> = (0..MOST_OF_ONE + 4).map(|session| format!("tenant/{session}/mallory")).collect();
        let hers = futures::future::join_all(keys.iter().map(|key| ask(key)));
        let (hers, others) = tokio::join!(hers, ask("tenant/-/alice"));
        assert_eq!(hers.iter().filter(|reason| **reason == Reason::Busy).count(), 4);
        assert_eq!(others, Reason::Timeout);
    }

    #[test]
    fn an_answer_to_another_replica_is_told_apart_from_nonsense() {
        let (asking, _, _) = asking(Duration::from_secs(1));
        assert_eq!(asking.settle("alice", "ffffffffffff-4", Ok(json!(1))), Belongs::To("ffffffffffff".into()));
        assert_eq!(asking.settle("alice", "nonsense", Ok(json!(1))), Belongs::Nowhere);
        assert_eq!(asking.settle("alice", "0123456789ab-4", Ok(json!(1))), Belongs::Nowhere);
    }
}
