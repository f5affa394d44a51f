//! Connecting as a role that row-level security binds, or not at all.

use secrecy::{ExposeSecret, SecretString};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions};
use sqlx::{ConnectOptions, Executor, Row};
use std::time::Duration;

use super::migrate::LATEST;
use crate::error::{Error, Reason, Result};

/// The role whose grants and policies the schema knows.
pub(super) const APPLICATION_ROLE: &str = "cyberos_plugin_host";

pub(super) async fn pool(url: &SecretString, max_connections: u32) -> Result<PgPool> {
    let options = options(url)?.options([
        // A lost replica must not hold a chain's lock, and a stuck statement must not hold a caller.
        ("idle_in_transaction_session_timeout", "10s"),
        ("lock_timeout", "5s"),
        ("statement_timeout", "15s"),
    ]);
    let pool = PgPoolOptions::new()
        // One listens.
        .max_connections(max_connections.max(2))
        .acquire_timeout(Duration::from_secs(5))
        .after_connect(|connection, _| Box::pin(take_application_role(connection)))
        .connect_with(options)
        .await
        .map_err(cannot_connect)?;
    let mut connection = pool.acquire().await.map_err(cannot_connect)?;
    check_role(&mut connection).await?;
    check_schema(&mut connection).await?;
    drop(connection);
    Ok(pool)
}

/// Errors name the setting, never the URL: it holds a password.
pub(super) fn options(url: &SecretString) -> Result<PgConnectOptions> {
    let options: PgConnectOptions = url.expose_secret().parse().map_err(|_| {
        Error::new(Reason::StoreUnavailable, "The database URL cannot be read.")
            .hint("Write it as postgres://user:password@host:5432/database.")
    })?;
    Ok(options.application_name("cyberos-mcp-bridge").disable_statement_logging())
}

pub(super) fn cannot_connect(error: sqlx::Error) -> Error {
    Error::new(Reason::StoreUnavailable, "The database cannot be reached.")
        .hint("Check the database URL, that the server runs, and that the login may connect.")
        .detail(error)
}

/// A login that was granted the role steps down to it; a login that is the role stays. One that may not goes on as it
/// is, and is refused by `check_role` or by the grants.
async fn take_application_role(connection: &mut PgConnection) -> sqlx::Result<()> {
    match connection.execute("SET ROLE cyberos_plugin_host").await {
        Ok(_) => Ok(()),
        // Not granted, or not there yet.
        Err(sqlx::Error::Database(e)) if matches!(e.code().as_deref(), Some("42501" | "22023")) => Ok(()),
        Err(e) => Err(e),
    }
}

async fn check_role(connection: &mut PgConnection) -> Result<()> {
    let row = sqlx::query(
        "SELECT current_user::text AS name, r.rolsuper, r.rolbypassrls,
                EXISTS (SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                        WHERE n.nspname = 'plugin_host' AND pg_has_role(r.oid, c.relowner, 'USAGE')) AS owns,
                EXISTS (SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                        WHERE n.nspname = 'plugin_host' AND c.relkind IN ('r', 'p') AND c.relname <> 'schema_migrations'
                          AND NOT (c.relrowsecurity AND c.relforcerowsecurity)) AS unguarded
         FROM pg_roles r WHERE r.rolname = current_user",
    )
    .fetch_one(connection)
    .await
    .map_err(cannot_connect)?;

    let name: String = row.try_get("name").map_err(cannot_connect)?;
    for (column, why) in [
        ("rolsuper", "The database role is a superuser, whom row-level security does not bind."),
        ("rolbypassrls", "The database role has BYPASSRLS, so row-level security does not bind it."),
        ("owns", "The database role owns tables of the bridge; it must own nothing."),
        ("unguarded", "A table of the bridge is without forced row-level security."),
    ] {
        if row.try_get(column).map_err(cannot_connect)? {
            return Err(Error::new(Reason::StoreUnavailable, why)
                .hint(format!(
                    "Connect with a login of its own: CREATE ROLE bridge LOGIN; GRANT {APPLICATION_ROLE} TO bridge."
                ))
                .detail(format!("role {name}")));
        }
    }
    Ok(())
}

async fn check_schema(connection: &mut PgConnection) -> Result<()> {
    let not_migrated = |detail: String| {
        Error::new(Reason::StoreUnavailable, "The database schema is missing, too old, or not granted to this role.")
            .hint(format!(
                "Run the migration as the schema's owner, and GRANT {APPLICATION_ROLE} to the bridge's login."
            ))
            .detail(detail)
    };
    let version: Option<i64> =
        sqlx::query_scalar("SELECT max(version) FROM plugin_host.schema_migrations WHERE success")
            .fetch_one(connection)
            .await
            .map_err(|e| not_migrated(e.to_string()))?;
    // A newer schema is fine: migrations expand first and contract later.
    if version.unwrap_or(0) < LATEST {
        return Err(not_migrated(format!("schema {}, wanted {LATEST}", version.unwrap_or(0))));
    }
    Ok(())
}
