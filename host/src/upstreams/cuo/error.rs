//! What a request to the CUO can end in, and how it travels between supervisor and host.
//!
//! `message` is for callers and never holds a path, a stack trace or a supervisor's own output; `detail` is for the
//! log.

use serde_json::{Value, json};
use std::fmt;

use crate::error::{Error, Reason};

#[derive(Clone, Debug, PartialEq)]
pub enum CuoError {
    UnknownMethod,
    /// An unknown persona, workflow or skill, or parameters of the wrong shape. `near`: what may have been meant.
    InvalidParams {
        message: String,
        near: Vec<String>,
    },
    /// The supervisor cannot be started, died or said something unusable. `reason` is one of class
    /// `upstream_unavailable`.
    Unavailable {
        reason: Reason,
        message: String,
        detail: String,
    },
    /// The supervisor ran and the workflow did not complete.
    Failed {
        outcome: Failure,
        message: String,
        step: Option<u32>,
        detail: String,
    },
}

/// How a run ended when it did not complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    Failed,
    /// A step cannot run at all: a skill is missing.
    Blocked,
    /// Some steps completed, some did not.
    Partial,
    /// The work was handed back to an earlier stage.
    RoutedBack,
    /// A person must decide before it can go on.
    NeedsHuman,
}

impl Failure {
    const ALL: [Failure; 5] =
        [Failure::Failed, Failure::Blocked, Failure::Partial, Failure::RoutedBack, Failure::NeedsHuman];

    pub fn as_str(self) -> &'static str {
        match self {
            Failure::Failed => "failed",
            Failure::Blocked => "blocked",
            Failure::Partial => "partial",
            Failure::RoutedBack => "routed_back",
            Failure::NeedsHuman => "needs_human",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|f| f.as_str() == name)
    }
}

/// JSON-RPC codes of the supervisor protocol.
pub(super) mod code {
    pub const PARSE: i64 = -32700;
    pub const INVALID_REQUEST: i64 = -32600;
    pub const METHOD_NOT_FOUND: i64 = -32601;
    pub const INVALID_PARAMS: i64 = -32602;
    pub const RUN_FAILED: i64 = -32010;
}

impl CuoError {
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        CuoError::InvalidParams { message: message.into(), near: Vec::new() }
    }

    pub(super) fn not_found(what: &str, near: Vec<String>) -> Self {
        CuoError::InvalidParams { message: format!("There is no such {what}."), near }
    }

    pub(super) fn unavailable(reason: Reason, message: &str, detail: impl fmt::Display) -> Self {
        CuoError::Unavailable { reason, message: message.into(), detail: detail.to_string() }
    }

    pub(super) fn failed(
        outcome: Failure,
        message: impl Into<String>,
        step: Option<u32>,
        detail: impl fmt::Display,
    ) -> Self {
        CuoError::Failed { outcome, message: message.into(), step, detail: detail.to_string() }
    }

    /// For the log only.
    pub fn detail(&self) -> &str {
        match self {
            CuoError::UnknownMethod | CuoError::InvalidParams { .. } => "",
            CuoError::Unavailable { detail, .. } | CuoError::Failed { detail, .. } => detail,
        }
    }

    /// The `error` member of a JSON-RPC response.
    pub(super) fn to_rpc(&self) -> Value {
        match self {
            CuoError::UnknownMethod => json!({ "code": code::METHOD_NOT_FOUND, "message": self.to_string() }),
            CuoError::InvalidParams { message, near } => {
                json!({ "code": code::INVALID_PARAMS, "message": message, "data": { "near": near } })
            }
            CuoError::Unavailable { message, .. } => {
                json!({ "code": code::RUN_FAILED, "message": message, "data": { "outcome": "failed" } })
            }
            CuoError::Failed { outcome, message, step, .. } => {
                let data = json!({ "outcome": outcome.as_str(), "step": step });
                json!({ "code": code::RUN_FAILED, "message": message, "data": data })
            }
        }
    }

    /// Read a JSON-RPC `error` member. Text is believed only where the protocol defines it: an error outside the
    /// protocol may hold a stack trace, so that its text goes to the log.
    pub(super) fn from_rpc(error: &Value) -> Self {
        let text = error["message"].as_str().unwrap_or_default();
        let message: String = text.lines().next().unwrap_or_default().chars().take(300).collect();
        let near = || error["data"]["near"].as_array().into_iter().flatten().filter_map(Value::as_str).take(3);
        match (error["code"].as_i64(), error["data"]["outcome"].as_str().and_then(Failure::parse)) {
            (Some(code::METHOD_NOT_FOUND), _) => CuoError::UnknownMethod,
            (Some(code::INVALID_PARAMS), _) => {
                CuoError::InvalidParams { message, near: near().map(str::to_owned).collect() }
            }
            (Some(_), Some(outcome)) => {
                let step = error["data"]["step"].as_u64().and_then(|s| u32::try_from(s).ok());
                CuoError::Failed { outcome, message, step, detail: String::new() }
            }
            (Some(_), None) => CuoError::failed(Failure::Failed, "The workflow failed.", None, text),
            (None, _) => CuoError::unavailable(
                Reason::BadResponse,
                "The CUO supervisor answered with something unusable.",
                "an error without a code",
            ),
        }
    }
}

impl fmt::Display for CuoError {
    /// The caller's text, with what may have been meant.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CuoError::UnknownMethod => f.write_str("The CUO has no such method."),
            CuoError::InvalidParams { message, near } if near.is_empty() => f.write_str(message),
            CuoError::InvalidParams { message, near } => write!(f, "{message} Did you mean {}?", near.join(", ")),
            CuoError::Unavailable { message, .. } | CuoError::Failed { message, .. } => f.write_str(message),
        }
    }
}

impl std::error::Error for CuoError {}

impl From<CuoError> for Error {
    fn from(error: CuoError) -> Self {
        let public = match &error {
            CuoError::InvalidParams { message, .. } => message.clone(),
            other => other.to_string(),
        };
        match error {
            CuoError::UnknownMethod => {
                Error::new(Reason::Internal, "The tool asked the CUO for something it does not do.")
            }
            CuoError::InvalidParams { near, .. } if near.is_empty() => Error::new(Reason::SchemaViolation, public)
                .hint("List the personas, their workflows or the skills for what exists."),
            CuoError::InvalidParams { near, .. } => Error::new(Reason::SchemaViolation, public)
                .hint(format!("Did you mean {}?", near.join(", ")))
                .with("near", near),
            CuoError::Unavailable { reason, detail, .. } => Error::new(reason, public).detail(detail),
            CuoError::Failed { outcome, step, detail, .. } => {
                let error = Error::new(Reason::BadResponse, public).with("outcome", outcome.as_str()).detail(detail);
                match step {
                    Some(step) => error.with("step", step),
                    None => error,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_survives_the_wire_without_its_detail() {
        let failed = CuoError::failed(Failure::NeedsHuman, "A person must decide.", Some(3), "/secret/path");
        let wire = failed.to_rpc();
        assert!(!wire.to_string().contains("secret"));
        assert_eq!(
            CuoError::from_rpc(&wire),
            CuoError::failed(Failure::NeedsHuman, "A person must decide.", Some(3), "")
        );
        let invalid = CuoError::not_found("persona", vec!["chief-technology-officer".into()]);
        assert_eq!(CuoError::from_rpc(&invalid.to_rpc()), invalid);
    }

    #[test]
    fn text_outside_the_protocol_never_reaches_a_caller() {
        let trace = "Traceback: File \"/srv/cuo.py\", line 3";
        let error = CuoError::from_rpc(&json!({ "code": -32000, "message": trace }));
        assert!(!error.to_string().contains("srv") && error.detail().contains("srv"), "{error}");
        assert!(matches!(CuoError::from_rpc(&json!("x")), CuoError::Unavailable { .. }));
    }
}
