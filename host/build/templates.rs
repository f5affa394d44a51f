// Packs what `plugin new` writes into the binary, so that it needs no checkout: the templates, the contract, the Rust SDK
// and the C bindings, which are made here from the contract.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use wit_bindgen_core::{Files, wit_parser::Resolve};

/// Write `$OUT_DIR/templates.rs`: one list of paths and texts for each of them.
pub fn pack() {
    let manifest = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"));
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let wit = manifest.join("../wit");
    let bindings = out.join("c-bindings");
    bind(&wit, &bindings);

    let mut source = String::new();
    let sources = [
        ("TEMPLATES", manifest.join("templates")),
        ("CONTRACT", wit),
        ("RUST_SDK", manifest.join("../plugins/sdk")),
        ("C_BINDINGS", bindings),
    ];
    for (name, root) in sources {
        list(&mut source, name, &root);
        println!("cargo::rerun-if-changed={}", root.display());
    }
    println!("cargo::rerun-if-changed=build/templates.rs");
    fs::write(out.join("templates.rs"), source).expect("OUT_DIR is writable");
}

fn list(source: &mut String, name: &str, root: &Path) {
    let mut paths = Vec::new();
    super::catalogue::walk(root, "", &mut paths);
    paths.sort();
    writeln!(source, "pub static {name}: &[(&str, &str)] = &[").expect("writing to a string");
    for path in paths {
        let file = root.join(&path);
        writeln!(source, "    ({path:?}, include_str!({file:?})),").expect("writing to a string");
    }
    source.push_str("];\n");
}

/// `plugin.h` and `plugin.c` of the world `plugin`.
fn bind(wit: &Path, to: &Path) {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_path(wit).expect("the contract is well formed");
    let world = resolve.select_world(&[package], Some("plugin")).expect("the contract has this world");
    // The component's type is added by `plugin build`, for Go and C alike.
    let settings = wit_bindgen_c::Opts { no_object_file: true, ..Default::default() };
    let mut files = Files::default();
    settings.build().generate(&mut resolve, world, &mut files).expect("C can express the contract");
    fs::create_dir_all(to).expect("OUT_DIR is writable");
    for (name, bytes) in files.iter() {
        fs::write(to.join(name), bytes).expect("OUT_DIR is writable");
    }
}
