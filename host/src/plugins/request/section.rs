//! How a request travels: the custom section `cyberos:grants` of the component, JSON of the form
//! `{"version":1,"asks":{…}}`.
//!
//! Whoever built the component wrote it, so it is held to everything that a grant is held to, and its names to letters that can
//! be shown. One that does not fit is no request: the component is refused, because what it asks for is not known.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use super::{Request, Secret, Upstream};
use crate::config::{Credential, Limits, MAX_MEMORY_BYTES, MAX_TABLE_ELEMENTS, UpstreamGrant};
use crate::model::is_hidden;
use crate::plugins::sections::{Kind, PREAMBLE_BYTES, custom, sections};

/// The section's name.
pub const SECTION: &str = "cyberos:grants";
/// Hundreds of services.
pub const MAX_SECTION_BYTES: usize = 64 << 10;

const VERSION: u64 = 1;
const MAX_WORD_CHARS: usize = 128;
/// Paths are compared each with each.
const MAX_UPSTREAMS: usize = 64;
const MAX_PATHS: usize = 64;
/// Of what is wrong, as it is shown.
const MAX_SHOWN_CHARS: usize = 300;

/// Why what a component asks for is not known. A clause, and safe to print.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRequest {
    #[error("it has {0} sections {SECTION}; one says what a component asks for")]
    Several(usize),
    #[error("its section {SECTION} has {0} bytes, over {MAX_SECTION_BYTES}")]
    TooLarge(usize),
    #[error("its section {SECTION} is of version {0}, and this host reads version {VERSION}")]
    Version(u64),
    #[error("its section {SECTION} cannot be used: {0}")]
    Wrong(String),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    version: u64,
    asks: Request,
}

/// What every version has.
#[derive(Deserialize)]
struct Head {
    version: u64,
}

impl Request {
    /// `None`: the component does not say what it asks for.
    pub fn read(wasm: &[u8]) -> Result<Option<Request>, BadRequest> {
        let held: Vec<&[u8]> = sections(wasm).filter_map(|section| ours(&section.kind)).collect();
        let data = match held[..] {
            [] => return Ok(None),
            [data] if data.len() > MAX_SECTION_BYTES => return Err(BadRequest::TooLarge(data.len())),
            [data] => data,
            _ => return Err(BadRequest::Several(held.len())),
        };
        let wrong = |why: serde_json::Error| BadRequest::Wrong(shown(&why.to_string()));
        let Head { version } = serde_json::from_slice(data).map_err(wrong)?;
        if version != VERSION {
            return Err(BadRequest::Version(version));
        }
        let Form { asks, .. } = serde_json::from_slice(data).map_err(wrong)?;
        asks.check().map_err(|why| BadRequest::Wrong(shown(&why)))?;
        Ok(Some(asks.without_defaults()))
    }

    /// The section, to be put behind the others of a component that has none (`without`).
    pub fn section(&self) -> Result<Vec<u8>, BadRequest> {
        self.check().map_err(|why| BadRequest::Wrong(shown(&why)))?;
        let data = serde_json::to_vec(&Form { version: VERSION, asks: self.clone() }).expect("it is JSON");
        if data.len() > MAX_SECTION_BYTES {
            return Err(BadRequest::TooLarge(data.len()));
        }
        Ok(custom(SECTION, &data))
    }

    /// Could an operator grant it, and is it what it looks like?
    fn check(&self) -> Result<(), String> {
        if self.upstreams.len() > MAX_UPSTREAMS {
            return Err(format!("it asks for {} upstreams, over {MAX_UPSTREAMS}", self.upstreams.len()));
        }
        for (name, upstream) in &self.upstreams {
            word("the name of an upstream", name)?;
            upstream.check().map_err(|why| format!("upstreams.{name}: {why}"))?;
        }
        for path in self.directories.keys() {
            let Some(inside) = path.strip_prefix('/') else { return Err(format!("{path:?} is not an absolute path")) };
            // The root is a directory, too; every other one has one spelling.
            inside.split('/').filter(|_| path != "/").try_for_each(|part| match part {
                "." | ".." => Err(format!("{path:?} is not in its one spelling")),
                part => word("a part of a path", part),
            })?;
        }
        self.environment.iter().try_for_each(|name| word("the name of a variable", name))?;
        self.config.iter().try_for_each(|name| word("the name of a setting", name))?;
        let known = super::limits(&Limits::default());
        sizes(&self.limits, |name| known.iter().any(|(known, _)| *known == name))?;
        let too_large = |name, most: usize| self.limits.get(name).is_some_and(|size| *size > most as u64);
        if too_large("memory_bytes", MAX_MEMORY_BYTES) || too_large("table_elements", MAX_TABLE_ELEMENTS) {
            return Err("it asks for more memory, or a larger table, than a place in the sandbox has".into());
        }
        Ok(())
    }

    /// What every plugin has anyway is nothing to ask for.
    fn without_defaults(mut self) -> Request {
        let usual = super::limits(&Limits::default());
        self.limits.retain(|name, size| usual.iter().any(|(known, usual)| known == name && *size > *usual));
        for upstream in self.upstreams.values_mut() {
            upstream.limits.retain(|_, size| *size > super::DEFAULT_BODY_BYTES);
        }
        self
    }
}

impl Upstream {
    fn check(&self) -> Result<(), String> {
        let Some(url) = &self.url else { return Err("it has no url".into()) };
        if self.methods.is_empty() || self.paths.is_empty() {
            return Err("it has no methods or no paths, and so asks for nothing".into());
        }
        if self.paths.len() > MAX_PATHS {
            return Err(format!(
                "it has {} paths, over {MAX_PATHS}; a pattern such as /v1/** covers many",
                self.paths.len()
            ));
        }
        let credential = self.secret.as_ref().map(|Secret { name, header, scheme }| {
            [name, scheme].into_iter().flatten().try_for_each(|text| word("the name of a secret or a scheme", text))?;
            Ok::<_, String>(Credential {
                header: header.clone(),
                scheme: scheme.clone(),
                secret: String::new(),
                value: None,
            })
        });
        let grant = UpstreamGrant {
            url: url.clone(),
            methods: self.methods.iter().cloned().collect(),
            paths: self.paths.iter().cloned().collect(),
            allow_private: self.allow_private,
            max_response_bytes: 0,
            max_request_bytes: 0,
            credential: credential.transpose()?,
        };
        if let Some(wrong) = grant.wrongs().first() {
            return Err(wrong.sentence());
        }
        if super::origin(&grant).as_ref() != Some(url) {
            return Err("its url is not in its one spelling: scheme, host and port, in ASCII".into());
        }
        sizes(&self.limits, |name| matches!(name, "max_request_bytes" | "max_response_bytes"))
    }
}

/// Letters of any script, digits, `_`, `-` and `.`: nothing that could pass for words of ours.
pub(super) fn is_word(text: &str) -> bool {
    let good = |c: char| (c.is_alphanumeric() && !is_hidden(c)) || matches!(c, '_' | '-' | '.');
    !text.is_empty() && text.chars().count() <= MAX_WORD_CHARS && text.chars().all(good)
}

fn word(what: &str, text: &str) -> Result<(), String> {
    match is_word(text) {
        true => Ok(()),
        false => Err(format!("{what} is not 1 to {MAX_WORD_CHARS} letters, digits, _, - and .: {text:?}")),
    }
}

/// The file of grants holds no larger numbers.
fn sizes(limits: &BTreeMap<String, u64>, known: impl Fn(&str) -> bool) -> Result<(), String> {
    match limits.iter().find(|(name, size)| !known(name) || i64::try_from(**size).is_err()) {
        Some((name, size)) => Err(format!("{name:?} = {size} is no limit")),
        None => Ok(()),
    }
}

/// The same bytes, asking for nothing.
pub fn without(wasm: &[u8]) -> Vec<u8> {
    let kept = sections(wasm).filter(|section| ours(&section.kind).is_none());
    let size: usize = sections(wasm).map(|section| section.whole.len()).sum();
    let preamble = PREAMBLE_BYTES.min(wasm.len());
    let mut bytes = wasm[..preamble].to_vec();
    kept.for_each(|section| bytes.extend_from_slice(section.whole));
    // What is no section any more stays where it is: the bytes may be broken, and somebody will say how.
    bytes.extend_from_slice(&wasm[preamble + size..]);
    bytes
}

fn ours<'w>(kind: &Kind<'w>) -> Option<&'w [u8]> {
    match kind {
        Kind::Custom(SECTION, data) => Some(data),
        _ => None,
    }
}

/// Somebody else's text in a line of ours.
fn shown(text: &str) -> String {
    let mut shown = String::new();
    for c in text.chars().take(MAX_SHOWN_CHARS) {
        match c.is_control() || is_hidden(c) {
            true => shown.extend(c.escape_unicode()),
            false => shown.push(c),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    const EMPTY: &[u8] = b"\0asm\x0d\0\x01\0";

    fn with(text: &str) -> Vec<u8> {
        [EMPTY, &custom(SECTION, text.as_bytes())].concat()
    }

    #[test]
    fn a_request_is_read_as_it_was_written_and_a_second_one_takes_its_place() {
        // given
        let one = sample("cuo = true\n[plugins.w.upstreams.api]\nurl = \"https://é.example\"\npaths = [\"/v1/**\"]\n");
        let other = sample("elicit = true\n");
        let component = [EMPTY, &custom("name", b"x")].concat();
        // when
        let asks = [without(&component), one.section().unwrap()].concat();
        let again = [without(&asks), other.section().unwrap()].concat();
        // then
        assert_eq!(Request::read(&component), Ok(None));
        assert_eq!(Request::read(&asks), Ok(Some(one)));
        assert_eq!(Request::read(&again), Ok(Some(other)));
        assert_eq!(without(&again), component);
        let nothing = [EMPTY, &Request::default().section().unwrap()].concat();
        assert_eq!(Request::read(&nothing), Ok(Some(Request::default())));
    }

    #[test]
    fn a_limit_that_every_plugin_has_is_nothing_to_ask_for() {
        let asks = with(r#"{"version":1,"asks":{"limits":{"fuel":1,"deadline_ms":3600000}}}"#);
        assert_eq!(Request::read(&asks), Ok(Some(sample("limits = { deadline_ms = 3_600_000 }\n"))));
    }

    #[test]
    fn bytes_that_are_broken_stay_as_they_were() {
        for bytes in [&b""[..], b"\0as", b"\0asm\x0d\0\x01\0\x07\x03\x01"] {
            assert_eq!(without(bytes), bytes);
        }
    }

    #[test]
    fn what_no_author_can_have_written_is_refused_and_shown_without_harm() {
        let url = |url: &str| {
            format!(
                r#"{{"version":1,"asks":{{"upstreams":{{"a":{{"url":{url:?},"methods":["GET"],"paths":["/x"]}}}}}}}}"#
            )
        };
        let asks = |asks: &str| format!(r#"{{"version":1,"asks":{asks}}}"#);
        let many = |upstreams: usize, paths: usize| {
            let paths: Vec<String> = (0..paths).map(|n| format!("/{n}")).collect();
            let one = serde_json::json!({ "url": "https://a.example", "methods": ["GET"], "paths": paths });
            let all: BTreeMap<String, _> = (0..upstreams).map(|n| (format!("u{n}"), one.clone())).collect();
            asks(&serde_json::json!({ "upstreams": all }).to_string())
        };
        for (text, says) in [
            ("".to_owned(), "EOF"),
            ("{".repeat(40_000), "cannot be used"),
            ("[".repeat(40_000), "cannot be used"),
            (r#"{"asks":{}}"#.into(), "version"),
            (r#"{"version":2,"asks":{"more":1}}"#.into(), "of version 2, and this host reads version 1"),
            (r#"{"version":1,"asks":{},"more":1}"#.into(), "unknown field"),
            (asks("{\"\\u001b[2Jfine\":1}"), "\\u{1b}[2Jfine"),
            (asks("{\"config\":[\"units\\u001b[31m\"]}"), "name of a setting"),
            (asks("{\"config\":[\"units\\u202e\"]}"), "\\u{202e}"),
            (asks("{\"config\":[\"a: GET https://safe.example\"]}"), "name of a setting"),
            (asks("{\"environment\":[\"A=B\"]}"), "name of a variable"),
            (asks("{\"directories\":{\"data\":\"read\"}}"), "not an absolute path"),
            (asks("{\"directories\":{\"/da\\nta\":\"read\"}}"), "part of a path"),
            (asks("{\"directories\":{\"/..\":\"read\"}}"), "one spelling"),
            (asks("{\"directories\":{\"/a/./b\":\"read\"}}"), "one spelling"),
            (asks("{\"directories\":{\"//a//\":\"read\"}}"), "part of a path"),
            (asks("{\"limits\":{\"fules\":1}}"), "no limit"),
            (asks("{\"limits\":{\"memory_bytes\":9000000000000000000}}"), "than a place in the sandbox has"),
            (many(65, 1), "asks for 65 upstreams, over 64"),
            (many(1, 65), "has 65 paths, over 64"),
            (asks("{\"limits\":{\"fuel\":18446744073709551615}}"), "no limit"),
            (asks(r#"{"upstreams":{"a":{"methods":["GET"],"paths":["/x"]}}}"#), "no url"),
            (asks(r#"{"upstreams":{"a":{"url":"https://a.example","paths":["/x"]}}}"#), "asks for nothing"),
            (url("https://а.example"), "one spelling"),
            (url("https://a.example/"), "one spelling"),
            (url("https://u:p@a.example"), "names a user"),
            (url("file:///etc"), "neither https"),
        ] {
            let why = Request::read(&with(&text)).unwrap_err().to_string();
            assert!(why.contains(says) && !why.chars().any(char::is_control), "{says}: {why}");
        }
        let large = with(&format!("{{\"version\":1{}}}", " ".repeat(MAX_SECTION_BYTES)));
        assert!(matches!(Request::read(&large), Err(BadRequest::TooLarge(_))));
        let twice = [with(&asks("{}")), custom(SECTION, asks("{}").as_bytes())].concat();
        assert_eq!(Request::read(&twice), Err(BadRequest::Several(2)));
    }
}
