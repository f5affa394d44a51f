//! A plugin's way out: one exchange with a granted upstream, under the grant's policy.
//!
//! Takes the grant and a plugin's request; knows nothing of components, calls or scopes. Everything is refused that
//! the grant does not name; addresses are checked after lookup and redirects are walked by hand, so that each step
//! is held to the same grant. Source: `wit/host.wit`, `http-fetch`.

mod address;
mod by_url;
mod clients;
mod exchange;
mod headers;
mod origin;
mod path;
mod redact;
mod resolve;
#[cfg(test)]
mod tests;

pub use by_url::granted;
pub use origin::check_grant;
pub use resolve::Lookup;

use std::sync::Arc;
use std::time::Duration;

use crate::config::UpstreamGrant;

/// What a plugin asks for. The upstream itself, scheme, host and port, is the grant's.
pub struct FetchRequest {
    pub method: String,
    /// Absolute path and query.
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// For the whole exchange: lookup, connection, redirects and body.
    pub timeout: Duration,
    /// W3C Trace Context, sent on.
    pub traceparent: String,
}

#[derive(Debug)]
pub struct FetchResponse {
    pub status: u16,
    /// Names in lower case; values that are not UTF-8 have their odd bytes replaced.
    pub headers: Vec<(String, String)>,
    /// As it came: never decompressed.
    pub body: Vec<u8>,
}

/// Each but the last is a case of the WIT's `fetch-error`; texts are for the plugin and hold nothing secret.
#[derive(Debug)]
pub enum FetchError {
    NotGranted(String),
    InvalidRequest(String),
    AddressRefused,
    Timeout,
    TooLarge,
    /// Refused connection, unknown name, failed TLS, broken answer, unusable grant. The text is for the log.
    Unreachable(String),
}

/// Answers in place of the network what the grants' policy has let pass, so that a plugin can be tried without its
/// upstreams. Address checks that need a name's addresses do not take place.
pub trait Answers: Send + Sync {
    /// `request` has the URL of the grant, and the headers as they would be sent, the credential included.
    fn answer(&self, request: &reqwest::Request) -> Result<reqwest::Response, FetchError>;
}

/// Asks upstreams for plugins. One per process: connections are reused between calls.
pub struct HttpUpstreams {
    clients: clients::Clients,
}

impl HttpUpstreams {
    /// Opens nothing and reads no certificates yet: both wait for the first request.
    pub fn new() -> Self {
        Self::with_lookup(Arc::new(resolve::SystemLookup))
    }

    /// With name answers from elsewhere than the system.
    pub fn with_lookup(lookup: Arc<dyn Lookup>) -> Self {
        HttpUpstreams { clients: clients::Clients::new(lookup) }
    }

    /// Without a network.
    pub fn scripted(answers: Arc<dyn Answers>) -> Self {
        HttpUpstreams { clients: clients::Clients::scripted(answers) }
    }

    /// One exchange. Never panics and never waits longer than `request.timeout`.
    ///
    /// Errors: `NotGranted` (method or path), `InvalidRequest` (path, header, body), `AddressRefused` (address or
    /// redirect), `Timeout`, `TooLarge` (over `grant.max_response_bytes`), `Unreachable`.
    pub async fn fetch(&self, grant: &UpstreamGrant, request: FetchRequest) -> Result<FetchResponse, FetchError> {
        let timeout = request.timeout;
        let exchange = exchange::Exchange::prepare(grant, request)?;
        let outcome = match tokio::time::timeout(timeout, exchange.run(&self.clients)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(FetchError::Timeout),
        };
        match &outcome {
            Err(FetchError::AddressRefused) => {
                tracing::warn!(upstream = grant.url, "an upstream's address or redirect was refused");
            }
            Err(FetchError::Unreachable(why)) => {
                tracing::warn!(upstream = grant.url, why, "an upstream is unreachable")
            }
            _ => {}
        }
        outcome
    }
}

impl Default for HttpUpstreams {
    fn default() -> Self {
        Self::new()
    }
}
