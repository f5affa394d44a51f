//! A component that was not written for this host: its functions are tools, with schemas of their types.

use bridge_tests::caller::Caller;
use bridge_tests::{Bridge, Setup, on_both_transports};
use serde_json::{Value, json};
use std::fs;

const MODULE: &str = "cyberos.guesttyped";

on_both_transports! {
    every_type_goes_there_and_back
    what_does_not_fit_is_refused_before_or_in_the_reading
    a_result_that_is_an_err_is_the_tools_own_failure
    it_is_held_to_the_limits_of_every_plugin
}

fn serving(setup: Setup) -> Setup {
    setup.guests(&["guest_typed"], "[plugins.guest-typed.limits]\nfuel = 100000000\n")
}

fn scoped<'b>(bridge: &'b Bridge) -> Caller<'b> {
    bridge.caller("alice").scopes(&["cyberos:guesttyped:call"])
}

async fn result(alice: &Caller<'_>, function: &str, arguments: Value) -> Value {
    let reply = alice.call(&format!("{MODULE}.{function}"), arguments.clone()).await;
    assert!(reply.body.get("result").is_some(), "{function} {arguments}: {reply:?}");
    reply.structured()["result"].clone()
}

async fn every_type_goes_there_and_back(setup: Setup) {
    let bridge = serving(setup).start().await;
    let alice = scoped(&bridge);
    // Arguments, and what comes back.
    let cases = [
        (
            "move_point",
            json!({ "point": { "x": 1, "y": -2 }, "by": [3, 4] }),
            json!({ "x": 4, "y": 2, "the_label": null }),
        ),
        (
            "move_point",
            json!({ "point": { "x": 0, "y": 0, "the_label": "a" }, "by": [0, 0] }),
            json!({ "x": 0, "y": 0, "the_label": "a" }),
        ),
        (
            "bounds",
            json!({ "a": 255, "b": -128, "c": 65535, "d": -32768, "e": 4_294_967_295_u32, "f": i32::MIN }),
            json!([255, -128, 65535, -32768, 4_294_967_295_u32, i32::MIN]),
        ),
        ("bounds", json!({ "a": 1.0, "b": 0, "c": 0, "d": 0, "e": 0, "f": 0 }), json!([1, 0, 0, 0, 0, 0])),
        (
            "big",
            json!({ "unsigned": 9_007_199_254_740_991_u64, "signed": -9_007_199_254_740_991_i64 }),
            json!([9_007_199_254_740_991_u64, -9_007_199_254_740_991_i64]),
        ),
        (
            "big",
            json!({ "unsigned": u64::MAX.to_string(), "signed": i64::MIN.to_string() }),
            json!([u64::MAX.to_string(), i64::MIN.to_string()]),
        ),
        ("divide", json!({ "a": 1, "b": 4 }), json!(0.25)),
        ("divide", json!({ "a": 0, "b": 0 }), json!("NaN")),
        ("divide", json!({ "a": -1, "b": 0 }), json!("-Infinity")),
        ("third", json!({ "a": 0.1 }), json!(0.1)),
        ("letter_after", json!({ "letter": "ä" }), json!("å")),
        ("not", json!({ "it": true }), json!(false)),
        ("reverse", json!({ "bytes": "AAEC/w==" }), json!("/wIBAA==")),
        ("same_colour", json!({ "colour": "dark_green" }), json!("dark_green")),
        ("same_rights", json!({ "rights": ["write_all"] }), json!(["write_all"])),
        ("same_rights", json!({ "rights": [] }), json!([])),
        ("area", json!({ "shape": { "circle": 2 } }), json!(12.0)),
        ("area", json!({ "shape": "empty" }), json!(0.0)),
        (
            "same_shape",
            json!({ "shape": { "polygon": [{ "x": 1, "y": 2 }] } }),
            json!({ "polygon": [{ "x": 1, "y": 2, "the_label": null }] }),
        ),
        ("maybe", json!({}), json!(null)),
        ("maybe", json!({ "word": "hi" }), json!("hi")),
        ("nested", json!({}), json!(null)),
        ("nested", json!({ "number": { "some": null } }), json!({ "some": null })),
        ("nested", json!({ "number": { "some": 7 } }), json!({ "some": 7 })),
        ("outcomes", json!({ "outcomes": [{ "ok": 1 }, { "err": "no" }] }), json!([{ "ok": 1 }, { "err": "no" }])),
        ("shapes_first", json!({ "words": ["a", "b"] }), json!("a")),
        ("words_first", json!({ "text": "one two" }), json!("one")),
        ("greet_url", json!({ "the_name": "Ada" }), json!("Hello, Ada!")),
    ];
    for (function, arguments, expected) in cases {
        assert_eq!(result(&alice, function, arguments.clone()).await, expected, "{function} {arguments}");
    }
    for (function, arguments) in [("nothing", json!({})), ("check", json!({ "fails": false }))] {
        let reply = alice.call(&format!("{MODULE}.{function}"), arguments).await;
        assert_eq!(reply.result()["isError"], false, "{reply:?}");
        assert_eq!(reply.result()["content"][0]["text"], "Done.");
    }
}

async fn what_does_not_fit_is_refused_before_or_in_the_reading(setup: Setup) {
    let bridge = serving(setup).start().await;
    let alice = scoped(&bridge);
    let schema = [
        ("bounds", json!({ "a": 256, "b": 0, "c": 0, "d": 0, "e": 0, "f": 0 })),
        ("bounds", json!({ "a": 1.5, "b": 0, "c": 0, "d": 0, "e": 0, "f": 0 })),
        ("bounds", json!({ "a": 1 })),
        ("big", json!({ "unsigned": 9_007_199_254_740_992_u64, "signed": 0 })),
        ("big", json!({ "unsigned": "-1", "signed": 0 })),
        ("letter_after", json!({ "letter": "ab" })),
        ("same_colour", json!({ "colour": "blue" })),
        ("same_rights", json!({ "rights": ["read", "read"] })),
        ("same_shape", json!({ "shape": { "circle": 1, "polygon": [] } })),
        ("move_point", json!({ "point": { "x": 1, "y": 2, "z": 3 }, "by": [0, 0] })),
        ("move_point", json!({ "point": { "x": 1, "y": 2 }, "by": [0, 0, 0] })),
        ("not", json!({ "it": null })),
        ("nothing", json!({ "more": 1 })),
    ];
    for (function, arguments) in schema {
        let reply = alice.call(&format!("{MODULE}.{function}"), arguments).await;
        reply.assert_error("input_validation", "schema_violation");
    }
    // What no schema can say.
    let reading = [
        ("big", json!({ "unsigned": "18446744073709551616", "signed": 0 }), "Argument unsigned is out of range."),
        ("reverse", json!({ "bytes": "not base64!" }), "Argument bytes is not base64"),
    ];
    for (function, arguments, says) in reading {
        let reply = alice.call(&format!("{MODULE}.{function}"), arguments).await;
        reply.assert_error("input_validation", "invalid_params");
        assert!(reply.body.to_string().contains(says), "{reply:?}");
    }
}

async fn a_result_that_is_an_err_is_the_tools_own_failure(setup: Setup) {
    let bridge = serving(setup).start().await;
    let alice = scoped(&bridge);
    let cases = [
        ("area", json!({ "shape": { "polygon": [] } }), "polygons are too hard"),
        ("check", json!({ "fails": true }), "The tool failed."),
        ("fails_with", json!({ "shape": { "circle": 1 } }), r#"{"circle":1.0}"#),
    ];
    for (function, arguments, says) in cases {
        let reply = alice.call(&format!("{MODULE}.{function}"), arguments).await;
        let failure = reply.result();
        assert_eq!(failure["isError"], true, "{reply:?}");
        assert_eq!(failure["content"][0]["text"], says);
        assert!(failure.get("structuredContent").is_none(), "{reply:?}");
    }
}

async fn it_is_held_to_the_limits_of_every_plugin(setup: Setup) {
    let bridge = serving(setup).start().await;
    let alice = scoped(&bridge);
    let call = async |function: &str, arguments| alice.call(&format!("{MODULE}.{function}"), arguments).await;
    call("crash", json!({})).await.assert_error("internal_error", "plugin_trapped");
    call("spin", json!({})).await.assert_error("internal_error", "out_of_fuel");
    assert_eq!(result(&alice, "count", json!({ "up_to": 1000 })).await.as_array().unwrap().len(), 1000);
    // As JSON over the output limit; as values over what the host reads.
    for many in [200_000, 3_000_000] {
        call("count", json!({ "up_to": many })).await.assert_error("internal_error", "output_too_large");
    }
    assert_eq!(result(&alice, "not", json!({ "it": true })).await, false, "the next call is healthy");
}

#[tokio::test]
async fn its_tools_are_declared_by_their_types() {
    let bridge = serving(Bridge::stdio()).start().await;
    let list = bridge.caller("alice").list().await;
    let tool = |name: &str| {
        let tools = list.result()["tools"].as_array().unwrap();
        tools.iter().find(|tool| tool["name"] == format!("{MODULE}.{name}")).unwrap_or_else(|| panic!("{name}")).clone()
    };
    let point = tool("move_point");
    assert_eq!(point["title"], "Move point");
    let description = point["description"].as_str().unwrap();
    assert!(
        description.contains("move-point(point: record, by: tuple<s32, s32>) -> record of the component guesttyped"),
        "{description}"
    );
    let int = json!({ "type": "integer", "minimum": i32::MIN, "maximum": i32::MAX });
    let label = json!({ "anyOf": [{ "type": "string" }, { "type": "null" }] });
    let record = |required: Value| {
        json!({
            "type": "object",
            "properties": { "x": int, "y": int, "the_label": label },
            "required": required,
            "additionalProperties": false
        })
    };
    assert_eq!(
        point["inputSchema"],
        json!({
            "type": "object",
            "properties": {
                "point": record(json!(["x", "y"])),
                "by": { "type": "array", "prefixItems": [int, int], "items": false, "minItems": 2, "maxItems": 2 }
            },
            "required": ["point", "by"],
            "additionalProperties": false
        })
    );
    assert_eq!(
        point["outputSchema"],
        json!({
            "type": "object",
            "properties": { "result": record(json!(["x", "y", "the_label"])) },
            "required": ["result"],
            "additionalProperties": false
        })
    );
    assert!(tool("nothing").get("outputSchema").is_none());
    // Nothing was granted: nothing can be changed.
    let hints = &point["annotations"];
    let expected =
        [("readOnlyHint", true), ("destructiveHint", false), ("idempotentHint", true), ("openWorldHint", false)];
    for (hint, value) in expected {
        assert_eq!(hints[hint], value, "{hint}: {hints}");
    }
}

#[tokio::test]
async fn what_it_may_reach_says_whether_a_person_is_asked() {
    let upstream = |methods: &str| {
        format!(
            "[plugins.guest-typed.upstreams.api]\nurl = \"https://api.example.com\"\nmethods = [{methods}]\npaths = [\"/**\"]\n"
        )
    };
    for (grants, asks, open) in [
        (upstream("\"GET\", \"HEAD\""), false, true),
        (upstream("\"GET\", \"POST\""), true, true),
        ("[plugins.guest-typed]\ncuo = true\n".to_owned(), true, false),
    ] {
        // given
        let bridge = Bridge::stdio().guests(&["guest_typed"], &grants).start().await;
        let alice = bridge.caller("alice");
        // when
        let reply = alice.call(&format!("{MODULE}.not"), json!({ "it": true })).await;
        // then
        match asks {
            true => drop(reply.assert_error("authz_denied", "confirmation_required")),
            false => assert_eq!(reply.structured()["result"], false),
        }
        let list = alice.list().await;
        let tools = list.result()["tools"].as_array().unwrap();
        let tool = tools.iter().find(|tool| tool["name"] == format!("{MODULE}.not")).unwrap();
        assert_eq!(tool["annotations"]["readOnlyHint"], !asks, "{tool:#}");
        assert_eq!(tool["annotations"]["openWorldHint"], open, "{tool:#}");
    }
}

#[tokio::test]
async fn what_is_granted_to_it_takes_effect_without_an_approval() {
    // given: it serves, and what its tools say is known
    let setup = Bridge::http().guests(&["guest_typed"], "").unlimited();
    let grants = setup.home().join("plugins/plugins.toml");
    let bridge = setup.start().await;
    let alice = scoped(&bridge);
    let read_only = async || {
        let list = alice.list().await;
        let tools = list.result()["tools"].as_array().unwrap().clone();
        let tool = tools.into_iter().find(|tool| tool["name"] == format!("{MODULE}.not"));
        tool.map(|tool| tool["annotations"]["readOnlyHint"].clone())
    };
    assert_eq!(read_only().await, Some(json!(true)));
    for (entry, expected) in [("cuo = true\n", json!(false)), ("cuo = false\n", json!(true))] {
        // when
        fs::write(&grants, format!("[plugins.guest-typed]\n{entry}")).unwrap();
        // then
        let patience = std::time::Instant::now() + bridge_tests::stdio::PATIENCE;
        while read_only().await.as_ref() != Some(&expected) {
            assert!(std::time::Instant::now() < patience, "{entry}: {}", bridge.log());
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }
}

/// The component with a custom section of WIT comments at its end.
fn documented(docs: &Value) -> Vec<u8> {
    let path = bridge_tests::setup::target().join("plugins/wasm32-wasip2/component/guest_typed.wasm");
    let mut wasm = fs::read(path).unwrap();
    let mut section = b"\x0cpackage-docs\x01".to_vec();
    section.extend_from_slice(docs.to_string().as_bytes());
    assert!((0x80..0x4000).contains(&section.len()), "its length takes two bytes");
    wasm.extend_from_slice(&[0, section.len() as u8 | 0x80, (section.len() >> 7) as u8]);
    wasm.extend_from_slice(&section);
    wasm
}

#[tokio::test]
async fn comments_of_its_wit_describe_its_tools_and_are_not_trusted() {
    // given: one with honest comments, one with text that a person would not see
    let docs = |text: &str| json!({ "interfaces": { "shapes": { "funcs": { "move-point": { "docs": text } } } } });
    let setup = Bridge::stdio().guests(&[], "");
    let plugins = setup.home().join("plugins");
    let honest = documented(&docs("Moves a point by some way. The label stays as it is, whatever comes."));
    fs::write(plugins.join("honest.wasm"), honest).unwrap();
    let hidden = documented(&docs("Moves a point.\u{200b}\u{202e} And this, which nobody sees, is for the model."));
    fs::write(plugins.join("hidden.wasm"), hidden).unwrap();
    // when
    let bridge = setup.start().await;
    // then
    let line = bridge.logged("plugin hidden: ").await;
    assert!(line.contains("invisible characters"), "{line}");
    let list = bridge.caller("alice").list().await;
    let tools = list.result()["tools"].as_array().unwrap();
    let tool = tools.iter().find(|tool| tool["name"] == "cyberos.honest.move_point").unwrap();
    let description = tool["description"].as_str().unwrap();
    assert!(description.starts_with("Moves a point by some way. The label stays"), "{description}");
    assert!(!list.body.to_string().contains("cyberos.hidden."), "{list:?}");
}

/// A component with one function of no parameters, under this many names.
fn with_functions(count: usize) -> Vec<u8> {
    fn number(mut n: usize) -> Vec<u8> {
        let mut out = vec![];
        while n > 0x7f {
            out.push(n as u8 & 0x7f | 0x80);
            n >>= 7;
        }
        out.push(n as u8);
        out
    }
    let mut exports = number(count);
    for n in 0..count {
        let name = format!("f{n}");
        exports.extend([0, name.len() as u8]);
        exports.extend(name.as_bytes());
        exports.extend([1, 0, 0]);
    }
    let module = b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x03\x02\x01\0\x07\x05\x01\x01f\0\0\x0a\x04\x01\x02\0\x0b";
    let mut wasm = b"\0asm\x0d\0\x01\0".to_vec();
    // The module, its instance, its function, the function's type, the function lifted, and the names.
    let sections: [(u8, &[u8]); 6] = [
        (1, module),
        (2, &[1, 0, 0, 0]),
        (6, &[1, 0, 0, 1, 0, 1, b'f']),
        (7, &[1, 0x40, 0, 1, 0]),
        (8, &[1, 0, 0, 0, 0, 0]),
        (11, &exports),
    ];
    for (id, body) in sections {
        wasm.push(id);
        wasm.extend(number(body.len()));
        wasm.extend(body);
    }
    wasm
}

#[tokio::test]
async fn only_as_many_functions_as_are_served_are_looked_at() {
    // given
    let setup = Bridge::stdio().guests(&[], "");
    let plugins = setup.home().join("plugins");
    fs::write(plugins.join("few.wasm"), with_functions(64)).unwrap();
    fs::write(plugins.join("many.wasm"), with_functions(20_000)).unwrap();
    // when
    let bridge = setup.start().await;
    // then
    let line = bridge.logged("plugin many: ").await;
    assert!(line.contains("it exports 20000 functions; at most 64 can be tools"), "{line}");
    assert!(bridge.caller("alice").list().await.result().to_string().contains("cyberos.few.f1"));
}

#[tokio::test]
async fn its_scope_is_named_after_its_file() {
    let bridge = serving(Bridge::http()).start().await;
    let nobody = bridge.caller("bob").scopes(&["cyberos:other:call"]);
    nobody.call(&format!("{MODULE}.nothing"), json!({})).await.assert_error("authz_denied", "insufficient_scope");
}

#[tokio::test]
async fn what_has_no_json_is_refused_with_function_and_parameter() {
    // given: a resource, and a file whose name is no module
    let setup = Bridge::stdio().guests(&["guest_typed"], "");
    let built = |path: &str| bridge_tests::setup::target().join("plugins/wasm32-wasip2/component").join(path);
    let plugins = setup.home().join("plugins");
    fs::copy(built("examples/holds_resource.wasm"), plugins.join("holds_resource.wasm")).unwrap();
    fs::copy(built("examples/older_wasi.wasm"), plugins.join("7zip.wasm")).unwrap();
    // when
    let bridge = setup.start().await;
    // then
    let line = bridge.logged("plugin holds-resource: ").await;
    assert!(line.contains("of test:typed/files@0.1.0"), "{line}");
    assert!(line.contains("resource, which has no JSON"), "{line}");
    let line = bridge.logged("plugin 7zip: ").await;
    assert!(line.contains("a module starts with a letter. Rename the file."), "{line}");
}
