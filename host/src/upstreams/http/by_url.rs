//! Which grant covers a request that names its upstream by URL, as `wasi:http` does, and not by the grant's name.
//!
//! The authority only chooses among grants: the request goes to the URL of the grant, never to what the plugin wrote. So
//! whatever could be read in two ways (a user, an escape, an address in another notation) is simply not granted.

use url::Url;

use super::FetchError;
use super::origin::{origin, parse_method, same_origin};
use super::path::Target;
use crate::config::UpstreamGrant;

/// The first of `grants` with this origin that covers method and path, or else the first with this origin, whose refusal
/// says what is missing. `path`: absolute path and query.
///
/// Errors: `NotGranted`, with the origin.
pub fn granted<'g>(
    grants: impl IntoIterator<Item = &'g UpstreamGrant>,
    (scheme, authority): (&str, &str),
    method: &str,
    path: &str,
) -> Result<&'g UpstreamGrant, FetchError> {
    let not_granted = || FetchError::NotGranted(format!("origin {scheme}://{authority}"));
    let asked = plain_origin(scheme, authority).ok_or_else(not_granted)?;
    let mut first = None;
    for grant in grants.into_iter().filter(|grant| origin(grant).is_ok_and(|own| same_origin(&own, &asked))) {
        let method = parse_method(method).is_some_and(|method| grant.methods.iter().any(|m| m == method.as_str()));
        if method && Target::parse(path).is_ok_and(|target| target.is_granted(&grant.paths)) {
            return Ok(grant);
        }
        first = first.or(Some(grant));
    }
    first.ok_or_else(not_granted)
}

/// Scheme, host and port, when there is one way to read them.
fn plain_origin(scheme: &str, authority: &str) -> Option<Url> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
    if !matches!(scheme, "http" | "https") || !authority.bytes().all(plain) {
        return None;
    }
    let host = match authority.strip_prefix('[') {
        Some(address) => authority.get(..address.find(']')? + 2)?,
        None => authority.split(':').next()?,
    };
    let port = &authority[host.len()..];
    let digits = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    if !(port.is_empty() || port.strip_prefix(':').is_some_and(digits)) {
        return None;
    }
    let url = Url::parse(&format!("{scheme}://{authority}/")).ok()?;
    // An address in octal, in hexadecimal or as one number is not what was written.
    let as_written = host.starts_with('[') || url.host_str()?.eq_ignore_ascii_case(host);
    (as_written && url.path() == "/").then_some(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(url: &str, methods: &[&str], paths: &[&str]) -> UpstreamGrant {
        let strings = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        UpstreamGrant {
            url: url.into(),
            methods: strings(methods),
            paths: strings(paths),
            allow_private: false,
            max_response_bytes: 1,
            max_request_bytes: 1,
            credential: None,
        }
    }

    fn found(grants: &[UpstreamGrant], scheme: &str, authority: &str) -> bool {
        granted(grants, (scheme, authority), "GET", "/v1/a").is_ok()
    }

    #[test]
    fn the_granted_origin_is_found_in_its_ordinary_spellings() {
        let grants = [grant("https://api.example.com", &["GET"], &["/**"])];
        for authority in ["api.example.com", "API.Example.COM", "api.example.com:443", "api.example.com:0443"] {
            assert!(found(&grants, "https", authority), "{authority}");
        }
        assert!(found(&[grant("http://[::1]:8080", &["GET"], &["/**"])], "http", "[0:0:0:0:0:0:0:1]:8080"));
        assert!(found(&[grant("http://127.0.0.1", &["GET"], &["/**"])], "http", "127.0.0.1:80"));
    }

    #[test]
    fn no_other_spelling_slips_past_the_match() {
        let grants = [
            grant("https://api.example.com", &["GET"], &["/**"]),
            grant("http://127.0.0.1:8080", &["GET"], &["/**"]),
            grant("http://[::1]:8080", &["GET"], &["/**"]),
        ];
        for (scheme, authority) in [
            ("http", "api.example.com"),
            ("ftp", "api.example.com"),
            ("HTTPS", "api.example.com"),
            ("https", ""),
            ("https", "api.example.com."),
            ("https", "api.example.com:444"),
            ("https", "api.example.com:"),
            ("https", "api.example.com:+443"),
            ("https", "api.example.com:65979"),
            ("https", "user@api.example.com"),
            ("https", "api.example.com@evil.example"),
            ("https", "evil.example#@api.example.com"),
            ("https", "api.example.com/"),
            ("https", "api.example.com\\"),
            ("https", "api%2eexample.com"),
            ("https", "api.example.com%00"),
            ("https", "api.example.com.evil.example"),
            ("https", "xapi.example.com"),
            ("https", "api\u{3002}example.com"),
            ("http", "2130706433:8080"),
            ("http", "0x7f.0.0.1:8080"),
            ("http", "0177.0.0.1:8080"),
            ("http", "127.1:8080"),
            ("http", "127.0.0.1.:8080"),
            ("http", "localhost:8080"),
            ("http", "[::ffff:127.0.0.1]:8080"),
            ("http", "[::1%25lo]:8080"),
            ("http", "[::1"),
            ("http", "::1:8080"),
            ("http", "[::1]x:8080"),
        ] {
            assert!(!found(&grants, scheme, authority), "{scheme}://{authority}");
        }
    }

    #[test]
    fn of_two_grants_for_one_origin_the_one_that_covers_the_request_is_taken() {
        let grants = [
            grant("https://api.example.com", &["GET"], &["/v1/notes"]),
            grant("https://api.example.com:443", &["GET", "POST"], &["/v1/a"]),
        ];
        let take = |method, path| granted(&grants, ("https", "api.example.com"), method, path).unwrap();
        assert_eq!(take("GET", "/v1/a").methods.len(), 2);
        assert_eq!(take("GET", "/v1/notes").methods.len(), 1);
        // Neither does: the exchange refuses it.
        assert_eq!(take("PUT", "/v1/notes").methods.len(), 1);
    }
}
