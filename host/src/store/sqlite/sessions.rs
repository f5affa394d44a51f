//! What sessions changed, in SQLite.

use jiff::Timestamp;
use uuid::Uuid;

use super::{SqliteStore, now_us, read_all};
use crate::error::Result;
use crate::model::{LogLevel, TenantId};
use crate::store::SessionState;
use crate::store::rows::session_state;
use crate::store::sessions::{MAX_SUBSCRIPTIONS, check_uri, too_many};

pub(super) async fn read(store: &SqliteStore, tenant: TenantId, session: Uuid) -> Result<Option<SessionState>> {
    let query = sqlx::query(
        "SELECT ended, log_level, (SELECT json_group_array(uri) FROM session_subscriptions u
                                   WHERE u.tenant_id = s.tenant_id AND u.session_id = s.id) AS subscriptions
         FROM sessions s WHERE tenant_id = ?1 AND id = ?2 AND expires_at_us > ?3",
    );
    let query = query.bind(tenant.to_string()).bind(session.to_string()).bind(now_us());
    read_all(store, query).await?.first().map(session_state).transpose()
}

pub(super) async fn end(store: &SqliteStore, tenant: TenantId, session: Uuid, expires_at: Timestamp) -> Result<()> {
    let end = sqlx::query(
        "INSERT INTO sessions (tenant_id, id, ended, expires_at_us) VALUES (?1, ?2, 1, ?3)
         ON CONFLICT (tenant_id, id)
         DO UPDATE SET ended = 1, expires_at_us = max(sessions.expires_at_us, excluded.expires_at_us)",
    );
    let end = end.bind(tenant.to_string()).bind(session.to_string()).bind(expires_at.as_microsecond());
    store.writer.execute(end).await?;
    let forget = sqlx::query("DELETE FROM session_subscriptions WHERE tenant_id = ?1 AND session_id = ?2");
    store.writer.execute(forget.bind(tenant.to_string()).bind(session.to_string())).await.map(|_| ())
}

pub(super) async fn set_log_level(
    store: &SqliteStore,
    tenant: TenantId,
    session: Uuid,
    level: LogLevel,
    expires_at: Timestamp,
) -> Result<()> {
    let query = sqlx::query(
        "INSERT INTO sessions (tenant_id, id, log_level, expires_at_us) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (tenant_id, id) DO UPDATE SET
             log_level = excluded.log_level, expires_at_us = max(sessions.expires_at_us, excluded.expires_at_us)",
    )
    .bind(tenant.to_string())
    .bind(session.to_string())
    .bind(level.as_str())
    .bind(expires_at.as_microsecond());
    store.writer.execute(query).await.map(|_| ())
}

pub(super) async fn subscribe(
    store: &SqliteStore,
    tenant: TenantId,
    session: Uuid,
    uri: &str,
    expires_at: Timestamp,
) -> Result<()> {
    check_uri(uri)?;
    let keep = sqlx::query(
        "INSERT INTO sessions (tenant_id, id, expires_at_us) VALUES (?1, ?2, ?3)
         ON CONFLICT (tenant_id, id)
         DO UPDATE SET expires_at_us = max(sessions.expires_at_us, excluded.expires_at_us)",
    );
    let keep = keep.bind(tenant.to_string()).bind(session.to_string()).bind(expires_at.as_microsecond());
    store.writer.execute(keep).await?;
    // Counted and added as one step. What is there already is "added" once more.
    let add = sqlx::query(
        "INSERT INTO session_subscriptions (tenant_id, session_id, uri) SELECT ?1, ?2, ?3
         WHERE (SELECT count(*) FROM session_subscriptions
                WHERE tenant_id = ?1 AND session_id = ?2 AND uri <> ?3) < ?4
         ON CONFLICT (tenant_id, session_id, uri) DO UPDATE SET uri = excluded.uri",
    )
    .bind(tenant.to_string())
    .bind(session.to_string())
    .bind(uri.to_owned())
    .bind(i64::from(MAX_SUBSCRIPTIONS));
    match store.writer.execute(add).await? {
        0 => Err(too_many()),
        _ => Ok(()),
    }
}

pub(super) async fn unsubscribe(store: &SqliteStore, tenant: TenantId, session: Uuid, uri: &str) -> Result<()> {
    let query = sqlx::query("DELETE FROM session_subscriptions WHERE tenant_id = ?1 AND session_id = ?2 AND uri = ?3");
    let query = query.bind(tenant.to_string()).bind(session.to_string()).bind(uri.to_owned());
    store.writer.execute(query).await.map(|_| ())
}
