//! The first-party components, as `build.rs` compiled and packed them into this binary.

use std::ops::Range;
use wasmtime::Engine;
use wasmtime::component::Component;

pub struct Embedded {
    pub id: &'static str,
    /// SHA-256 of the component, in hex.
    pub digest: &'static str,
    wasm: Range<usize>,
    code: Range<usize>,
}

include!(concat!(env!("OUT_DIR"), "/components.rs"));

/// One Zstandard frame, and how long its content is.
struct Packed {
    bytes: usize,
    frame: &'static [u8],
}

impl Packed {
    fn unpack(&self) -> Vec<u8> {
        zstd::bulk::decompress(self.frame, self.bytes).expect("`build.rs` packed it")
    }
}

/// The compiled code of all of them; it is needed until they are loaded.
pub struct Code(Vec<u8>);

impl Code {
    pub fn unpack() -> Code {
        Code(CODE.unpack())
    }
}

impl Embedded {
    pub fn all() -> &'static [Embedded] {
        COMPONENTS
    }

    /// The component itself, which is seldom needed: all of them are unpacked for it.
    pub fn wasm(&self) -> Vec<u8> {
        WASM.unpack()[self.wasm.clone()].to_vec()
    }

    /// `None` when the code does not fit this machine; the component is then compiled like any other.
    pub fn component(&self, code: &Code, engine: &Engine) -> Option<Component> {
        // SAFETY: the bytes are part of this very binary, written by `build.rs` with the settings of `engine_config.rs`, and
        // `Code` comes from nowhere else; whoever can change them can change the code around them. Wasmtime checks
        // version, settings and CPU features.
        #[allow(unsafe_code)]
        let component = unsafe { Component::deserialize(engine, &code.0[self.code.clone()]) };
        match component {
            Ok(component) => Some(component),
            Err(error) => {
                tracing::warn!(plugin = self.id, %error, "the built-in compiled code does not fit this machine");
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::cache;

    #[test]
    fn what_was_packed_comes_out_whole() {
        assert_eq!(Embedded::all().len(), 8);
        for embedded in Embedded::all() {
            assert_eq!(cache::digest(&embedded.wasm()), embedded.digest, "{}", embedded.id);
        }
    }
}
