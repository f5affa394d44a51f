//! The common append, on the thread of whoever asks: a transaction of a few small inserts takes less time than waking
//! the thread that a connection of the async driver lives on, twice.
//!
//! A commit goes to the kernel and not to the disk, so this takes about as long as a guest's slice. Nothing here waits:
//! when another process is writing, [`Quill::append`] says so and its caller waits as async code does. It shares the
//! write lock of [`super::writer`] with the async connection, so the two are never in each other's way.

use rusqlite::{Connection, ErrorCode, OpenFlags, params};
use std::path::Path;

use crate::store::chain::Linked;

/// A second connection that writes.
pub(super) struct Quill(Connection);

/// What became of an append.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Written {
    Committed,
    /// The database refused a row, and nothing was written: another process has moved the head, or used the key.
    Refused,
    /// Another process is writing.
    Busy,
}

impl Quill {
    /// The file exists and has its schema.
    pub fn open(path: &Path) -> rusqlite::Result<Quill> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(std::time::Duration::ZERO)?;
        for (pragma, value) in super::open::PRAGMAS {
            connection.pragma_update(None, pragma, value)?;
        }
        Ok(Quill(connection))
    }

    /// All rows or none.
    pub fn append(&mut self, rows: &[Linked<'_>]) -> rusqlite::Result<Written> {
        let written = self.transact(rows);
        if written.is_err() && !self.0.is_autocommit() {
            // Should this fail, too, then the next append does, and says so.
            let _ = self.0.prepare_cached("ROLLBACK").and_then(|mut rollback| rollback.execute([]));
        }
        match written.as_ref().map_err(rusqlite::Error::sqlite_error_code) {
            Err(Some(ErrorCode::ConstraintViolation)) => Ok(Written::Refused),
            Err(Some(ErrorCode::DatabaseBusy)) => Ok(Written::Busy),
            _ => written.map(|()| Written::Committed),
        }
    }

    fn transact(&self, rows: &[Linked<'_>]) -> rusqlite::Result<()> {
        self.0.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        let mut insert = self.0.prepare_cached(
            "INSERT INTO audit (tenant_id, seq, kind, actor_id, body, ts, trace_id, prev_anchor, chain_anchor,
                                idempotency_key, ship)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        )?;
        for Linked { prepared, position } in rows {
            let row = prepared.row;
            insert.execute(params![
                &*row.tenant.0.as_hyphenated().encode_lower(&mut [0; 36]),
                position.seq,
                row.kind,
                row.actor,
                prepared.body,
                prepared.ts,
                row.trace_id,
                position.prev_anchor,
                position.chain_anchor,
                row.idempotency_key,
                row.ship,
            ])?;
        }
        self.0.prepare_cached("COMMIT")?.execute([]).map(|_| ())
    }

    pub fn close(self) {
        if let Err((_, error)) = self.0.close() {
            tracing::warn!(%error, "the audit log's connection did not close cleanly; nothing is lost");
        }
    }
}
