//! The path of a plugin's request: one spelling, then the grant's patterns.
//!
//! The spelling itself is `config`'s: patterns are checked against it when they are read.

use crate::config::normal_path;

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
        Ok(Target { path: normal_path(path)?, query: query.map(str::to_owned) })
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

fn is_query_byte(byte: u8) -> bool {
    byte.is_ascii_graphic() && !b"#\"<>\\^`{|}".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::check_path_pattern;

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
            assert_eq!(check_path_pattern(good), Ok(()), "{good}");
        }
        for bad in ["", "v1/*", "/v1/n*", "/v1/**/x", "/v1/../x", "/v1//x", "/%61", "/a%c3%a9", "**"] {
            assert!(check_path_pattern(bad).is_err(), "{bad}");
        }
    }
}
