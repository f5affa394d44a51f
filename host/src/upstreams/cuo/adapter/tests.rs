//! The command line as it is, played by a script that prints and writes what the real one does.

use super::*;
use crate::model::TraceId;
use crate::upstreams::cuo::{Cuo, CuoCommand, CuoContext, CuoSettings, sample};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

const FAKE: &str = r#"
import json, os, sys, time
args = sys.argv[1:]
if args == ['--version']:
    print('cyberos-cuo, version 0.1.0'); sys.exit(0)
assert args[0] == 'execute' and args[2] == '--output-dir', args
target, out = args[1], args[3]
inputs = dict(a[len('--input='):].split('=', 1) for a in args[4:])
mode = inputs.get('mode', 'COMPLETED')
if mode == 'usage':
    print('Error: No such option', file=sys.stderr); sys.exit(2)
if mode == 'traceback':
    raise RuntimeError('no invoker at /srv/cuo')
for n, skill in [(1, 'adr-author'), (2, 'adr-audit')]:
    print(f'[SKILL] step {n:02} {skill} processing...', file=sys.stderr)
    body = {'inputs': inputs, 'root': os.environ['CYBEROS_ROOT'], 'home': os.environ['HOME'],
            'sees': os.path.exists(os.environ['CYBEROS_ROOT'] + '/modules/skill'), 'key': os.environ.get('MODEL_KEY')}
    json.dump(body, open(f'{out}/TASK-1_step{n:02}_{skill}.json', 'w'))
    if mode != 'COMPLETED' and n == 1: break
    time.sleep(0.3)
if mode == 'hang':
    time.sleep(600)
print(f'# execute {target} \u2192 {mode}')
print('invoker: subprocess\nchain length: 2\n# step results\n  step 01 [OK] adr-author 3 ms\n    note: wrote /srv/private')
sys.exit(0 if mode.startswith('COMPLETED') else 1)
"#;

struct Checkout {
    tree: TempDir,
    work: TempDir,
    cuo: Cuo,
}

fn checkout() -> Checkout {
    let (tree, work) = (sample::tree(), tempfile::tempdir().unwrap());
    sample::write(tree.path(), "cyberos-cuo.py", FAKE);
    let cuo = Cuo::new(CuoSettings {
        root: Some(tree.path().to_owned()),
        state_dir: work.path().join("state"),
        work_dir: Some(work.path().join("work")),
        command: CuoCommand::CyberosCli {
            argv: vec!["python3".into(), tree.path().join("cyberos-cuo.py").into()],
            executable: "/nonexistent".into(),
        },
        extra_env: vec![("MODEL_KEY".into(), "k-123".into())],
    });
    Checkout { tree, work, cuo: cuo.unwrap() }
}

impl Checkout {
    async fn execute(&self, workflow: &str, inputs: Value, progress: ProgressSink) -> Result<Value, CuoError> {
        let params = json!({ "persona": "chief-technology-officer", "workflow": workflow, "inputs": inputs });
        self.cuo.request("cuo.execute", params, CuoContext { trace_id: TraceId::random(), progress }).await
    }
}

#[tokio::test]
async fn a_run_gives_its_step_files_as_artefacts_and_as_progress() {
    // given
    let checkout = checkout();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = ProgressSink::new({
        let seen = Arc::clone(&seen);
        move |p| seen.lock().unwrap().push(p)
    });
    // when
    let inputs = json!({ "title": "--help", "rows": [1, 2] });
    let result = checkout.execute("adr-quick-capture", inputs, sink).await.unwrap();
    // then
    assert_eq!(result["steps_executed"], 2);
    let artefacts = result["final_artifacts"].as_array().unwrap();
    let names: Vec<&str> = artefacts.iter().map(|a| a["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["adr", "adr_review"]);
    assert_eq!(artefacts[0]["path"], "TASK-1_step01_adr-author.json");
    let body: Value = serde_json::from_str(artefacts[0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(body["inputs"], json!({ "title": "--help", "rows": "[1,2]" }));
    assert_eq!((&body["sees"], &body["key"]), (&true.into(), &"k-123".into()));
    assert_ne!(body["root"], checkout.tree.path().to_str().unwrap(), "it works below a scratch root");
    assert!(!Path::new(body["home"].as_str().unwrap()).exists(), "its private directory is gone");
    assert!(checkout.tree.path().join("modules/skill").is_dir(), "the checkout is not");
    assert_eq!(std::fs::read_dir(checkout.work.path().join("work")).unwrap().count(), 0);

    let seen = seen.lock().unwrap();
    let steps: Vec<(f64, Option<f64>)> = seen.iter().map(|p| (p.progress, p.total)).collect();
    assert_eq!(steps, [(1.0, Some(2.0)), (2.0, Some(2.0))]);
}

#[tokio::test]
async fn each_way_not_to_complete_is_a_failure_of_its_own() {
    let checkout = checkout();
    for (mode, expected) in [
        ("BLOCKED", Failure::Blocked),
        ("FAILED", Failure::Failed),
        ("PARTIAL", Failure::Partial),
        ("ROUTED_BACK", Failure::RoutedBack),
        ("HITL_HALT", Failure::NeedsHuman),
    ] {
        match checkout.execute("adr-quick-capture", json!({ "mode": mode }), ProgressSink::none()).await {
            Err(CuoError::Failed { outcome, step: Some(1), message, .. }) => {
                assert_eq!(outcome, expected);
                assert!(!message.contains('/'), "{message}");
            }
            other => panic!("{mode}: {other:?}"),
        }
    }
    for mode in ["usage", "traceback", "WHATEVER"] {
        match checkout.execute("adr-quick-capture", json!({ "mode": mode }), ProgressSink::none()).await {
            Err(CuoError::Unavailable { reason: Reason::BadResponse, message, .. }) => {
                assert!(!message.contains("srv"))
            }
            other => panic!("{mode}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn what_the_command_line_would_not_notice_is_refused_before_it_starts() {
    let checkout = checkout();
    for (workflow, inputs) in [
        ("adr-quick-captur", json!({})),
        ("adr-quick-capture", json!({ "--backlog": "x" })),
        ("adr-quick-capture", json!({ "a b": "x" })),
        ("adr-quick-capture", json!({ "a": "x\u{0}y" })),
        ("adr-quick-capture", json!({ "a": "x".repeat(MAX_ARGUMENT_BYTES + 1) })),
    ] {
        let error = checkout.execute(workflow, inputs, ProgressSink::none()).await.unwrap_err();
        assert!(matches!(error, CuoError::InvalidParams { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn a_dropped_run_leaves_nothing_behind() {
    let checkout = checkout();
    let running = checkout.execute("adr-quick-capture", json!({ "mode": "hang" }), ProgressSink::none());
    assert!(tokio::time::timeout(Duration::from_secs(2), running).await.is_err());
    let work = checkout.work.path().join("work");
    for _ in 0..300 {
        if std::fs::read_dir(&work).unwrap().count() == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the private directory is still there");
}

#[tokio::test]
async fn the_command_line_answers_for_doctor() {
    checkout().cuo.ping().await.unwrap();
}

#[test]
fn step_files_and_outcomes_are_recognised_in_their_known_spellings() {
    assert_eq!(step_of("step01_adr-author.json"), Some((1, "adr-author".into())));
    assert_eq!(step_of("TASK-A_step12_x_y.json"), Some((12, "x_y".into())));
    for other in ["steps_done.json", "misstep01_x.json", "step01_x.txt", "stepXX_x.json"] {
        assert_eq!(step_of(other), None, "{other}");
    }
    assert_eq!(outcome_in("# execute a/b → HITL_HALT (paused)").as_deref(), Some("HITL_HALT"));
    assert_eq!(outcome_in("# step results"), None);
}
