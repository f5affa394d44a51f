//! A component built for any patch level of WASI 0.2 is served; what is missing is refused with the interface, the version
//! that was found, the versions that are offered, and what to do.

use bridge_tests::{Bridge, Setup};
use serde_json::json;
use std::fs;

/// Each component of `tests/components/typed` that must not load, and what the log must say.
const REFUSED: &[(&str, &[&str])] = &[
    (
        "wasi_0_3",
        &[
            "wasi:random/random@0.3.0, found in version 0.3.0",
            "offers wasi:random/random in versions 0.2.0 to 0.2.12",
            "wasm32-wasip2",
        ],
    ),
    (
        "late_functions",
        &[
            "get-random-dice of wasi:random/random@0.2.99, found in version 0.2.99",
            "offers wasi:random/random as it is in versions 0.2.0 to 0.2.12",
            "function implementation is missing",
        ],
    ),
    (
        "own_newer",
        &[
            "cyberos:plugin/log@2.1.0, found in version 2.1.0",
            "offers cyberos:plugin/log in version 1.0.0",
            "WIT of this release",
        ],
    ),
    (
        "wasi_unheard_of",
        &[
            "wasi:keyvalue/store@0.2.0-draft2, found in version 0.2.0-draft2",
            "wasi:cli, wasi:clocks",
            "without that import",
        ],
    ),
];

fn serving(setup: Setup, components: &[&str]) -> Setup {
    let examples: Vec<String> = components.iter().map(|name| format!("examples/{name}")).collect();
    setup.guests(&examples.iter().map(String::as_str).collect::<Vec<_>>(), "")
}

#[tokio::test]
async fn components_of_older_and_newer_patch_levels_of_wasi_run() {
    let bridge = serving(Bridge::stdio(), &["older_wasi", "newer_wasi"]).start().await;
    let alice = bridge.caller("alice");
    for module in ["olderwasi", "newerwasi"] {
        let reply = alice.call(&format!("cyberos.{module}.pick"), json!({})).await;
        assert!(reply.structured()["result"].is_boolean(), "{reply:?}");
    }
}

#[tokio::test]
async fn what_is_missing_is_named_with_its_version_those_offered_and_the_remedy() {
    // given: a good one among them
    let setup = Bridge::http().guests(&["examples/older_wasi"], "");
    for (component, _) in REFUSED {
        let built =
            bridge_tests::setup::target().join(format!("plugins/wasm32-wasip2/component/examples/{component}.wasm"));
        fs::copy(built, setup.home().join(format!("plugins/{component}.wasm"))).unwrap();
    }
    // when
    let bridge = setup.start().await;
    // then
    for (component, says) in REFUSED {
        let line = bridge.logged(&format!("plugin {}: ", component.replace('_', "-"))).await;
        for text in *says {
            assert!(line.contains(text), "{component}: {text:?} is not said in {line}");
        }
    }
    let metrics = bridge.get("/metrics").await.text;
    let counted = metrics.lines().find(|line| line.contains("plugins_rejected_total") && line.contains("not_offered"));
    assert!(counted.is_some_and(|line| line.ends_with(&format!(" {}", REFUSED.len()))), "{counted:?}");
    bridge
        .caller("alice")
        .scopes(&["cyberos:olderwasi:call"])
        .call("cyberos.olderwasi.pick", json!({}))
        .await
        .structured();
}

#[tokio::test]
async fn a_core_module_for_wasi_0_1_is_told_how_to_become_a_component() {
    // given: a module that imports one function of `wasi_snapshot_preview1`
    let setup = Bridge::stdio().guests(&["examples/older_wasi"], "");
    let mut module = b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x02\x22\x01\x16wasi_snapshot_preview1".to_vec();
    module.extend_from_slice(b"\x08fd_write\0\0");
    fs::write(setup.home().join("plugins/module.wasm"), module).unwrap();
    // when
    let bridge = setup.start().await;
    // then
    let line = bridge.logged("plugin module: ").await;
    for text in ["it is a core module for WASI 0.1, wasi_snapshot_preview1", "wasm-tools component new", "--adapt"] {
        assert!(line.contains(text), "{text:?} is not said in {line}");
    }
}
