//! Where a grant leads: scheme, host and port, and whether the grant makes sense at all.

use http::Method;
use url::{Host, Url};

use crate::config::UpstreamGrant;

/// Is this grant one that could be read from a file? The error is one sentence.
pub fn check_grant(grant: &UpstreamGrant) -> Result<(), String> {
    match grant.wrongs().into_iter().next() {
        Some(wrong) => Err(wrong.sentence()),
        None => Ok(()),
    }
}

/// The grant's URL, reduced to what a grant may say. The path is `/`.
pub(super) fn origin(grant: &UpstreamGrant) -> Result<Url, String> {
    grant.origin().map_err(|wrong| wrong.sentence())
}

pub(super) fn parse_method(text: &str) -> Option<Method> {
    crate::config::parse_method(text)
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
