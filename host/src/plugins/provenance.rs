//! Where a component says that it comes from, and who signed it. Read from its bytes; nothing of it runs.
//!
//! What a component says of itself is a claim until a signature covers it. Source: the custom sections of the tool
//! conventions (`producers`) and of the wasm OCI annotations (`source`, `revision`, `authors`, …).

use serde::Serialize;
use wasm_metadata::Producers;

use super::sections::{Kind, sections};

/// Texts from the component are cut to this many characters.
const MAX_CHARS: usize = 300;

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
    /// Languages, compilers and tools, such as `language Rust 2021`.
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
            match section.kind {
                Kind::Custom(name, data) => found.take(name, data),
                Kind::Module(module) => found.producers(module),
                Kind::Other => {}
            }
        }
        found.producers(wasm);
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

    /// Of the component, or of a module inside it, where compilers sign.
    fn producers(&mut self, wasm: &[u8]) {
        let Ok(Some(producers)) = Producers::from_wasm(wasm) else { return };
        for (field, values) in producers.iter() {
            for (name, version) in values.iter() {
                let line = format!("{field} {name} {version}");
                self.producers.push(line.trim_end().chars().take(MAX_CHARS).collect());
            }
        }
    }
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
}
