//! The other end of a conversation: who it is, what it said of itself, what it has in flight.

use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_util::sync::CancellationToken;

use super::clients::{Clients, PeerClient, Session, Sink};
use super::jsonrpc::RequestId;
use crate::auth::Caller;
use crate::model::{ClientPort, Progress, ProgressSink};

/// What a transport allows its peers.
#[derive(Clone, Copy, Debug)]
pub struct PeerPolicy {
    /// The host's own confirmation flag counts (design section 6: on for stdio, off for HTTP).
    pub host_may_confirm: bool,
    /// Tasks can be listed: the caller is authenticated, or the only user (MCP 2025-11-25, tasks, security).
    pub may_list_tasks: bool,
    /// Tool names without dots, or with; `None`: as the client is known to need them.
    pub underscore_names: Option<bool>,
}

/// One connection (stdio), or one request's side of one (HTTP).
#[derive(Clone)]
pub struct Peer {
    pub caller: Caller,
    pub policy: PeerPolicy,
    pub session: Session,
    /// Where messages around this request go; `None` where the transport cannot carry them.
    pub sink: Option<Arc<dyn Sink>>,
    pub in_flight: InFlight,
    /// What separates this peer's request ids from other peers' of the same registry.
    pub key: Arc<str>,
}

/// Requests that are being answered, so that `notifications/cancelled` can find them.
///
/// The key tells peers apart as well as the transport can. Where two of them could share one (HTTP without sessions) and
/// use the same id at once, neither is cancelled: stopping somebody else's call would be worse.
#[derive(Clone, Default)]
pub struct InFlight(Arc<Mutex<Requests>>);

/// More than one token under a key are requests that cannot be told apart.
type Requests = HashMap<(Arc<str>, RequestId), Vec<CancellationToken>>;

impl InFlight {
    /// Register a request for as long as the guard lives.
    pub fn enter(&self, key: &Arc<str>, id: &RequestId) -> Entered {
        let token = CancellationToken::new();
        let place = (key.clone(), id.clone());
        self.lock().entry(place.clone()).or_default().push(token.clone());
        Entered { registry: self.clone(), place, token }
    }

    /// Unknown and finished requests are ignored, as the specification asks. False when there is none here.
    pub fn cancel(&self, key: &Arc<str>, id: &RequestId) -> bool {
        match self.lock().get(&(key.clone(), id.clone())).map(Vec::as_slice) {
            Some([only]) => only.cancel(),
            Some(several) => {
                tracing::warn!(count = several.len(), "a cancellation names a request id that is used twice; ignored")
            }
            None => return false,
        }
        true
    }

    /// The peer has gone for good, or we go.
    pub fn cancel_all(&self) {
        self.lock().values().flatten().for_each(CancellationToken::cancel);
    }

    fn lock(&self) -> MutexGuard<'_, Requests> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub struct Entered {
    registry: InFlight,
    place: (Arc<str>, RequestId),
    token: CancellationToken,
}

impl Entered {
    pub fn token(&self) -> &CancellationToken {
        &self.token
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        // A request whose future is dropped has nobody left to answer.
        self.token.cancel();
        let mut all = self.registry.lock();
        if let Some(tokens) = all.get_mut(&self.place) {
            // Ours is the one that is cancelled now; one of several twins may be cancelled, too, and goes by itself.
            if let Some(at) = tokens.iter().position(|t| t.is_cancelled()) {
                tokens.swap_remove(at);
            }
            if tokens.is_empty() {
                all.remove(&self.place);
            }
        }
    }
}

impl Peer {
    pub fn notify(&self, method: &str, params: Value) {
        if let Some(sink) = &self.sink {
            // A peer that has gone needs no notification, and one that does not read must not cost us memory.
            if !sink.send(json!({ "jsonrpc": "2.0", "method": method, "params": params })) {
                tracing::debug!(method, "a notification was dropped: the peer has gone or does not read");
            }
        }
    }

    /// This peer's client, for a call that may ask it. `task`: the task that the questions belong to.
    pub fn client_port(&self, clients: &Arc<Clients>, task: Option<String>) -> ClientPort {
        match &self.sink {
            Some(_) => ClientPort::new(Arc::new(PeerClient::new(clients.clone(), self.clone(), task))),
            None => ClientPort::none(),
        }
    }

    /// Where a call's progress goes, when it asked for it (`_meta.progressToken`).
    pub fn progress_sink(&self, meta: &Map<String, Value>) -> ProgressSink {
        match (progress_token(meta), &self.sink) {
            (Some(token), Some(_)) => {
                let peer = self.clone();
                ProgressSink::new(move |report: Progress| {
                    peer.notify("notifications/progress", progress_params(&token, &report).into());
                })
            }
            _ => ProgressSink::none(),
        }
    }
}

pub fn progress_token(meta: &Map<String, Value>) -> Option<Value> {
    meta.get("progressToken").filter(|t| t.is_string() || t.is_i64() || t.is_u64()).cloned()
}

pub fn progress_params(token: &Value, report: &Progress) -> Map<String, Value> {
    let mut params = Map::new();
    params.insert("progressToken".into(), token.clone());
    params.insert("progress".into(), report.progress.into());
    if let Some(total) = report.total {
        params.insert("total".into(), total.into());
    }
    if let Some(message) = &report.message {
        params.insert("message".into(), message.as_str().into());
    }
    params
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cancellation_reaches_its_request_and_no_twin() {
        let registry = InFlight::default();
        let (key, id): (Arc<str>, _) = ("peer".into(), RequestId::Number(1));
        let first = registry.enter(&key, &id);
        registry.cancel(&"other".into(), &id);
        assert!(!first.token().is_cancelled());
        let twin = registry.enter(&key, &id);
        registry.cancel(&key, &id);
        assert!(!first.token().is_cancelled() && !twin.token().is_cancelled());
        drop(twin);
        registry.cancel(&key, &id);
        assert!(first.token().is_cancelled());
        drop(first);
        assert!(registry.lock().is_empty());
    }
}
