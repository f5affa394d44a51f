//! One exchange: check the request against the grant, send it, walk redirects, read a bounded answer.

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use url::Url;

use super::clients::{Clients, Kind, failure};
use super::origin::{check_grant, literal_address, origin, parse_method, same_origin};
use super::path::Target;
use super::redact::Redaction;
use super::resolve::check;
use super::{FetchError, FetchRequest, FetchResponse, headers};
use crate::config::{Credential, LiveSecret, UpstreamGrant};

const MAX_REDIRECTS: usize = 5;

/// A request that passed the grant, and what is needed to send it, once or along redirects.
pub(super) struct Exchange<'g> {
    grant: &'g UpstreamGrant,
    origin: Url,
    method: Method,
    target: Target,
    headers: HeaderMap,
    body: Bytes,
    /// Of the credential: what is sent, and what it is by now.
    secret: Option<(SecretString, LiveSecret)>,
}

impl<'g> Exchange<'g> {
    /// Everything that can be refused without asking anybody.
    pub(super) fn prepare(grant: &'g UpstreamGrant, request: FetchRequest) -> Result<Self, FetchError> {
        // The file was checked when it was read; a grant from elsewhere is held to the same.
        check_grant(grant).map_err(unusable)?;
        let origin = origin(grant).map_err(unusable)?;
        let method = parse_method(&request.method).ok_or_else(|| {
            FetchError::InvalidRequest("method is none of GET, HEAD, POST, PUT, PATCH, DELETE".into())
        })?;
        let target = Target::parse(&request.path).map_err(|why| FetchError::InvalidRequest(why.into()))?;
        if !grant.methods.iter().any(|granted| granted == method.as_str()) {
            return Err(FetchError::NotGranted(format!("method {method}")));
        }
        if !target.is_granted(&grant.paths) {
            return Err(FetchError::NotGranted(format!("path {}", target.path())));
        }
        if request.body.len() > grant.max_request_bytes {
            return Err(FetchError::InvalidRequest(format!("body is over {} bytes", grant.max_request_bytes)));
        }
        if !request.body.is_empty() && matches!(method, Method::GET | Method::HEAD) {
            return Err(FetchError::InvalidRequest(format!("a {method} request has no body")));
        }
        let credential = grant.credential.as_ref();
        let mut headers = headers::for_upstream(&request.headers, credential.map(|held| held.header.as_str()))?;
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if let Ok(traceparent) = HeaderValue::try_from(request.traceparent) {
            headers.insert("traceparent", traceparent);
        }
        let mut secret = None;
        if let Some(credential) = credential {
            // Without the secret nothing is sent: an answer to a stranger is not what the operator granted.
            let live = credential.value.clone().ok_or_else(|| unusable("its credential was not read".into()))?;
            let sent = live.current();
            let (name, value) = credential_header(credential, &sent).map_err(unusable)?;
            headers.insert(name, value);
            secret = Some((sent, live));
        }
        Ok(Exchange { grant, origin, method, target, headers, body: request.body.into(), secret })
    }

    /// Errors that hold text of the exchange hold no secret.
    pub(super) async fn run(self, clients: &Clients) -> Result<FetchResponse, FetchError> {
        let secret = self.secret.clone();
        self.follow(clients).await.map_err(|error| match error {
            FetchError::Unreachable(why) => FetchError::Unreachable(redaction(&secret).text(why.into_bytes())),
            other => other,
        })
    }

    async fn follow(mut self, clients: &Clients) -> Result<FetchResponse, FetchError> {
        let kind = Kind { allow_private: self.grant.allow_private, tls: self.origin.scheme() == "https" };
        // A host that is an address never reaches the resolver.
        if let Some(address) = literal_address(&self.origin) {
            check(address, kind.allow_private).map_err(|_| FetchError::AddressRefused)?;
        }
        for _ in 0..=MAX_REDIRECTS {
            let response = clients.execute(kind, self.request()).await?;
            match self.redirect(&response)? {
                Some(next) => self = next,
                None => return self.receive(response).await,
            }
        }
        Err(FetchError::AddressRefused)
    }

    fn request(&self) -> reqwest::Request {
        let mut url = self.origin.clone();
        url.set_path(self.target.path());
        url.set_query(self.target.query());
        let mut request = reqwest::Request::new(self.method.clone(), url);
        *request.headers_mut() = self.headers.clone();
        if !self.body.is_empty() {
            *request.body_mut() = Some(self.body.clone().into());
        }
        request
    }

    /// The request that a redirect asks for, or `None` when the response is the answer. A redirect leads only to where
    /// the plugin could have gone itself, so it can carry the credential: it never leaves the origin.
    fn redirect(&self, response: &reqwest::Response) -> Result<Option<Self>, FetchError> {
        let status = response.status();
        if !matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308) {
            return Ok(None);
        }
        let Some(location) = response.headers().get(header::LOCATION) else { return Ok(None) };
        let next = location.to_str().ok().and_then(|location| response.url().join(location).ok());
        let next = next.filter(|next| next.username().is_empty() && next.password().is_none());
        let Some(next) = next.filter(|next| same_origin(next, &self.origin)) else {
            return Err(FetchError::AddressRefused);
        };
        let path_and_query = &next[url::Position::BeforePath..url::Position::AfterQuery];
        let target = Target::parse(path_and_query).map_err(|_| FetchError::AddressRefused)?;
        let method = method_after(&self.method, status);
        let granted = self.grant.methods.iter().any(|granted| granted == method.as_str());
        if !granted || !target.is_granted(&self.grant.paths) {
            return Err(FetchError::AddressRefused);
        }
        let mut headers = self.headers.clone();
        let mut body = self.body.clone();
        if method != self.method {
            // What described the body goes with it (RFC 9110 section 15.4).
            let about_body = |name: &HeaderName| name.as_str().starts_with("content-");
            let gone: Vec<HeaderName> = headers.keys().filter(|name| about_body(name)).cloned().collect();
            gone.iter().for_each(|name| drop(headers.remove(name)));
            body.clear();
        }
        let secret = self.secret.clone();
        Ok(Some(Exchange { grant: self.grant, origin: self.origin.clone(), method, target, headers, body, secret }))
    }

    async fn receive(self, mut response: reqwest::Response) -> Result<FetchResponse, FetchError> {
        let limit = self.grant.max_response_bytes;
        let received = headers::for_plugin(response.headers())?;
        // We asked for no encoding. One that cannot be looked into could hide the credential.
        let encoded = response.headers().get_all(header::CONTENT_ENCODING).iter().any(|value| value != "identity");
        if encoded && self.secret.is_some() {
            return Err(FetchError::Unreachable("the answer is compressed, which was not asked for".into()));
        }
        // The announced length spares the transfer; the running count is what binds.
        let announced = response.content_length().filter(|_| self.method != Method::HEAD);
        if announced.is_some_and(|length| length > limit as u64) {
            return Err(FetchError::TooLarge);
        }
        let status = response.status().as_u16();
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(failure)? {
            if body.len() + chunk.len() > limit {
                return Err(FetchError::TooLarge);
            }
            body.extend_from_slice(&chunk);
        }
        // Made now that the answer is here: the secret may have become another one meanwhile, which the upstream knows.
        let redaction = redaction(&self.secret);
        let (body, changed) = redaction.apply(body);
        let headers = received
            .into_iter()
            // It would be the length of what was there before.
            .filter(|(name, _)| !(changed && name == header::CONTENT_LENGTH.as_str()))
            .map(|(name, value)| (redaction.text(name.into_bytes()), redaction.text(value)))
            .collect();
        Ok(FetchResponse { status, headers, body })
    }
}

/// Of what was sent, what is in force by now, and what was before.
fn redaction(secret: &Option<(SecretString, LiveSecret)>) -> Redaction {
    let Some((sent, live)) = secret else { return Redaction::none() };
    let others = live.all().into_iter().filter(|value| value.expose_secret() != sent.expose_secret());
    others.fold(Redaction::of(sent), |redaction, value| redaction.and(Redaction::of(&value)))
}

/// The header with the secret. Marked sensitive: it prints as such, and HTTP/2 keeps it out of compression tables.
fn credential_header(credential: &Credential, secret: &SecretString) -> Result<(HeaderName, HeaderValue), String> {
    let name = HeaderName::from_bytes(credential.header.as_bytes()).map_err(|why| why.to_string())?;
    let secret = secret.expose_secret();
    let text = match &credential.scheme {
        Some(scheme) => format!("{scheme} {secret}"),
        None => secret.to_owned(),
    };
    let mut value =
        HeaderValue::from_str(&text).map_err(|_| "its credential holds a character that no header can carry")?;
    value.set_sensitive(true);
    Ok((name, value))
}

/// Browsers and RFC 9110 section 15.4 agree: 303 asks for a look, 301 and 302 turn a POST into one, 307 and 308 keep
/// the method.
fn method_after(method: &Method, status: StatusCode) -> Method {
    let looks = match status.as_u16() {
        303 => *method != Method::HEAD,
        301 | 302 => *method == Method::POST,
        _ => false,
    };
    if looks { Method::GET } else { method.clone() }
}

fn unusable(why: String) -> FetchError {
    FetchError::Unreachable(format!("the grant cannot be used: {why}"))
}
