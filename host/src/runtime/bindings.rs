//! What `wasmtime` makes of the world in `wit/`. Nothing is written by hand here.

#![allow(missing_docs, clippy::all)]

wasmtime::component::bindgen!({
    path: "../wit",
    world: "plugin",
    imports: { default: async | trappable },
    exports: { default: async },
});
