//! Fetches one document from an address that a person named: bounded in size and time, over https, and never sent on to
//! somewhere that the person would not have named.
//!
//! It knows nothing of what is fetched. Redirects are followed by hand (RFC 9110, section 15.4), so that each one can be
//! refused: at most five, only to https, never from the network into this machine. `Authorization` goes to the origin
//! that it was meant for and to no other.

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, AUTHORIZATION, LOCATION};
use http::{HeaderMap, HeaderValue, StatusCode};
use std::time::Duration;
use url::Url;

use super::http_client::{check_transport, is_loopback};
use super::tls;
use crate::model::{Progress, ProgressSink};

const MAX_REDIRECTS: usize = 5;
const CONNECT: Duration = Duration::from_secs(10);
/// Without a byte.
const SILENCE: Duration = Duration::from_secs(30);
/// For everything, redirects and body.
const WHOLE: Duration = Duration::from_secs(600);

/// Why nothing came. Host names and addresses in it are the reader's own words, or the server's.
#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    #[error("{url} may not be fetched: {why}")]
    BadUrl { url: Url, why: String },
    #[error(
        "this machine has no root certificates ({0}). Install ca-certificates, or name a file of them in SSL_CERT_FILE"
    )]
    NoRoots(String),
    #[error("{host} cannot be reached: {why}")]
    Unreachable { host: String, why: String },
    #[error("{host} did not answer in time")]
    Timeout { host: String },
    #[error("{url} is redirected to {to}, which is refused: {why}")]
    Redirect { url: Box<Url>, to: String, why: &'static str },
    #[error("{url} answers with status {}", .status.as_u16())]
    Status { url: Url, status: StatusCode, headers: Box<HeaderMap> },
    #[error("{url} is larger than {most} bytes")]
    TooLarge { url: Url, most: usize },
    #[error("{url} broke off after {got} bytes{}", .whole.map(|w| format!(" of {w}")).unwrap_or_default())]
    Truncated { url: Url, got: usize, whole: Option<u64> },
}

/// What to ask for.
pub struct Ask<'a> {
    pub url: &'a Url,
    pub accept: &'a str,
    /// Sent to the URL's own origin only.
    pub authorization: Option<HeaderValue>,
    /// Bytes of the body.
    pub most: usize,
    pub progress: &'a ProgressSink,
}

#[derive(Debug)]
pub struct Downloaded {
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// One document. Errors: every [`DownloadError`]; any status but 200 is one.
pub async fn download(ask: Ask<'_>) -> Result<Downloaded, DownloadError> {
    match tokio::time::timeout(WHOLE, follow(&ask)).await {
        Ok(done) => done,
        Err(_) => Err(DownloadError::Timeout { host: host(ask.url) }),
    }
}

async fn follow(ask: &Ask<'_>) -> Result<Downloaded, DownloadError> {
    check_transport(ask.url).map_err(|why| DownloadError::BadUrl { url: ask.url.clone(), why: why.to_string() })?;
    let mut url = ask.url.clone();
    for _ in 0..=MAX_REDIRECTS {
        let mut request = client(&url)?.get(url.clone()).header(ACCEPT, ask.accept);
        if let Some(authorization) = ask.authorization.as_ref().filter(|_| url.origin() == ask.url.origin()) {
            request = request.header(AUTHORIZATION, authorization);
        }
        let reply = request.send().await.map_err(|why| unreachable(&url, &why))?;
        match reply.status() {
            StatusCode::OK => return body(ask, &url, reply).await,
            status if is_redirect(status) => url = next(ask.url, &url, reply.headers())?,
            status => {
                return Err(DownloadError::Status { url, status, headers: Box::new(reply.headers().clone()) });
            }
        }
    }
    Err(DownloadError::Redirect {
        url: Box::new(ask.url.clone()),
        to: url.into(),
        why: "it is the sixth redirect in a row",
    })
}

/// A client for one request: redirects are ours, and a plain connection needs no certificates of this machine.
fn client(url: &Url) -> Result<reqwest::Client, DownloadError> {
    tls::install();
    let mut builder = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .connect_timeout(CONNECT)
        .read_timeout(SILENCE)
        .user_agent(concat!("cyberos-mcp-bridge/", env!("CARGO_PKG_VERSION")));
    if is_loopback(url) {
        builder = builder.no_proxy();
    }
    if url.scheme() == "http" {
        builder = builder.tls_certs_only([]);
    }
    builder.build().map_err(|why| DownloadError::NoRoots(chain(&why)))
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// Where a redirect leads, when it may be followed.
fn next(first: &Url, from: &Url, headers: &HeaderMap) -> Result<Url, DownloadError> {
    let location = headers.get(LOCATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let refuse = |why| DownloadError::Redirect { url: Box::new(from.clone()), to: location.to_owned(), why };
    let to = from.join(location).ok().filter(|_| !location.is_empty()).ok_or_else(|| refuse("it is no address"))?;
    check_transport(&to).map_err(|_| refuse("only https addresses without a user are followed"))?;
    if is_loopback(&to) && !is_loopback(first) {
        return Err(refuse("it leads from the network into this machine"));
    }
    Ok(to)
}

async fn body(ask: &Ask<'_>, url: &Url, mut reply: reqwest::Response) -> Result<Downloaded, DownloadError> {
    let too_large = || DownloadError::TooLarge { url: url.clone(), most: ask.most };
    let whole = reply.content_length();
    // The announced length spares the transfer; the running count is what binds.
    if whole.is_some_and(|length| length > ask.most as u64) {
        return Err(too_large());
    }
    let mut body = BytesMut::new();
    loop {
        match reply.chunk().await {
            Ok(Some(chunk)) if body.len() + chunk.len() > ask.most => return Err(too_large()),
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Ok(None) => break,
            Err(why) if why.is_timeout() => return Err(DownloadError::Timeout { host: host(url) }),
            Err(_) => return Err(DownloadError::Truncated { url: url.clone(), got: body.len(), whole }),
        }
        ask.progress.report(Progress { progress: body.len() as f64, total: whole.map(|w| w as f64), message: None });
    }
    Ok(Downloaded { headers: std::mem::take(reply.headers_mut()), body: body.freeze() })
}

fn unreachable(url: &Url, why: &reqwest::Error) -> DownloadError {
    match why.is_timeout() {
        true => DownloadError::Timeout { host: host(url) },
        false => DownloadError::Unreachable { host: host(url), why: chain(why) },
    }
}

/// The innermost cause: the ones around it only repeat the address.
pub fn chain(why: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = why;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

fn host(url: &Url) -> String {
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}{port}", url.host_str().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn led(first: &str, to: &str) -> Result<Url, String> {
        let first = Url::parse(first).unwrap();
        let headers = HeaderMap::from_iter([(LOCATION, HeaderValue::from_str(to).unwrap())]);
        next(&first, &first, &headers).map_err(|why| why.to_string())
    }

    #[test]
    fn a_redirect_leads_to_https_and_stays_outside_this_machine() {
        let far = "https://plugins.example/a.wasm";
        assert_eq!(led(far, "/b.wasm").unwrap().as_str(), "https://plugins.example/b.wasm");
        assert_eq!(led(far, "https://cdn.example/b").unwrap().as_str(), "https://cdn.example/b");
        assert_eq!(led("http://127.0.0.1:9/a", "http://127.0.0.1:9/b").unwrap().path(), "/b");
        for (first, to) in [
            (far, "http://plugins.example/a.wasm"),
            (far, "http://127.0.0.1/a.wasm"),
            (far, "https://localhost/a.wasm"),
            (far, "file:///etc/passwd"),
            (far, "https://user:word@cdn.example/b"),
            (far, ""),
            ("http://127.0.0.1:9/a", "http://plugins.example/b"),
        ] {
            let refused = led(first, to).unwrap_err();
            assert!(refused.contains("refused"), "{first} to {to}: {refused}");
        }
    }
}
