//! What a component says about itself, read from its bytes: nothing of it runs and nothing is compiled.

use std::collections::BTreeMap;
use wasmparser::{Encoding, Parser, Payload, Validator, WasmFeatures};

/// Custom sections of WebAssembly's tool conventions, each the key of the OCI annotation that it becomes.
const SECTIONS: [&str; 7] = ["authors", "description", "homepage", "licenses", "revision", "source", "version"];
/// One text of these. Longer ones are left out.
const MAX_TEXT: usize = 4096;

/// The outside of a component.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Component {
    /// The interfaces and functions that it asks its host for, such as `wasi:io/streams@0.2.6`.
    pub imports: Vec<String>,
    pub exports: Vec<String>,
    /// `name` and whatever of `authors`, `description`, `homepage`, `licenses`, `revision`, `source`, `version` it holds.
    pub metadata: BTreeMap<String, String>,
}

/// Why these bytes are no component.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum NotAComponent {
    #[error("it is not WebAssembly: it starts with {0}")]
    NotWasm(String),
    #[error(
        "it is a core module, not a component. Build it for wasm32-wasip2, or make a component of it with `wasm-tools component new`"
    )]
    CoreModule,
    #[error("it is a WIT package, which describes interfaces and has no code")]
    WitPackage,
    #[error("it is broken: {0}")]
    Broken(String),
}

impl Component {
    /// Checked whole: a component that was cut or changed in one byte of its structure is `Broken`.
    pub fn read(wasm: &[u8]) -> Result<Component, NotAComponent> {
        if !wasm.starts_with(b"\0asm") {
            let start = String::from_utf8_lossy(&wasm[..wasm.len().min(16)]).escape_debug().to_string();
            return Err(NotAComponent::NotWasm(format!("\"{start}\"")));
        }
        let broken = |e: wasmparser::BinaryReaderError| NotAComponent::Broken(e.to_string());
        if !Parser::is_component(wasm) {
            return Err(NotAComponent::CoreModule);
        }
        Validator::new_with_features(WasmFeatures::all()).validate_all(wasm).map_err(broken)?;
        let mut component = Component::default();
        let (mut depth, mut has_code) = (0_usize, false);
        for payload in Parser::new(0).parse_all(wasm) {
            match payload.map_err(broken)? {
                Payload::Version { encoding, .. } => {
                    depth += 1;
                    has_code |= encoding == Encoding::Module;
                }
                Payload::End(_) => depth -= 1,
                Payload::ComponentImportSection(section) if depth == 1 => {
                    for import in section {
                        component.imports.push(import.map_err(broken)?.name.name.to_owned());
                    }
                }
                Payload::ComponentExportSection(section) if depth == 1 => {
                    for export in section {
                        component.exports.push(export.map_err(broken)?.name.name.to_owned());
                    }
                }
                Payload::CustomSection(section) if depth == 1 && SECTIONS.contains(&section.name()) => {
                    component.keep(section.name(), section.data());
                }
                _ => {}
            }
        }
        match has_code || component.exports.is_empty() {
            true => Ok(component),
            false => Err(NotAComponent::WitPackage),
        }
    }

    /// Text only: what is no text, or hides characters, is nobody's description.
    fn keep(&mut self, name: &str, data: &[u8]) {
        let text = std::str::from_utf8(data).ok().map(str::trim).filter(|t| !t.is_empty() && t.len() <= MAX_TEXT);
        if let Some(text) = text.filter(|text| !text.chars().any(char::is_control)) {
            self.metadata.insert(name.to_owned(), text.to_owned());
        }
    }

    /// Imports of packages that are neither this host's nor WASI's.
    pub fn foreign(&self) -> Vec<&str> {
        let known = |import: &&str| import.starts_with("cyberos:plugin/") || import.starts_with("wasi:");
        self.imports.iter().map(String::as_str).filter(|import| !known(import)).collect()
    }

    /// Each import that the host gives only to those who are granted it, with the line of `plugins.toml` that grants it.
    pub fn asks(&self) -> Vec<(String, &'static str)> {
        let grant = |import: &String| {
            let own = import.strip_prefix("cyberos:plugin/").and_then(|rest| rest.split('@').next());
            match own {
                Some(own) => crate::runtime::missing_grant(own),
                // The same policy as `http-fetch`.
                None if import.starts_with("wasi:http/outgoing-handler@") => {
                    crate::runtime::missing_grant("http-fetch")
                }
                None => None,
            }
        };
        self.imports.iter().filter_map(|import| Some((import.clone(), grant(import)?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_component_is_named() {
        assert!(
            matches!(Component::read(b"<html>404</html>"), Err(NotAComponent::NotWasm(start)) if start.contains("<html>"))
        );
        assert!(matches!(Component::read(b""), Err(NotAComponent::NotWasm(_))));
        assert_eq!(Component::read(b"\0asm\x01\0\0\0"), Err(NotAComponent::CoreModule));
        assert!(matches!(Component::read(b"\0asm\x0d\0\x01\0\x07\x03\x01"), Err(NotAComponent::Broken(_))));
    }

    #[test]
    fn texts_are_read_and_hidden_characters_are_not() {
        let section = |name: &str, text: &str| {
            let mut bytes = vec![0, (1 + name.len() + text.len()) as u8, name.len() as u8];
            bytes.extend_from_slice(name.as_bytes());
            bytes.extend_from_slice(text.as_bytes());
            bytes
        };
        let parts = [b"\0asm\x0d\0\x01\0".to_vec(), section("version", "1.2.3"), section("description", "a\x1b[2Jb")];
        let component = Component::read(&parts.concat()).unwrap();
        assert_eq!(component.metadata, BTreeMap::from([("version".into(), "1.2.3".into())]));
    }
}
