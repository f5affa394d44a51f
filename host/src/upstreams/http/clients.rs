//! The HTTP clients behind plugins' requests, and with them the connections that calls share.
//!
//! A client for each answer to two questions: may it reach private addresses, and does it need TLS? Connections are
//! pooled inside a client by scheme, host and port, so a grant without `allow_private` never rides on a connection
//! that one with it opened. Credentials are in requests, never in connections.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::headers::MAX_RESPONSE_BYTES;
use super::resolve::{CheckedResolver, Lookup, Refused};
use super::{Answers, FetchError};
use crate::upstreams::tls;

const IDLE: Duration = Duration::from_secs(60);
const MAX_IDLE_PER_HOST: usize = 16;

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Kind {
    pub(super) allow_private: bool,
    pub(super) tls: bool,
}

pub(super) struct Clients {
    lookup: Arc<dyn Lookup>,
    /// In place of the network.
    answers: Option<Arc<dyn Answers>>,
    open: Mutex<HashMap<Kind, reqwest::Client>>,
}

impl Clients {
    pub(super) fn new(lookup: Arc<dyn Lookup>) -> Self {
        Clients { lookup, answers: None, open: Mutex::default() }
    }

    /// Nothing is sent: whatever the policy lets pass is answered by these.
    pub(super) fn scripted(answers: Arc<dyn Answers>) -> Self {
        Clients { answers: Some(answers), ..Self::new(Arc::new(super::resolve::SystemLookup)) }
    }

    /// One request that the grant allows, without following redirects.
    pub(super) async fn execute(&self, kind: Kind, request: reqwest::Request) -> Result<reqwest::Response, FetchError> {
        if let Some(answers) = &self.answers {
            return answers.answer(&request);
        }
        let client = self.get(kind).map_err(|why| FetchError::Unreachable(format!("no HTTP client: {why:?}")))?;
        client.execute(request).await.map_err(failure)
    }

    /// A failure (no root certificates on this machine) is not remembered: mending it needs no restart.
    fn get(&self, kind: Kind) -> reqwest::Result<reqwest::Client> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = open.get(&kind) {
            return Ok(client.clone());
        }
        let client = self.build(kind)?;
        open.insert(kind, client.clone());
        Ok(client)
    }

    fn build(&self, kind: Kind) -> reqwest::Result<reqwest::Client> {
        tls::install();
        let resolver = CheckedResolver { lookup: self.lookup.clone(), allow_private: kind.allow_private };
        let mut builder = reqwest::Client::builder()
            .dns_resolver(Arc::new(resolver))
            // A proxy would look names up itself, out of reach of the address check.
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .tcp_nodelay(true)
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(MAX_IDLE_PER_HOST)
            .http2_max_header_list_size(MAX_RESPONSE_BYTES as u32)
            .user_agent(concat!("cyberos-mcp-bridge/", env!("CARGO_PKG_VERSION")));
        if !kind.tls {
            // Reading the machine's root certificates takes milliseconds and can fail; plain HTTP needs none.
            builder = builder.tls_certs_only([]);
        }
        builder.build()
    }
}

pub(super) fn failure(error: reqwest::Error) -> FetchError {
    if Refused::caused(&error) {
        return FetchError::AddressRefused;
    }
    // Without the URL: its query is the plugin's data.
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(why) = cause {
        text = format!("{text}: {why}");
        cause = why.source();
    }
    FetchError::Unreachable(text)
}
