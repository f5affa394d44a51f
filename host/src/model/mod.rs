//! The words that every layer shares: who calls, which tool, with what, and what came back.
//!
//! Known to all, knows only `error`. No wire format, no database row and no wasmtime type lives here.

mod call;
mod canonical;
mod client;
mod form;
mod hidden;
mod laps;
mod meta;
mod offers;
mod sampling;
mod tool;
mod trace;
mod updates;
mod uri_template;

pub use call::{CallContext, Content, Progress, ProgressSink, TaskRequest, ToolCall, ToolResult};
pub use canonical::{arguments_sha256, canonical_json, canonical_sha256};
pub use client::{Client, ClientFacts, ClientFeatures, ClientPort, ElicitAnswer, Elicitation, LogLevel, UrlVisit};
pub use form::Form;
pub use hidden::{is_hidden, is_plain};
pub use laps::{Lap, Laps};
pub use meta::without_reserved;
pub use offers::{
    CompleteCall, Offers, Presentation, Prompt, PromptArgument, PromptCall, PromptResult, ReadCall, ReadResult,
    Reference, Resource, ResourceBody, ResourceContents, ResourceTemplate, Role, Suggestions,
};
pub use sampling::check_sampling;
pub use tool::{Annotations, PluginId, TaskSupport, Tool, ToolName};
pub use trace::{Trace, TraceId};
pub use updates::UpdateSink;
pub use uri_template::{MAX_URI_CHARS, UriTemplate, is_uri, is_within, normal_uri};

use serde::{Deserialize, Serialize};
use std::fmt;
use uuid::Uuid;

/// The tenant whose data a call may touch. A UUID, so that it can be a row-level-security key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TenantId(pub Uuid);

impl TenantId {
    /// The single tenant of a local, tokenless bridge.
    pub const LOCAL: TenantId = TenantId(Uuid::from_u128(0x0000_0000_0000_8000_8000_0000_0000_0001));
}

impl fmt::Display for TenantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
impl fmt::Debug for TenantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
