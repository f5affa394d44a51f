//! From a message to its answer: dispatch by method, with a net below every handler.

use futures::FutureExt;
use serde_json::{Map, Value};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::clients::Clients;
use super::jsonrpc::{Answer, Message, RequestId};
use super::peer::{Entered, Peer};
use super::v2025_11_25 as mcp;
use crate::broker::{Broker, Kinds};
use crate::error::{Error, Reason};
use crate::model::Trace;

/// What `initialize` says of us.
#[derive(Clone, Debug)]
pub struct ServerInfo {
    pub name: &'static str,
    pub title: &'static str,
    pub version: &'static str,
    pub instructions: String,
}

pub struct Protocol {
    pub(super) broker: Arc<Broker>,
    pub(super) clients: Arc<Clients>,
    pub(super) followers: mcp::Followers,
    pub(super) info: ServerInfo,
    lists_change: AtomicBool,
}

/// Messages whose requests can be cancelled from now on.
pub struct Accepted(Vec<(Message, Option<Entered>)>);

/// Call this in the order of arrival, before anything that comes after is read: a cancellation must find its request.
pub fn accept(peer: &Peer, messages: Vec<Message>) -> Accepted {
    let enter = |message: Message| {
        let entered = match &message {
            Message::Request { id, .. } => Some(peer.in_flight.enter(&peer.key, id)),
            _ => None,
        };
        (message, entered)
    };
    Accepted(messages.into_iter().map(enter).collect())
}

impl Protocol {
    pub fn new(broker: Arc<Broker>, clients: Arc<Clients>, info: ServerInfo) -> Protocol {
        Protocol { broker, clients, followers: mcp::Followers::default(), info, lists_change: AtomicBool::new(false) }
    }

    /// From now on clients are told that the lists of tools, prompts and resources may change, and that they will hear of
    /// it ([`Clients::lists_changed`]). Before the first client is served: capabilities last as long as a session.
    pub fn announce_changes(&self) {
        self.lists_change.store(true, Ordering::Release);
    }

    /// What is advertised beside tools, and so answered. Where plugins may change, a list that is empty now may not be
    /// so later, and its client can learn of that only if it knows of the list.
    pub(super) fn kinds(&self) -> Kinds {
        let (kinds, changes) = (self.broker.catalog().kinds(), self.lists_change());
        Kinds { prompts: kinds.prompts || changes, resources: kinds.resources || changes, ..kinds }
    }

    pub(super) fn lists_change(&self) -> bool {
        self.lists_change.load(Ordering::Acquire)
    }

    pub fn clients(&self) -> &Arc<Clients> {
        &self.clients
    }

    /// Answer everything that was accepted, all at once; answers come in the order of the requests, and messages that
    /// get no answer have none. `traceparent` is the transport's, if it has one.
    pub async fn answer(&self, peer: &Peer, accepted: Accepted, traceparent: Option<&str>) -> Vec<Answer> {
        let answers = accepted.0.into_iter().map(|(message, entered)| self.handle(peer, message, entered, traceparent));
        futures::future::join_all(answers).await.into_iter().flatten().collect()
    }

    async fn handle(
        &self,
        peer: &Peer,
        message: Message,
        entered: Option<Entered>,
        traceparent: Option<&str>,
    ) -> Option<Answer> {
        match (message, entered) {
            (Message::Request { id, method, params }, Some(entered)) => {
                self.request(peer, &id, &method, params, entered, traceparent).await
            }
            (Message::Request { .. }, None) => unreachable!("`accept` enters every request"),
            (Message::Notification { method, params }, _) => {
                self.notification(peer, &method, &params).await;
                None
            }
            (Message::Response { id, outcome }, _) => {
                // Ours are strings: a number is no request of ours.
                if let RequestId::Text(id) = &id {
                    self.clients.answered(peer.caller.tenant(), &peer.key, id, outcome).await;
                }
                None
            }
            (Message::Invalid { id, error }, _) => Some(Answer::error(id.as_ref(), error, &Trace::start().id)),
        }
    }

    async fn request(
        &self,
        peer: &Peer,
        id: &RequestId,
        method: &str,
        params: Map<String, Value>,
        entered: Entered,
        traceparent: Option<&str>,
    ) -> Option<Answer> {
        let in_meta = params.get("_meta").and_then(|m| m.get("traceparent")).and_then(Value::as_str);
        let trace = Trace::continue_from(traceparent.or(in_meta));
        let request = mcp::Request { protocol: self, peer, id, params, trace, cancel: entered.token().clone() };
        // A bug in a handler ends this request, not the process.
        let outcome = AssertUnwindSafe(mcp::dispatch(method, request)).catch_unwind().await.unwrap_or_else(|_| {
            tracing::error!(trace_id = %trace.id, method, "a handler panicked");
            Err(Error::new(Reason::Panic, "The server hit a bug while it answered this request."))
        });
        // The client said that it does not want the answer any more (MCP 2025-11-25, cancellation).
        if entered.token().is_cancelled() {
            return None;
        }
        Some(match outcome {
            Ok(result) => Answer::result(id, result),
            Err(error) => Answer::error(Some(id), error, &trace.id),
        })
    }

    async fn notification(&self, peer: &Peer, method: &str, params: &Map<String, Value>) {
        match method {
            "notifications/cancelled" => {
                if let Some(id) = params.get("requestId").and_then(mcp::request_id) {
                    self.clients.cancelled(peer.caller.tenant(), &peer.key, &id, &peer.session).await;
                }
            }
            "notifications/initialized" | "notifications/progress" | "notifications/roots/list_changed" => {}
            other => tracing::debug!(method = other, "an unknown notification was ignored"),
        }
    }
}
