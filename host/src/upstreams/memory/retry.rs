//! When an attempt is worth repeating, and how long to wait. Shared by calls (seconds) and the shipper (a day).

use http::{HeaderMap, StatusCode, header};
use rand::RngExt;
use std::time::Duration;

use crate::error::Error;

/// How one attempt failed.
#[derive(Debug)]
pub(super) enum Failed {
    /// Connection, timeout, 5xx or 429: the same request may work later. `after`: the service's own wish.
    Retry { error: Error, after: Option<Duration> },
    /// Anything else: repeating changes nothing.
    Final(Error),
}

impl Failed {
    pub(super) fn into_error(self) -> Error {
        match self {
            Failed::Retry { error, .. } | Failed::Final(error) => error,
        }
    }
}

/// 5xx, 429, and 408 by which a server gives up waiting for us.
pub(super) fn is_worth_repeating(status: StatusCode) -> bool {
    status.is_server_error() || matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT)
}

/// `Retry-After` in seconds (RFC 9110 section 10.2.3); the date form is for people's browsers and is not read.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}

/// ±20 %, so that many bridges do not come back at the same moment.
pub(super) fn jittered(delay: Duration) -> Duration {
    delay.mul_f64(rand::rng().random_range(0.8..=1.2))
}
