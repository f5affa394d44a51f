use super::*;
use crate::upstreams::cuo::{Tree, sample};

fn run(workflow: &str, inputs: Value) -> (tempfile::TempDir, Result<Value, CuoError>) {
    let tree = sample::tree();
    let (catalogue, _) = Catalogue::load(&Tree::Disk(tree.path().to_owned()));
    let workflow = catalogue.workflows().find(|w| w.slug == workflow).unwrap();
    let out = tempfile::tempdir().unwrap();
    let outcome = Run::prepare(&catalogue, workflow, inputs.as_object().unwrap().clone(), out.path(), "00ff").and_then(
        |mut run| {
            while let Some(step) = run.advance() {
                step?;
            }
            Ok(run.finish())
        },
    );
    (out, outcome)
}

#[test]
fn each_step_writes_an_artefact_that_the_next_one_builds_on() {
    // when
    let inputs = json!({ "title": "Use Postgres", "decision_context": "We need <one> store. {{ 7 * 7 }}" });
    let (out, outcome) = run("adr-quick-capture", inputs);
    // then
    let result = outcome.unwrap();
    assert_eq!(result["steps_executed"], 2);
    let adr = &result["final_artifacts"][0];
    assert_eq!(
        (&adr["name"], &adr["path"], &adr["media_type"]),
        (&"adr".into(), &"01-adr.md".into(), &"text/markdown".into())
    );
    let text = adr["text"].as_str().unwrap();
    assert!(text.starts_with("# Use Postgres\n\nWe need <one> store. {{ 7 * 7 }}\n"), "inputs are data: {text}");
    assert!(text.contains("for chief-technology-officer on 20") && text.contains("(00ff)"), "{text}");
    let on_disk = std::fs::read(out.path().join("01-adr.md")).unwrap();
    assert_eq!(adr["bytes"], on_disk.len());
    assert_eq!(adr["sha256"], hex::encode(Sha256::digest(&on_disk)));
    let review = result["final_artifacts"][1]["text"].as_str().unwrap();
    assert!(review.contains("- adr: True") && review.contains("artefact: True"), "{review}");
}

#[test]
fn a_condition_skips_its_step_and_prose_is_left_to_the_reader() {
    let names = |result: &Value| {
        let artefacts = result["final_artifacts"].as_array().unwrap().iter();
        artefacts.map(|a| a["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let (_, without) = run("architect-new-system", json!({}));
    let without = without.unwrap();
    assert_eq!(names(&without), ["design", "adr_audit"]);
    assert_eq!(without["steps_executed"], 2);
    let notes = without["notes"].to_string();
    assert!(
        notes.contains("Step 2 (legal-author) was skipped") && notes.contains("judge whether it applies"),
        "{notes}"
    );

    let (_, with) = run("architect-new-system", json!({ "legal": "GDPR" }));
    assert_eq!(names(&with.unwrap()), ["design", "opinion", "adr_audit"]);
}

#[test]
fn a_skill_without_a_template_gives_a_brief_of_what_to_do() {
    let (_, outcome) = run("annual-budget", json!({ "title": "2027" }));
    let result = outcome.unwrap();
    let text = result["final_artifacts"][0]["text"].as_str().unwrap();
    for part in [
        "# Brief: Budget author",
        "Draws up a budget.",
        "**title**: 2027",
        "[ ] decision_context",
        "[ ] Steps",
        "- report",
    ] {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
}

#[test]
fn a_missing_skill_blocks_the_run_before_it_starts() {
    let (out, outcome) = run("broken-skill", json!({}));
    let error = outcome.unwrap_err();
    assert!(matches!(&error, CuoError::Failed { outcome: Failure::Blocked, step: Some(1), .. }), "{error:?}");
    assert_eq!(std::fs::read_dir(out.path()).unwrap().count(), 0);
}

#[test]
fn a_template_that_never_ends_runs_out_of_fuel() {
    let (_, outcome) = run("bad-template", json!({}));
    match outcome.unwrap_err() {
        CuoError::Failed { outcome: Failure::Failed, step: Some(2), message, detail } => {
            assert!(message.contains("endless-author") && !message.contains('/'), "{message}");
            assert!(detail.contains("budget"), "{detail}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_template_reads_nothing_outside_the_skill_directory() {
    let tree = sample::tree();
    sample::write(tree.path(), "secret", "TOP SECRET");
    let renderer = Renderer::new(Tree::Disk(tree.path().to_owned()));
    assert!(renderer.render("escaping-author", &json!({})).unwrap_err().contains("outside"));
    // A link is followed only inside.
    let templates = tree.path().join("modules/skill/budget-author/templates");
    std::fs::create_dir_all(&templates).unwrap();
    std::os::unix::fs::symlink(tree.path().join("secret"), templates.join("artefact.md.j2")).unwrap();
    assert!(renderer.render("budget-author", &json!({})).unwrap_err().contains("outside"));
}

#[test]
fn large_artefacts_are_cut_so_that_the_result_fits_one_line() {
    let (out, outcome) = run("adr-quick-capture", json!({ "decision_context": "ế\u{1}".repeat(100_000) }));
    let result = outcome.unwrap();
    let adr = &result["final_artifacts"][0];
    assert_eq!(adr["text_truncated"], true);
    assert!(result.to_string().len() <= MAX_RESULT_BYTES);
    assert_eq!(std::fs::metadata(out.path().join("01-adr.md")).unwrap().len(), adr["bytes"].as_u64().unwrap());
}
