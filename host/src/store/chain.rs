//! Linking new rows to their tenants' chains: pure, the same for both databases.
//!
//! It turns a batch and the heads it starts from into rows ready to insert and an answer for each row of the batch.
//! It knows no database: who holds the lock on the heads, and where earlier idempotency keys were looked up, is the
//! caller's business.

use std::collections::HashMap;

use super::audit::{Appended, AuditPosition, GENESIS, NewAuditRow, anchor, sealed_text, ts_text};
use crate::error::{Error, Reason, Result};
use crate::model::TenantId;

/// Where a tenant's chain ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub seq: i64,
    pub anchor: String,
}

impl Default for Head {
    fn default() -> Self {
        Head { seq: 0, anchor: GENESIS.to_owned() }
    }
}

/// A new row with its texts made, which needs no lock.
pub(super) struct Prepared<'a> {
    pub row: &'a NewAuditRow,
    pub body: &'a str,
    pub ts: String,
}

/// A row in its place.
pub(super) struct Linked<'a> {
    pub prepared: &'a Prepared<'a>,
    pub position: AuditPosition,
}

/// A row found under an idempotency key.
#[derive(Clone)]
pub(super) struct Earlier {
    pub kind: String,
    pub actor: String,
    pub body: String,
    pub position: AuditPosition,
}

/// Earlier rows by tenant and idempotency key.
pub(super) type EarlierKeys = HashMap<(TenantId, String), Earlier>;

/// Errors: `invalid_params` for a text that not every database can hold.
pub(super) fn prepare(rows: &[NewAuditRow]) -> Result<Vec<Prepared<'_>>> {
    rows.iter()
        .map(|row| {
            let key = row.idempotency_key.as_deref().unwrap_or("");
            if [&row.kind, &row.actor, &row.trace_id, key].iter().any(|text| text.contains('\0')) {
                return Err(Error::new(
                    Reason::InvalidParams,
                    "An audit row's kind, actor, trace id and idempotency key must not contain the NUL character.",
                ));
            }
            Ok(Prepared { row, body: row.body.as_str(), ts: ts_text(row.ts) })
        })
        .collect()
}

/// Give every row its place. `heads` moves along; rows whose key is in `earlier`, or came earlier in this batch, get
/// no place of their own.
pub(super) fn link<'a>(
    batch: &'a [Prepared<'a>],
    heads: &mut HashMap<TenantId, Head>,
    earlier: &EarlierKeys,
) -> (Vec<Linked<'a>>, Vec<Appended>) {
    let mut linked: Vec<Linked<'a>> = Vec::with_capacity(batch.len());
    let mut answers = Vec::with_capacity(batch.len());
    let mut keys_here: HashMap<(TenantId, &str), usize> = HashMap::new();

    for prepared in batch {
        let row = prepared.row;
        if let Some(key) = row.idempotency_key.as_deref() {
            if let Some(&first) = keys_here.get(&(row.tenant, key)) {
                let first = &linked[first];
                let (kind, actor) = (&first.prepared.row.kind, &first.prepared.row.actor);
                answers.push(repeat(prepared, kind, actor, first.prepared.body, &first.position));
                continue;
            }
            if let Some(e) = earlier.get(&(row.tenant, key.to_owned())) {
                answers.push(repeat(prepared, &e.kind, &e.actor, &e.body, &e.position));
                continue;
            }
            keys_here.insert((row.tenant, key), linked.len());
        }

        let head = heads.entry(row.tenant).or_default();
        let seq = head.seq + 1;
        let sealed = sealed_text(seq, row.tenant, &row.kind, &row.actor, prepared.body, &prepared.ts, &row.trace_id);
        let chain_anchor = anchor(&head.anchor, &sealed);
        let prev_anchor = std::mem::replace(&mut head.anchor, chain_anchor.clone());
        head.seq = seq;

        let position = AuditPosition { seq, chain_anchor, prev_anchor };
        answers.push(Appended::Added(position.clone()));
        linked.push(Linked { prepared, position });
    }
    (linked, answers)
}

fn repeat(new: &Prepared<'_>, kind: &str, actor: &str, body: &str, position: &AuditPosition) -> Appended {
    if new.row.kind == kind && new.row.actor == actor && new.body == body {
        Appended::Repeated(position.clone())
    } else {
        Appended::KeyConflict(position.clone())
    }
}
