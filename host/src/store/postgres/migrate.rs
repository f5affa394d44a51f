//! Bringing the schema up to date, as its owner. The bridge that serves calls never does this.

use secrecy::SecretString;
use sqlx::SqlSafeStr;
use sqlx::migrate::{Migrate, Migration, MigrationType, Migrator};
use sqlx::{ConnectOptions, Connection};

use super::connect::{cannot_connect, options};
use crate::error::{Error, Reason, Result};

const MIGRATIONS: &[(i64, &str, &str)] = &[
    (1, "store", include_str!("../../../../migrations/postgres/0001_store.sql")),
    (
        2,
        "questions, sessions, letters",
        include_str!("../../../../migrations/postgres/0002_questions_sessions_letters.sql"),
    ),
];

/// The schema that this binary needs.
pub(super) const LATEST: i64 = MIGRATIONS[MIGRATIONS.len() - 1].0;

/// Apply what is missing, under an advisory lock; running it again changes nothing. The role in `owner_url` needs CREATE
/// on the database and, unless both application roles exist, CREATEROLE. It need not be a superuser.
pub async fn migrate(owner_url: &SecretString) -> Result<()> {
    let mut connection = options(owner_url)?.connect().await.map_err(cannot_connect)?;
    let steps = MIGRATIONS.iter().map(|(version, name, sql)| {
        Migration::new(*version, (*name).into(), MigrationType::Simple, sql.into_sql_str(), false)
    });
    let mut migrator = Migrator::with_migrations(steps.collect());
    migrator.create_schema("plugin_host");
    migrator.dangerous_set_table_name("plugin_host.schema_migrations");
    // The database may be ahead of this binary: expand first, contract later.
    migrator.set_ignore_missing(true);
    let done = migrator.run_direct(None, &mut connection, false).await;
    if done.is_err() {
        // The lock goes with the connection in any case; this only lets others go on sooner.
        let _ = connection.unlock().await;
    }
    let _ = connection.close().await;
    done.map_err(|e| {
        Error::new(Reason::StoreUnavailable, "The database schema cannot be brought up to date.")
            .hint("Run the migration as the role that owns the schema; it may need CREATEROLE the first time.")
            .detail(e)
    })
}
