//! Compiles the first-party components ahead of time, for the target's baseline CPU, and puts both forms into the binary.
//!
//! `make plugins` builds the components; this reads them. Without them there is nothing to embed, and the build says so.

// Cargo speaks to build scripts through the environment.
#![allow(clippy::disallowed_methods)]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

include!("src/runtime/engine_config.rs");

/// The crates in `plugins/` that make the eight tools, in the order of the tool list.
const COMPONENTS: [&str; 8] = [
    "cuo-list-personas",
    "cuo-list-workflows",
    "cuo-route",
    "cuo-execute-workflow",
    "memory-read-audit",
    "memory-append-audit",
    "skill-list-catalog",
    "skill-invoke-skill",
];

#[path = "build/catalogue.rs"]
mod catalogue;
#[path = "build/templates.rs"]
mod templates;

fn main() {
    catalogue::pack();
    templates::pack();
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR").expect("set by cargo")).join("..");
    let built = root.join("target/plugins/wasm32-wasip2/component");
    let out = PathBuf::from(env::var("OUT_DIR").expect("set by cargo"));
    println!("cargo::rerun-if-changed=src/runtime/engine_config.rs");

    let mut config = code_settings();
    config.target(&env::var("TARGET").expect("set by cargo")).expect("wasmtime compiles for this target");
    let engine = wasmtime::Engine::new(&config).expect("the settings fit together");

    let mut list = String::from("static COMPONENTS: &[Embedded] = &[\n");
    for id in COMPONENTS {
        let wasm = built.join(format!("{}.wasm", id.replace('-', "_")));
        println!("cargo::rerun-if-changed={}", wasm.display());
        let compiled = out.join(format!("{id}.cwasm"));
        compile(&engine, &wasm, &compiled);
        writeln!(
            list,
            "    Embedded {{ id: {id:?}, wasm: include_bytes!({:?}), compiled: include_bytes!({compiled:?}) }},",
            wasm.canonicalize().expect("it was just read"),
        )
        .expect("writing to a string");
    }
    list.push_str("];\n");
    fs::write(out.join("components.rs"), list).expect("OUT_DIR is writable");
}

fn compile(engine: &wasmtime::Engine, wasm: &Path, compiled: &Path) {
    let bytes = fs::read(wasm).unwrap_or_else(|error| {
        panic!("{} cannot be read ({error}). Run `make plugins` first: it builds the tool components.", wasm.display())
    });
    let code = engine.precompile_component(&bytes).unwrap_or_else(|error| panic!("{}: {error:#}", wasm.display()));
    fs::write(compiled, code).expect("OUT_DIR is writable");
}
