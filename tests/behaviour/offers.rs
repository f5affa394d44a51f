//! Prompts, resources, templates and completions of a plugin: what is listed, what is got, what is refused.

use bridge_tests::caller::Caller;
use bridge_tests::{Bridge, Reply, Setup, on_both_transports, root};
use serde_json::{Value, json};
use std::fs;

const GRANTS: &str = "[plugins.guest-offers]\nany_tool_name = true\nelicit = true\nsample = true\n";

on_both_transports! {
    a_prompt_is_listed_and_got
    prompt_arguments_are_checked_before_the_plugin_runs
    resources_are_listed_and_read
    what_is_read_by_template_comes_from_the_most_specific_one
    completions_come_from_the_plugin_that_offers_them
    what_goes_wrong_in_the_plugin_has_its_reason
    cursors_are_bound_to_their_list
    schemas_icons_and_meta_reach_clients_as_they_were_written
    a_client_that_cannot_be_asked_is_an_answer
}

async fn offering(setup: Setup) -> Bridge {
    setup.guests(&["guest_offers"], GRANTS).start().await
}

fn named<'a>(reply: &'a Reply, list: &str, key: &str, name: &str) -> &'a Value {
    let all = reply.result()[list].as_array().unwrap_or_else(|| panic!("{list} in {:#}", reply.result()));
    all.iter().find(|one| one[key] == name).unwrap_or_else(|| panic!("{name} in {all:#?}"))
}

async fn ask(caller: &Caller<'_>, method: &str, params: Value) -> Reply {
    caller.request(method, params).await
}

async fn a_prompt_is_listed_and_got(setup: Setup) {
    // given
    let bridge = offering(setup).await;
    let alice = bridge.caller("alice");
    let capabilities = alice.initialize().await.result()["capabilities"].clone();
    assert!(capabilities["prompts"].is_object(), "{capabilities:#}");
    // when
    let list = ask(&alice, "prompts/list", json!({})).await;
    // then
    let expected = json!({
        "name": "test.review",
        "title": "Review code",
        "description": "Asks for a review of code in some language.",
        "icons": [{
            "src": "https://example.com/review.png", "mimeType": "image/png", "sizes": ["48x48"], "theme": "dark",
        }],
        "_meta": { "com.example/kind": "review" },
        "arguments": [
            { "name": "language", "description": "Programming language.", "required": true },
            { "name": "tone", "description": "How strict to be.", "required": false },
        ],
    });
    assert_eq!(*named(&list, "prompts", "name", "test.review"), expected);
    // and
    let arguments = json!({ "language": "Rust", "tone": "strict" });
    let got = ask(&alice, "prompts/get", json!({ "name": "test.review", "arguments": arguments })).await;
    let expected = json!({
        "description": "A strict review",
        "messages": [
            { "role": "user", "content": { "type": "text", "text": "Review this Rust code, and be strict." } },
            { "role": "assistant", "content": { "type": "text", "text": "Show me the code." } },
        ],
        "_meta": { "com.example/made": true },
    });
    assert_eq!(*got.result(), expected);
    // and: every kind of content
    let got = ask(&alice, "prompts/get", json!({ "name": "test.every_kind" })).await;
    let kinds: Vec<&Value> =
        got.result()["messages"].as_array().unwrap().iter().map(|m| &m["content"]["type"]).collect();
    assert_eq!(kinds, ["text", "image", "audio", "resource_link", "resource", "resource"]);
}

async fn prompt_arguments_are_checked_before_the_plugin_runs(setup: Setup) {
    let bridge = offering(setup).await;
    let alice = bridge.caller("alice");
    let get = async |arguments: Value| {
        ask(&alice, "prompts/get", json!({ "name": "test.review", "arguments": arguments })).await
    };
    for (arguments, pointer) in [
        (json!({}), "/arguments/language"),
        (json!({ "language": 7 }), "/arguments/language"),
        (json!({ "language": null }), "/arguments/language"),
        (json!({ "language": "Rust", "made/up": "x" }), "/arguments/made~1up"),
        (json!({ "language": "x".repeat(17 << 10) }), "/arguments/language"),
    ] {
        let data = get(arguments).await.assert_code(-32602).assert_error("input_validation", "invalid_params").clone();
        assert_eq!(data["pointer"], pointer, "{data:?}");
    }
    for params in [json!({}), json!({ "name": 7 }), json!({ "name": "test.review", "arguments": [] })] {
        let reply = ask(&alice, "prompts/get", params).await;
        reply.assert_code(-32602).assert_error("input_validation", "invalid_params");
    }
    let reply = ask(&alice, "prompts/get", json!({ "name": "test.unknown" })).await;
    reply.assert_code(-32602).assert_error("input_validation", "prompt_not_found");
}

async fn resources_are_listed_and_read(setup: Setup) {
    // given
    let bridge = offering(setup).await;
    let alice = bridge.caller("alice");
    let capabilities = alice.initialize().await.result()["capabilities"].clone();
    assert!(capabilities["resources"].is_object(), "{capabilities:#}");
    // when
    let list = ask(&alice, "resources/list", json!({})).await;
    // then
    let expected = json!({
        "name": "readme",
        "title": "Read me",
        "description": "Two documents under one URI.",
        "_meta": { "com.example/x": 1 },
        "uri": "test://docs/readme",
        "mimeType": "text/markdown",
        "size": 7,
        "annotations": {
            "audience": ["user", "assistant"], "priority": 0.5, "lastModified": "2025-11-25T00:00:00Z",
        },
    });
    assert_eq!(*named(&list, "resources", "uri", "test://docs/readme"), expected);
    // and: text, in two parts
    let read = ask(&alice, "resources/read", json!({ "uri": "test://docs/readme" })).await;
    let expected = json!({
        "contents": [
            {
                "uri": "test://docs/readme", "mimeType": "text/markdown", "text": "# Hello",
                "_meta": { "com.example/y": 2 },
            },
            { "uri": "test://docs/readme/more", "mimeType": "text/markdown", "text": "More." },
        ],
        "_meta": { "com.example/z": 3 },
    });
    assert_eq!(*read.result(), expected);
    // and: bytes, in base64
    let read = ask(&alice, "resources/read", json!({ "uri": "test://pixel" })).await;
    let expected = json!({ "contents": [{ "uri": "test://pixel", "mimeType": "image/png", "blob": "iVBOR/8=" }] });
    assert_eq!(*read.result(), expected);
    // and
    for uri in ["test://docs/readme/", "test://nothing", "file:///etc/passwd", "", "not a uri", "TEST://pixel"] {
        let reply = ask(&alice, "resources/read", json!({ "uri": uri })).await;
        let data = reply.assert_code(-32002).assert_error("input_validation", "resource_not_found");
        assert_eq!(data["uri"], uri);
    }
    for params in [json!({}), json!({ "uri": 7 })] {
        let reply = ask(&alice, "resources/read", params).await;
        reply.assert_code(-32602).assert_error("input_validation", "invalid_params");
    }
}

async fn what_is_read_by_template_comes_from_the_most_specific_one(setup: Setup) {
    // given
    let bridge = offering(setup).await;
    let alice = bridge.caller("alice");
    let list = ask(&alice, "resources/templates/list", json!({})).await;
    let expected = json!({
        "name": "note",
        "title": "A note",
        "description": "A note in a folder, by name.",
        "uriTemplate": "test://notes/{folder}/{note}",
        "mimeType": "text/plain",
    });
    assert_eq!(*named(&list, "resourceTemplates", "uriTemplate", "test://notes/{folder}/{note}"), expected);
    // then
    for (uri, text) in [
        ("test://notes/work/7", "folder=work note=7"),
        ("test://notes/a%2Fb/caf%C3%A9", "folder=a/b note=café"),
        ("test://notes/drafts/7", "draft=7"),
    ] {
        let read = ask(&alice, "resources/read", json!({ "uri": uri })).await;
        let expected = json!({ "contents": [{ "uri": uri, "mimeType": "text/plain", "text": text }] });
        assert_eq!(*read.result(), expected);
    }
    // and: a URI that fits, with nothing there, is as unknown as one that does not fit
    for uri in ["test://notes/work/missing", "test://notes/work/", "test://notes/a/b/c", "test://notes/%ff/a"] {
        let reply = ask(&alice, "resources/read", json!({ "uri": uri })).await;
        let data = reply.assert_code(-32002).assert_error("input_validation", "resource_not_found");
        assert_eq!(data["uri"], uri);
    }
}

async fn completions_come_from_the_plugin_that_offers_them(setup: Setup) {
    let bridge = offering(setup).await;
    let alice = bridge.caller("alice");
    assert!(alice.initialize().await.result()["capabilities"]["completions"].is_object());
    let prompt = |name: &str| json!({ "type": "ref/prompt", "name": name });
    let resource = |uri: &str| json!({ "type": "ref/resource", "uri": uri });
    let complete = async |reference: Value, argument: &str, value: &str, context: Value| {
        let argument = json!({ "name": argument, "value": value });
        let params = json!({ "ref": reference, "argument": argument, "context": context });
        ask(&alice, "completion/complete", params).await
    };
    // A prompt's argument.
    let reply = complete(prompt("test.review"), "language", "p", Value::Null).await;
    let expected = json!({ "values": ["python", "pascal", "perl"], "hasMore": false, "total": 3 });
    assert_eq!(reply.result()["completion"], expected);
    // Never more than a hundred, and what was chosen before matters.
    let context = json!({ "arguments": { "language": "rust", "undeclared": "x" } });
    let reply = complete(prompt("test.review"), "tone", "", context).await;
    let completion = &reply.result()["completion"];
    assert_eq!(completion["values"].as_array().unwrap().len(), 100);
    assert_eq!(
        (&completion["values"][0], &completion["total"], &completion["hasMore"]),
        (&json!("rust 0"), &json!(150), &json!(true))
    );
    // A template's variable.
    let context = json!({ "arguments": { "folder": "work" } });
    let reply = complete(resource("test://notes/{folder}/{note}"), "note", "a", context).await;
    assert_eq!(reply.result()["completion"]["values"], json!(["note:a:work"]));
    // It has prompts without completions, too.
    let reply = complete(prompt("test.empty"), "fails", "x", Value::Null).await;
    assert_eq!(reply.result()["completion"]["values"], json!([]));

    for (reference, argument, reason) in [
        (prompt("test.unknown"), "x", "prompt_not_found"),
        (prompt("test.review"), "made_up", "invalid_params"),
        (resource("test://notes/{other}"), "other", "invalid_params"),
        (resource("test://docs/readme"), "x", "invalid_params"),
        (resource("test://notes/{folder}/{note}"), "other", "invalid_params"),
        (json!({ "type": "ref/tool", "name": "x" }), "x", "invalid_params"),
        (json!({ "type": "ref/prompt" }), "x", "invalid_params"),
    ] {
        let reply = complete(reference, argument, "", Value::Null).await;
        reply.assert_code(-32602).assert_error("input_validation", reason);
    }
    let context = json!({ "arguments": { "language": 7 } });
    complete(prompt("test.review"), "tone", "", context).await.assert_code(-32602);
    let long = "x".repeat(1_025);
    complete(prompt("test.review"), "tone", &long, Value::Null).await.assert_code(-32602);
    ask(&alice, "completion/complete", json!({ "ref": prompt("test.review") })).await.assert_code(-32602);
}

async fn what_goes_wrong_in_the_plugin_has_its_reason(setup: Setup) {
    let bridge = offering(setup).await;
    let alice = bridge.caller("alice");
    let get =
        async |fails: Value| ask(&alice, "prompts/get", json!({ "name": "test.empty", "arguments": fails })).await;
    get(json!({})).await.assert_code(-32603).assert_error("internal_error", "invalid_result");
    get(json!({ "fails": "panic" })).await.assert_code(-32603).assert_error("internal_error", "plugin_trapped");
    get(json!({ "fails": "huge" })).await.assert_code(-32603).assert_error("internal_error", "output_too_large");
    let reply = get(json!({ "fails": "not you" })).await;
    reply.assert_code(-32000).assert_error("authz_denied", "tool_denied");
    let read = async |uri: &str| ask(&alice, "resources/read", json!({ "uri": uri })).await;
    read("test://broken").await.assert_code(-32603).assert_error("internal_error", "plugin_trapped");
    // A resource answers for itself alone, whatever its plugin says.
    read("test://astray").await.assert_code(-32603).assert_error("internal_error", "invalid_result");
    // The next call is healthy.
    read("test://pixel").await.result();
}

async fn cursors_are_bound_to_their_list(setup: Setup) {
    // given: more resources than a page holds
    let bridge = setup
        .guests(
            &["guest_offers", "guest_lists_many"],
            &format!("{GRANTS}[plugins.guest-lists-many]\nany_tool_name = true\n"),
        )
        .start()
        .await;
    let alice = bridge.caller("alice");
    // when: the list is walked to its end
    let (mut uris, mut cursor, mut pages) = (vec![], None::<Value>, vec![]);
    loop {
        let params = cursor.take().map_or(json!({}), |cursor| json!({ "cursor": cursor }));
        let reply = ask(&alice, "resources/list", params).await;
        let page = reply.result()["resources"].as_array().unwrap();
        pages.push(page.len());
        uris.extend(page.iter().map(|resource| resource["uri"].as_str().unwrap().to_owned()));
        match reply.result().get("nextCursor") {
            Some(next) => cursor = Some(next.clone()),
            None => break,
        }
        // then: its cursors are no other list's
        let next = reply.result()["nextCursor"].clone();
        for other in ["tools/list", "prompts/list", "resources/templates/list"] {
            let reply = ask(&alice, other, json!({ "cursor": next })).await;
            reply.assert_code(-32602).assert_error("input_validation", "bad_cursor");
        }
    }
    // One of the five others needs a scope, which the local user has.
    let rest = if bridge.is_stdio() { 5 } else { 4 };
    assert_eq!(pages, [100, 100, rest]);
    uris.sort_unstable();
    uris.dedup();
    assert_eq!(uris.len(), 200 + rest, "each once");
    for list in ["prompts/list", "resources/list", "resources/templates/list"] {
        for bad in ["nonsense", "", "cmVzb3VyY2VzOjk5OQ", "cmVzb3VyY2VzOi0x"] {
            let reply = ask(&alice, list, json!({ "cursor": bad })).await;
            reply.assert_code(-32602).assert_error("input_validation", "bad_cursor");
        }
        ask(&alice, list, json!({ "cursor": 7 })).await.assert_code(-32602);
    }
}

async fn schemas_icons_and_meta_reach_clients_as_they_were_written(setup: Setup) {
    let bridge = offering(setup).await;
    let alice = bridge.caller("alice");
    let list = alice.list().await;
    for (tool, file) in [("test.schema_2020", "schema_2020.json"), ("test.schema_draft07", "schema_draft07.json")] {
        let written = fs::read_to_string(root().join("tests/components/offers/src").join(file)).unwrap();
        let written: Value = serde_json::from_str(&written).unwrap();
        let listed = named(&list, "tools", "name", tool);
        // As text, so that the order of members counts.
        assert_eq!(listed["inputSchema"].to_string(), written.to_string());
        assert_eq!(listed["icons"], json!([{ "src": "data:image/png;base64,iVBORw0KGgo=" }]));
        assert_eq!(listed["_meta"], json!({ "com.example/x": 1 }));
    }
    // And they are checked in their own dialect.
    for (tool, arguments, fits) in [
        ("test.schema_2020", json!({ "street": "ab" }), true),
        ("test.schema_2020", json!({ "street": "a" }), false),
        ("test.schema_2020", json!({ "street": "ab", "country": "NL" }), false),
        ("test.schema_2020", json!({ "street": "ab", "country": "NL", "postcode": "1234 AB" }), true),
        ("test.schema_2020", json!({ "street": "ab", "pair": [1, "x", 2] }), false),
        ("test.schema_2020", json!({ "street": "ab", "other": 1 }), false),
        ("test.schema_draft07", json!({ "word": "ok" }), true),
        ("test.schema_draft07", json!({ "word": "Not" }), false),
        ("test.schema_draft07", json!({ "also": 1 }), false),
    ] {
        let reply = alice.call(tool, arguments.clone()).await;
        if fits {
            let heard: Value = serde_json::from_str(reply.result()["content"][0]["text"].as_str().unwrap()).unwrap();
            assert_eq!(heard, arguments);
        } else {
            reply.assert_code(-32602).assert_error("input_validation", "schema_violation");
        }
    }
    let reply = alice.call("test.every_kind", json!({})).await;
    let expected = json!([
        {
            "type": "text", "text": "words",
            "annotations": { "audience": ["user"], "priority": 1 }, "_meta": { "com.example/b": 1 },
        },
        { "type": "image", "data": "AQID", "mimeType": "image/png" },
        { "type": "audio", "data": "BAU=", "mimeType": "audio/wav" },
        { "type": "resource_link", "uri": "test://docs/readme", "name": "readme" },
        { "type": "resource", "resource": { "uri": "test://docs/readme", "mimeType": "text/markdown", "text": "# Hello" } },
        { "type": "resource", "resource": { "uri": "test://pixel", "mimeType": "image/png", "blob": "/w==" } },
    ]);
    assert_eq!(reply.result()["content"], expected);
}

async fn a_client_that_cannot_be_asked_is_an_answer(setup: Setup) {
    // given: a client that declared nothing
    let bridge = offering(setup).await;
    let alice = bridge.caller("alice");
    for (tool, arguments) in [
        ("test.asks_form", json!({})),
        ("test.asks_url", json!({ "url": "https://example.com/" })),
        ("test.asks_model", json!({})),
    ] {
        let reply = alice.call(tool, arguments).await;
        let came = reply.structured();
        assert_eq!((&came["can"], &came["answer"]), (&json!([]), &json!("unsupported")), "{tool}: {came:#}");
    }
}

#[tokio::test]
async fn what_needs_a_scope_is_hidden_and_refused_without_it() {
    // given
    let bridge = offering(Bridge::http()).await;
    let (alice, bob) = (bridge.caller("alice").scopes(&["test:secret"]), bridge.caller("bob").scopes(&[]));
    let lists = [
        ("prompts/list", "prompts", "name", "test.secret"),
        ("resources/list", "resources", "uri", "test://secret"),
        ("resources/templates/list", "resourceTemplates", "uriTemplate", "test://vault/{note}"),
    ];
    for (method, list, key, name) in lists {
        named(&ask(&alice, method, json!({})).await, list, key, name);
        let reply = ask(&bob, method, json!({})).await;
        let shown = reply.result()[list].as_array().unwrap();
        assert!(!shown.is_empty() && shown.iter().all(|one| one[key] != name), "{shown:#?}");
    }
    let vault = json!({ "type": "ref/resource", "uri": "test://vault/{note}" });
    let secret = json!({ "type": "ref/prompt", "name": "test.secret" });
    let argument = json!({ "name": "note", "value": "" });
    for (method, params) in [
        ("prompts/get", json!({ "name": "test.secret", "arguments": { "made": "up" } })),
        ("resources/read", json!({ "uri": "test://secret" })),
        ("resources/read", json!({ "uri": "test://vault/7" })),
        ("completion/complete", json!({ "ref": vault, "argument": argument })),
        ("completion/complete", json!({ "ref": secret, "argument": argument })),
    ] {
        let reply = ask(&bob, method, params).await;
        let data = reply.assert_error("authz_denied", "insufficient_scope");
        assert_eq!(data["missing_scopes"], json!(["test:secret"]), "{method}");
    }
    // and: with it, they are there
    ask(&alice, "prompts/get", json!({ "name": "test.secret" })).await.result();
    ask(&alice, "resources/read", json!({ "uri": "test://secret" })).await.result();
    // Another spelling is the same resource, and needs the same scopes.
    for uri in ["test://%73ecret", "test://s%65%63ret"] {
        ask(&bob, "resources/read", json!({ "uri": uri })).await.assert_error("authz_denied", "insufficient_scope");
        ask(&bob, "resources/subscribe", json!({ "uri": uri }))
            .await
            .assert_error("authz_denied", "insufficient_scope");
        ask(&alice, "resources/read", json!({ "uri": uri })).await.result();
    }
    let draft = ask(&bob, "resources/read", json!({ "uri": "test://notes/%64rafts/7" })).await;
    assert_eq!(draft.result()["contents"][0]["text"], "draft=7", "and the same template");
    ask(&alice, "resources/read", json!({ "uri": "test://vault/7" })).await.result();
}

#[tokio::test]
async fn what_no_plugin_offers_is_neither_advertised_nor_a_method() {
    let bridge = Bridge::stdio().start().await;
    let alice = bridge.caller("alice");
    let reply = alice.initialize().await;
    let capabilities = reply.result()["capabilities"].as_object().unwrap();
    assert!(!["prompts", "resources", "completions"].iter().any(|kind| capabilities.contains_key(*kind)));
    for method in [
        "prompts/list",
        "prompts/get",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "completion/complete",
    ] {
        let reply = ask(&alice, method, json!({})).await;
        reply.assert_code(-32601).assert_error("input_validation", "method_not_found");
    }
}

#[tokio::test]
async fn what_was_asked_for_is_counted_and_leaves_no_audit_row() {
    let bridge = offering(Bridge::http()).await;
    let alice = bridge.caller("alice");
    ask(&alice, "prompts/get", json!({ "name": "test.every_kind" })).await.result();
    ask(&alice, "resources/read", json!({ "uri": "test://pixel" })).await.result();
    ask(&alice, "resources/read", json!({ "uri": "test://nothing" })).await.assert_code(-32002);
    let metrics = bridge.get("/metrics").await.text;
    for (labels, count) in [
        (["method=\"prompts/get\"", "plugin=\"guest-offers\"", "reason=\"none\""], 1),
        (["method=\"resources/read\"", "plugin=\"guest-offers\"", "reason=\"none\""], 1),
        (["method=\"resources/read\"", "plugin=\"none\"", "reason=\"resource_not_found\""], 1),
    ] {
        let is_it = |line: &&str| {
            line.starts_with("cyberos_bridge_offers_total") && labels.iter().all(|label| line.contains(label))
        };
        let line = metrics.lines().find(is_it).unwrap_or_else(|| panic!("{labels:?} in\n{metrics}"));
        assert!(line.ends_with(&format!(" {count}")), "{line}");
    }
    let (tenant, _) = alice.identity();
    assert!(bridge.audit(tenant).await.is_empty(), "only tool calls are audited");
}
