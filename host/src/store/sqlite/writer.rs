//! The write lock of this process, the connections that write under it, and when what they wrote is on disk.
//!
//! Durability, in WAL mode with `synchronous=NORMAL`:
//! - A commit returns after its frames were written to the `-wal` file. They are in the kernel then, so the death of
//!   the process (kill -9) loses nothing: the next one to open the file reads them. That is [`Durability::Written`].
//! - The loss of power may lose them until the `-wal` file is synced. [`Writer::sync`] does that: `fdatasync` on the
//!   file covers every frame written to it before, whoever wrote it. If a checkpoint moved the frames to the database
//!   file in between, then SQLite had synced them already: under NORMAL it syncs the WAL before it copies, and the
//!   database before it reuses the WAL. That is [`Durability::Synced`], and it happens outside the write lock, once
//!   for all who wait, so that calls which need no sync do not wait for those that do.
//!
//! [`Durability::Written`]: crate::store::Durability::Written
//! [`Durability::Synced`]: crate::store::Durability::Synced

use sqlx::sqlite::{SqliteArguments, SqliteConnection, SqliteRow};
use sqlx::{Connection, Sqlite};
use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Weak;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{MappedMutexGuard, Mutex, MutexGuard};
use tokio::task::AbortHandle;

use super::quill::Quill;
use crate::error::{Error, Reason, Result};
use crate::model::TenantId;
use crate::store::chain::Head;
use crate::store::rows::unavailable;

type Query<'q> = sqlx::query::Query<'q, Sqlite, SqliteArguments>;

/// The WAL is moved into the database when it is larger than this.
const CHECKPOINT_BYTES: u64 = 4 << 20;

pub(super) struct Writer {
    pen: Mutex<Option<Pen>>,
    database: PathBuf,
    wal: PathBuf,
    /// Commits so far; what a sync has to cover.
    commits: AtomicU64,
    synced: Mutex<Synced>,
}

/// What only the holder of the write lock touches.
pub(super) struct Pen {
    pub connection: SqliteConnection,
    pub quill: Quill,
    /// Where chains ended when this process last wrote to them. A guess: the database refuses a row that does not
    /// continue its chain, and the head is then read again.
    pub heads: HashMap<TenantId, Head>,
}

#[derive(Default)]
struct Synced {
    commits: u64,
    /// The name of the WAL file is on disk, too.
    directory: bool,
    /// After a failed sync the kernel may have dropped what it could not write, and a second sync would claim
    /// success. So there is no second one.
    failed: Option<String>,
}

impl Writer {
    pub fn new(connection: SqliteConnection, quill: Quill, database: &Path) -> Self {
        let mut wal = database.as_os_str().to_owned();
        wal.push("-wal");
        Writer {
            pen: Mutex::new(Some(Pen { connection, quill, heads: HashMap::new() })),
            database: database.to_owned(),
            wal: wal.into(),
            commits: AtomicU64::new(0),
            synced: Mutex::default(),
        }
    }

    pub async fn lock(&self) -> Result<MappedMutexGuard<'_, Pen>> {
        let closed = || Error::new(Reason::StoreUnavailable, "The bridge's store is closed.");
        MutexGuard::try_map(self.pen.lock().await, Option::as_mut).map_err(|_| closed())
    }

    /// A single statement is a transaction of its own, and waits for its turn as `BEGIN IMMEDIATE` does.
    pub async fn execute(&self, query: Query<'_>) -> Result<u64> {
        let mut pen = self.lock().await?;
        let done = query.execute(&mut pen.connection).await.map_err(unavailable)?;
        self.committed();
        Ok(done.rows_affected())
    }

    /// The same, for a statement with `RETURNING`.
    pub async fn returning(&self, query: Query<'_>) -> Result<Vec<SqliteRow>> {
        let mut pen = self.lock().await?;
        let rows = query.fetch_all(&mut pen.connection).await.map_err(unavailable)?;
        self.committed();
        Ok(rows)
    }

    /// Note a commit, with the write lock held. The answer is what [`Writer::sync`] asks for.
    pub fn committed(&self) -> u64 {
        self.commits.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Return when commit number `commit`, and all before it, are on disk.
    pub async fn sync(&self, commit: u64) -> Result<()> {
        let fail = |why: &str| {
            Error::new(Reason::StoreUnavailable, "The bridge's store cannot be written to disk.").detail(why)
        };
        let mut synced = self.synced.lock().await;
        if let Some(why) = &synced.failed {
            return Err(fail(why));
        }
        if synced.commits >= commit {
            return Ok(());
        }
        let covers = self.commits.load(Ordering::Relaxed);
        let wal = self.wal.clone();
        let directory = (!synced.directory).then(|| self.database.parent().map(Path::to_owned)).flatten();
        let work = tokio::task::spawn_blocking(move || {
            File::open(&wal)?.sync_data()?;
            match directory {
                Some(d) if !d.as_os_str().is_empty() => File::open(d)?.sync_all(),
                _ => Ok(()),
            }
        });
        match work.await.map_err(std::io::Error::other).flatten() {
            Ok(()) => {
                synced.commits = covers;
                synced.directory = true;
                Ok(())
            }
            Err(e) => {
                let why = e.to_string();
                synced.failed = Some(why.clone());
                Err(fail(&why))
            }
        }
    }

    pub async fn close(&self) {
        let Some(pen) = self.pen.lock().await.take() else { return };
        pen.quill.close();
        if let Err(error) = pen.connection.close().await {
            tracing::warn!(%error, "the store did not close cleanly; nothing is lost, the next start recovers it");
        }
    }
}

/// Keep the WAL short without making any writer wait for the disk: a checkpoint on a connection of its own.
pub(super) fn checkpoint_in_background(writer: Weak<Writer>) -> AbortHandle {
    let task = tokio::spawn(async move {
        let mut connection: Option<SqliteConnection> = None;
        loop {
            tokio::time::sleep(Duration::from_millis(500)).await;
            let Some(writer) = writer.upgrade() else { return };
            if std::fs::metadata(&writer.wal).map_or(0, |m| m.len()) < CHECKPOINT_BYTES {
                continue;
            }
            if let Err(error) = checkpoint(&writer.database, &mut connection).await {
                tracing::debug!(%error, "checkpoint put off");
                connection = None;
            }
        }
    });
    task.abort_handle()
}

async fn checkpoint(database: &Path, slot: &mut Option<SqliteConnection>) -> sqlx::Result<()> {
    let connection = match slot {
        Some(connection) => connection,
        None => {
            let options = sqlx::sqlite::SqliteConnectOptions::new().filename(database);
            slot.insert(SqliteConnection::connect_with(&options).await?)
        }
    };
    // PASSIVE waits for nobody. It syncs by this connection's `synchronous`, which is FULL by default.
    sqlx::raw_sql("PRAGMA wal_checkpoint(PASSIVE)").execute(connection).await.map(|_| ())
}
