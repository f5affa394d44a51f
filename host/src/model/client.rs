//! The client behind a call, as far as gates and plugins may speak to it: ask its user, ask its model, tell it something.
//!
//! A port. The protocol implements it for calls on a connection, the task worker for calls that have none; nothing here
//! knows a wire format. Source: MCP 2025-11-25, elicitation, sampling, logging.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fmt;
use std::sync::Arc;

use super::Form;
use crate::error::{Error, Reason, Result};

/// What a client said that it can do, as far as it matters to a server (MCP 2025-11-25, client capabilities).
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ClientFeatures {
    /// It can show its user a form.
    pub elicit_form: bool,
    /// It can send its user to a URL.
    pub elicit_url: bool,
    /// It can ask its model.
    pub sample: bool,
    /// Its model can be given tools.
    pub sample_tools: bool,
}

/// What a client told us of itself at `initialize`. Small enough to travel in a session id.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct ClientFacts {
    pub features: ClientFeatures,
    /// It refuses tool names with dots.
    pub underscore_names: bool,
}

impl ClientFacts {
    pub fn to_bits(self) -> u8 {
        let f = self.features;
        [f.elicit_form, f.elicit_url, f.sample, f.sample_tools, self.underscore_names]
            .into_iter()
            .enumerate()
            .fold(0, |bits, (at, set)| bits | (u8::from(set) << at))
    }

    pub fn from_bits(bits: u8) -> Self {
        let set = |at: u8| bits & (1 << at) != 0;
        ClientFacts {
            features: ClientFeatures { elicit_form: set(0), elicit_url: set(1), sample: set(2), sample_tools: set(3) },
            underscore_names: set(4),
        }
    }
}

/// A question to the user.
#[derive(Clone, Debug)]
pub enum Elicitation {
    Form(Form),
    Url(UrlVisit),
}

/// "Please go there": for what must not pass through the client, such as signing in with somebody else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UrlVisit {
    pub message: String,
    /// https, without credentials in it.
    pub url: String,
    /// Names this question in `notifications/elicitation/complete`.
    pub elicitation_id: String,
}

/// What the user did.
#[derive(Clone, Debug, PartialEq)]
pub enum ElicitAnswer {
    /// With the form's content, checked against its schema; empty for a URL.
    Accept(Map<String, Value>),
    Decline,
    /// Closed without a choice.
    Cancel,
}

/// The eight levels of syslog, as MCP names them, from the least to the most urgent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

impl LogLevel {
    pub const ALL: [LogLevel; 8] = [
        LogLevel::Debug,
        LogLevel::Info,
        LogLevel::Notice,
        LogLevel::Warning,
        LogLevel::Error,
        LogLevel::Critical,
        LogLevel::Alert,
        LogLevel::Emergency,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            LogLevel::Debug => "debug",
            LogLevel::Info => "info",
            LogLevel::Notice => "notice",
            LogLevel::Warning => "warning",
            LogLevel::Error => "error",
            LogLevel::Critical => "critical",
            LogLevel::Alert => "alert",
            LogLevel::Emergency => "emergency",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        LogLevel::ALL.into_iter().find(|level| level.as_str() == word)
    }
}

/// Whoever is at the other end of one call.
#[async_trait]
pub trait Client: Send + Sync {
    fn features(&self) -> ClientFeatures;

    /// Ask the user and wait. Refuses with `client_unsupported` what the client did not declare, with `timeout` when
    /// nobody answered, with `bad_response` an answer that does not match the form.
    async fn elicit(&self, question: Elicitation) -> Result<ElicitAnswer>;

    /// Ask the client's model and wait. `request` is MCP's `sampling/createMessage` params, the answer its result.
    async fn sample(&self, request: Map<String, Value>) -> Result<Map<String, Value>>;

    /// The user has done what a [`UrlVisit`] asked for.
    fn elicitation_complete(&self, elicitation_id: &str);

    /// Tell the client, if it wants to hear of this level. Never blocks.
    fn log(&self, level: LogLevel, logger: &str, data: Value);
}

/// The call's client, or nobody (a call from the command line, or from a client that cannot be reached).
#[derive(Clone, Default)]
pub struct ClientPort(Option<Arc<dyn Client>>);

impl ClientPort {
    pub fn new(client: Arc<dyn Client>) -> Self {
        ClientPort(Some(client))
    }

    pub fn none() -> Self {
        ClientPort(None)
    }

    pub fn features(&self) -> ClientFeatures {
        self.0.as_ref().map(|client| client.features()).unwrap_or_default()
    }

    pub async fn elicit(&self, question: Elicitation) -> Result<ElicitAnswer> {
        self.reached()?.elicit(question).await
    }

    pub async fn sample(&self, request: Map<String, Value>) -> Result<Map<String, Value>> {
        self.reached()?.sample(request).await
    }

    pub fn elicitation_complete(&self, elicitation_id: &str) {
        if let Some(client) = &self.0 {
            client.elicitation_complete(elicitation_id);
        }
    }

    pub fn log(&self, level: LogLevel, logger: &str, data: Value) {
        if let Some(client) = &self.0 {
            client.log(level, logger, data);
        }
    }

    fn reached(&self) -> Result<&Arc<dyn Client>> {
        self.0.as_ref().ok_or_else(|| Error::new(Reason::ClientUnsupported, "Nobody can be asked during this call."))
    }
}

impl fmt::Debug for ClientPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClientPort({:?})", self.features())
    }
}
