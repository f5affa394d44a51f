//! What may not be served is refused when the bridge starts, in words that tell the operator what to do; the rest is
//! served.

use bridge_tests::{Bridge, Setup};
use serde_json::json;
use std::fs;
use std::path::PathBuf;

/// Each component of `tests/components/refused`, the word that metrics count it under, and what the log must say.
const REFUSED: &[(&str, &str, &[&str])] = &[
    ("asks_ungranted", "not_granted", &["cyberos:plugin/spawn-cuo@1.0.0", "`cuo = true`", "plugins.toml"]),
    ("imports_unknown", "not_offered", &["test:vault/vault@1.0.0", "does not offer"]),
    ("wrong_world", "wrong_world", &["exports neither cyberos:plugin/tools@1.0.0", "it exports no function"]),
    ("list_traps", "no_tools", &["list-tools did not answer", "unreachable"]),
    ("list_spins", "no_tools", &["list-tools did not answer", "fuel"]),
    ("list_sleeps", "no_tools", &["list-tools did not answer", "longer than five seconds"]),
    ("list_calls_host", "no_tools", &["list-tools did not answer", "host call limit"]),
    ("lists_nothing", "bad_tool", &["declares 0 tools"]),
    ("lists_too_many", "bad_tool", &["declares 65 tools"]),
    ("lists_twice", "bad_tool", &["twice"]),
    ("lists_look_alikes", "bad_tool", &["notes.delete_all and notes_delete.all", "one name with underscores"]),
    ("lists_long_name", "bad_tool", &["not 1 to 64 characters"]),
    ("lists_bad_name", "bad_tool", &["not 1 to 64 characters"]),
    ("lists_foreign_name", "bad_tool", &["deleteNote", "`any_tool_name = true`"]),
    ("lists_empty_title", "bad_tool", &["title is not 1 to 80 characters"]),
    ("lists_short_description", "bad_tool", &["description is not 30 to 2000 characters"]),
    ("lists_hidden_characters", "bad_tool", &["invisible characters"]),
    ("lists_hidden_title", "bad_tool", &["invisible characters"]),
    ("lists_look_alike_letters", "bad_tool", &["not 1 to 64 characters"]),
    ("lists_thousands", "bad_tool", &["declares 5000 tools"]),
    ("lists_schema_cyclic", "bad_tool", &["inputSchema", "refers to itself without end"]),
    ("lists_schema_multiplies", "bad_tool", &["inputSchema", "can ask too much of one value"]),
    ("lists_shadow", "name_taken", &["tool cyberos.fixture.echo would shadow", "of plugin fixture-echo"]),
    ("lists_schema_not_json", "bad_tool", &["inputSchema"]),
    ("lists_schema_not_object", "bad_tool", &["inputSchema"]),
    ("lists_schema_impossible", "bad_tool", &["inputSchema"]),
    ("lists_schema_remote", "bad_tool", &["inputSchema"]),
    ("lists_contradiction", "bad_tool", &["read-only"]),
    ("lists_script_icon", "bad_tool", &["icons"]),
];

/// The same for what is offered beside tools.
const REFUSED_OFFERS: &[(&str, &str, &[&str])] = &[
    ("prompt_foreign_name", "bad_offer", &["prompt name review", "`any_tool_name = true`"]),
    ("prompt_bad_name", "bad_offer", &["two words", "not 1 to 64 characters"]),
    ("prompts_too_many", "bad_offer", &["declares 5000 prompts"]),
    ("resources_too_many", "bad_offer", &["declares 5000 resources"]),
    ("prompt_http_icon", "bad_offer", &["cyberos.test.prompt", "icons", "https"]),
    ("resource_relative", "bad_offer", &["/etc/passwd", "no absolute URI"]),
    ("resource_https", "bad_offer", &["https://example.com/", "the scheme https is not served"]),
    ("template_reserved", "bad_offer", &["{+path}", "level 1"]),
    ("template_ambiguous", "bad_offer", &["needs text before {b}"]),
    ("template_any_scheme", "bad_offer", &["does not start with a scheme"]),
];

/// A file that is served as a component, in the directory of `Setup::guests`.
pub fn put(setup: &Setup, name: &str, bytes: Vec<u8>) {
    fs::write(setup.home().join("plugins").join(name), bytes).unwrap();
}

pub fn built(path: &str) -> Vec<u8> {
    let path = bridge_tests::setup::target().join("plugins/wasm32-wasip2/component").join(path);
    fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}; run `make guests`", path.display()))
}

#[tokio::test]
async fn what_may_not_be_served_is_refused_with_its_reason() {
    refused(REFUSED, &["not_granted", "not_offered", "wrong_world", "no_tools", "bad_tool", "name_taken"]).await;
}

#[tokio::test]
async fn an_offer_that_may_not_be_served_is_refused_with_its_reason() {
    refused(REFUSED_OFFERS, &["bad_offer"]).await;
}

async fn refused(components: &[(&str, &str, &[&str])], words: &[&str]) {
    // given: a good component among them
    let setup = Bridge::http().guests(&["fixture_echo"], "[plugins.lists-look-alikes]\nany_tool_name = true\n");
    for (component, _, _) in components {
        put(&setup, &format!("{component}.wasm"), built(&format!("examples/{component}.wasm")));
    }
    // when
    let bridge = setup.start().await;
    // then
    for (component, _, says) in components {
        let line = bridge.logged(&format!("plugin {}: ", component.replace('_', "-"))).await;
        for text in *says {
            assert!(line.contains(text), "{component}: {text:?} is not said in {line}");
        }
    }
    let metrics = bridge.get("/metrics").await.text;
    for word in words {
        let expected = components.iter().filter(|(_, why, _)| why == word).count();
        let counted = metrics.lines().find(|line| {
            line.starts_with("cyberos_bridge_plugins_rejected_total") && line.contains(&format!("why=\"{word}\""))
        });
        let counted = counted.unwrap_or_else(|| panic!("{word} is not counted:\n{metrics}"));
        assert!(counted.ends_with(&format!(" {expected}")), "{counted}, not {expected}");
    }
    assert_eq!(bridge.get("/readyz").await.status, 200, "the rest is served");
    let alice = bridge.caller("alice");
    alice.call("cyberos.fixture.echo", json!({ "text": "still here" })).await.structured();
    let list = alice.list().await;
    assert_eq!(list.result()["tools"].as_array().unwrap().len(), 9, "the eight and the good one");
}

#[tokio::test]
async fn what_the_refusal_asks_for_makes_a_component_load() {
    let grants = "[plugins.asks-ungranted]\ncuo = true\n[plugins.lists-foreign-name]\nany_tool_name = true\n";
    let setup = Bridge::stdio().guests(&[], grants);
    put(&setup, "asks_ungranted.wasm", built("examples/asks_ungranted.wasm"));
    put(&setup, "lists_foreign_name.wasm", built("examples/lists_foreign_name.wasm"));
    let bridge = setup.start().await;
    let alice = bridge.caller("alice");
    let personas = alice.call("cyberos.test.asks_ungranted", json!({})).await;
    assert!(personas.result()["structuredContent"].is_object(), "{personas:?}");
    let list = alice.list().await;
    assert!(list.result()["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == "deleteNote"));
}

#[tokio::test]
async fn what_is_no_component_is_refused_whatever_its_name() {
    // given: code that this very host compiled, which it would load from its own cache
    let setup = Bridge::stdio().guests(&["fixture_echo"], "");
    let first = setup.start().await;
    first.caller("alice").call("cyberos.fixture.echo", json!({ "text": "x" })).await.structured();
    first.kill().await;
    let compiled = files(setup.state_dir().join("compiled"), "cwasm").pop().expect("compiled code in the cache");
    let libraries = bridge_tests::bridge_binary().parent().unwrap().join("deps");
    let library = files(libraries, "so").pop().expect("the build left a native library");
    let component = built("fixture_echo.wasm");
    put(&setup, "compiled.wasm", fs::read(compiled).unwrap());
    put(&setup, "native.wasm", fs::read(library).unwrap());
    put(&setup, "core-module.wasm", b"\0asm\x01\0\0\0".to_vec());
    put(&setup, "truncated.wasm", component[..component.len() / 2].to_vec());
    put(&setup, "empty.wasm", vec![]);
    put(&setup, "text.wasm", b"(component)".to_vec());
    // when
    let bridge = setup.start().await;
    // then
    for name in ["compiled", "native", "core-module", "truncated", "empty", "text"] {
        let line = bridge.logged(&format!("plugin {name}: ")).await;
        assert!(line.contains("it is not a WebAssembly component"), "{line}");
        assert!(line.contains("wasm32-wasip2"), "it says how to make one: {line}");
    }
    bridge.caller("alice").call("cyberos.fixture.echo", json!({ "text": "still here" })).await.structured();
}

fn files(directory: PathBuf, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|e| e == extension)).collect()
}

#[tokio::test]
async fn what_another_plugin_offers_cannot_be_taken() {
    // given: components whose one good prompt, resource or template is there already
    let taken = ["takes_prompt", "takes_resource", "takes_template"];
    let grants = taken.map(|name| format!("[plugins.{}]\nany_tool_name = true\n", name.replace('_', "-"))).concat();
    let offers = "[plugins.guest-offers]\nany_tool_name = true\nelicit = true\nsample = true\n";
    let setup = Bridge::stdio().guests(&["guest_offers"], &format!("{offers}{grants}"));
    for name in taken {
        put(&setup, &format!("{name}.wasm"), built(&format!("examples/{name}.wasm")));
    }
    // when
    let bridge = setup.start().await;
    // then: the newcomers are refused as a whole
    for name in taken {
        let line = bridge.logged(&format!("plugin {}: ", name.replace('_', "-"))).await;
        assert!(line.contains("is offered by plugin guest-offers"), "{line}");
    }
    let alice = bridge.caller("alice");
    alice.call("cyberos.test.takes_prompt", json!({})).await.assert_error("input_validation", "tool_not_found");
    alice.request("resources/read", json!({ "uri": "test://pixel" })).await.result();
}
