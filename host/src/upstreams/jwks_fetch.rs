//! Fetches one key-set document (RFC 7517) from a configured address. What it means is `auth`'s business.

use std::time::Duration;
use url::Url;

use super::http_client::{check_transport, client_for};
use crate::error::{Error, Reason, Result};

/// Real key sets hold a handful of keys; this is room for hundreds.
pub const MAX_BYTES: usize = 256 * 1024;
/// For the whole exchange.
const TIMEOUT: Duration = Duration::from_secs(5);

/// One address and the client that calls it.
pub struct JwksFetch {
    url: Url,
    client: reqwest::Client,
}

impl JwksFetch {
    /// The URL comes from configuration only, never from a token (`iss` and `jku` would be an attacker's choice).
    pub fn new(url: Url) -> Result<Self> {
        check_transport(&url)
            .map_err(|why| Error::new(Reason::Internal, format!("A key-set address is unusable: {why}.")))?;
        Ok(JwksFetch { client: client_for(&url, TIMEOUT)?, url })
    }

    /// The document's bytes. Errors: `Timeout`, `Unreachable`, `BadResponse` (status, size).
    pub async fn fetch(&self) -> Result<Vec<u8>> {
        let sent = self
            .client
            .get(self.url.clone())
            .header(http::header::ACCEPT, "application/jwk-set+json, application/json");
        let mut reply = sent.send().await.map_err(transport_error)?;
        if reply.status() != http::StatusCode::OK {
            return Err(bad_response(format!("status {}", reply.status().as_u16())));
        }
        // The announced length spares the transfer; the running count is what binds.
        if reply.content_length().is_some_and(|length| length > MAX_BYTES as u64) {
            return Err(bad_response(format!("over {MAX_BYTES} bytes")));
        }
        let mut body = Vec::new();
        while let Some(chunk) = reply.chunk().await.map_err(transport_error)? {
            if body.len() + chunk.len() > MAX_BYTES {
                return Err(bad_response(format!("over {MAX_BYTES} bytes")));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }
}

fn transport_error(why: reqwest::Error) -> Error {
    let (reason, public) = if why.is_timeout() {
        (Reason::Timeout, "The token issuer did not answer in time.")
    } else {
        (Reason::Unreachable, "The token issuer cannot be reached.")
    };
    Error::new(reason, public)
        .hint("The keys that verify access tokens are out of reach; try again in a moment.")
        .detail(format!("{why:?}"))
}

fn bad_response(why: String) -> Error {
    Error::new(Reason::BadResponse, "The token issuer answered with something unusable.")
        .hint("The keys that verify access tokens are out of reach; try again, then tell the operator the trace id.")
        .detail(why)
}
