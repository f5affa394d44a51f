//! What a component asks its host for, read from its bytes: nothing of it is compiled, and nothing runs.

use wit_component::DecodedWasm;

use crate::config::Grants;
use crate::runtime::check_import;

/// The imports and exports of a component, by interface.
pub struct Interface {
    pub imports: Vec<String>,
    pub exports: Vec<String>,
}

/// What becomes of an import under some grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Every plugin has it; it reaches nothing by itself.
    Always,
    Granted,
    /// It does not load until this is granted.
    Missing,
    /// No host of this version has it.
    NotOffered,
}

impl Interface {
    /// The error is a clause.
    pub fn of(wasm: &[u8]) -> Result<Interface, String> {
        // A core module decodes as well, to a component that asks for nothing.
        match wasm.get(..8) {
            Some(b"\0asm\x01\0\0\0") => {
                return Err(
                    "it is a core module, and no component: make one of it with `wasm-tools component new`".into()
                );
            }
            Some(_) => {}
            None => return Err("it is no WebAssembly".into()),
        }
        let decoded = wit_component::decode(wasm).map_err(|why| format!("it is not a component: {why:#}"))?;
        let DecodedWasm::Component(resolve, world) = decoded else {
            return Err("it holds WIT, and no component".into());
        };
        let world = &resolve.worlds[world];
        let names = |items: &mut dyn Iterator<Item = &wit_parser::WorldKey>| -> Vec<String> {
            let mut names: Vec<String> = items.map(|key| resolve.name_world_key(key)).collect();
            names.sort();
            names
        };
        Ok(Interface { imports: names(&mut world.imports.keys()), exports: names(&mut world.exports.keys()) })
    }

    /// Each import with its verdict.
    pub fn judged(&self, grants: &Grants) -> Vec<(&str, Verdict)> {
        let resources = self.exports.iter().any(|name| name.starts_with("cyberos:plugin/resources"));
        self.imports.iter().map(|name| (name.as_str(), verdict(name, grants, resources))).collect()
    }
}

fn verdict(import: &str, grants: &Grants, resources: bool) -> Verdict {
    const ALWAYS: [&str; 4] = ["types", "call-context", "progress", "log"];
    match check_import(import) {
        Err(_) => Verdict::NotOffered,
        // Engines of languages import it, used or not; without an upstream it denies everything.
        Ok(None) if import.starts_with("wasi:http/") && !grants.upstreams.is_empty() => Verdict::Granted,
        Ok(None) => Verdict::Always,
        Ok(Some(own)) if ALWAYS.contains(&own) => Verdict::Always,
        Ok(Some(own)) if grants.allow_import(own, resources) == Some(true) => Verdict::Granted,
        Ok(Some(_)) => Verdict::Missing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_component_are_told_as_such() {
        for bytes in [&b"no"[..], b"\0asm\x01\0\0\0", b""] {
            assert!(Interface::of(bytes).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn an_import_is_granted_missing_or_unknown() {
        let interface = Interface {
            imports: [
                "cyberos:plugin/log@1.0.0",
                "cyberos:plugin/spawn-cuo@1.0.0",
                "cyberos:plugin/elicit@1.0.0",
                "cyberos:plugin/elicit@2.0.0",
                "test:vault/vault@1.0.0",
                "wasi:io/streams@0.2.6",
            ]
            .map(str::to_owned)
            .to_vec(),
            exports: vec![],
        };
        let grants = Grants { cuo: true, ..Grants::default() };
        let verdicts: Vec<Verdict> = interface.judged(&grants).into_iter().map(|(_, verdict)| verdict).collect();
        use Verdict::*;
        assert_eq!(verdicts, [Always, Granted, Missing, NotOffered, NotOffered, Always]);
    }
}
