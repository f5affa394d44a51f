//! Where a grant leads: scheme, host and port, and whether the grant makes sense at all.

use http::Method;
use http::header::{HeaderName, HeaderValue};
use url::{Host, Url};

use super::headers::is_host_header;
use super::path::check_pattern;
use crate::config::UpstreamGrant;

/// The methods that a grant may name (`wit/host.wit`, `http-fetch`).
const METHODS: [Method; 6] = [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];

/// Check a grant when it is read, so that a mistake stops the start and not a call. The error is one sentence.
pub fn check_grant(grant: &UpstreamGrant) -> Result<(), String> {
    let origin = origin(grant)?;
    if let Some(method) = grant.methods.iter().find(|method| parse_method(method).is_none()) {
        return Err(format!("method {method:?} is none of GET, HEAD, POST, PUT, PATCH and DELETE"));
    }
    for pattern in &grant.paths {
        check_pattern(pattern).map_err(|why| format!("path pattern {pattern:?} is wrong: {why}"))?;
    }
    let Some(credential) = &grant.credential else { return Ok(()) };
    let name = HeaderName::from_bytes(credential.header.as_bytes())
        .map_err(|_| format!("credential header {:?} is not a header name", credential.header))?;
    if is_host_header(&name) && name != http::header::AUTHORIZATION && name != http::header::COOKIE {
        return Err(format!("credential header {name} cannot carry a credential"));
    }
    if credential.scheme.as_ref().is_some_and(|scheme| HeaderValue::from_str(scheme).is_err()) {
        return Err("the credential's scheme is not a header value".into());
    }
    // Over the open network, a credential without TLS is everybody's.
    if origin.scheme() == "http" && !grant.allow_private {
        return Err("a credential is sent over https, or over http to a private address (allow_private)".into());
    }
    Ok(())
}

/// The grant's URL, reduced to what a grant may say. The path is `/`.
pub(super) fn origin(grant: &UpstreamGrant) -> Result<Url, String> {
    let url = Url::parse(&grant.url).map_err(|_| "url is not a URL such as https://api.example.com".to_owned())?;
    let bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
    match url.scheme() {
        _ if !url.username().is_empty() || url.password().is_some() => {
            Err("url names a user; give the secret as a credential".into())
        }
        "http" | "https" if url.host().is_none() => Err("url names no host".into()),
        "http" | "https" if bare => Ok(url),
        "http" | "https" => Err("url is scheme, host and port; paths are granted by paths".into()),
        _ => Err("url must start with https:// or http://".into()),
    }
}

pub(super) fn parse_method(text: &str) -> Option<Method> {
    METHODS.into_iter().find(|method| method.as_str() == text)
}

pub(super) fn same_origin(a: &Url, b: &Url) -> bool {
    a.scheme() == b.scheme() && a.host() == b.host() && a.port_or_known_default() == b.port_or_known_default()
}

/// The address, when the host is one: it is then never looked up.
pub(super) fn literal_address(url: &Url) -> Option<std::net::IpAddr> {
    match url.host()? {
        Host::Ipv4(address) => Some(address.into()),
        Host::Ipv6(address) => Some(address.into()),
        Host::Domain(_) => None,
    }
}
