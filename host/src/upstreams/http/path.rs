//! The path of a plugin's request: one spelling, then the grant's patterns.
//!
//! Servers and proxies disagree on what `//`, `..`, `%2f` and `\` mean. A pattern is only worth something when the
//! path that was matched is the path that is served, so whatever could be read in two ways is refused, not repaired.
//! Source: RFC 3986 sections 3.3 and 6.2.2, WHATWG URL path parsing.

/// Longest path and query together.
pub(super) const MAX_BYTES: usize = 8 << 10;

/// A path in normal form, and its query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    path: String,
    query: Option<String>,
}

impl Target {
    /// Parse what a plugin, or a redirect, asks for: `/v1/notes?limit=10`. The error says what is wrong with it.
    pub(super) fn parse(text: &str) -> Result<Target, &'static str> {
        if text.len() > MAX_BYTES {
            return Err("the path is longer than 8192 bytes");
        }
        let (path, query) = match text.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (text, None),
        };
        if query.is_some_and(|query| !query.bytes().all(is_query_byte)) {
            return Err("the query holds a character that must be percent-encoded");
        }
        Ok(Target { path: normalise(path)?, query: query.map(str::to_owned) })
    }

    /// Does any of the grant's patterns cover this path? The query is not looked at.
    pub(super) fn is_granted(&self, patterns: &[String]) -> bool {
        patterns.iter().any(|pattern| matches(pattern, &self.path))
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    pub(super) fn query(&self) -> Option<&str> {
        self.query.as_deref()
    }
}

/// Percent-encoded unreserved characters decoded, escapes in capitals; refuses everything ambiguous.
fn normalise(path: &str) -> Result<String, &'static str> {
    if !path.starts_with('/') {
        return Err("the path does not start with /");
    }
    let mut out = String::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'\\' => return Err("the path holds a backslash"),
            b'%' => {
                let (Some(high), Some(low)) = (rest.next().and_then(hex_digit), rest.next().and_then(hex_digit)) else {
                    return Err("the path holds a % that starts no escape");
                };
                push_escaped(&mut out, high << 4 | low)?;
            }
            _ if is_path_byte(byte) => out.push(char::from(byte)),
            _ => return Err("the path holds a character that must be percent-encoded"),
        }
    }
    if is_escaped_twice(&out) {
        return Err("the path is percent-encoded twice");
    }
    let segments = out.split('/').skip(1);
    let last = segments.clone().count().saturating_sub(1);
    for (at, segment) in segments.enumerate() {
        if segment.is_empty() && at != last {
            return Err("the path holds an empty segment (//)");
        }
        // Some servers cut off parameters (`..;x`) before they look at a segment.
        if matches!(segment.split(';').next(), Some("." | "..")) {
            return Err("the path holds a dot segment");
        }
    }
    Ok(out)
}

fn push_escaped(out: &mut String, byte: u8) -> Result<(), &'static str> {
    match byte {
        b'/' | b'\\' => Err("the path holds an encoded slash"),
        b'.' => Err("the path holds an encoded dot"),
        0..0x20 | 0x7f => Err("the path holds an encoded control character"),
        _ if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'~') => {
            out.push(char::from(byte));
            Ok(())
        }
        _ => {
            out.push_str(&format!("%{byte:02X}"));
            Ok(())
        }
    }
}

/// `%252e` is `.` to a server that decodes twice; a lone `%25`, as in `100%25`, is harmless.
fn is_escaped_twice(path: &str) -> bool {
    path.match_indices("%25").any(|(at, _)| {
        let after = path.as_bytes().get(at + 3..at + 5);
        after.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    })
}

fn matches(pattern: &str, path: &str) -> bool {
    let (pattern, any_rest) = match pattern.strip_suffix("/**") {
        Some(prefix) => (prefix, true),
        None => (pattern, false),
    };
    let mut segments = path.split('/');
    for wanted in pattern.split('/') {
        match segments.next() {
            Some(segment) if wanted == segment || (wanted == "*" && !segment.is_empty()) => {}
            _ => return false,
        }
    }
    // `/v1/**` needs the slash: it says nothing about `/v1` itself.
    match any_rest {
        true => segments.next().is_some(),
        false => segments.next().is_none(),
    }
}

/// A pattern that can match something, in normal form. The error says what is wrong with it.
pub(super) fn check_pattern(pattern: &str) -> Result<(), &'static str> {
    let body = pattern.strip_suffix("/**").unwrap_or(pattern);
    if body.split('/').any(|segment| segment.contains('*') && segment != "*") {
        return Err("* stands for a whole segment, and /** for the rest at the end");
    }
    if !body.is_empty() && normalise(body)? != body {
        return Err("letters, digits, - and _ are written without percent-encoding, escapes in capitals");
    }
    match pattern.is_empty() {
        true => Err("it is empty"),
        false => Ok(()),
    }
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

/// `pchar` and `/` of RFC 3986, without `%`.
fn is_path_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/".contains(&byte)
}

fn is_query_byte(byte: u8) -> bool {
    byte.is_ascii_graphic() && !b"#\"<>\\^`{|}".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_one_spelling_and_keeps_its_query() {
        for (sent, path, query) in [
            ("/v1/notes?limit=10&q=a%2Fb/../c", "/v1/notes", Some("limit=10&q=a%2Fb/../c")),
            ("/%76%31/n%6ftes", "/v1/notes", None),
            ("/a%20b/%c3%a9", "/a%20b/%C3%A9", None),
            ("/100%25", "/100%25", None),
            ("/.well-known/x..y/", "/.well-known/x..y/", None),
            ("/?", "/", Some("")),
        ] {
            let target = Target::parse(sent).unwrap();
            assert_eq!((target.path(), target.query()), (path, query), "{sent}");
        }
    }

    #[test]
    fn whatever_could_be_read_in_two_ways_is_refused() {
        for bad in [
            "",
            "v1/notes",
            "http://evil.example/",
            "//evil.example/",
            "/v1//notes",
            "/v1/../admin",
            "/v1/./notes",
            "/..",
            "/v1/..;/admin",
            "/v1/%2e%2e/admin",
            "/v1/.%2E/admin",
            "/v1%2fadmin",
            "/v1%2Fadmin",
            "/v1\\admin",
            "/v1%5cadmin",
            "/v1/%252e%252e/admin",
            "/v1/%00",
            "/v1/%0d%0aHost:%20evil",
            "/v1/\r\nHost: evil",
            "/v1/%7f",
            "/v1/%",
            "/v1/%zz",
            "/v1/%4",
            "/v1/%+1",
            "/v1 /notes",
            "/v1/nötes",
            "/v1#fragment",
            "/v1?a=b#fragment",
            "/v1?a b",
            "/v1?a\nb",
            "/@{x}",
        ] {
            assert!(Target::parse(bad).is_err(), "{bad:?} was accepted");
        }
        assert!(Target::parse(&format!("/{}", "a".repeat(MAX_BYTES))).is_err());
    }

    #[test]
    fn a_star_is_one_segment_and_two_are_any_rest() {
        let granted = |pattern: &str, path: &str| Target::parse(path).unwrap().is_granted(&[pattern.to_owned()]);
        for (pattern, path) in [
            ("/v1/notes", "/v1/notes"),
            ("/v1/notes/*", "/v1/notes/7?x=/y"),
            ("/v1/*/tags", "/v1/notes/tags"),
            ("/v1/**", "/v1/a/b/c"),
            ("/v1/**", "/v1/"),
            ("/**", "/"),
            ("/**", "/anything/at/all"),
            ("/v1/*/x/**", "/v1/7/x/y"),
            ("/v1/notes", "/v1/n%6ftes"),
        ] {
            assert!(granted(pattern, path), "{pattern} should cover {path}");
        }
        for (pattern, path) in [
            ("/v1/notes", "/v1/notes/"),
            ("/v1/notes", "/v1/notes2"),
            ("/v1/notes/*", "/v1/notes/"),
            ("/v1/notes/*", "/v1/notes/7/tags"),
            ("/v1/**", "/v1"),
            ("/v1/**", "/v10/a"),
            ("/v1/*", "/V1/a"),
            ("", "/"),
            ("*", "/"),
        ] {
            assert!(!granted(pattern, path), "{pattern} should not cover {path}");
        }
        assert!(!Target::parse("/").unwrap().is_granted(&[]), "nothing is granted by an empty list");
    }

    #[test]
    fn a_pattern_that_can_never_match_is_told_to_the_operator() {
        for good in ["/", "/**", "/v1/*", "/v1/*/x/**", "/a%20b"] {
            assert_eq!(check_pattern(good), Ok(()), "{good}");
        }
        for bad in ["", "v1/*", "/v1/n*", "/v1/**/x", "/v1/../x", "/v1//x", "/%61", "/a%c3%a9", "**"] {
            assert!(check_pattern(bad).is_err(), "{bad}");
        }
    }
}
