//! One connection that listens, so that what any replica changed or sent wakes those who wait here.

use sqlx::PgPool;
use sqlx::postgres::PgListener;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::AbortHandle;

use super::letters::{self, Postbox};
use crate::error::Result;
use crate::store::rows::unavailable;
use crate::store::wake::Bells;

/// The payload is the task's id. It wakes, and says nothing else: what changed is read under the tenant's policy.
pub(super) const CHANNEL: &str = "plugin_host_task";

pub(super) async fn listen(pool: PgPool, bells: Arc<Bells>, postbox: Arc<Postbox>) -> Result<AbortHandle> {
    let mut listener = connect(&pool).await.map_err(unavailable)?;
    let task = tokio::spawn(async move {
        loop {
            hear(&mut listener, &bells, &postbox).await;
            // The slot in the pool, if it is still held, for the next one.
            drop(listener);
            listener = loop {
                match connect(&pool).await {
                    Ok(connected) => break connected,
                    Err(error) => {
                        tracing::warn!(%error, "not listening for other replicas; trying again");
                        bells.ring_all();
                        tokio::time::sleep(Duration::from_millis(500)).await;
                    }
                }
            };
            // Only now, when nothing more can be missed, does it help to look.
            bells.ring_all();
            postbox.missed();
        }
    });
    Ok(task.abort_handle())
}

async fn connect(pool: &PgPool) -> sqlx::Result<PgListener> {
    let mut listener = PgListener::connect_with(pool).await?;
    // The pool may close while this one waits: `PostgresStore::close` ends the task first.
    listener.ignore_pool_close_event(true);
    listener.listen_all([CHANNEL, letters::CHANNEL]).await?;
    Ok(listener)
}

/// Until the connection is lost.
async fn hear(listener: &mut PgListener, bells: &Bells, postbox: &Postbox) {
    // It would reconnect by itself, and not say when.
    listener.eager_reconnect(false);
    loop {
        match listener.try_recv().await {
            Ok(Some(notification)) if notification.channel() == letters::CHANNEL => {
                postbox.arrived(notification.payload());
            }
            Ok(Some(notification)) => bells.ring(notification.payload()),
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(%error, "the connection that listens for other replicas was lost");
                return;
            }
        }
    }
}
