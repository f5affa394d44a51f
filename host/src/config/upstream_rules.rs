//! What a grant of an upstream may say, so that a mistake is told when the file is read and not when a call fails.
//!
//! Pure: it looks nothing up and opens nothing. `upstreams::http` holds requests to the same rules.
//! Source: `wit/host.wit`, `http-fetch`; RFC 9110 section 7.6.1 for the headers that are the host's.

use http::Method;
use http::header::{HeaderName, HeaderValue};
use url::Url;

use super::grants::{Credential, UpstreamGrant};
use super::mistakes::Wrong;
use super::paths::check_path_pattern;

/// The methods that a grant may name.
pub const METHODS: [Method; 6] = [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];

/// The host's to set, or able to change what the host decided: who is asked, how the message is framed, which method
/// or path is meant.
const HOST_HEADERS: &[&str] = &[
    // A compressed answer would hide an echoed credential, and unpack to any size.
    "accept-encoding",
    "authorization",
    "baggage",
    "connection",
    "content-length",
    "cookie",
    "cookie2",
    "expect",
    "forwarded",
    "host",
    "http2-settings",
    "keep-alive",
    "te",
    "traceparent",
    "tracestate",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-original-method",
    "x-original-url",
    "x-real-ip",
    "x-rewrite-url",
];
const HOST_PREFIXES: &[&str] = &["proxy-", "x-forwarded-", ":"];

/// Is this header the host's to set? A plugin may not send it.
pub fn is_host_header(name: &HeaderName) -> bool {
    HOST_HEADERS.contains(&name.as_str()) || HOST_PREFIXES.iter().any(|prefix| name.as_str().starts_with(prefix))
}

pub fn parse_method(text: &str) -> Option<Method> {
    METHODS.into_iter().find(|method| method.as_str() == text)
}

impl UpstreamGrant {
    /// Everything that is wrong with it, by field.
    pub fn wrongs(&self) -> Vec<Wrong> {
        let mut wrongs = vec![];
        let origin = self.origin();
        for (at, method) in self.methods.iter().enumerate().filter(|(_, method)| parse_method(method).is_none()) {
            let what = format!("method {method:?} is none of GET, HEAD, POST, PUT, PATCH and DELETE");
            let upper = method.to_ascii_uppercase();
            let remedy = match parse_method(&upper) {
                Some(_) => format!("Write {upper:?}."),
                None => "Grant one of these, or take it out.".into(),
            };
            wrongs.push(Wrong::at(&["methods", &at.to_string()], what, remedy));
        }
        for (at, pattern) in self.paths.iter().enumerate() {
            if let Err(why) = check_path_pattern(pattern) {
                let what = format!("path pattern {pattern:?} is wrong: {why}");
                let remedy = "Write it as /v1/notes, /v1/*/tags (one segment) or /v1/** (any rest).";
                wrongs.push(Wrong::at(&["paths", &at.to_string()], what, remedy));
            }
        }
        if let Some(credential) = &self.credential {
            wrongs.extend(credential.wrongs());
            // Over the open network, a credential without TLS is everybody's.
            if origin.as_ref().is_ok_and(|origin| origin.scheme() == "http") && !self.allow_private {
                let what = "a credential is sent over https, or over http to a private address (allow_private)";
                wrongs.push(Wrong::at(&["url"], what, "Write https://, or add `allow_private = true`."));
            }
        }
        wrongs.extend(origin.err());
        wrongs
    }

    /// The URL, reduced to what a grant may say. The path is `/`.
    pub fn origin(&self) -> Result<Url, Wrong> {
        const REMEDY: &str = "Write scheme, host and port only, such as https://api.example.com.";
        let wrong = |what: &str| Err(Wrong::at(&["url"], what, REMEDY));
        let Ok(url) = Url::parse(&self.url) else { return wrong("it is not a URL") };
        let bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
        match url.scheme() {
            _ if !url.username().is_empty() || url.password().is_some() => {
                Err(Wrong::at(&["url"], "it names a user", "Give the secret as a credential, and the url without it."))
            }
            "http" | "https" if url.host().is_none() => wrong("it names no host"),
            "http" | "https" if bare => Ok(url),
            "http" | "https" => {
                let what = "it has a path; a url is scheme, host and port";
                Err(Wrong::at(&["url"], what, "Move the path to `paths`, such as paths = [\"/v1/**\"]."))
            }
            _ => wrong("it starts with neither https:// nor http://"),
        }
    }
}

impl Credential {
    fn wrongs(&self) -> Vec<Wrong> {
        let mut wrongs = vec![];
        match HeaderName::from_bytes(self.header.as_bytes()) {
            Err(_) => {
                // Not shown: somebody may have written the credential itself.
                let what = "it is not a header's name";
                wrongs.push(Wrong::at(&["credential", "header"], what, "Leave it out for `authorization`."));
            }
            Ok(name)
                if is_host_header(&name) && name != http::header::AUTHORIZATION && name != http::header::COOKIE =>
            {
                let what = format!("header {name} cannot carry a credential: the host sets it");
                wrongs.push(Wrong::at(&["credential", "header"], what, "Name the header that the service reads."));
            }
            Ok(_) => {}
        }
        if self.scheme.as_ref().is_some_and(|scheme| HeaderValue::from_str(scheme).is_err()) {
            let what = "it holds a character that no header can carry";
            wrongs.push(Wrong::at(&["credential", "scheme"], what, "Write it as `Bearer`, or leave it out."));
        }
        wrongs
    }
}
