//! Rows of read-only calls that were answered while the store was down: a file of JSON lines, appended to the store when
//! it is back. Each row carries an idempotency key, so that a replay that was cut short adds nothing twice.

use jiff::Timestamp;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use uuid::Uuid;

use crate::error::{Error, Reason, Result};
use crate::model::TenantId;
use crate::store::{Durability, NewAuditRow, Store};

/// A store that stays away must not fill the disk.
const MAX_BYTES: u64 = 64 << 20;
const PAUSE: Duration = Duration::from_secs(2);
const BATCH: usize = 256;

/// A directory with one file for each process, locked while that process lives; whoever finds an unlocked one, or its
/// own, appends it.
pub struct Spool {
    directory: Option<PathBuf>,
    own: Option<(PathBuf, File)>,
    waiting: bool,
}

#[derive(Serialize, Deserialize)]
struct Line {
    tenant: TenantId,
    kind: String,
    actor: String,
    body: Value,
    /// RFC 3339.
    ts: String,
    trace_id: String,
    key: String,
    ship: bool,
}

impl Spool {
    /// `None`: nothing is spooled, a call that cannot be recorded is refused.
    pub fn open(directory: Option<PathBuf>) -> Spool {
        let waiting =
            directory.as_ref().is_some_and(|d| fs::read_dir(d).is_ok_and(|mut entries| entries.next().is_some()));
        Spool { directory, own: None, waiting }
    }

    pub fn is_waiting(&self) -> bool {
        self.waiting
    }
    pub fn pause(&self) -> Duration {
        PAUSE
    }

    pub fn keep(&mut self, rows: &[NewAuditRow]) -> Result<()> {
        let failed =
            |detail: String| Error::new(Reason::StoreUnavailable, "The audit log cannot be written.").detail(detail);
        let file = self.own_file().map_err(|e| failed(format!("spool: {e}")))?;
        if file.metadata().is_ok_and(|m| m.len() > MAX_BYTES) {
            return Err(failed("the spool is full".into()));
        }
        let mut text = Vec::new();
        for row in rows {
            serde_json::to_writer(&mut text, &Line::from(row)).expect("a row is JSON");
            text.push(b'\n');
        }
        file.write_all(&text).map_err(|e| failed(format!("spool: {e}")))?;
        self.waiting = true;
        Ok(())
    }

    fn own_file(&mut self) -> io::Result<&mut File> {
        let directory = self.directory.as_ref().ok_or_else(|| io::Error::other("no spool is configured"))?;
        if self.own.is_none() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
            let path = directory.join(format!("{}.jsonl", Uuid::now_v7()));
            let file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path)?;
            flock(&file, FlockOperation::NonBlockingLockExclusive)?;
            self.own = Some((path, file));
        }
        Ok(&mut self.own.as_mut().expect("it was just made").1)
    }

    /// Append everything that waits. Stops at the first failure; what was appended is not appended again.
    pub async fn replay(&mut self, store: &dyn Store) {
        let Some(directory) = self.directory.clone().filter(|_| self.waiting) else { return };
        for path in files(&directory) {
            let is_own = self.own.as_ref().is_some_and(|(own, _)| *own == path);
            let Ok(file) = File::open(&path) else { continue };
            if !is_own && flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
                continue;
            }
            let rows = read(file.try_clone());
            for batch in rows.chunks(BATCH) {
                if store.append_audit(batch, Durability::Written).await.is_err() {
                    return;
                }
            }
            tracing::info!(rows = rows.len(), "the store is back; spooled audit rows were appended");
            if let Err(error) = fs::remove_file(&path) {
                tracing::error!(%error, "an audit spool could not be removed");
            }
            if is_own {
                self.own = None;
            }
        }
        self.waiting = false;
    }
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return vec![] };
    let mut files: Vec<_> =
        entries.flatten().map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "jsonl")).collect();
    // Named by time, so older rows come first.
    files.sort();
    files
}

/// A last line that was cut off by a crash was never answered for; it is skipped.
fn read(file: io::Result<File>) -> Vec<NewAuditRow> {
    let Ok(file) = file else { return vec![] };
    let lines = BufReader::new(file).lines().map_while(|line| line.ok());
    lines.filter_map(|line| serde_json::from_str::<Line>(&line).ok()).filter_map(Line::into_row).collect()
}

impl From<&NewAuditRow> for Line {
    fn from(row: &NewAuditRow) -> Self {
        Line {
            tenant: row.tenant,
            kind: row.kind.clone(),
            actor: row.actor.clone(),
            body: row.body.value(),
            ts: row.ts.to_string(),
            trace_id: row.trace_id.clone(),
            key: row.idempotency_key.clone().unwrap_or_else(|| format!("spool:{}", Uuid::new_v4())),
            ship: row.ship,
        }
    }
}

impl Line {
    /// `None` for a line that was damaged.
    fn into_row(self) -> Option<NewAuditRow> {
        let line = self;
        Some(NewAuditRow {
            tenant: line.tenant,
            kind: line.kind,
            actor: line.actor,
            body: line.body.into(),
            ts: line.ts.parse::<Timestamp>().ok()?,
            trace_id: line.trace_id,
            idempotency_key: Some(line.key),
            ship: line.ship,
        })
    }
}
