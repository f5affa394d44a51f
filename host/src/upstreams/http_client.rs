//! How the bridge's own HTTP clients are built: the one place with the defaults that every upstream shares.
//!
//! Knows nothing of who is called or why.

use std::net::IpAddr;
use std::time::Duration;
use url::{Host, Url};

use super::tls;
use crate::error::{Error, Reason, Result};

/// A configured address that must not be called.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum UpstreamUrlError {
    #[error("it must use https; plain http is accepted for loopback addresses only")]
    NotHttps,
    #[error("it must not carry a user name, a password or a fragment")]
    Decorated,
}

/// May this configured URL be called at all? `https` anywhere, `http` on loopback only.
pub fn check_transport(url: &Url) -> Result<(), UpstreamUrlError> {
    if !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
        return Err(UpstreamUrlError::Decorated);
    }
    match url.scheme() {
        "https" => Ok(()),
        "http" if is_loopback(url) => Ok(()),
        _ => Err(UpstreamUrlError::NotHttps),
    }
}

/// `localhost`, 127.0.0.0/8 or ::1, by name or number; nothing is resolved.
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name.eq_ignore_ascii_case("localhost"),
        Some(Host::Ipv4(address)) => IpAddr::V4(address).is_loopback(),
        Some(Host::Ipv6(address)) => IpAddr::V6(address).is_loopback(),
        None => false,
    }
}

/// A client for one configured upstream. `timeout` bounds a whole exchange, body included.
///
/// Redirects are off: a trusted address must not be able to send the bridge to another one. Loopback addresses are
/// never reached through a proxy.
pub fn client_for(url: &Url, timeout: Duration) -> Result<reqwest::Client> {
    tls::install();
    let mut builder = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .tcp_nodelay(true)
        .connect_timeout(timeout.min(Duration::from_secs(5)))
        .timeout(timeout)
        .user_agent(concat!("cyberos-mcp-bridge/", env!("CARGO_PKG_VERSION")));
    if is_loopback(url) {
        builder = builder.no_proxy();
    }
    builder.build().map_err(|why| {
        Error::new(Reason::Internal, "The server could not set up its HTTP client.").detail(format!("{why:?}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_http_is_for_loopback_only() {
        let check = |url: &str| check_transport(&Url::parse(url).unwrap());
        for good in ["https://issuer.example/jwks", "http://127.0.0.1:9/jwks", "http://[::1]/k", "http://localhost:1/"]
        {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for bad in ["http://issuer.example/jwks", "http://localhost.example/", "ftp://127.0.0.1/", "http://10.0.0.1/"] {
            assert_eq!(check(bad), Err(UpstreamUrlError::NotHttps), "{bad}");
        }
        assert_eq!(check("https://user@issuer.example/"), Err(UpstreamUrlError::Decorated));
    }
}
