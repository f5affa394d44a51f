//! What `doctor` asks of a database that the bridge may not even be able to use: one connection, no pool, no role check.

use jiff::{SignedDuration, Timestamp};
use secrecy::SecretString;
use sqlx::{ConnectOptions, Connection, Row};
use std::time::Instant;

use super::connect::{cannot_connect, options};
use super::migrate::LATEST;
use crate::error::Result;

/// Plain facts; judging them is the reader's business.
#[derive(Clone, Debug)]
pub struct Inspection {
    pub server_version: String,
    /// The login, before it steps down to the application role.
    pub login: String,
    /// Is that login a superuser, or has it BYPASSRLS? It steps down, but whoever takes over its session can step up again.
    pub login_is_mighty: bool,
    /// The newest migration, if the schema can be read.
    pub schema_version: Option<i64>,
    /// The one that this binary needs.
    pub wanted_version: i64,
    /// Our clock minus the server's; half the round trip is taken off.
    pub clock_ahead: SignedDuration,
}

/// Errors: the server cannot be reached, or the login may not connect.
pub async fn inspect(url: &SecretString) -> Result<Inspection> {
    let mut connection = options(url)?.connect().await.map_err(cannot_connect)?;
    let asked = Instant::now();
    let row = sqlx::query(
        "SELECT current_setting('server_version') AS version, session_user::text AS login,
                (SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = session_user) AS mighty,
                (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now_us",
    )
    .fetch_one(&mut connection)
    .await
    .map_err(cannot_connect)?;
    let (here, travel) = (Timestamp::now(), asked.elapsed() / 2);
    let now_us: i64 = row.try_get("now_us").map_err(cannot_connect)?;
    // No schema, or no right to look into it: `connect` says which.
    let schema_version =
        sqlx::query_scalar::<_, Option<i64>>("SELECT max(version) FROM plugin_host.schema_migrations WHERE success")
            .fetch_one(&mut connection)
            .await
            .ok()
            .flatten();
    let inspection = Inspection {
        server_version: row.try_get("version").map_err(cannot_connect)?,
        login: row.try_get("login").map_err(cannot_connect)?,
        login_is_mighty: row.try_get("mighty").map_err(cannot_connect)?,
        schema_version,
        wanted_version: LATEST,
        clock_ahead: SignedDuration::from_micros(here.as_microsecond() - now_us - travel.as_micros() as i64),
    };
    let _ = connection.close().await;
    Ok(inspection)
}
