//! A memory service over REST: `POST` and `GET {base}/v1/audit`.
//!
//! Source: design, sections 3 and 8. The caller's own token is passed on, never a service account's, so that the
//! service decides about the caller itself.

use http::{HeaderValue, Method, StatusCode, header};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use std::time::Duration;
use url::Url;

use super::retry::{Failed, is_worth_repeating, retry_after};
use super::{Append, MemorySettingError, ReadQuery, reply};
use crate::error::{Error, Reason, Result};
use crate::model::TenantId;
use crate::store::AuditPosition;
use crate::upstreams::client_for;

/// Largest reply that is read: a full page of ordinary rows.
const MAX_REPLY_BYTES: usize = 4 << 20;

/// How a call reaches the service.
#[derive(Clone, Debug)]
pub struct RestSettings {
    /// Such as `https://memory.example.com` or `http://127.0.0.1:7800/api`. Plain http is the operator's choice, for
    /// networks that are their own.
    pub base: Url,
    /// For one attempt, body included; default 5 s.
    pub attempt_timeout: Duration,
    /// Waits before the second, third and further attempts; default 250 ms, 1 s, 4 s.
    pub retry_after: Vec<Duration>,
}

impl RestSettings {
    pub fn at(endpoint: &str) -> Result<Self, MemorySettingError> {
        let wrong = |why: &str| MemorySettingError(format!("the memory endpoint {why}"));
        let base = Url::parse(endpoint).map_err(|_| wrong("is not a URL such as https://memory.example.com"))?;
        if !matches!(base.scheme(), "http" | "https") || base.host().is_none() {
            return Err(wrong("must start with https:// or http://"));
        }
        if !base.username().is_empty() || base.password().is_some() {
            return Err(wrong("must not hold a user or password"));
        }
        if base.query().is_some() || base.fragment().is_some() {
            return Err(wrong("must end with its path, without ? or #"));
        }
        Ok(RestSettings {
            base,
            attempt_timeout: Duration::from_secs(5),
            retry_after: vec![Duration::from_millis(250), Duration::from_secs(1), Duration::from_secs(4)],
        })
    }
}

pub struct RestMemory {
    client: reqwest::Client,
    url: Url,
    settings: RestSettings,
}

/// A row on its way, whoever sends it.
pub struct NewRow<'a> {
    pub kind: &'a str,
    pub actor_id: &'a str,
    pub tenant_id: TenantId,
    pub body: &'a Value,
    pub idempotency_key: &'a str,
    pub traceparent: &'a str,
    pub bearer: Option<&'a SecretString>,
}

impl RestMemory {
    /// Errors: no HTTP client can be built (a machine without root certificates).
    pub fn new(settings: RestSettings) -> Result<Self, MemorySettingError> {
        let mut url = settings.base.clone();
        url.set_path(&format!("{}/v1/audit", settings.base.path().trim_end_matches('/')));
        let client = client_for(&url, settings.attempt_timeout)
            .map_err(|why| MemorySettingError(format!("the memory service cannot be called: {why:?}")))?;
        Ok(RestMemory { client, url, settings })
    }

    pub(super) async fn append(&self, row: Append) -> Result<AuditPosition> {
        let traceparent = row.trace.traceparent();
        let new = NewRow {
            kind: &row.kind,
            actor_id: row.caller.subject(),
            tenant_id: row.caller.tenant(),
            body: &row.body,
            idempotency_key: &row.idempotency_key,
            traceparent: &traceparent,
            bearer: row.bearer.as_deref(),
        };
        self.patiently(|| self.append_once(&new)).await
    }

    pub(super) async fn read(&self, query: ReadQuery) -> Result<Value> {
        self.patiently(|| self.read_once(&query)).await
    }

    /// Repeat what may work the next time. The call's deadline bounds all of it: this future is then dropped.
    async fn patiently<T, F: Future<Output = Result<T, Failed>>>(&self, attempt: impl Fn() -> F) -> Result<T> {
        let mut waits = self.settings.retry_after.iter().copied();
        let longest = self.settings.retry_after.iter().copied().max().unwrap_or_default();
        loop {
            let (error, after) = match attempt().await {
                Ok(done) => return Ok(done),
                Err(Failed::Final(error)) => return Err(error),
                Err(Failed::Retry { error, after }) => (error, after),
            };
            let Some(wait) = waits.next() else { return Err(error) };
            match after {
                // It said when; coming earlier would be rude, and the caller cannot wait that long.
                Some(after) if after > longest => {
                    return Err(error.with("retry_after_ms", u64::try_from(after.as_millis()).unwrap_or(u64::MAX)));
                }
                Some(after) => tokio::time::sleep(after.max(wait)).await,
                None => tokio::time::sleep(wait).await,
            }
        }
    }

    /// One attempt. With the same key it can be repeated safely.
    pub(super) async fn append_once(&self, row: &NewRow<'_>) -> Result<AuditPosition, Failed> {
        let key = HeaderValue::from_str(row.idempotency_key).map_err(|_| {
            Failed::Final(Error::new(Reason::InvalidRequest, "The idempotency key is not printable ASCII."))
        })?;
        let request = self
            .request(Method::POST, self.url.clone(), row.traceparent, row.bearer)?
            .header("idempotency-key", key)
            .json(&json!({
                "kind": row.kind,
                "actor_id": row.actor_id,
                "tenant_id": row.tenant_id,
                "body": row.body,
            }));
        let body = self.send(request, row.bearer.is_some()).await?;
        reply::position(&body).map_err(Failed::Final)
    }

    async fn read_once(&self, query: &ReadQuery) -> Result<Value, Failed> {
        let mut url = self.url.clone();
        {
            let mut pairs = url.query_pairs_mut();
            pairs.append_pair("limit", &query.limit.to_string());
            let since_seq = query.since_seq.map(|seq| seq.to_string());
            for (name, value) in [("actor", &query.actor), ("kind", &query.kind), ("since_seq", &since_seq)] {
                pairs.extend_pairs(value.iter().map(|value| (name, value)));
            }
        }
        let bearer = query.bearer.as_deref();
        let request = self.request(Method::GET, url, &query.trace.traceparent(), bearer)?;
        let body = self.send(request, bearer.is_some()).await?;
        reply::page(&body, query.caller.tenant(), query.limit).map_err(Failed::Final)
    }

    fn request(
        &self,
        method: Method,
        url: Url,
        traceparent: &str,
        bearer: Option<&SecretString>,
    ) -> Result<reqwest::RequestBuilder, Failed> {
        let request = self
            .client
            .request(method, url)
            .header(header::ACCEPT, "application/json")
            .header("traceparent", traceparent);
        let Some(token) = bearer else { return Ok(request) };
        let mut value = HeaderValue::try_from(format!("Bearer {}", token.expose_secret()))
            .map_err(|_| Failed::Final(Error::new(Reason::TokenInvalid, "The access token is not printable ASCII.")))?;
        value.set_sensitive(true);
        Ok(request.header(header::AUTHORIZATION, value))
    }

    async fn send(&self, request: reqwest::RequestBuilder, had_token: bool) -> Result<Vec<u8>, Failed> {
        let mut response = request.send().await.map_err(broken)?;
        let status = response.status();
        if !matches!(status, StatusCode::OK | StatusCode::CREATED) {
            let error = reply::refusal(status, had_token);
            return Err(match is_worth_repeating(status) {
                true => Failed::Retry { error, after: retry_after(response.headers()) },
                false => Failed::Final(error),
            });
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(broken)? {
            if body.len() + chunk.len() > MAX_REPLY_BYTES {
                return Err(Failed::Final(reply::bad_response(format!("reply over {MAX_REPLY_BYTES} bytes"))));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }
}

fn broken(why: reqwest::Error) -> Failed {
    let error = match why.is_timeout() {
        true => Error::new(Reason::Timeout, "The memory service did not answer in time."),
        false => Error::new(Reason::Unreachable, "The memory service cannot be reached."),
    };
    // Without the URL, whose query names actors.
    Failed::Retry { error: error.detail(format!("{:?}", why.without_url())), after: None }
}
