//! Opening the file: permissions, pragmas, schema. It knows nothing of tasks or audit rows.

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePool, SqlitePoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};
use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use super::quill::Quill;
use crate::error::{Error, Reason, Result};

/// Marks the file as ours (`PRAGMA application_id`): "CyMB".
const APPLICATION_ID: i64 = 0x4379_4d42;

/// Each takes the schema from one `user_version` to the next.
const MIGRATIONS: &[&str] = &[
    include_str!("../../../../migrations/sqlite/0001_store.sql"),
    include_str!("../../../../migrations/sqlite/0002_questions_and_sessions.sql"),
];

/// Of every connection that writes.
pub(super) const PRAGMAS: [(&str, &str); 4] = [
    // Commits reach the kernel, not the disk: they survive the process. `Writer::sync` waits for the disk.
    ("synchronous", "NORMAL"),
    ("foreign_keys", "ON"),
    // Checkpoints run in the background; this is for when they cannot keep up.
    ("wal_autocheckpoint", "16000"),
    ("journal_size_limit", "67108864"),
];

/// How long a process waits for its turn to write before it gives up.
pub(super) const BUSY: Duration = Duration::from_secs(5);

/// The async connection that writes, the one for common appends, and those that read.
pub(super) async fn open(path: &Path) -> Result<(SqliteConnection, Quill, SqlitePool)> {
    create_private(path).map_err(|e| cannot_open(path, e))?;
    let options = SqliteConnectOptions::new().filename(path).busy_timeout(BUSY).disable_statement_logging();

    let mut writer = connect_patiently(path, &options).await?;
    migrate(&mut writer, path).await?;
    let quill = Quill::open(path).map_err(|e| cannot_open(path, e))?;

    let readers = SqlitePoolOptions::new()
        .max_connections(4)
        .min_connections(0)
        // A connection to a file does not go stale; asking each time would double the cost of a short read.
        .test_before_acquire(false)
        .max_lifetime(None)
        .connect_lazy_with(options.read_only(true));
    Ok((writer, quill, readers))
}

/// SQLite gives its `-wal` and `-shm` files the permissions of the database file.
fn create_private(path: &Path) -> std::io::Result<()> {
    if let Some(directory) = path.parent().filter(|d| !d.as_os_str().is_empty() && !d.exists()) {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
    if file.metadata()?.permissions().mode() & 0o077 != 0 {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    // The file's name must survive a loss of power as its content does.
    match path.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => File::open(directory)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    }
}

/// The first switch to WAL needs the file to itself and does not wait for its turn, so the waiting is done here.
async fn connect_patiently(path: &Path, options: &SqliteConnectOptions) -> Result<SqliteConnection> {
    let options = options.clone().journal_mode(SqliteJournalMode::Wal);
    let options = PRAGMAS.iter().fold(options, |options, (pragma, value)| options.pragma(*pragma, *value));
    let give_up = Instant::now() + BUSY;
    loop {
        match SqliteConnection::connect_with(&options).await {
            Ok(connection) => return Ok(connection),
            Err(e) if primary_code(&e) == Some(5) && Instant::now() < give_up => {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Err(e) => return Err(refuse(path, e)),
        }
    }
}

async fn migrate(connection: &mut SqliteConnection, path: &Path) -> Result<()> {
    let fail = |e| refuse(path, e);
    let latest = MIGRATIONS.len() as i64;
    if schema_version(connection, path).await? == latest {
        return Ok(());
    }
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await.map_err(fail)?;
    // Another process may have done it while this one waited.
    let version = schema_version(&mut transaction, path).await?;
    for step in version..latest {
        sqlx::raw_sql(MIGRATIONS[step as usize]).execute(&mut *transaction).await.map_err(fail)?;
    }
    let stamp = format!("PRAGMA user_version = {latest}; PRAGMA application_id = {APPLICATION_ID}");
    sqlx::raw_sql(AssertSqlSafe(stamp)).execute(&mut *transaction).await.map_err(fail)?;
    transaction.commit().await.map_err(fail)
}

/// 0 for a new file. Errors: the file is of a newer bridge, or not a bridge's at all.
async fn schema_version(connection: &mut SqliteConnection, path: &Path) -> Result<i64> {
    let (version, owner, objects): (i64, i64, i64) = sqlx::query_as(
        "SELECT v.user_version, a.application_id, (SELECT count(*) FROM sqlite_schema)
         FROM pragma_user_version v, pragma_application_id a",
    )
    .fetch_one(connection)
    .await
    .map_err(|e| refuse(path, e))?;

    if owner != APPLICATION_ID && (version, objects) != (0, 0) {
        return Err(Error::new(Reason::StoreUnavailable, "The store file belongs to another program.")
            .hint("Choose another path for the bridge's store.")
            .detail(path.display()));
    }
    if version > MIGRATIONS.len() as i64 {
        return Err(Error::new(Reason::StoreUnavailable, "The store was written by a newer version of this bridge.")
            .hint("Upgrade this bridge, or choose another path for its store.")
            .detail(format!("{}: schema {version}, known up to {}", path.display(), MIGRATIONS.len())));
    }
    Ok(version)
}

fn refuse(path: &Path, error: sqlx::Error) -> Error {
    const CORRUPT: i32 = 11;
    const NOT_A_DATABASE: i32 = 26;
    match primary_code(&error) {
        Some(CORRUPT | NOT_A_DATABASE) => {
            Error::new(Reason::StoreUnavailable, "The store file is damaged or not a database.")
                .hint("Put back a copy of it, or move it away and start with an empty store.")
                .detail(format!("{}: {error}", path.display()))
        }
        _ => cannot_open(path, error),
    }
}

fn cannot_open(path: &Path, error: impl std::fmt::Display) -> Error {
    Error::new(Reason::StoreUnavailable, "The store file cannot be opened.")
        .hint("Check that its directory exists, may be written by this user, and has free space.")
        .detail(format!("{}: {error}", path.display()))
}

/// SQLite's result code without its extension, such as 5 (busy), 11 (corrupt), 19 (constraint).
pub(super) fn primary_code(error: &sqlx::Error) -> Option<i32> {
    let code: i32 = error.as_database_error()?.code()?.parse().ok()?;
    Some(code & 0xff)
}
