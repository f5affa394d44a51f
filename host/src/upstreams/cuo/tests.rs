use super::*;

/// A supervisor that plays ours: it answers over the same protocol, from a script.
fn cuo(script: &str) -> (TempDir, Cuo) {
    let tree = sample::tree();
    sample::write(tree.path(), "supervisor.py", script);
    let settings = CuoSettings {
        root: Some(tree.path().to_owned()),
        state_dir: tree.path().join("state"),
        work_dir: Some(tree.path().join("work")),
        command: CuoCommand::JsonRpc { argv: vec!["python3".into(), tree.path().join("supervisor.py").into()] },
        extra_env: Vec::new(),
    };
    let cuo = Cuo::new(settings).unwrap();
    (tree, cuo)
}

const ECHO: &str = "import json, os, sys\nr = json.loads(sys.stdin.readline())\n\
    os.rmdir(r['params']['output_dir']) if 'output_dir' in r['params'] else None\n\
    print(json.dumps({'jsonrpc': '2.0', 'id': r['id'], 'result': {'method': r['method'], 'params': r['params'], 'root': os.environ['CYBEROS_ROOT']}}))\n";

fn context() -> CuoContext {
    CuoContext { trace_id: TraceId::random(), progress: ProgressSink::none() }
}

#[tokio::test]
async fn listing_and_routing_start_no_process() {
    let (_tree, cuo) = cuo("raise SystemExit(9)");
    let personas = cuo.request("cuo.list_personas", json!({}), context()).await.unwrap();
    assert_eq!(personas["personas"].as_array().unwrap().len(), 2);
    let routing = cuo.request("cuo.route", json!({ "query": "capture an ADR" }), context()).await.unwrap();
    assert_eq!(routing["persona"], "chief-technology-officer");
    assert!(!cuo.root().await.unwrap().join("work").exists());
    assert!(cuo.ping().await.is_err());
}

#[tokio::test]
async fn execution_is_handed_to_the_child_with_a_directory_and_the_trace() {
    let (tree, cuo) = cuo(ECHO);
    let context = context();
    let params =
        json!({ "persona": "cuo/chief-technology-officer", "workflow": "adr-quick-capture", "inputs": { "a": 1 } });
    let answer = cuo.request("cuo.execute", params, context.clone()).await.unwrap();
    assert_eq!((&answer["method"], &answer["root"]), (&"cuo.execute".into(), &tree.path().to_str().unwrap().into()));
    let sent = &answer["params"];
    assert_eq!((&sent["persona"], &sent["inputs"]["a"]), (&"chief-technology-officer".into(), &1.into()));
    assert_eq!(sent["trace_id"], context.trace_id.to_string());
    assert!(sent["output_dir"].as_str().unwrap().starts_with(tree.path().join("work").to_str().unwrap()));

    let answer = cuo.request("skill.invoke", json!({ "skill": "adr-author" }), context).await.unwrap();
    assert_eq!((&answer["method"], &answer["params"]["skill"]), (&"skill.invoke".into(), &"adr-author".into()));
    cuo.ping().await.unwrap();
}

#[tokio::test]
async fn what_is_unknown_is_refused_with_what_may_have_been_meant() {
    let (_tree, cuo) = cuo("raise SystemExit(9)");
    let near = |error: CuoError| match error {
        CuoError::InvalidParams { near, .. } => near.first().cloned().unwrap_or_default(),
        other => panic!("{other:?}"),
    };
    for (method, params, expected) in [
        ("cuo.list_workflows", json!({ "persona": "chief tecnology officer" }), "chief-technology-officer"),
        ("cuo.list_workflows", json!({ "persona": "chief-metaverse-officer" }), "chief-financial-officer"),
        (
            "cuo.execute",
            json!({ "persona": "chief-technology-officer", "workflow": "adr-capture" }),
            "adr-quick-capture",
        ),
        (
            "cuo.execute",
            json!({ "persona": "chief-technology-officer", "workflow": "annual-budget" }),
            "chief-financial-officer/annual-budget",
        ),
        ("skill.invoke", json!({ "skill": "adr-autor" }), "adr-author"),
        ("cuo.execute", json!({ "persona": "chief-technology-officer" }), ""),
        (
            "cuo.execute",
            json!({ "persona": "chief-technology-officer", "workflow": "adr-quick-capture", "inputs": [] }),
            "",
        ),
        ("cuo.route", json!([]), ""),
    ] {
        let found = near(cuo.request(method, params.clone(), context()).await.unwrap_err());
        assert_eq!(found, expected, "{method} {params}");
    }
    assert_eq!(cuo.request("cuo.delete", json!({}), context()).await, Err(CuoError::UnknownMethod));
}

#[tokio::test]
async fn inputs_that_are_too_large_are_refused_before_anything_starts() {
    let (tree, cuo) = cuo("raise SystemExit(9)");
    let params = json!({
        "persona": "chief-technology-officer", "workflow": "adr-quick-capture", "inputs": { "a": "x".repeat(MAX_PARAMS_BYTES) },
    });
    assert!(matches!(cuo.request("cuo.execute", params, context()).await, Err(CuoError::InvalidParams { .. })));
    assert_eq!(std::fs::read_dir(tree.path().join("work")).unwrap().count(), 0);
}

#[tokio::test]
async fn without_a_root_the_starter_catalogue_is_used() {
    let state = tempfile::tempdir().unwrap();
    let settings = CuoSettings {
        root: None,
        state_dir: state.path().to_owned(),
        work_dir: None,
        command: CuoCommand::Builtin { executable: "/nonexistent".into() },
        extra_env: Vec::new(),
    };
    let cuo = Cuo::new(settings).unwrap();
    let personas = cuo.request("cuo.list_personas", json!({}), context()).await.unwrap();
    assert!(personas["personas"].is_array());
    assert_eq!(std::fs::read_dir(state.path()).unwrap().count(), 0, "listing writes nothing");
    assert!(cuo.root().await.unwrap().starts_with(state.path()));
    assert!(matches!(cuo.ping().await, Err(CuoError::Unavailable { reason: Reason::Unreachable, .. })));
}
