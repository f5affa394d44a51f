//! What `wasmtime` makes of the worlds in `wit/`. Nothing is written by hand here.

#![allow(missing_docs, clippy::all)]

wasmtime::component::bindgen!({
    path: "../wit",
    world: "plugin",
    imports: { default: async | trappable },
    exports: { default: async },
});

/// What a component may export beside its tools: one world each, on the same shared types.
pub mod prompts {
    wasmtime::component::bindgen!({
        path: "../wit",
        world: "with-prompts",
        exports: { default: async },
        with: { "cyberos:plugin/types": super::cyberos::plugin::types },
    });
}

pub mod resources {
    wasmtime::component::bindgen!({
        path: "../wit",
        world: "with-resources",
        exports: { default: async },
        with: { "cyberos:plugin/types": super::cyberos::plugin::types },
    });
}

pub mod completions {
    wasmtime::component::bindgen!({
        path: "../wit",
        world: "with-completions",
        exports: { default: async },
        with: { "cyberos:plugin/types": super::cyberos::plugin::types },
    });
}
