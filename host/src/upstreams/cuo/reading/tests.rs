use super::*;
use crate::upstreams::cuo::sample::{self, write};

#[test]
fn a_tree_is_read_into_personas_workflows_and_skills() {
    // given
    let tree = sample::tree();
    // when
    let (catalogue, problems) = Catalogue::load(&Tree::Disk(tree.path().to_owned()));
    // then
    assert_eq!(problems, []);
    let slugs: Vec<&str> = catalogue.personas.keys().map(String::as_str).collect();
    assert_eq!(slugs, ["chief-financial-officer", "chief-metaverse-officer", "chief-technology-officer"]);
    assert_eq!(catalogue.active_personas().count(), 2, "an extinct persona cannot be asked");
    assert_eq!(catalogue.persona("cuo/chief-technology-officer").unwrap().title, "Chief Technology Officer (CTO)");
    assert_eq!(catalogue.persona("chief-financial-officer").unwrap().title, "Chief financial officer");

    let adr = catalogue.workflow("chief-technology-officer", "adr-quick-capture").unwrap();
    assert_eq!((adr.version.as_str(), adr.pattern.as_str(), adr.cadence.as_str()), ("1.0", "linear", "on-demand"));
    assert_eq!(adr.inputs[0].source.as_deref(), Some("caller"));
    assert_eq!(adr.inputs[1].name, "title");
    let same = |name: &str| Binding { to: name.into(), from: name.into() };
    assert_eq!(adr.skill_chain[0].inputs_from, [same("decision_context")]);
    assert_eq!(adr.skill_chain[1].step, 2, "a number in quotes is still a number");
    assert_eq!(adr.skill_chain[1].inputs_from, [Binding { to: "artefact".into(), from: "adr".into() }]);
    assert!(!catalogue.workflow("chief-technology-officer", "run-improvement-program").unwrap().runnable());

    let skill = &catalogue.skills["adr-author"];
    assert_eq!(skill.counterpart.as_deref(), Some("adr-audit"));
    assert_eq!((skill.version.as_deref(), skill.produces.as_str()), (Some("2"), "adr"));
    assert_eq!(catalogue.skills["budget-author"].counterpart, None);
    assert!(!catalogue.skills.contains_key("_shared"));
}

#[test]
fn ill_formed_files_are_reported_and_skipped_and_the_rest_is_there() {
    // given
    let tree = sample::tree();
    let cto = "modules/cuo/chief-technology-officer/workflows";
    for (name, text) in [
        ("not-yaml", "---\npurpose: [\n---\n"),
        ("no-fence", "# Title\n"),
        ("no-purpose", "---\ncadence: weekly\n---\n"),
        ("chain-is-text", "---\npurpose: p\nskill_chain: adr-author\n---\n"),
        ("step-is-list", "---\npurpose: p\nskill_chain: [[a]]\n---\n"),
        ("step-without-skill", "---\npurpose: p\nskill_chain: [{step: 1}]\n---\n"),
    ] {
        write(tree.path(), &format!("{cto}/{name}.md"), text);
    }
    write(tree.path(), "modules/skill/bad/SKILL.md", "---\nname: bad\n---\n");
    std::fs::write(tree.path().join(cto).join("latin.md"), b"---\npurpose: caf\xe9\n---\n").unwrap();
    write(
        tree.path(),
        &format!("{cto}/huge.md"),
        &"x".repeat(crate::upstreams::cuo::tree::MAX_FILE_BYTES as usize + 1),
    );
    // when
    let (catalogue, problems) = Catalogue::load(&Tree::Disk(tree.path().to_owned()));
    // then
    let reported: Vec<&str> = problems.iter().filter_map(|p| p.path.file_stem()?.to_str()).collect();
    assert_eq!(
        reported,
        [
            "chain-is-text",
            "huge",
            "latin",
            "no-fence",
            "no-purpose",
            "not-yaml",
            "step-is-list",
            "step-without-skill",
            "SKILL"
        ]
    );
    assert_eq!(catalogue.workflows().count(), 6);
}

#[test]
fn every_spelling_of_inputs_from_is_understood() {
    let read = |yaml: &str| bindings(Some(&serde_norway::from_str(yaml).unwrap()));
    let pairs = |yaml: &str| read(yaml).into_iter().map(|b| format!("{}<{}", b.to, b.from)).collect::<Vec<_>>();
    assert_eq!(pairs("prd, quarter"), ["prd<prd", "quarter<quarter"]);
    assert_eq!(pairs("[prd, {artefact: adr}]"), ["prd<prd", "artefact<adr"]);
    assert_eq!(pairs("{a: [x, y], b: 3, c: {name: z}, d: null}"), ["a<x", "a<y", "b<3", "c<z", "d<d"]);
    assert!(pairs("null").is_empty());
}

#[test]
fn a_readme_names_its_persona_in_any_of_the_known_ways() {
    for (readme, title) in [
        ("# X\n\n| Full disambiguated title | Chief AI Officer |\n", "Chief AI Officer"),
        ("# X\n- **Full disambiguated title:** Chief of Staff\n", "Chief of Staff"),
        ("**Full disambiguated title**: Chief Technology Officer (CTO)\r\n", "Chief Technology Officer (CTO)"),
        ("# Chief Trust Officer\n\nText.\n", "Chief Trust Officer"),
    ] {
        assert_eq!(title_in_readme(readme).as_deref(), Some(title));
    }
    assert_eq!(title_in_readme("no heading\n"), None);
}

#[test]
fn an_absent_tree_is_an_empty_catalogue_with_a_problem() {
    let (catalogue, problems) = Catalogue::load(&Tree::Disk("/nonexistent/cyberos".into()));
    assert!(catalogue.personas.is_empty() && catalogue.skills.is_empty());
    assert_eq!(problems.len(), 2);
}

#[test]
fn a_tree_as_large_as_a_real_checkout_is_read_quickly() {
    // given: 48 personas, 224 workflows, 248 skills
    let tree = tempfile::tempdir().unwrap();
    let purpose = "Decide what to build next and write down why. ".repeat(6);
    let chain: String = (1..=6).map(|n| format!("  - {{step: {n}, skill: s{n}-author, outputs_to: o{n}}}\n")).collect();
    for n in 0..224 {
        sample::workflow(tree.path(), &format!("chief-{}-officer", n % 48), &format!("workflow-{n}"), &purpose, &chain);
    }
    for n in 0..248 {
        let text = format!(
            "---\nname: s{n}\ndescription: {purpose}\nmetadata: {{version: 1.0.0, module: skill}}\n---\n{purpose}\n"
        );
        write(tree.path(), &format!("modules/skill/s{n}-author/SKILL.md"), &text);
    }
    // when
    let started = std::time::Instant::now();
    let (catalogue, problems) = Catalogue::load(&Tree::Disk(tree.path().to_owned()));
    let took = started.elapsed();
    // then: well under 0.1 s in release; the bound leaves room for a debug build on a busy machine
    assert_eq!((catalogue.workflows().count(), catalogue.skills.len(), problems.len()), (224, 248, 0));
    eprintln!("a full tree took {took:?}");
    assert!(took < std::time::Duration::from_secs(2), "{took:?}");
}
