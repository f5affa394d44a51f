//! Which interfaces this host has for a component, and what is said about one that it has not: the interface, the version
//! that was found, the versions that are offered, and what to do.
//!
//! Source: `wit/`, WASI 0.2.12. Every patch level of WASI 0.2 is one to the linker.

use wasmtime::Engine;
use wasmtime::component::Component;
use wit_component::DecodedWasm;

use super::imports;
use super::plugin::{Why, may_say_updated};
use crate::config::Grants;

/// The newest patch level whose functions are all there.
const WASI: &str = "0.2.12";

/// Linked for every plugin. They reach nothing by themselves.
const WASI_PACKAGES: [(&str, &[&str]); 7] = [
    (
        "cli",
        &[
            "environment",
            "exit",
            "stderr",
            "stdin",
            "stdout",
            "terminal-input",
            "terminal-output",
            "terminal-stderr",
            "terminal-stdin",
            "terminal-stdout",
        ],
    ),
    ("clocks", &["monotonic-clock", "wall-clock"]),
    ("filesystem", &["preopens", "types"]),
    ("http", &["outgoing-handler", "types"]),
    ("io", &["error", "poll", "streams"]),
    ("random", &["insecure", "insecure-seed", "random"]),
    (
        "sockets",
        &["instance-network", "ip-name-lookup", "network", "tcp", "tcp-create-socket", "udp", "udp-create-socket"],
    ),
];

const OWN: [&str; 12] = [
    "types",
    "call-context",
    "progress",
    "log",
    "config",
    "http-fetch",
    "spawn-cuo",
    "audit-append",
    "audit-read",
    "elicit",
    "sample",
    "resource-updates",
];

/// Is every import there, and granted?
pub(super) fn check_imports(engine: &Engine, component: &Component, grants: &Grants) -> Result<(), Why> {
    for (import, _) in component.component_type().imports(engine) {
        let Some(own) = check_name(import)? else { continue };
        let granted = grants.allow_import(own, may_say_updated(engine, component, grants)).unwrap_or_default();
        if !granted {
            let grant = imports::missing_grant(own).expect("every interface that can be refused names its grant");
            return Err(Why::NotGranted { interface: import.to_owned(), grant });
        }
    }
    Ok(())
}

/// The name of one of our own interfaces, or `None` for one of WASI's; refuses what is not offered.
pub fn check_name(import: &str) -> Result<Option<&str>, Why> {
    let (path, version) = import.split_once('@').unwrap_or((import, "none"));
    let refuse = |offered: String, remedy: &str| {
        let (interface, found) = (import.to_owned(), version.to_owned());
        Err(Why::NotOffered { interface, found, offered, remedy: remedy.to_owned() })
    };
    let Some((package, interface)) = path.split_once('/') else {
        return refuse(all(), "It is a function or an interface without a package: put it into one that is offered.");
    };
    if package == "cyberos:plugin" {
        return match OWN.contains(&interface) {
            true if version == "1.0.0" => Ok(Some(interface)),
            true => refuse(
                format!("cyberos:plugin/{interface} in version 1.0.0"),
                "Build it against the WIT of this release, or serve it with the release that it was built for.",
            ),
            false => refuse(
                format!("cyberos:plugin@1.0.0 with {}", OWN.join(", ")),
                "Build it against the WIT of this release, without that import.",
            ),
        };
    }
    let Some(wasi) = package.strip_prefix("wasi:") else {
        return refuse(
            all(),
            "Build it without that import, or compose it with a component that exports it (`wac plug`).",
        );
    };
    let Some((_, interfaces)) = WASI_PACKAGES.iter().find(|(name, _)| *name == wasi) else {
        return refuse(
            all(),
            "Build it without that import. Services are reached over http-fetch or wasi:http, with an upstream granted.",
        );
    };
    if !interfaces.contains(&interface) {
        return refuse(
            format!("wasi:{wasi} in versions 0.2.0 to {WASI} with {}", interfaces.join(", ")),
            "Build it without that import.",
        );
    }
    let patch = version.strip_prefix("0.2.").unwrap_or_default();
    // A pre-release is compatible with nothing but itself.
    if patch.is_empty() || !patch.bytes().all(|byte| byte.is_ascii_digit()) {
        return refuse(
            format!("wasi:{wasi}/{interface} in versions 0.2.0 to {WASI}"),
            "Build it for WASI 0.2: `--target wasm32-wasip2` in Rust, the wasip2 or 0.2 setting of other toolchains.",
        );
    }
    Ok(None)
}

fn all() -> String {
    let wasi: Vec<String> = WASI_PACKAGES.iter().map(|(package, _)| format!("wasi:{package}")).collect();
    format!("cyberos:plugin/* in version 1.0.0, and of WASI in versions 0.2.0 to {WASI} {}", wasi.join(", "))
}

/// Why a component whose interfaces are there did not link: one lacks a function, or has it with another type.
pub(super) fn unlinked(error: &wasmtime::Error) -> Option<Why> {
    let texts: Vec<String> = error.chain().map(ToString::to_string).collect();
    let quoted = |text: &String| text.split('`').nth(1).map(str::to_owned);
    let import = texts.iter().find(|text| text.starts_with("component imports ")).and_then(quoted)?;
    let item = texts.iter().find(|text| text.starts_with("instance export ")).and_then(quoted);
    let (path, version) = import.split_once('@').unwrap_or((&import, "none"));
    let offered = match path.starts_with("wasi:") {
        true => format!("{path} as it is in versions 0.2.0 to {WASI}"),
        false => format!("{path} as it is in version 1.0.0"),
    };
    let of = item.map_or(String::new(), |item| format!("{item} of "));
    let why = texts.last().cloned().unwrap_or_default();
    Some(Why::NotOffered {
        interface: format!("{of}{import}"),
        found: version.to_owned(),
        offered,
        remedy: format!("Build it against one of these ({why})."),
    })
}

/// Why bytes did not compile as a component, when their imports tell more than the compiler's own words: a component for
/// a later WASI uses features that this engine does not have.
pub(super) fn uncompiled(wasm: &[u8], error: &wasmtime::Error) -> Why {
    // The header of a core module, where a component has version 13, layer 1. First, because one decodes as well, to a
    // component that asks for nothing.
    if wasm.starts_with(b"\0asm\x01\0\0\0") {
        let preview1 = b"wasi_snapshot_preview1";
        let imports = wasm.windows(preview1.len()).any(|window| window == preview1);
        let of = if imports { " for WASI 0.1, wasi_snapshot_preview1" } else { "" };
        return Why::NotAComponent(format!("it is a core module{of}"));
    }
    if let Ok(DecodedWasm::Component(resolve, world)) = wit_component::decode(wasm) {
        let imports = resolve.worlds[world].imports.keys().map(|key| resolve.name_world_key(key));
        let foreign = imports.into_iter().find_map(|import| check_name(&import).err());
        // Well-formed, and asking for nothing strange: it is larger, or newer, than what the engine was set up for.
        return foreign.unwrap_or_else(|| Why::NotRunnable(format!("{error:#}")));
    }
    if !wasm.starts_with(b"\0asm") {
        let start = String::from_utf8_lossy(&wasm[..wasm.len().min(16)]).escape_debug().to_string();
        return Why::NotAComponent(format!("it begins with \"{start}\""));
    }
    // The compiler's words may come in many lines.
    let said = format!("{error:#}");
    Why::NotAComponent(said.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(import: &str) -> String {
        check_name(import).unwrap_err().to_string()
    }

    #[test]
    fn every_patch_level_of_wasi_0_2_is_offered_and_no_other_version() {
        for version in ["0.2.0", "0.2.3", "0.2.12", "0.2.99"] {
            assert!(check_name(&format!("wasi:io/streams@{version}")).is_ok(), "{version}");
        }
        for version in ["0.1.0", "0.3.0", "1.0.0", "0.2.0-rc-2023-11-10", "0.2", "0.2.", "0.20.1"] {
            let said = refusal(&format!("wasi:io/streams@{version}"));
            let expected = format!(
                "wasi:io/streams@{version}, found in version {version}, which this host does not offer. It offers \
                 wasi:io/streams in versions 0.2.0 to 0.2.12."
            );
            assert!(said.contains(&expected) && said.contains("wasm32-wasip2"), "{said}");
        }
    }

    #[test]
    fn a_refusal_says_what_was_found_what_is_offered_and_what_to_do() {
        let said = refusal("wasi:http/incoming-handler@0.2.0");
        assert!(said.contains("wasi:http in versions 0.2.0 to 0.2.12 with outgoing-handler, types"), "{said}");
        let said = refusal("wasi:keyvalue/store@0.2.0-draft");
        assert!(said.contains("0.2.0-draft") && said.contains("wasi:cli, wasi:clocks"), "{said}");
        let said = refusal("cyberos:plugin/log@2.1.0");
        assert!(said.contains("2.1.0") && said.contains("cyberos:plugin/log in version 1.0.0"), "{said}");
        let said = refusal("cyberos:plugin/secrets@1.0.0");
        assert!(said.contains("call-context, progress, log"), "{said}");
        let said = refusal("greet");
        assert!(said.contains("found in version none"), "{said}");
        let said = refusal("acme:vault/vault@1.0.0");
        assert!(said.contains("wac plug"), "{said}");
    }

    #[test]
    fn every_interface_with_a_grant_is_offered() {
        for own in OWN {
            assert!(check_name(&format!("cyberos:plugin/{own}@1.0.0")).is_ok());
        }
    }
}
