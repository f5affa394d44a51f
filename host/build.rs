//! Compiles the first-party components ahead of time, for the target's baseline CPU, and puts both forms into the binary,
//! compressed.
//!
//! `make plugins` builds the components; this reads them. Without them there is nothing to embed, and the build says so.

// Cargo speaks to build scripts through the environment.
#![allow(clippy::disallowed_methods)]

use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::path::PathBuf;
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
#[path = "build/compressed.rs"]
mod compressed;
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

    let (mut wasm, mut code) = (vec![], vec![]);
    let mut list = String::from("static COMPONENTS: &[Embedded] = &[\n");
    for id in COMPONENTS {
        let file = built.join(format!("{}.wasm", id.replace('-', "_")));
        println!("cargo::rerun-if-changed={}", file.display());
        let bytes = fs::read(&file).unwrap_or_else(|error| {
            panic!("{} cannot be read ({error}). Run `make plugins` first: it builds the components.", file.display())
        });
        let compiled = engine.precompile_component(&bytes).unwrap_or_else(|e| panic!("{}: {e:#}", file.display()));
        let digest = hex::encode(Sha256::digest(&bytes));
        let (wasm, code) = (append(&mut wasm, &bytes), append(&mut code, &compiled));
        writeln!(list, "    Embedded {{ id: {id:?}, digest: {digest:?}, wasm: {wasm}, code: {code} }},")
            .expect("writing to a string");
    }
    writeln!(list, "];").expect("writing to a string");
    for (name, bytes) in [("WASM", &wasm), ("CODE", &code)] {
        let frame = out.join(format!("components.{name}.zst").to_lowercase());
        compressed::write(&frame, bytes);
        writeln!(
            list,
            "static {name}: Packed = Packed {{ bytes: {}, frame: include_bytes!({frame:?}) }};",
            bytes.len()
        )
        .expect("writing to a string");
    }
    fs::write(out.join("components.rs"), list).expect("OUT_DIR is writable");
}

/// Where `part` lies in `whole` from now on, as Rust writes a range.
fn append(whole: &mut Vec<u8>, part: &[u8]) -> String {
    let start = whole.len();
    whole.extend_from_slice(part);
    format!("{start}..{}", whole.len())
}
