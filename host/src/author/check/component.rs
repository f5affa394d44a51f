//! The component as a whole: is it one, for which world, what it asks its host for, how large it is.

use std::collections::BTreeSet;
use wasm_metadata::Producers;

use super::{COMPONENT, Findings, said};
use crate::runtime::{Examination, Why};

/// Above this, loading and shipping it begin to be felt.
const LARGE: usize = 16 << 20;

/// The header of a core module: version 1, where a component has version 13, layer 1.
const CORE_MODULE: &[u8] = b"\0asm\x01\0\0\0";

pub fn not_a_component(wasm: &[u8], why: &Why, findings: &mut Findings) {
    if wasm.starts_with(CORE_MODULE) {
        let preview1 = b"wasi_snapshot_preview1";
        let adapt = match wasm.windows(preview1.len()).any(|window| window == preview1) {
            true => " with `--adapt wasi_snapshot_preview1.reactor.wasm`",
            false => "",
        };
        findings.error(
            COMPONENT,
            "It is a core module, and not a component",
            format!(
                "Build it for `wasm32-wasip2` (Rust), or make a component of it: `wasm-tools component embed wit/ --world plugin`, then `wasm-tools component new`{adapt}."
            ),
        );
        return;
    }
    if !wasm.starts_with(b"\0asm") {
        findings.error(COMPONENT, "It is not WebAssembly", "Name the .wasm file that your build wrote.");
        return;
    }
    findings.error(COMPONENT, said(why), "Build it again with current tools.");
}

/// Who says that they made it, such as `Rust 1.95.0`.
pub fn made_with(wasm: &[u8]) -> Vec<String> {
    let producers = Producers::from_wasm(wasm).ok().flatten();
    let fields = producers.iter().flat_map(|producers| producers.iter());
    let names = fields.flat_map(|(_, made)| {
        made.iter().map(|(name, version)| format!("{name} {version}").trim().to_owned()).collect::<Vec<_>>()
    });
    names.collect::<BTreeSet<_>>().into_iter().collect()
}

/// By what it exports.
pub fn world(exports: &[String]) -> Option<String> {
    let own = |interface: &str| {
        exports.iter().find_map(|export| {
            let (name, version) = export.strip_prefix("cyberos:plugin/")?.split_once('@')?;
            (name == interface).then(|| version.to_owned())
        })
    };
    let version = own("tools")?;
    let also: Vec<&str> =
        ["prompts", "resources", "completions"].into_iter().filter(|interface| own(interface).is_some()).collect();
    let with = if also.is_empty() { String::new() } else { format!(" with {}", also.join(", ")) };
    Some(format!("cyberos:plugin/plugin@{version}{with}"))
}

pub fn look(examined: &Examination, bytes: usize, findings: &mut Findings) {
    for why in &examined.refused {
        let fix = match why {
            Why::NotOffered { .. } => {
                "Take the import out, or build against the interface and version that the host offers."
            }
            Why::WrongWorld(_) => "Target the world `plugin` of the package cyberos:plugin@1.0.0 and export `tools`.",
            Why::NoAnswer { .. } => {
                "List what the component offers from constants: no host function, no file, no network."
            }
            _ => "Correct what the sentence names.",
        };
        findings.error(COMPONENT, said(why), fix);
    }
    let uses = |package: &str| examined.imports.iter().any(|import| import.name.starts_with(package));
    if uses("wasi:filesystem/preopens") {
        findings.note(
            COMPONENT,
            "It can open files, and there are none unless a directory is granted",
            "Ask for `directories` in grants.toml if it needs one; language runtimes import this in any case.",
        );
    }
    if uses("wasi:sockets/tcp") || uses("wasi:sockets/udp") {
        findings.note(
            COMPONENT,
            "It imports sockets, which reach no address whatever is granted",
            "Use http-fetch or wasi:http for services; language runtimes import this in any case.",
        );
    }
    if bytes > LARGE {
        findings.note(
            COMPONENT,
            format!("It has {} MiB", bytes >> 20),
            "Strip it and optimise it for size; `jco opt` runs wasm-opt on components.",
        );
    }
    if examined.describing.fuel > Examination::DESCRIBE_FUEL / 2 {
        findings.warn(
            COMPONENT,
            format!(
                "Listing its tools takes {} of the {} units of fuel that it may take",
                examined.describing.fuel,
                Examination::DESCRIBE_FUEL
            ),
            "List them from constants, without starting up what only calls need.",
        );
    }
}
