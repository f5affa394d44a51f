//! The one error type: four classes, reasons that never change once released.
//!
//! Known to every layer, knows none. It carries two texts: `public`, which a caller may read, and `detail`, which
//! only the log sees. Nothing here can print `detail` to a caller: carriers (JSON-RPC, HTTP, task rows) are built
//! from [`Error::public_view`] alone.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fmt;

use crate::model::TraceId;

/// Who has to act. Clients key on this and on [`Reason`], never on numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// The caller fixes the call.
    InputValidation,
    /// The caller re-authorises or confirms.
    AuthzDenied,
    /// The caller tries again later.
    UpstreamUnavailable,
    /// We, or the plugin's author, fix it.
    InternalError,
}

impl Class {
    pub fn as_str(self) -> &'static str {
        match self {
            Class::InputValidation => "input_validation",
            Class::AuthzDenied => "authz_denied",
            Class::UpstreamUnavailable => "upstream_unavailable",
            Class::InternalError => "internal_error",
        }
    }
}

/// Declares every reason once: its wire name, its class and the hint that tells the reader what to do.
macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident, $wire:literal, $class:ident, $hint:literal;)*) => {
        /// Why a call was refused or ended. The wire name is a public contract.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Reason { $($(#[$doc])* $variant,)* }

        impl Reason {
            /// Every reason, for tests and for the reference in `docs/`.
            pub const ALL: &'static [Reason] = &[$(Reason::$variant,)*];
            pub fn as_str(self) -> &'static str { match self { $(Reason::$variant => $wire,)* } }
            pub fn class(self) -> Class { match self { $(Reason::$variant => Class::$class,)* } }
            /// What the reader should do, when the place that refused knows nothing better.
            pub fn default_hint(self) -> &'static str { match self { $(Reason::$variant => $hint,)* } }
            pub fn parse(wire: &str) -> Option<Reason> { match wire { $($wire => Some(Reason::$variant),)* _ => None } }
        }
    };
}

reasons! {
    ParseError, "parse_error", InputValidation, "Send one complete JSON value per message, encoded as UTF-8.";
    InvalidRequest, "invalid_request", InputValidation, "Send a JSON-RPC 2.0 request: jsonrpc \"2.0\", a string method, and a string or integer id.";
    MethodNotFound, "method_not_found", InputValidation, "Call a method of MCP 2025-11-25 whose capability the server advertised in initialize.";
    UnsupportedVersion, "unsupported_version", InputValidation, "Ask for protocol version 2025-11-25.";
    InvalidParams, "invalid_params", InputValidation, "Check the params of this method against MCP 2025-11-25.";
    SchemaViolation, "schema_violation", InputValidation, "Correct the argument at the given pointer so that it matches the tool's inputSchema.";
    ToolNotFound, "tool_not_found", InputValidation, "Call tools/list for the tools that you can call.";
    TaskNotFound, "task_not_found", InputValidation, "Check the task id; tasks are visible only to the caller that created them and are deleted after their time to live.";
    TaskEnded, "task_ended", InputValidation, "The task has already ended; read its result instead.";
    TaskUnsupported, "task_unsupported", InputValidation, "Call this tool without task metadata.";
    BadCursor, "bad_cursor", InputValidation, "Start the list again without a cursor.";
    PayloadTooLarge, "payload_too_large", InputValidation, "Send a smaller message; the limit is named in the message text.";
    NotAcceptable, "not_acceptable", InputValidation, "Send Accept: application/json, text/event-stream.";
    UnsupportedMediaType, "unsupported_media_type", InputValidation, "Send Content-Type: application/json.";
    ResourceNotFound, "resource_not_found", InputValidation, "Call resources/list and resources/templates/list for what can be read.";
    PromptNotFound, "prompt_not_found", InputValidation, "Call prompts/list for the prompts that you can get.";
    StreamNotFound, "stream_not_found", InputValidation, "The stream has ended or was never yours; send the request again.";
    ClientUnsupported, "client_unsupported", InputValidation, "Use a client that declares this capability in initialize (elicitation, sampling), or a tool that needs none.";
    SessionNotFound, "session_not_found", InputValidation, "Send initialize again, without a session id.";

    TokenMissing, "token_missing", AuthzDenied, "Send Authorization: Bearer with an access token issued for this server.";
    TokenInvalid, "token_invalid", AuthzDenied, "Re-authenticate: get a new access token from the configured issuer.";
    TokenExpired, "token_expired", AuthzDenied, "The token expired: refresh it and call again.";
    AudMismatch, "aud_mismatch", AuthzDenied, "The token was issued for another audience: ask for one with this server as its resource.";
    InsufficientScope, "insufficient_scope", AuthzDenied, "Re-authorise with the missing scopes, or have an administrator grant them.";
    ConfirmationRequired, "confirmation_required", AuthzDenied, "This tool needs a person's confirmation: pass a confirmation token, or use a client that supports elicitation.";
    ConfirmationInvalid, "confirmation_invalid", AuthzDenied, "Get a new confirmation token for exactly these arguments; each works once, for 60 seconds.";
    UserDeclined, "user_declined", AuthzDenied, "The user declined this call; do not repeat it unasked.";
    ToolDenied, "tool_denied", AuthzDenied, "The tool itself refuses this; the message says why.";
    OriginForbidden, "origin_forbidden", AuthzDenied, "Ask the operator to allow this origin with --cors-origin, or this host with --allowed-host.";

    Timeout, "timeout", UpstreamUnavailable, "The service behind this tool did not answer in time; try again in a moment.";
    Unreachable, "unreachable", UpstreamUnavailable, "The service behind this tool cannot be reached; try again in a moment.";
    BadResponse, "bad_response", UpstreamUnavailable, "The service behind this tool answered with something unusable; try again, then tell the operator the trace id.";
    StoreUnavailable, "store_unavailable", UpstreamUnavailable, "The bridge's store cannot be reached; try again in a moment.";
    Draining, "draining", UpstreamUnavailable, "This server is shutting down; send the call again to reach another one.";
    RateLimited, "rate_limited", UpstreamUnavailable, "Wait for retry_after_ms, then call again.";
    Busy, "busy", UpstreamUnavailable, "Too many calls at once; wait for retry_after_ms, then call again.";

    PluginTrapped, "plugin_trapped", InternalError, "The tool crashed. Tell the operator the trace id.";
    ToolFailed, "tool_failed", InternalError, "The tool failed in a way that it did not foresee. Tell the operator the trace id.";
    OutOfFuel, "out_of_fuel", InternalError, "The tool used up its computing budget. Ask for less in one call, or have the operator raise the plugin's fuel limit.";
    OutOfMemory, "out_of_memory", InternalError, "The tool used up its memory. Ask for less in one call, or have the operator raise the plugin's memory limit.";
    StackOverflow, "stack_overflow", InternalError, "The tool recursed too deeply. Ask for less nested input, and tell the plugin's author the trace id.";
    HostCallLimit, "host_call_limit", InternalError, "The tool called the host too often or with too much data. Ask for less in one call, and tell the plugin's author the trace id.";
    Deadline, "deadline", InternalError, "The call passed its timeout. Ask for less, or pass a longer timeout where the tool takes one (timeout_seconds).";
    OutputTooLarge, "output_too_large", InternalError, "The result is over the output limit. Ask for a smaller page, or have the operator raise the plugin's output limit.";
    InvalidResult, "invalid_result", InternalError, "The tool returned a result that breaks its own outputSchema. Tell the plugin's author the trace id.";
    Cancelled, "cancelled", InternalError, "The call was cancelled.";
    WorkerLost, "worker_lost", InternalError, "The process that ran this task ended before it finished. Start the task again.";
    Panic, "panic", InternalError, "The server hit a bug and recovered. Tell the operator the trace id.";
    Internal, "internal", InternalError, "The server hit a bug. Tell the operator the trace id.";
}

/// What went wrong, for the caller (`public`, `hint`, `data`) and for the log (`detail`).
#[derive(Clone)]
pub struct Error(Box<Parts>);

/// Behind one pointer: every `Result` on the hot path carries room for an error.
#[derive(Clone)]
struct Parts {
    reason: Reason,
    public: String,
    hint: Option<String>,
    detail: Option<String>,
    data: Map<String, Value>,
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// `public` is one sentence that the caller may read: no paths, SQL, ids, tokens or other people's data.
    pub fn new(reason: Reason, public: impl Into<String>) -> Self {
        Error(Box::new(Parts { reason, public: public.into(), hint: None, detail: None, data: Map::new() }))
    }

    /// Replace the reason's default hint.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Say more to the log, and only to the log.
    pub fn detail(mut self, detail: impl fmt::Display) -> Self {
        self.0.detail = Some(detail.to_string());
        self
    }

    /// Add a public field to `error.data`, such as `missing_scopes`, `pointer` or `retry_after_ms`.
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.0.data.insert(key.to_owned(), value.into());
        self
    }

    pub fn reason(&self) -> Reason {
        self.0.reason
    }

    pub fn class(&self) -> Class {
        self.0.reason.class()
    }

    /// What the reader should do.
    pub fn hint_text(&self) -> &str {
        self.0.hint.as_deref().unwrap_or(self.0.reason.default_hint())
    }

    /// What the log may print beside the public text.
    pub fn log_detail(&self) -> Option<&str> {
        self.0.detail.as_deref()
    }

    /// Would the same call, sent again, possibly succeed?
    pub fn retryable(&self) -> bool {
        match self.class() {
            Class::UpstreamUnavailable => true,
            Class::InputValidation | Class::AuthzDenied | Class::InternalError => false,
        }
    }

    pub fn data(&self, key: &str) -> Option<&Value> {
        self.0.data.get(key)
    }

    /// Everything a caller may see, and nothing else.
    pub fn public_view(&self, trace_id: &TraceId) -> PublicError {
        let mut data = Map::new();
        data.insert("class".into(), self.class().as_str().into());
        data.insert("reason".into(), self.0.reason.as_str().into());
        data.insert("trace_id".into(), trace_id.to_string().into());
        data.insert("hint".into(), self.hint_text().into());
        data.extend(self.0.data.clone());
        PublicError { message: self.0.public.clone(), data }
    }
}

/// The shape that carriers send: a sentence and `data` with class, reason, trace_id, hint and the reason's own fields.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct PublicError {
    pub message: String,
    pub data: Map<String, Value>,
}

impl PublicError {
    /// The reason as a type again, for an error that was kept in a task row.
    pub fn reason(&self) -> Reason {
        self.data.get("reason").and_then(Value::as_str).and_then(Reason::parse).unwrap_or(Reason::Internal)
    }
}

impl fmt::Debug for Error {
    /// For logs and test failures; callers get [`Error::public_view`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}: {}", self.class().as_str(), self.0.reason.as_str(), self.0.public)?;
        match &self.0.detail {
            Some(detail) => write!(f, " ({detail})"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.public)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_caller_sees_never_holds_the_detail() {
        let error = Error::new(Reason::Unreachable, "The memory service cannot be reached.")
            .detail("connect 10.0.0.7:7800 refused");
        let view = serde_json::to_string(&error.public_view(&TraceId::random())).unwrap();
        assert!(!view.contains("10.0.0.7"), "{view}");
        assert_eq!(format!("{error}"), "The memory service cannot be reached.");
    }

    #[test]
    fn every_reason_survives_its_wire_name() {
        for reason in Reason::ALL {
            assert_eq!(Reason::parse(reason.as_str()), Some(*reason));
            assert!(reason.default_hint().len() > 15, "{} has no useful hint", reason.as_str());
        }
    }
}
