//! `cyberos:plugin/http-fetch`: a granted upstream by name. Policy lives in `upstreams::http`; this translates.

use std::time::Duration;

use crate::runtime::bindings::cyberos::plugin::http_fetch::{FetchError, Header, Host, Request, Response};
use crate::runtime::call::CallState;
use crate::upstreams::http::{self, FetchRequest};

/// Longest exchange, from the WIT.
const MAX_TIMEOUT: Duration = Duration::from_secs(30);

impl Host for CallState {
    async fn fetch(&mut self, request: Request) -> wasmtime::Result<Result<Response, FetchError>> {
        self.enter()?;
        let Some(grant) = self.grants.upstreams.get(&request.upstream) else {
            self.denied("http-fetch", "not-granted");
            return Ok(Err(FetchError::NotGranted(format!("upstream {}", request.upstream))));
        };
        let left = self.deadline.left();
        let timeout = Duration::from_millis(u64::from(request.timeout_ms).max(1)).min(MAX_TIMEOUT).min(left);
        let request = FetchRequest {
            method: request.method,
            path: request.path,
            headers: request.headers.into_iter().map(|h| (h.name, h.value)).collect(),
            body: request.body.unwrap_or_default(),
            timeout,
            traceparent: self.call.trace.traceparent(),
        };
        let answer = self.services.http.fetch(grant, request).await;
        match &answer {
            Err(http::FetchError::NotGranted(_)) => self.denied("http-fetch", "not-granted"),
            Err(http::FetchError::AddressRefused) => self.denied("http-fetch", "address-refused"),
            _ => {}
        }
        Ok(answer
            .map(|response| Response {
                status: response.status,
                headers: response.headers.into_iter().map(|(name, value)| Header { name, value }).collect(),
                body: response.body,
            })
            .map_err(|error| match error {
                http::FetchError::NotGranted(what) => FetchError::NotGranted(what),
                http::FetchError::InvalidRequest(why) => FetchError::InvalidRequest(why),
                http::FetchError::AddressRefused => FetchError::AddressRefused,
                http::FetchError::Timeout => FetchError::Timeout,
                http::FetchError::TooLarge => FetchError::TooLarge,
                http::FetchError::Unreachable(_) => FetchError::Unreachable,
            }))
    }
}
