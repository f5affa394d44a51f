//! Checking an audit chain: does every row follow from the one before, and is the end still there?
//!
//! It reads rows and nothing else, so the same check runs over the store, page by page, and over an exported
//! JSON-lines file on another machine. What it cannot see alone: an attacker who may write everything can compute a
//! whole new chain. Only a checkpoint ([`AuditHead`]) that was kept elsewhere shows that, or a lost tail.

use super::audit::{AuditHead, AuditRow, GENESIS};
use crate::model::TenantId;
use serde::Serialize;
use std::fmt;

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChainReport {
    /// Good rows, counted from the start.
    pub rows: u64,
    /// The last good row.
    pub head: Option<AuditHead>,
    /// The first bad position; `None` when the chain is whole.
    pub fault: Option<ChainFault>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChainFault {
    /// The `seq` at which the chain first goes wrong.
    pub seq: i64,
    pub kind: FaultKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// The row's anchor is not that of its content.
    Edited,
    /// The row is not there, but a later one is.
    Missing,
    /// The row does not follow the one before it.
    Unlinked,
    /// The position was there already, or rows are out of order.
    OutOfOrder,
    /// The row belongs to another tenant.
    OtherTenant,
    /// The checkpoint names a row that is no longer there.
    TailLost,
    /// The row is whole, but not the one that the checkpoint names: the chain was computed anew.
    Rewritten,
}

impl fmt::Display for ChainFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seq = self.seq;
        match self.kind {
            FaultKind::Edited => write!(f, "row {seq} was changed: its anchor is not that of its content"),
            FaultKind::Missing => write!(f, "row {seq} is missing"),
            FaultKind::Unlinked => write!(f, "row {seq} does not follow the row before it"),
            FaultKind::OutOfOrder => write!(f, "row {seq} is there twice or out of order"),
            FaultKind::OtherTenant => write!(f, "row {seq} belongs to another tenant"),
            FaultKind::TailLost => write!(f, "rows from {seq} on are missing: the checkpoint knows them"),
            FaultKind::Rewritten => write!(f, "row {seq} is not the one that the checkpoint knows"),
        }
    }
}

/// A check under way, fed row by row so that a chain of any length needs no memory.
pub struct ChainCheck<'a> {
    checkpoint: Option<&'a AuditHead>,
    tenant: Option<TenantId>,
    next_seq: i64,
    last_anchor: String,
    fault: Option<ChainFault>,
}

impl<'a> ChainCheck<'a> {
    pub fn new(checkpoint: Option<&'a AuditHead>) -> Self {
        let tenant = checkpoint.map(|c| c.tenant_id);
        ChainCheck { checkpoint, tenant, next_seq: 1, last_anchor: GENESIS.to_owned(), fault: None }
    }

    /// Check the next row. False once the chain is broken: what follows says nothing more.
    pub fn row(&mut self, row: &AuditRow) -> bool {
        if self.fault.is_none() {
            self.fault = self.judge(row);
        }
        if self.fault.is_some() {
            return false;
        }
        self.tenant = Some(row.tenant_id);
        self.next_seq += 1;
        self.last_anchor.clone_from(&row.chain_anchor);
        true
    }

    fn judge(&self, row: &AuditRow) -> Option<ChainFault> {
        let at = |seq, kind| Some(ChainFault { seq, kind });
        if self.tenant.is_some_and(|tenant| tenant != row.tenant_id) {
            return at(row.seq, FaultKind::OtherTenant);
        }
        if row.seq > self.next_seq {
            return at(self.next_seq, FaultKind::Missing);
        }
        if row.seq < self.next_seq {
            return at(row.seq, FaultKind::OutOfOrder);
        }
        if row.expected_anchor() != row.chain_anchor {
            return at(row.seq, FaultKind::Edited);
        }
        if row.prev_anchor != self.last_anchor {
            return at(row.seq, FaultKind::Unlinked);
        }
        match self.checkpoint {
            Some(c) if c.seq == row.seq && c.chain_anchor != row.chain_anchor => at(row.seq, FaultKind::Rewritten),
            _ => None,
        }
    }

    pub fn finish(self) -> ChainReport {
        let good = self.next_seq - 1;
        let lost = self.checkpoint.filter(|c| c.seq > good && self.fault.is_none());
        let fault = lost.map(|_| ChainFault { seq: good + 1, kind: FaultKind::TailLost }).or(self.fault);
        let head = self.tenant.filter(|_| good > 0).map(|tenant_id| AuditHead {
            tenant_id,
            seq: good,
            chain_anchor: self.last_anchor,
        });
        ChainReport { rows: good as u64, head, fault }
    }
}

/// Check rows in the order of an export: from `seq` 1 on, of one tenant.
pub fn verify_chain(rows: impl IntoIterator<Item = AuditRow>, checkpoint: Option<&AuditHead>) -> ChainReport {
    let mut check = ChainCheck::new(checkpoint);
    for row in rows {
        if !check.row(&row) {
            break;
        }
    }
    check.finish()
}
