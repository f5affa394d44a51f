//! Telling a client what becomes of its task, without being asked: `notifications/tasks/status` whenever the status
//! changes, and progress under the token of the call that created it, until the task has ended.
//!
//! Nobody may rely on it, so there are only so many followers, and none for clients that cannot be told anything. Source:
//! MCP 2025-11-25, tasks: status notification, progress.

use serde_json::{Map, Value, json};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Request;
use super::tasks::{related, wire_task};
use crate::broker::Broker;
use crate::protocol::clients::Clients;
use crate::protocol::peer::{progress_params, progress_token};
use crate::store::TaskRow;

/// Tasks that this process follows at once.
const MOST: usize = 512;

/// Places for followers.
#[derive(Clone)]
pub struct Followers(Arc<Semaphore>);

impl Default for Followers {
    fn default() -> Self {
        Followers(Arc::new(Semaphore::new(MOST)))
    }
}

struct Follower {
    clients: Arc<Clients>,
    broker: Arc<Broker>,
    /// The client's.
    key: Arc<str>,
    token: Option<Value>,
    _place: OwnedSemaphorePermit,
}

/// Follow a task for the client that has just created it. `meta`: of the call.
pub fn follow(request: &Request<'_>, row: TaskRow, meta: &Map<String, Value>) {
    let session = &request.peer.session;
    if !session.is_connection() && session.id().is_none() {
        return;
    }
    let Ok(place) = request.protocol.followers.0.clone().try_acquire_owned() else {
        return tracing::debug!(task = %row.id, most = MOST, "a task is not followed: too many are");
    };
    let follower = Follower {
        clients: request.protocol.clients.clone(),
        broker: request.protocol.broker.clone(),
        key: request.peer.key.clone(),
        token: progress_token(meta),
        _place: place,
    };
    tokio::spawn(follower.run(row));
}

impl Follower {
    async fn run(self, mut row: TaskRow) {
        let mut told = f64::NEG_INFINITY;
        while !row.status.has_ended() {
            let Some(Ok(now)) = self.broker.tasks().changed(&row).await else { return };
            // Nothing of the kind may come once it has ended.
            if let (Some(token), Some(report), false) = (&self.token, &now.progress, now.status.has_ended())
                && report.progress > told
            {
                told = report.progress;
                let mut params = progress_params(token, report);
                params.insert("_meta".into(), related(now.id.as_str()));
                self.tell(&now, "notifications/progress", params.into()).await;
            }
            if now.status != row.status {
                self.tell(&now, "notifications/tasks/status", wire_task(&now)).await;
            }
            row = now;
        }
    }

    async fn tell(&self, row: &TaskRow, method: &str, params: Value) {
        let message = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        self.clients.tell(row.owner.tenant, &self.key, message).await;
    }
}
