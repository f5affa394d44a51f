//! Letters: how one replica reaches another, because a client's answer, its cancellation or a notification may arrive at
//! one replica and be meant for another.
//!
//! What a letter says is the business of those who write and read it. The rows and the waking are Postgres's
//! (`postgres/letters.rs`).

use serde_json::Value;
use std::sync::Arc;

use crate::error::{Error, Reason, Result};
use crate::model::TenantId;

/// The longest body, as JSON.
pub const MAX_LETTER_BYTES: usize = 1 << 20;

/// Replicas are named by up to 64 letters, digits, `-` and `_`.
#[derive(Clone, PartialEq, Debug)]
pub struct Letter {
    /// The replica that it is for; `None`: every other one.
    pub to: Option<String>,
    pub from: String,
    /// Whose data it holds. The receiver reads it under that tenant's policy.
    pub tenant: TenantId,
    pub body: Value,
}

/// What arrives.
#[derive(Clone, PartialEq, Debug)]
pub enum Post {
    Letter(Arc<Letter>),
    /// This replica did not listen for a moment, or did not keep up: letters to everybody may have been lost. What was
    /// addressed to it alone follows.
    Missed,
}

/// Names travel in a notification whose fields are told apart by spaces.
pub(super) fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

/// The body as it is stored, if the letter can be sent.
pub(super) fn check(letter: &Letter) -> Result<String> {
    if !is_name(&letter.from) || letter.to.as_deref().is_some_and(|to| !is_name(to)) {
        return Err(Error::new(Reason::Internal, "A message to another server has no proper address.")
            .detail(format!("from {:?} to {:?}", letter.from, letter.to)));
    }
    let body = super::rows::to_json(&letter.body);
    if body.len() > MAX_LETTER_BYTES {
        return Err(Error::new(
            Reason::PayloadTooLarge,
            "The message is over 1 MiB, and another server has to get it.",
        ));
    }
    Ok(body)
}
