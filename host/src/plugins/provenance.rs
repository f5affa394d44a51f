//! Where a component says that it comes from, and who signed it. Read from its bytes; nothing of it runs.
//!
//! What a component says of itself is a claim until a signature covers it. Source: the custom sections of the tool
//! conventions (`producers`) and of the wasm OCI annotations (`source`, `revision`, `authors`, …).

use serde::Serialize;
use wasm_metadata::Producers;

use super::sections::{Kind, sections};

/// Texts from the component are cut to this many characters.
const MAX_CHARS: usize = 300;

/// Components inside components that are looked into.
const MAX_DEPTH: usize = 4;

/// What is known of a component's origin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Provenance {
    /// SHA-256 of the component, in hex.
    pub digest: String,
    pub signature: Signed,
    pub version: Option<String>,
    pub authors: Option<String>,
    pub licenses: Option<String>,
    pub source: Option<String>,
    pub revision: Option<String>,
    /// Languages, compilers and tools, such as `language Rust 2021`: of what the author wrote, not of the adapters and the
    /// engine around it. No language where that is not said.
    pub producers: Vec<String>,
}

/// The detached signature beside the component.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Signed {
    /// There is none.
    #[default]
    Unsigned,
    /// It fits, and was made with one of the operator's keys.
    Verified { key_id: String, trusted_comment: String },
    /// There is one, and the operator named no keys: nothing was checked.
    Unchecked { key_id: String },
    /// It is part of the bridge's own binary.
    BuiltIn,
}

impl Provenance {
    /// What the component says of itself. One that says it badly says nothing.
    pub fn of(digest: &str, wasm: &[u8], signature: Signed) -> Provenance {
        let mut found = Provenance { digest: digest.to_owned(), signature, ..Provenance::default() };
        for section in sections(wasm) {
            if let Kind::Custom(name, data) = section.kind {
                found.take(name, data);
            }
        }
        found.producers = producers(wasm, 0);
        found.producers.sort();
        found.producers.dedup();
        found
    }

    fn take(&mut self, section: &str, data: &[u8]) {
        let field = match section {
            "version" => &mut self.version,
            "authors" => &mut self.authors,
            "licenses" => &mut self.licenses,
            "source" => &mut self.source,
            "revision" => &mut self.revision,
            _ => return,
        };
        *field = std::str::from_utf8(data).ok().map(|text| text.chars().take(MAX_CHARS).collect());
    }
}

/// What the component says on its outside, where the tools for JavaScript and the like sign; unless it says its language
/// there, also what its first core module says, where compilers sign. The modules behind the first translate WASI and are
/// somebody else's, mostly in Rust. One that was put together of components has what they have.
fn producers(wasm: &[u8], depth: usize) -> Vec<String> {
    let mut found = signed(wasm);
    if depth == MAX_DEPTH || found.iter().any(|line| line.starts_with("language ")) {
        return found;
    }
    let first = sections(wasm).find_map(|section| match section.kind {
        Kind::Module(module) => Some(signed(module)),
        _ => None,
    });
    found.extend(first.unwrap_or_else(|| {
        let inner = sections(wasm).filter_map(|section| match section.kind {
            Kind::Component(component) => Some(producers(component, depth + 1)),
            _ => None,
        });
        inner.flatten().collect()
    }));
    found
}

/// Of this component or module alone.
fn signed(wasm: &[u8]) -> Vec<String> {
    let Ok(Some(producers)) = Producers::from_wasm(wasm) else { return vec![] };
    let fields = producers.iter().flat_map(|(field, values)| {
        let line = |(name, version): (&String, &String)| format!("{field} {name} {version}");
        values.iter().map(line).collect::<Vec<_>>()
    });
    fields.map(|line| line.trim_end().chars().take(MAX_CHARS).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugins::sections::custom;

    #[test]
    fn what_a_component_says_of_itself_is_read_and_cut() {
        let wasm = [
            b"\0asm\x0d\0\x01\0".to_vec(),
            custom("source", b"https://example.com/weather"),
            custom("authors", "Zo\u{eb}".as_bytes()),
            custom("revision", &[0xff]),
            custom("else", b"ignored"),
        ]
        .concat();
        let found = Provenance::of("d", &wasm, Signed::Unsigned);
        assert_eq!(found.source.as_deref(), Some("https://example.com/weather"));
        assert_eq!(found.authors.as_deref(), Some("Zo\u{eb}"));
        assert_eq!(found.revision, None, "no text");
    }

    const MODULE: &[u8] = b"\0asm\x01\0\0\0";
    const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";

    fn says(field: &str, name: &str) -> Vec<u8> {
        let text = |text: &str| [&[text.len() as u8], text.as_bytes()].concat();
        custom("producers", &[vec![1], text(field), vec![1], text(name), text("1")].concat())
    }

    /// A module or component of these sections, inside another one.
    fn inner(id: u8, preamble: &[u8], sections: &[Vec<u8>]) -> Vec<u8> {
        let body = [preamble, &sections.concat()].concat();
        [&[id, body.len() as u8], &body[..]].concat()
    }

    #[test]
    fn the_language_is_that_of_what_the_author_wrote() {
        let of = |sections: &[Vec<u8>]| {
            Provenance::of("d", &[COMPONENT, &sections.concat()].concat(), Signed::Unsigned).producers.join(", ")
        };
        let tool = says("processed-by", "wit-component");
        let adapter = inner(1, MODULE, &[says("language", "Rust")]);
        let c = inner(1, MODULE, &[says("language", "C11")]);
        let silent = inner(1, MODULE, &[]);
        assert_eq!(of(&[c.clone(), adapter.clone(), tool.clone()]), "language C11 1, processed-by wit-component 1");
        // An engine in C behind a program in JavaScript.
        assert_eq!(of(&[c.clone(), adapter.clone(), says("language", "JavaScript")]), "language JavaScript 1");
        assert_eq!(of(&[silent, adapter.clone(), tool.clone()]), "processed-by wit-component 1");
        assert_eq!(of(&[inner(4, COMPONENT, &[c.clone(), adapter])]), "language C11 1");
        // and whoever nests them without end is not followed
        let deep = (0..6).fold(c, |within, _| inner(4, COMPONENT, &[within]));
        assert_eq!(of(&[deep]), "");
    }
}
