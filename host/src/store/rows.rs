//! From columns to rows: both databases name and type their columns alike, so this is written once.
//!
//! Times are microseconds since 1970, JSON is text, ids are text. A column that does not read back is a damaged store,
//! reported as [`Reason::StoreUnavailable`] with the column's name in the detail.

use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::{ColumnIndex, Decode, Row, Type};
use std::time::Duration;

use super::audit::{AuditPosition, AuditRow};
use super::chain::Earlier;
use super::letters::Letter;
use super::sessions::SessionState;
use super::tasks::{TaskEnd, TaskId, TaskOwner, TaskQuestion, TaskRow, TaskStatus};
use crate::error::{Error, Reason, Result};
use crate::model::{LogLevel, TenantId, ToolName, TraceId};

pub(super) fn unavailable(error: sqlx::Error) -> Error {
    Error::new(Reason::StoreUnavailable, "The bridge's store cannot be reached.").detail(error)
}

pub(super) fn damaged(column: &str, why: impl std::fmt::Display) -> Error {
    Error::new(Reason::StoreUnavailable, "The bridge's store holds a row that cannot be read.")
        .detail(format!("{column}: {why}"))
}

/// What both drivers' rows can do.
pub(super) trait Columns: Row {
    fn text(&self, column: &'static str) -> Result<String>;
    fn maybe_text(&self, column: &'static str) -> Result<Option<String>>;
    fn number(&self, column: &'static str) -> Result<i64>;
    fn maybe_number(&self, column: &'static str) -> Result<Option<i64>>;
}

impl<R> Columns for R
where
    R: Row,
    &'static str: ColumnIndex<R>,
    String: for<'r> Decode<'r, R::Database> + Type<R::Database>,
    i64: for<'r> Decode<'r, R::Database> + Type<R::Database>,
{
    fn text(&self, column: &'static str) -> Result<String> {
        self.try_get(column).map_err(unavailable)
    }
    fn maybe_text(&self, column: &'static str) -> Result<Option<String>> {
        self.try_get(column).map_err(unavailable)
    }
    fn number(&self, column: &'static str) -> Result<i64> {
        self.try_get(column).map_err(unavailable)
    }
    fn maybe_number(&self, column: &'static str) -> Result<Option<i64>> {
        self.try_get(column).map_err(unavailable)
    }
}

pub(super) fn task_row(row: &impl Columns) -> Result<TaskRow> {
    let tool = row.text("tool")?;
    let trace_id = row.text("trace_id")?;
    Ok(TaskRow {
        id: task_id(row)?,
        owner: TaskOwner { tenant: tenant(row)?, subject: row.text("subject")? },
        tool: ToolName::parse(&tool).ok_or_else(|| damaged("tool", tool))?,
        arguments: from_json("arguments", &row.text("arguments")?)?,
        call: from_json("call", &row.text("call")?)?,
        trace_id: TraceId::parse(&trace_id).ok_or_else(|| damaged("trace_id", trace_id))?,
        status: status(row)?,
        progress: maybe_json(row, "progress")?,
        output: maybe_json(row, "output")?,
        error: maybe_json(row, "error")?,
        created_at: timestamp("created_at_us", row.number("created_at_us")?)?,
        updated_at: timestamp("updated_at_us", row.number("updated_at_us")?)?,
        completed_at: row.maybe_number("completed_at_us")?.map(|us| timestamp("completed_at_us", us)).transpose()?,
        timeout_at: timestamp("timeout_at_us", row.number("timeout_at_us")?)?,
        ttl: Duration::from_micros(row.number("ttl_us")?.unsigned_abs()),
        attempts: u32::try_from(row.number("attempts")?).unwrap_or(u32::MAX),
        question: question(row)?,
        answer: maybe_json(row, "answer")?,
    })
}

fn question(row: &impl Columns) -> Result<Option<TaskQuestion>> {
    let Some(id) = row.maybe_text("question_id")? else { return Ok(None) };
    let body = maybe_json(row, "question")?.ok_or_else(|| damaged("question", "an id without a question"))?;
    Ok(Some(TaskQuestion { id, body }))
}

/// Columns `ended` (0 or 1), `log_level` and `subscriptions` (a JSON array of URIs).
pub(super) fn session_state(row: &impl Columns) -> Result<SessionState> {
    let level = |word: String| LogLevel::parse(&word).ok_or_else(|| damaged("log_level", word));
    Ok(SessionState {
        ended: row.number("ended")? != 0,
        log_level: row.maybe_text("log_level")?.map(level).transpose()?,
        subscriptions: maybe_json(row, "subscriptions")?.unwrap_or_default(),
    })
}

/// Columns `tenant_id`, `recipient`, `sender` and `body`.
pub(super) fn letter(row: &impl Columns) -> Result<Letter> {
    Ok(Letter {
        to: row.maybe_text("recipient")?,
        from: row.text("sender")?,
        tenant: tenant(row)?,
        body: from_json("body", &row.text("body")?)?,
    })
}

pub(super) fn status(row: &impl Columns) -> Result<TaskStatus> {
    let status = row.text("status")?;
    TaskStatus::parse(&status).ok_or_else(|| damaged("status", status))
}

pub(super) fn task_id(row: &impl Columns) -> Result<TaskId> {
    let id = row.text("id")?;
    TaskId::parse(&id).ok_or_else(|| damaged("id", id))
}

pub(super) fn tenant(row: &impl Columns) -> Result<TenantId> {
    let text = row.text("tenant_id")?;
    text.parse().map(TenantId).map_err(|e| damaged("tenant_id", e))
}

pub(super) fn audit_row(row: &impl Columns) -> Result<AuditRow> {
    Ok(AuditRow {
        seq: row.number("seq")?,
        tenant_id: tenant(row)?,
        kind: row.text("kind")?,
        actor_id: row.text("actor_id")?,
        body: from_json("body", &row.text("body")?)?,
        ts: row.text("ts")?,
        trace_id: row.text("trace_id")?,
        chain_anchor: row.text("chain_anchor")?,
        prev_anchor: row.text("prev_anchor")?,
    })
}

pub(super) fn earlier(row: &impl Columns) -> Result<Earlier> {
    Ok(Earlier {
        kind: row.text("kind")?,
        actor: row.text("actor_id")?,
        body: row.text("body")?,
        position: AuditPosition {
            seq: row.number("seq")?,
            chain_anchor: row.text("chain_anchor")?,
            prev_anchor: row.text("prev_anchor")?,
        },
    })
}

/// The columns `status`, `output`, `error` of a task's end.
pub(super) fn end_columns(end: &TaskEnd) -> (TaskStatus, Option<String>, Option<String>) {
    match end {
        TaskEnd::Result(result) if result.is_error => (TaskStatus::Failed, Some(to_json(result)), None),
        TaskEnd::Result(result) => (TaskStatus::Completed, Some(to_json(result)), None),
        TaskEnd::Error(error) => (TaskStatus::Failed, None, Some(to_json(error))),
    }
}

pub(super) fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("the store's own types always become JSON")
}

fn from_json<T: DeserializeOwned>(column: &'static str, text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|e| damaged(column, e))
}

fn maybe_json<T: DeserializeOwned>(row: &impl Columns, column: &'static str) -> Result<Option<T>> {
    row.maybe_text(column)?.map(|text| from_json(column, &text)).transpose()
}

fn timestamp(column: &'static str, us: i64) -> Result<Timestamp> {
    Timestamp::from_microsecond(us).map_err(|e| damaged(column, e))
}

/// As a number of microseconds that any column holds.
pub(super) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}
