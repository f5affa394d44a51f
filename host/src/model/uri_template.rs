//! URIs of resources and templates of them: is a text one, and does a URI fit a template.
//!
//! Source: RFC 3986 (the characters of a URI), RFC 6570 level 1 (`{name}` alone, percent-encoded).

/// An absolute URI: a scheme, and nothing but characters that a URI may have. Relative references and plain text are not.
pub fn is_uri(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'));
    text.len() <= MAX_URI_CHARS && is_scheme && !rest.is_empty() && are_uri_characters(rest)
}

pub const MAX_URI_CHARS: usize = 2_048;
const MAX_VARIABLES: usize = 16;

fn are_uri_characters(text: &str) -> bool {
    let escapes_are_whole = text.split('%').skip(1).all(|after| {
        let bytes = after.as_bytes();
        bytes.len() >= 2 && bytes[..2].iter().all(u8::is_ascii_hexdigit)
    });
    escapes_are_whole && text.bytes().all(|b| is_unreserved(b) || b"%:/?#[]@!$&'()*+,;=".contains(&b))
}

/// The same URI for all that are equivalent by RFC 3986, 6.2.2.2: what need not be escaped is not, and escapes are in
/// capitals. Otherwise one spelling of a resource would need other scopes than another.
pub fn normal_uri(uri: &str) -> String {
    let mut normal = String::with_capacity(uri.len());
    let mut parts = uri.split('%');
    normal.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let escaped = part.get(..2).filter(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()));
        match escaped.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) if is_unreserved(byte) => normal.push(byte.into()),
            Some(byte) => normal.push_str(&format!("%{byte:02X}")),
            None => {
                normal.push('%');
                normal.push_str(part);
                continue;
            }
        }
        normal.push_str(&part[2..]);
    }
    normal
}

/// Is `uri` the other one, or below it? A longer name is another resource, and no segment leads back up.
pub fn is_within(uri: &str, place: &str) -> bool {
    let (uri, place) = (normal_uri(uri), normal_uri(place));
    let Some(rest) = uri.strip_prefix(&place) else { return false };
    let below = place.ends_with(['/', ':', '?', '#', '&']) || rest.starts_with(['/', '?', '#']);
    let leads_up = |segment: &str| matches!(segment, "." | "..");
    rest.is_empty() || (below && !rest.split(['/', '?', '#']).any(leads_up))
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// `notes://{folder}/{note}`: literal text and variables in turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UriTemplate {
    text: String,
    /// The literal before each variable, with the variable's name.
    parts: Vec<(String, String)>,
    /// The literal after the last variable.
    tail: String,
}

impl UriTemplate {
    /// `Err` says, for the plugin's author, what is wrong.
    pub fn parse(text: &str) -> Result<UriTemplate, String> {
        if text.len() > MAX_URI_CHARS {
            return Err(format!("is longer than {MAX_URI_CHARS} characters"));
        }
        let (mut parts, mut rest) = (vec![], text);
        while let Some((literal, after)) = rest.split_once('{') {
            let (name, after) = after.split_once('}').ok_or("has a { without its }")?;
            let named = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
            if !named {
                return Err(format!(
                    "has the expression {{{name}}}; only level 1 of RFC 6570, a plain name, is served"
                ));
            }
            if !parts.is_empty() && !ends_a_value(literal) {
                return Err(format!("needs text before {{{name}}} that does not begin with a letter or digit"));
            }
            if parts.iter().any(|(_, other)| other == name) {
                return Err(format!("has {{{name}}} twice"));
            }
            parts.push((normal_uri(literal), name.to_owned()));
            rest = after;
        }
        if parts.is_empty() || parts.len() > MAX_VARIABLES {
            return Err(format!("has {} variables, not 1 to {MAX_VARIABLES}", parts.len()));
        }
        // The scheme belongs to the plugin, not to whoever fills the template in.
        if !parts[0].0.contains(':') || !is_uri(&format!("{}x", parts[0].0)) {
            return Err("does not start with a scheme, such as notes:".into());
        }
        if !parts.iter().all(|(literal, _)| are_uri_characters(literal)) || !are_uri_characters(rest) {
            return Err("holds characters that a URI cannot have".into());
        }
        if !rest.is_empty() && !ends_a_value(rest) {
            return Err("has text after its last variable that begins with a letter or digit".into());
        }
        Ok(UriTemplate { text: text.to_owned(), parts, tail: normal_uri(rest) })
    }

    /// As it was declared.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn has_variable(&self, name: &str) -> bool {
        self.parts.iter().any(|(_, variable)| variable == name)
    }

    /// How much of a URI the template fixes: of two templates that match, the one that fixes more is meant.
    pub fn literal_chars(&self) -> usize {
        self.parts.iter().map(|(literal, _)| literal.len()).sum::<usize>() + self.tail.len()
    }

    /// The variables, percent-decoded, if the whole URI fits. `uri` is in normal form ([`normal_uri`]).
    ///
    /// Each variable takes as little as it can. That misses nothing: a value consists of unreserved characters and
    /// escapes, so taking more could only help where the literal consists of those, and then leaves less for the next.
    pub fn matches(&self, uri: &str) -> Option<Vec<(String, String)>> {
        let mut rest = uri.strip_prefix(self.parts.first()?.0.as_str())?;
        let mut found = Vec::with_capacity(self.parts.len());
        for (at, (_, name)) in self.parts.iter().enumerate() {
            let end = match self.parts.get(at + 1) {
                // Not at the very start: no value is empty.
                Some((literal, _)) => {
                    let first = rest.chars().next()?.len_utf8();
                    first + rest[first..].find(literal.as_str())?
                }
                None => rest.len().checked_sub(self.tail.len()).filter(|end| *end > 0)?,
            };
            let (value, after) = (rest.get(..end)?, rest.get(end..)?);
            found.push((name.clone(), decode(value)?));
            rest = match self.parts.get(at + 1) {
                Some((literal, _)) => &after[literal.len()..],
                None => after.strip_prefix(self.tail.as_str())?,
            };
        }
        rest.is_empty().then_some(found)
    }
}

/// Can nobody take the literal's first character for a part of an escape before it?
fn ends_a_value(literal: &str) -> bool {
    literal.starts_with(|c: char| !c.is_alphanumeric())
}

/// `None` for a character that a value cannot have, or bytes that are no UTF-8.
fn decode(value: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = match first {
            b'%' => {
                let digits =
                    std::str::from_utf8(after.get(..2)?).ok().filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()))?;
                bytes.push(u8::from_str_radix(digits, 16).ok()?);
                &after[2..]
            }
            byte if is_unreserved(*byte) => {
                bytes.push(*byte);
                after
            }
            _ => return None,
        };
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matched(template: &str, uri: &str) -> Option<Vec<String>> {
        let found = UriTemplate::parse(template).unwrap().matches(uri)?;
        Some(found.into_iter().map(|(_, value)| value).collect())
    }

    #[test]
    fn a_uri_has_a_scheme_and_only_characters_of_a_uri() {
        for good in ["notes://a/b", "file:///x%20y", "urn:isbn:1", "x+y.z-1:a"] {
            assert!(is_uri(good), "{good}");
        }
        let long = format!("a:{}", "b".repeat(MAX_URI_CHARS));
        for bad in ["", "a", "a:", ":a", "1a:b", "a b:c", "a:b c", "a:%2", "a:%zz", "a:\n", "a:é", "/a/b", &long] {
            assert!(!is_uri(bad), "{bad:?}");
        }
    }

    #[test]
    fn spellings_of_one_uri_are_one_uri() {
        assert_eq!(normal_uri("n://%73ecret/%2e%2E/%2f%c3%a9?%7e"), "n://secret/../%2F%C3%A9?~");
        assert_eq!(normal_uri("n://a%"), "n://a%");
        assert_eq!(normal_uri("n://a%4/%zzé"), "n://a%4/%zzé");
    }

    #[test]
    fn below_a_resource_is_what_its_path_leads_to() {
        for (uri, place) in [
            ("n://a", "n://a"),
            ("n://a/b", "n://a"),
            ("n://a/b", "n://a/"),
            ("n://a#b", "n://a"),
            ("n://a?b=../c", "n://a"),
            ("n://%61/b", "n://a"),
        ] {
            assert!(is_within(uri, place), "{uri} {place}");
        }
        for (uri, place) in [
            ("n://ab", "n://a"),
            ("n://a.evil/b", "n://a"),
            ("n://a/../b", "n://a"),
            ("n://a/%2e%2e/b", "n://a"),
            ("n://a/b/..", "n://a/"),
            ("n://b", "n://a"),
            ("n://", "n://a"),
        ] {
            assert!(!is_within(uri, place), "{uri} {place}");
        }
    }

    #[test]
    fn variables_are_taken_apart_and_decoded() {
        assert_eq!(matched("notes://{folder}/{note}", "notes://work/7"), Some(vec!["work".into(), "7".into()]));
        assert_eq!(matched("file:///{name}.{kind}", "file:///a.tar.gz"), Some(vec!["a".into(), "tar.gz".into()]));
        assert_eq!(matched("a:{x}/end", "a:%2e%2E%2Fb%C3%A9/end"), Some(vec!["../bé".into()]));
        assert_eq!(matched("a:{x}-{y}", "a:--b"), Some(vec!["-".into(), "b".into()]));
        assert_eq!(matched("a:{x}--{y}", "a:---b"), Some(vec!["-".into(), "b".into()]));
    }

    #[test]
    fn what_does_not_fit_as_a_whole_does_not_fit() {
        for (template, uri) in [
            ("notes://{a}/{b}", "notes://x/"),
            ("notes://{a}/{b}", "notes:///x"),
            ("notes://{a}/{b}", "notes://x/y/z"),
            ("notes://{a}/{b}", "notes://x/y?z"),
            ("notes://{a}/end", "notes://x/end/"),
            ("notes://{a}/end", "notes://x/y/end"),
            ("notes://{a}", "other://x"),
            ("notes://{a}", "notes://%ff"),
            ("notes://{a}", "notes://%4"),
            ("notes://{a}", "notes://%+1"),
            ("notes://{a}", "notes://é"),
            ("notes://{a}", "notes://"),
        ] {
            assert_eq!(matched(template, uri), None, "{template} {uri}");
        }
    }

    #[test]
    fn templates_beyond_level_one_and_ambiguous_ones_are_refused() {
        for bad in [
            "notes://all",
            "notes://{a}{b}",
            "notes://{a}x{b}",
            "notes://{a}end",
            "notes://{a}/{a}",
            "notes://{+a}",
            "notes://{a,b}",
            "notes://{a*}",
            "notes://{a:3}",
            "notes://{}",
            "notes://{a",
            "notes://{a}/}",
            "{scheme}://a",
            "no/{a}",
            "notes://é{a}",
        ] {
            UriTemplate::parse(bad).unwrap_err();
        }
    }

    #[test]
    fn matching_takes_time_in_proportion_to_the_uri() {
        let names = "abcdefghijklmnop".chars().map(|c| format!("{{{c}}}")).collect::<Vec<_>>().join("-");
        let template = UriTemplate::parse(&format!("a:{names}/end")).unwrap();
        let started = std::time::Instant::now();
        assert!(template.matches(&format!("a:{}", "-".repeat(2_000))).is_none());
        assert!(started.elapsed().as_millis() < 200);
    }
}
