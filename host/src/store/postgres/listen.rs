//! One connection that listens, so that a change made by any replica wakes those who wait here.

use sqlx::PgPool;
use sqlx::postgres::PgListener;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::AbortHandle;

use crate::error::Result;
use crate::store::rows::unavailable;
use crate::store::wake::Bells;

/// The payload is the task's id. It wakes, and says nothing else: what changed is read under the tenant's policy.
pub(super) const CHANNEL: &str = "plugin_host_task";

pub(super) async fn listen(pool: PgPool, bells: Arc<Bells>) -> Result<AbortHandle> {
    let mut listener = PgListener::connect_with(&pool).await.map_err(unavailable)?;
    // The pool may close while this one waits: `PostgresStore::close` ends the task first.
    listener.ignore_pool_close_event(true);
    listener.listen(CHANNEL).await.map_err(unavailable)?;
    let task = tokio::spawn(async move {
        loop {
            match listener.try_recv().await {
                Ok(Some(notification)) => bells.ring(notification.payload()),
                // The connection was lost and is back, or will be; what was sent meanwhile is gone.
                Ok(None) => bells.ring_all(),
                Err(error) => {
                    tracing::warn!(%error, "not listening for task changes; trying again");
                    bells.ring_all();
                    tokio::time::sleep(Duration::from_millis(500)).await;
                }
            }
        }
    });
    Ok(task.abort_handle())
}
