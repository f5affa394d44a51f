//! What a session has changed from the defaults. Sessions themselves are not stored: their id says what they are.
//!
//! Source: design section 6; MCP 2025-11-25, logging and resource subscriptions.

use std::collections::BTreeSet;

use crate::error::{Error, Reason, Result};
use crate::model::LogLevel;

/// Most subscriptions of one session.
pub const MAX_SUBSCRIPTIONS: u32 = 1000;
/// The longest URI that can be subscribed to.
pub const MAX_URI_BYTES: usize = 2048;

#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct SessionState {
    /// Its client deleted it before its time.
    pub ended: bool,
    /// What `logging/setLevel` asked for.
    pub log_level: Option<LogLevel>,
    /// URIs of the resources whose changes it wants to hear of.
    pub subscriptions: BTreeSet<String>,
}

pub(super) fn check_uri(uri: &str) -> Result<()> {
    match uri.len() <= MAX_URI_BYTES && !uri.contains('\0') {
        true => Ok(()),
        false => Err(Error::new(
            Reason::InvalidParams,
            format!("A resource that is subscribed to has a URI of at most {MAX_URI_BYTES} bytes."),
        )),
    }
}

pub(super) fn too_many() -> Error {
    Error::new(Reason::Busy, format!("This session has {MAX_SUBSCRIPTIONS} subscriptions, which is the most."))
        .hint("Unsubscribe from what you do not need any more.")
}
