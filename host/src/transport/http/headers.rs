//! What a request's headers say, and the statuses of those that cannot be served. The body is not looked at before.
//!
//! Source: MCP 2025-11-25, transports, Streamable HTTP; design section 5, transport faults.

use axum::http::{HeaderMap, StatusCode, header};
use serde_json::json;

use crate::error::{Error, Reason};
use crate::protocol::REVISION;

pub const SESSION: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";
const LAST_EVENT: &str = "last-event-id";

pub type Fault = (StatusCode, Error);

pub fn traceparent(headers: &HeaderMap) -> Option<&str> {
    headers.get("traceparent").and_then(|h| h.to_str().ok())
}

/// Of a message that is posted.
pub fn check_post(headers: &HeaderMap) -> Result<(), Fault> {
    let is_json = only(headers, header::CONTENT_TYPE.as_str())
        .and_then(Result::ok)
        .is_some_and(|t| t.split(';').next().is_some_and(|t| t.trim().eq_ignore_ascii_case("application/json")));
    if !is_json {
        return Err((
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Error::new(Reason::UnsupportedMediaType, "The Content-Type must be application/json."),
        ));
    }
    if !accepts(headers, "application", "json") {
        return Err((
            StatusCode::NOT_ACCEPTABLE,
            Error::new(Reason::NotAcceptable, "The Accept header must allow application/json."),
        ));
    }
    check_version(headers)
}

/// Of a request for a stream.
pub fn check_get(headers: &HeaderMap) -> Result<(), Fault> {
    if !accepts_stream(headers) {
        return Err((
            StatusCode::NOT_ACCEPTABLE,
            Error::new(Reason::NotAcceptable, "The Accept header must allow text/event-stream.")
                .hint("Send Accept: text/event-stream."),
        ));
    }
    check_version(headers)
}

pub fn check_version(headers: &HeaderMap) -> Result<(), Fault> {
    match only(headers, VERSION) {
        None | Some(Ok(REVISION)) => Ok(()),
        Some(_) => Err((
            StatusCode::BAD_REQUEST,
            Error::new(
                Reason::UnsupportedVersion,
                "The MCP-Protocol-Version header names a version that is not spoken here.",
            )
            .with("supported", json!([REVISION])),
        )),
    }
}

/// May the answer be a stream? Without an `Accept` header nobody said so: plain JSON is what every client can read.
pub fn accepts_stream(headers: &HeaderMap) -> bool {
    headers.contains_key(header::ACCEPT) && accepts(headers, "text", "event-stream")
}

/// The session id as sent.
pub fn session(headers: &HeaderMap) -> Result<Option<&str>, ()> {
    only(headers, SESSION).transpose()
}

/// `<stream>/<number>`: the last message that the client has read.
pub fn last_event(headers: &HeaderMap) -> Option<Result<(&str, u64), ()>> {
    Some(only(headers, LAST_EVENT)?.and_then(|id| read_event_id(id).ok_or(())))
}

pub fn read_event_id(id: &str) -> Option<(&str, u64)> {
    let (stream, number) = id.split_once('/')?;
    let is_number = (1..=19).contains(&number.len()) && number.bytes().all(|b| b.is_ascii_digit());
    let is_stream = (1..=64).contains(&stream.len()) && stream.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    Some((stream, number.parse().ok()?)).filter(|_| is_number && is_stream)
}

fn accepts(headers: &HeaderMap, kind: &str, subtype: &str) -> bool {
    // Several lines are one list (RFC 9110, 5.3); no line at all accepts everything.
    let mut lines = headers.get_all(header::ACCEPT).iter().peekable();
    if lines.peek().is_none() {
        return true;
    }
    let ranges = lines.filter_map(|line| line.to_str().ok()).flat_map(|line| line.split(','));
    ranges.filter_map(|range| range.split(';').next()?.trim().split_once('/')).any(|(k, s)| {
        (k == "*" && s == "*") || (k.eq_ignore_ascii_case(kind) && (s == "*" || s.eq_ignore_ascii_case(subtype)))
    })
}

/// A header that can be there once. Two of them are an attempt to be read in two ways.
fn only<'a>(headers: &'a HeaderMap, name: &str) -> Option<Result<&'a str, ()>> {
    let mut all = headers.get_all(name).iter();
    let first = all.next()?;
    Some(if all.next().is_some() { Err(()) } else { first.to_str().map_err(drop) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn accept(value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(value))])
    }

    #[test]
    fn a_stream_is_sent_only_to_who_asked_for_one() {
        assert!(accepts_stream(&accept("application/json, text/event-stream")));
        assert!(accepts_stream(&accept("*/*")));
        assert!(!accepts_stream(&accept("application/json")));
        assert!(!accepts_stream(&HeaderMap::new()));
        assert!(check_get(&accept("application/json")).is_err());
        assert!(check_get(&accept("Text/Event-Stream;q=0.5")).is_ok());
    }

    #[test]
    fn what_can_be_said_once_is_refused_when_it_is_said_twice() {
        let twice = |name: &'static str, first: &'static str, second: &'static str| {
            let mut headers = HeaderMap::new();
            headers.append(name, HeaderValue::from_static(first));
            headers.append(name, HeaderValue::from_static(second));
            headers
        };
        assert!(check_version(&twice(VERSION, REVISION, "1999-01-01")).is_err());
        assert!(check_post(&twice("content-type", "application/json", "text/plain")).is_err());
        assert_eq!(last_event(&twice(LAST_EVENT, "0a1b-ff/17", "0a1b-ff/1")), Some(Err(())));
        assert_eq!(session(&twice(SESSION, "a", "b")), Err(()));
    }

    #[test]
    fn event_ids_that_are_not_ours_are_refused() {
        assert_eq!(read_event_id("0a1b-ff/17"), Some(("0a1b-ff", 17)));
        for bad in ["", "/", "a/", "/1", "a/-1", "a/+1", "a/1/2", "x/1", "a/99999999999999999999", "../1"] {
            assert_eq!(read_event_id(bad), None, "{bad}");
        }
    }
}
