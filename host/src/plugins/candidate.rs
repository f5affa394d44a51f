//! A component that might be served, and why one is not. It knows no check: each has a file of its own.

use std::path::Path;

use crate::config::Grants;
use crate::model::PluginId;

/// The bytes that would be served. Checks look at these, never at the file again: what was checked is what is served.
pub struct Candidate<'a> {
    pub id: &'a PluginId,
    /// Where it was read from; `None` for a component that is part of this binary.
    pub path: Option<&'a Path>,
    pub wasm: &'a [u8],
    /// SHA-256 of `wasm`, in hex.
    pub digest: &'a str,
    pub grants: &'a Grants,
}

/// Not served, whatever else is. The text is for the operator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Blocked {
    /// Of the component, in hex.
    pub digest: String,
    pub kind: BlockedKind,
    /// One word for metrics.
    pub word: &'static str,
    /// Whole sentences: what is wrong, what was expected, what to do.
    pub reason: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockedKind {
    /// It may not be served.
    Refused,
    /// It may be served once an operator agrees.
    Quarantined,
}
