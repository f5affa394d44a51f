// Packs the starter catalogue into one file that the binary includes, so that a copied binary works alone.
//
// The pack is deterministic: files in order of path, each as a big-endian u32 length and the path, a u32 length and the
// bytes; all of it compressed. The reader is `upstreams/cuo/starter.rs`. Without a `catalogue/` the pack is empty.

use std::fs;
use std::path::{Path, PathBuf};

/// Write `$OUT_DIR/catalogue.pack.zst` and tell the crate its digest (`CYBEROS_CATALOGUE_DIGEST`, 32 hex digits) and
/// length (`CYBEROS_CATALOGUE_BYTES`).
pub fn pack() {
    let manifest = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"));
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let root = manifest.join("../catalogue");
    println!("cargo::rerun-if-changed=../catalogue");
    println!("cargo::rerun-if-changed=build/catalogue.rs");

    let mut paths = Vec::new();
    if root.is_dir() {
        walk(&root, "", &mut paths);
    }
    paths.sort();
    let mut packed = Vec::new();
    for path in paths {
        let bytes = fs::read(root.join(&path)).unwrap_or_else(|e| panic!("catalogue/{path}: {e}"));
        for part in [path.as_bytes(), &bytes] {
            let length = u32::try_from(part.len()).expect("a catalogue file is smaller than 4 GiB");
            packed.extend_from_slice(&length.to_be_bytes());
            packed.extend_from_slice(part);
        }
    }
    println!("cargo::rustc-env=CYBEROS_CATALOGUE_DIGEST={:032x}", fnv1a(&packed));
    println!("cargo::rustc-env=CYBEROS_CATALOGUE_BYTES={}", packed.len());
    super::compressed::write(&out.join("catalogue.pack.zst"), &packed);
}

/// FNV-1a, 128 bits. It tells one edition from another in a private directory and guards nothing, so that it need not
/// cost a dependency of the build.
fn fnv1a(bytes: &[u8]) -> u128 {
    const OFFSET: u128 = 0x6c62272e07bb014262b821756295c58d;
    const PRIME: u128 = 0x0000000001000000000000000000013b;
    bytes.iter().fold(OFFSET, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME))
}

/// Every regular file below, as a path with forward slashes; hidden files (editors' leavings) are left out.
pub fn walk(dir: &Path, prefix: &str, found: &mut Vec<String>) {
    let entries = fs::read_dir(dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    for entry in entries.flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        if name.starts_with('.') {
            continue;
        }
        let path = format!("{prefix}{name}");
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => walk(&entry.path(), &format!("{path}/"), found),
            Ok(kind) if kind.is_file() => found.push(path),
            _ => {}
        }
    }
}
