//! Which headers pass: from the plugin to the upstream, and back.
//!
//! Source: RFC 9110 sections 7.6.1 (hop-by-hop) and 5.5 (field values); `wit/host.wit`, `http-fetch`.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use super::FetchError;
use crate::config::is_host_header;

const MAX_HEADERS: usize = 32;
const MAX_BYTES: usize = 16 << 10;
/// What an upstream may send in headers; bodies have their own limit.
pub(super) const MAX_RESPONSE_BYTES: usize = 64 << 10;

/// Dropped from responses: about the connection, or a session that the plugin must not hold.
const CONNECTION_HEADERS: &[&str] = &[
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-connection",
    "set-cookie",
    "set-cookie2",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// The plugin's headers, checked. `credential` is the header that the host fills in for this upstream.
pub(super) fn for_upstream(sent: &[(String, String)], credential: Option<&str>) -> Result<HeaderMap, FetchError> {
    let invalid = |why: String| Err(FetchError::InvalidRequest(why));
    if sent.len() > MAX_HEADERS {
        return invalid(format!("more than {MAX_HEADERS} headers"));
    }
    if sent.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>() > MAX_BYTES {
        return invalid(format!("headers are over {MAX_BYTES} bytes"));
    }
    let mut headers = HeaderMap::with_capacity(sent.len() + 4);
    for (name, value) in sent {
        let Ok(parsed) = HeaderName::from_bytes(name.as_bytes()) else {
            // Shown escaped: it may hold line breaks meant for a log.
            return invalid(format!("{:?} is not a header name", name.chars().take(64).collect::<String>()));
        };
        if is_host_header(&parsed) || credential.is_some_and(|held| parsed.as_str().eq_ignore_ascii_case(held)) {
            return invalid(format!("header {parsed} is set by the host"));
        }
        let Ok(value) = HeaderValue::from_str(value) else {
            return invalid(format!("the value of header {parsed} holds a control or non-ASCII character"));
        };
        headers.append(parsed, value);
    }
    Ok(headers)
}

/// The upstream's headers, without those about the connection.
pub(super) fn for_plugin(received: &HeaderMap) -> Result<Vec<(String, Vec<u8>)>, FetchError> {
    // Connection names further headers that are about this hop only.
    let named: Vec<String> = received
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .collect();
    if received.iter().map(|(name, value)| name.as_str().len() + value.len()).sum::<usize>() > MAX_RESPONSE_BYTES {
        return Err(FetchError::TooLarge);
    }
    let passes = |name: &str| !CONNECTION_HEADERS.contains(&name) && !named.iter().any(|hop| hop == name);
    Ok(received
        .iter()
        .filter(|(name, _)| passes(name.as_str()))
        .map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, value: &str) -> Result<HeaderMap, String> {
        match for_upstream(&[(name.to_owned(), value.to_owned())], Some("X-Api-Key")) {
            Ok(headers) => Ok(headers),
            Err(FetchError::InvalidRequest(why)) => Err(why),
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn headers_of_the_host_are_refused_by_name_in_any_case() {
        for name in [
            "Authorization",
            "COOKIE",
            "Host",
            "Proxy-Anything",
            "traceparent",
            "Connection",
            "Transfer-Encoding",
            "Content-Length",
            "TE",
            "Upgrade",
            "X-HTTP-Method-Override",
            "X-Original-URL",
            "X-Forwarded-For",
            "Accept-Encoding",
            "x-api-key",
        ] {
            let why = check(name, "x").unwrap_err();
            assert!(why.contains(&name.to_ascii_lowercase()), "{why}");
        }
    }

    #[test]
    fn a_line_break_never_becomes_a_second_header() {
        for (name, value) in [
            ("x-a", "1\r\nHost: evil.example"),
            ("x-a", "1\nx: y"),
            ("x-a", "\0"),
            ("x-a\r\nHost", "evil.example"),
            ("x a", "1"),
            ("", "1"),
            (":path", "/admin"),
        ] {
            assert!(check(name, value).is_err(), "{name:?}: {value:?}");
        }
    }

    #[test]
    fn ordinary_headers_pass_and_may_repeat() {
        let sent = [("Accept", "text/plain"), ("x-tag", "a"), ("X-Tag", "b")];
        let sent: Vec<_> = sent.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
        let headers = for_upstream(&sent, None).unwrap();
        assert_eq!(headers.get_all("x-tag").iter().count(), 2);
        assert_eq!(headers["accept"], "text/plain");
    }

    #[test]
    fn number_and_size_of_headers_are_bounded() {
        let many: Vec<_> = (0..33).map(|n| (format!("x-{n}"), String::new())).collect();
        assert!(for_upstream(&many[..32], None).is_ok());
        assert!(for_upstream(&many, None).is_err());
        assert!(for_upstream(&[("x".into(), "v".repeat(MAX_BYTES))], None).is_err());
    }
}
