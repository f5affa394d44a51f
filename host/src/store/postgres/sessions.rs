//! What sessions changed, in Postgres. Replicas change one session at once; each change is one step.

use jiff::Timestamp;
use uuid::Uuid;

use super::{Durability, PostgresStore};
use crate::error::Result;
use crate::model::{LogLevel, TenantId};
use crate::store::SessionState;
use crate::store::rows::{session_state, unavailable};
use crate::store::sessions::{MAX_SUBSCRIPTIONS, check_uri, too_many};

pub(super) async fn read(store: &PostgresStore, tenant: TenantId, session: Uuid) -> Result<Option<SessionState>> {
    let query = sqlx::query(
        "SELECT ended::int::bigint AS ended, log_level,
                (SELECT json_agg(u.uri)::text FROM plugin_host.session_subscriptions u
                 WHERE u.tenant_id = s.tenant_id AND u.session_id = s.id) AS subscriptions
         FROM plugin_host.sessions s WHERE tenant_id = $1 AND id = $2 AND expires_at_us > plugin_host.now_us()",
    );
    store.rows(tenant, query.bind(tenant.0).bind(session)).await?.first().map(session_state).transpose()
}

pub(super) async fn end(store: &PostgresStore, tenant: TenantId, session: Uuid, expires_at: Timestamp) -> Result<()> {
    let end = sqlx::query(
        "INSERT INTO plugin_host.sessions AS s (tenant_id, id, ended, expires_at_us) VALUES ($1, $2, true, $3)
         ON CONFLICT (tenant_id, id)
         DO UPDATE SET ended = true, expires_at_us = greatest(s.expires_at_us, excluded.expires_at_us)",
    );
    let end = end.bind(tenant.0).bind(session).bind(expires_at.as_microsecond());
    let forget = sqlx::query("DELETE FROM plugin_host.session_subscriptions WHERE tenant_id = $1 AND session_id = $2");
    let mut transaction = store.begin(tenant, Durability::Synced).await?;
    end.execute(&mut *transaction).await.map_err(unavailable)?;
    forget.bind(tenant.0).bind(session).execute(&mut *transaction).await.map_err(unavailable)?;
    transaction.commit().await.map_err(unavailable)
}

pub(super) async fn set_log_level(
    store: &PostgresStore,
    tenant: TenantId,
    session: Uuid,
    level: LogLevel,
    expires_at: Timestamp,
) -> Result<()> {
    let query = sqlx::query(
        "INSERT INTO plugin_host.sessions AS s (tenant_id, id, log_level, expires_at_us) VALUES ($1, $2, $3, $4)
         ON CONFLICT (tenant_id, id) DO UPDATE SET
             log_level = excluded.log_level, expires_at_us = greatest(s.expires_at_us, excluded.expires_at_us)",
    );
    let query = query.bind(tenant.0).bind(session).bind(level.as_str()).bind(expires_at.as_microsecond());
    store.execute(tenant, query).await.map(|_| ())
}

pub(super) async fn subscribe(
    store: &PostgresStore,
    tenant: TenantId,
    session: Uuid,
    uri: &str,
    expires_at: Timestamp,
) -> Result<()> {
    check_uri(uri)?;
    // The session's row stays locked until the commit, so that the next one counts what this one added.
    let lock = sqlx::query(
        "INSERT INTO plugin_host.sessions AS s (tenant_id, id, expires_at_us) VALUES ($1, $2, $3)
         ON CONFLICT (tenant_id, id)
         DO UPDATE SET expires_at_us = greatest(s.expires_at_us, excluded.expires_at_us)",
    );
    let add = sqlx::query(
        "INSERT INTO plugin_host.session_subscriptions (tenant_id, session_id, uri) SELECT $1, $2, $3
         WHERE (SELECT count(*) FROM plugin_host.session_subscriptions
                WHERE tenant_id = $1 AND session_id = $2 AND uri <> $3) < $4
         ON CONFLICT (tenant_id, session_id, uri) DO UPDATE SET uri = excluded.uri",
    );
    let add = add.bind(tenant.0).bind(session).bind(uri.to_owned()).bind(i64::from(MAX_SUBSCRIPTIONS));
    let mut transaction = store.begin(tenant, Durability::Synced).await?;
    let lock = lock.bind(tenant.0).bind(session).bind(expires_at.as_microsecond());
    lock.execute(&mut *transaction).await.map_err(unavailable)?;
    let added = add.execute(&mut *transaction).await.map_err(unavailable)?.rows_affected();
    transaction.commit().await.map_err(unavailable)?;
    match added {
        0 => Err(too_many()),
        _ => Ok(()),
    }
}

pub(super) async fn unsubscribe(store: &PostgresStore, tenant: TenantId, session: Uuid, uri: &str) -> Result<()> {
    let query = sqlx::query(
        "DELETE FROM plugin_host.session_subscriptions WHERE tenant_id = $1 AND session_id = $2 AND uri = $3",
    );
    // No subscription has a NUL in it, and the column cannot.
    let query = query.bind(tenant.0).bind(session).bind(uri.replace('\0', " "));
    store.execute(tenant, query).await.map(|_| ())
}
