//! What `make release` claims of the binary, and how it finds out. The build itself takes too long to be a test.

use bridge_tests::{bridge_binary, root};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::{HashMap, HashSet};
use std::fs;
use std::process::{Command, Output};

fn script(name: &str, arguments: &[&str]) -> Output {
    Command::new(root().join("scripts").join(name)).args(arguments).output().unwrap()
}

fn bill() -> Value {
    let binary = bridge_binary().display().to_string();
    let output = script("sbom", &["x86_64-unknown-linux-musl", &binary]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The checksum of each crate, as Cargo checks it before it compiles.
fn checksums() -> HashMap<String, String> {
    let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let field = |entry: &str, name: &str| {
        let start = format!("{name} = \"");
        entry.lines().find_map(|line| Some(line.strip_prefix(&start)?.trim_end_matches('"').to_owned()))
    };
    let entries = lock.split("[[package]]").skip(1);
    let purl = |entry: &str| Some(format!("pkg:cargo/{}@{}", field(entry, "name")?, field(entry, "version")?));
    entries.filter_map(|entry| Some((purl(entry)?, field(entry, "checksum")?))).collect()
}

#[test]
fn the_bill_of_materials_names_every_crate_with_its_licence_and_checksum() {
    // given
    let (bill, checksums) = (bill(), checksums());
    // then
    assert_eq!((&bill["bomFormat"], &bill["specVersion"]), (&json!("CycloneDX"), &json!("1.6")));
    let crates: Vec<&Value> =
        bill["components"].as_array().unwrap().iter().filter(|c| c["type"] == "library").collect();
    for each in &crates {
        let purl = each["purl"].as_str().unwrap();
        assert_eq!(each["bom-ref"], purl);
        assert!(each["licenses"][0]["expression"].is_string(), "{purl} has no licence");
        assert_eq!(each["hashes"][0]["content"].as_str(), checksums.get(purl).map(String::as_str), "{purl}");
    }
    let scope = |name: &str| crates.iter().find(|c| c["name"] == name).map(|c| c["scope"].as_str().unwrap());
    for linked in ["wasmtime", "tokio", "ring", "libsqlite3-sys", "mimalloc", "oci-client"] {
        assert_eq!(scope(linked), Some("required"), "{linked}");
    }
    // Part of the build, not of the binary; and what only tests or other systems use is not there at all.
    assert_eq!(scope("serde_derive"), Some("excluded"));
    for absent in ["libfuzzer-sys", "windows-sys", "bridge-tests"] {
        assert_eq!(scope(absent), None, "{absent}");
    }
    assert!(crates.len() > 300, "{} crates", crates.len());
}

#[test]
fn the_bill_of_materials_has_the_embedded_components_and_fits_together() {
    // given
    let bill = bill();
    let components = bill["components"].as_array().unwrap();
    // then
    let embedded: Vec<&Value> = components.iter().filter(|c| c["mime-type"] == "application/wasm").collect();
    assert_eq!(embedded.len(), 8);
    for each in embedded {
        let file = format!("{}.wasm", each["name"].as_str().unwrap().replace('-', "_"));
        let wasm = fs::read(root().join("target/plugins/wasm32-wasip2/component").join(file)).unwrap();
        assert_eq!(each["hashes"][0]["content"], hex::encode(Sha256::digest(wasm)).as_str(), "{each}");
    }
    let about = &bill["metadata"]["component"];
    assert_eq!(about["hashes"][0]["content"], hex::encode(Sha256::digest(fs::read(bridge_binary()).unwrap())).as_str());
    let named: Vec<&str> = components.iter().chain([about]).map(|c| c["bom-ref"].as_str().unwrap()).collect();
    let known: HashSet<&str> = named.iter().copied().collect();
    assert_eq!(known.len(), named.len(), "a name is used twice");
    for edge in bill["dependencies"].as_array().unwrap() {
        let ends = edge["dependsOn"].as_array().unwrap().iter().chain([&edge["ref"]]);
        for end in ends {
            assert!(known.contains(end.as_str().unwrap()), "{end} is depended on and not described");
        }
    }
}

#[test]
fn a_binary_that_is_not_static_or_too_large_is_not_shipped() {
    let binary = bridge_binary().display().to_string();
    for (most, says) in [("1000", "more than 1000"), ("99999999999", "asks for a dynamic loader")] {
        let output = script("check-release", &[&binary, most]);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && error.contains(says), "{most}: {error}");
    }
}
