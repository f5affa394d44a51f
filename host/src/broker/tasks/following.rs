//! Those who wait for a task: they learn of its changes, and are asked what it asks.

use futures::future::BoxFuture;
use std::future::pending;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

use super::Tasks;
use super::question::Question;
use crate::error::{Error, Reason, Result};
use crate::model::ClientPort;
use crate::store::{TaskOwner, TaskQuestion, TaskRow};

/// How long to wait for a change of the row before looking anyway.
const LOOK: Duration = Duration::from_secs(5);
/// Tries to hand an answer over, and the pause between them: nobody likes to be asked twice.
const TRIES: u32 = 4;
const PAUSE: Duration = Duration::from_millis(500);

/// A question that is being put to one client. Dropping it withdraws the question.
struct Putting<'a> {
    id: String,
    /// `None` when it came to its end: one client is asked once.
    asking: Option<BoxFuture<'a, ()>>,
}

impl Tasks {
    /// Wait until it has ended, for as long as `cancel` allows. What the task asks meanwhile is asked of `client`, if it
    /// can be; when several wait, the first answer counts and the others' questions are withdrawn.
    pub async fn wait(
        &self,
        owner: &TaskOwner,
        id: &str,
        cancel: &CancellationToken,
        client: &ClientPort,
    ) -> Result<TaskRow> {
        let mut putting: Option<Putting<'_>> = None;
        loop {
            let row = self.get(owner, id).await?;
            if row.status.has_ended() {
                return Ok(row);
            }
            let open = row.question.as_ref().filter(|_| row.answer.is_none());
            if putting.as_ref().map(|putting| &putting.id) != open.map(|open| &open.id) {
                putting = open.map(|open| Putting {
                    id: open.id.clone(),
                    asking: Some(Box::pin(self.put(row.clone(), open.clone(), client))),
                });
            }
            let asked = async {
                match putting.as_mut().and_then(|putting| putting.asking.as_mut()) {
                    Some(asking) => asking.await,
                    None => pending().await,
                }
            };
            tokio::select! {
                () = self.store.task_changed(owner.tenant, &row.id, row.updated_at, LOOK) => continue,
                () = asked => {}
                () = cancel.cancelled() => {
                    return Err(Error::new(Reason::Cancelled, "The request was cancelled; the task runs on."));
                }
                () = self.stop.cancelled() => {
                    return Err(Error::new(Reason::Draining, "This server is shutting down; the task's state is kept."));
                }
            }
            if let Some(putting) = &mut putting {
                putting.asking = None;
            }
        }
    }

    /// The task once it is no longer as it was in `seen`, or after a while as it is. `None` when this process stops.
    pub async fn changed(&self, seen: &TaskRow) -> Option<Result<TaskRow>> {
        tokio::select! {
            () = self.store.task_changed(seen.owner.tenant, &seen.id, seen.updated_at, LOOK) => {}
            () = self.stop.cancelled() => return None,
        }
        Some(self.get(&seen.owner, seen.id.as_str()).await)
    }

    /// Ask, and hand the answer to the worker, wherever it is.
    async fn put(&self, row: TaskRow, open: TaskQuestion, client: &ClientPort) {
        let answered = match Question::read(&open.body) {
            Ok(question) => question.put_to(client).await,
            Err(error) => Err(error),
        };
        let answer = match answered {
            Ok(answer) => answer.to_json(),
            Err(error) => return tracing::debug!(task = %row.id, ?error, "a task's question stays open"),
        };
        for _ in 0..TRIES {
            match self.store.answer_task(&row.owner, &row.id, &open.id, &answer).await {
                Ok(taken) => return tracing::debug!(task = %row.id, taken, "a task's question was answered"),
                Err(error) => tracing::warn!(task = %row.id, ?error, "an answer could not be stored"),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}
