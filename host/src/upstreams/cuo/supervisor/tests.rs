use super::*;
use crate::upstreams::cuo::sample;

/// Serve `lines` in process and return the messages that came back.
async fn talk(lines: &[String]) -> Vec<Value> {
    let tree = sample::tree();
    let (catalogue, _) = Catalogue::load(&Tree::Disk(tree.path().to_owned()));
    let mut said = Vec::new();
    serve(&catalogue, lines.join("\n").as_bytes(), &mut said).await.unwrap();
    String::from_utf8(said).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn request(id: u32, method: &str, params: Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
}

#[tokio::test]
async fn a_workflow_is_run_with_progress_before_and_after_each_step() {
    // given
    let out = tempfile::tempdir().unwrap();
    let params = json!({
        "persona": "chief-technology-officer", "workflow": "adr-quick-capture", "inputs": { "title": "T" },
        "output_dir": out.path(), "trace_id": "00ff",
    });
    // when
    let said = talk(&[request(7, "cuo.execute", params)]).await;
    // then
    let progress: Vec<String> = said
        .iter()
        .filter(|m| m["method"] == "cuo.progress")
        .map(|m| {
            format!("{}/{} {}", m["params"]["position"], m["params"]["total"], m["params"]["status"].as_str().unwrap())
        })
        .collect();
    assert_eq!(progress, ["0/2 running", "1/2 done", "1/2 running", "2/2 done"]);
    let last = said.last().unwrap();
    assert_eq!((&last["id"], &last["result"]["steps_executed"]), (&7.into(), &2.into()));
    assert_eq!(std::fs::read_dir(out.path()).unwrap().count(), 2);
}

#[tokio::test]
async fn a_single_skill_is_a_chain_of_one() {
    let out = tempfile::tempdir().unwrap();
    let said = talk(&[request(1, "skill.invoke", json!({ "skill": "adr-author", "output_dir": out.path() }))]).await;
    let artefacts = &said.last().unwrap()["result"]["final_artifacts"];
    assert_eq!((artefacts.as_array().unwrap().len(), &artefacts[0]["name"]), (1, &"adr".into()));
}

#[tokio::test]
async fn the_same_questions_are_answered_as_in_process() {
    let said = talk(&[
        request(1, "ping", json!({})),
        request(2, "cuo.list_personas", json!({})),
        request(3, "cuo.list_workflows", json!({ "persona": "chief-technology-officer" })),
        request(4, "cuo.route", json!({ "query": "capture an ADR" })),
        request(5, "skill.list", json!({ "filter": "BUDGET" })),
    ])
    .await;
    assert_eq!(said[0]["result"], json!({}));
    let cto =
        json!({ "slug": "chief-technology-officer", "title": "Chief Technology Officer (CTO)", "workflow_count": 3 });
    assert_eq!(said[1]["result"]["personas"][1], cto);
    assert_eq!(said[2]["result"]["workflows"][0]["skill_chain"][1]["skill"], "adr-audit");
    assert_eq!(said[3]["result"]["workflow"], "adr-quick-capture");
    assert_eq!(said[4]["result"]["skills"][0]["id"], "budget-author");
}

#[tokio::test]
async fn what_is_wrong_is_said_and_the_conversation_goes_on() {
    let said = talk(&[
        "not json".into(),
        "[]".into(),
        json!({ "id": 1, "method": "ping" }).to_string(),
        json!({ "jsonrpc": "2.0", "method": "cuo.some_notification" }).to_string(),
        "x".repeat(MAX_REQUEST_BYTES + 1),
        request(2, "cuo.nothing", json!({})),
        request(3, "cuo.list_workflows", json!({ "persona": "chief-tecnology-officer" })),
        request(4, "cuo.execute", json!({ "persona": "chief-technology-officer", "workflow": "run-improvement-program", "output_dir": "/tmp" })),
        request(5, "cuo.route", json!({ "query": 5 })),
        request(6, "skill.invoke", json!({ "skill": "../../etc", "output_dir": "/tmp" })),
        request(7, "ping", json!({})),
    ])
    .await;
    let codes: Vec<i64> = said.iter().filter_map(|m| m["error"]["code"].as_i64()).collect();
    assert_eq!(codes, [-32700, -32600, -32600, -32700, -32601, -32602, -32602, -32602, -32602]);
    assert_eq!(said[5]["error"]["data"]["near"][0], "chief-technology-officer");
    assert_eq!(said.last().unwrap()["result"], json!({}));
}
