//! The first-party components, as `build.rs` compiled them into this binary.

use wasmtime::Engine;
use wasmtime::component::Component;

pub struct Embedded {
    pub id: &'static str,
    pub wasm: &'static [u8],
    compiled: &'static [u8],
}

include!(concat!(env!("OUT_DIR"), "/components.rs"));

impl Embedded {
    pub fn all() -> &'static [Embedded] {
        COMPONENTS
    }

    /// `None` when the code does not fit this machine; the component is then compiled like any other.
    pub fn component(&self, engine: &Engine) -> Option<Component> {
        // SAFETY: the bytes are part of this very binary, written by `build.rs` with the settings of `engine_config.rs`;
        // whoever can change them can change the code around them. Wasmtime checks version, settings and CPU features.
        #[allow(unsafe_code)]
        let component = unsafe { Component::deserialize(engine, self.compiled) };
        match component {
            Ok(component) => Some(component),
            Err(error) => {
                tracing::warn!(plugin = self.id, %error, "the built-in compiled code does not fit this machine");
                None
            }
        }
    }
}
