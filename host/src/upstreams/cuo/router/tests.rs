use super::*;
use crate::upstreams::cuo::{Tree, sample};
use std::time::{Duration, Instant};

/// The public names of personas and workflows, with purposes in the manner of the real ones.
fn catalogue() -> (tempfile::TempDir, Catalogue) {
    let dir = tempfile::tempdir().unwrap();
    let chain = "  - {step: 1, skill: x-author}\n";
    for (persona, slug, purpose) in [
        ("chief-technology-officer", "adr-quick-capture", "Capture one architecture decision as a reviewed ADR."),
        (
            "chief-technology-officer",
            "architect-new-system",
            "Design a new system from requirements to architecture, with its risks and costs.",
        ),
        ("chief-technology-officer", "post-incident-review", "Review an incident or outage and agree what changes."),
        ("chief-technology-officer", "deploy-readiness-review", "Decide whether a release is ready to deploy."),
        (
            "chief-technology-officer",
            "quarterly-tech-debt-review",
            "Review technical debt and choose what to pay back.",
        ),
        ("chief-technology-officer", "threat-model-refresh", "Bring a threat model up to date."),
        ("chief-architect", "annual-architecture-vision", "Set out the architecture vision for the year."),
        ("chief-architect", "per-architecture-decision", "Document one architecture decision."),
        ("chief-financial-officer", "annual-budget", "Draw up the budget for the year."),
        ("chief-financial-officer", "monthly-close", "Close the books for the month."),
        ("chief-financial-officer", "monthly-cash-management", "Manage cash for the month."),
        ("chief-information-security-officer", "soc2-audit-readiness", "Get ready for a SOC 2 audit."),
        ("chief-information-security-officer", "quarterly-security-posture-review", "Review the security posture."),
        ("chief-legal-officer", "incoming-nda-triage", "Triage an incoming NDA."),
        ("chief-legal-officer", "msa-contract-review", "Review a master service agreement."),
        ("chief-privacy-officer", "privacy-impact-assessment", "Assess what processing personal data does to people."),
        ("chief-product-officer", "feature-prd-intake", "Turn a feature request into requirements."),
        ("chief-marketing-officer", "per-press-release", "Write a press release."),
        ("chief-human-resources-officer", "new-hire-onboarding", "Onboard a new hire."),
        ("chief-data-officer", "annual-data-strategy", "Set the data strategy for the year."),
    ] {
        sample::workflow(dir.path(), persona, slug, purpose, chain);
    }
    let (catalogue, problems) = Catalogue::load(&Tree::Disk(dir.path().to_owned()));
    assert_eq!(problems.len(), 1, "there is no skill folder: {problems:?}");
    (dir, catalogue)
}

fn matched(catalogue: &Catalogue, query: &str) -> String {
    let routing = route(catalogue, query);
    routing.matched.map_or(format!("none: {}", routing.rationale), |m| format!("{}/{}", m.persona, m.workflow))
}

#[test]
fn english_requests_find_their_workflow() {
    let (_dir, catalogue) = catalogue();
    for (query, expected) in [
        (
            "Architect a new payment routing system for Southeast Asian markets",
            "chief-technology-officer/architect-new-system",
        ),
        ("capture an ADR about choosing Postgres", "chief-technology-officer/adr-quick-capture"),
        ("We had an outage last night, write the postmortem", "chief-technology-officer/post-incident-review"),
        ("Are we ready to deploy the release?", "chief-technology-officer/deploy-readiness-review"),
        ("close the books for March", "chief-financial-officer/monthly-close"),
        ("draw up next year's annual budget", "chief-financial-officer/annual-budget"),
        ("triage this incoming NDA from Acme", "chief-legal-officer/incoming-nda-triage"),
        ("prepare for our SOC 2 audit", "chief-information-security-officer/soc2-audit-readiness"),
        ("write a press release about the launch", "chief-marketing-officer/per-press-release"),
        ("chief-technology-officer threat-model-refresh", "chief-technology-officer/threat-model-refresh"),
    ] {
        assert_eq!(matched(&catalogue, query), expected, "{query}");
    }
}

#[test]
fn vietnamese_requests_find_their_workflow() {
    let (_dir, catalogue) = catalogue();
    for (query, expected) in [
        ("viết một ADR về việc chọn cơ sở dữ liệu", "chief-technology-officer/adr-quick-capture"),
        ("kiến trúc hệ thống thanh toán mới", "chief-technology-officer/architect-new-system"),
        (
            "Kiến trúc một hệ thống thanh toán mới cho thị trường Đông Nam Á",
            "chief-technology-officer/architect-new-system",
        ),
        ("lập ngân sách hàng năm", "chief-financial-officer/annual-budget"),
        ("viết thông cáo báo chí", "chief-marketing-officer/per-press-release"),
        ("đánh giá nợ kỹ thuật hàng quý", "chief-technology-officer/quarterly-tech-debt-review"),
    ] {
        assert_eq!(matched(&catalogue, query), expected, "{query}");
    }
}

#[test]
fn an_acronym_raises_its_persona() {
    let (_dir, catalogue) = catalogue();
    let index = catalogue.index();
    for (query, slug) in [
        ("ask the CTO", "chief-technology-officer"),
        ("CFO please", "chief-financial-officer"),
        ("what does our CISO think", "chief-information-security-officer"),
        ("giám đốc tài chính", "chief-financial-officer"),
    ] {
        let scored = score_personas(index, &Query::read(query));
        assert_eq!(index.personas[scored[0].0].slug, slug, "{query}");
        assert!(scored[0].1 >= ACCEPT, "{query}: {}", scored[0].1);
    }
}

#[test]
fn what_no_workflow_is_for_is_no_match_with_a_hint() {
    let (_dir, catalogue) = catalogue();
    for query in [
        "What did I commit yesterday?",
        "what's the weather in Hanoi",
        "hello",
        "",
        "   ",
        "?!",
        "the of and",
        "🙂",
        "hôm nay trời đẹp quá",
    ] {
        let routing = route(&catalogue, query);
        assert_eq!(routing.matched, None, "{query}: {}", routing.rationale);
        assert!(routing.hint.is_some_and(|hint| hint.len() > 20), "{query}");
        let answer = route(&catalogue, query).to_json();
        assert_eq!(
            (&answer["matched"], &answer["persona"], &answer["confidence"]),
            (&false.into(), &Value::Null, &0.0.into())
        );
    }
}

#[test]
fn a_match_carries_confidence_alternatives_and_reasons() {
    let (_dir, catalogue) = catalogue();
    let routing = route(&catalogue, "Write down an architecture decision");
    let answer = routing.to_json();
    let confidence = answer["confidence"].as_f64().unwrap();
    assert!((0.5..=1.0).contains(&confidence) && (confidence * 100.0).fract().abs() < 1e-6, "{confidence}");
    let matched = routing.matched.unwrap();
    let alternates: Vec<&str> = routing.alternates.iter().map(String::as_str).collect();
    assert!(!alternates.is_empty() && alternates.len() <= 3, "{alternates:?}");
    assert!(!alternates.contains(&format!("{}/{}", matched.persona, matched.workflow).as_str()));
    assert!(alternates.iter().all(|a| a.split_once('/').is_some_and(|(p, w)| catalogue.workflow(p, w).is_some())));
    assert!(routing.rationale.contains(&matched.workflow), "{}", routing.rationale);
}

#[test]
fn a_retired_workflow_is_never_the_answer() {
    let tree = sample::tree();
    let (catalogue, _) = Catalogue::load(&Tree::Disk(tree.path().to_owned()));
    assert_ne!(matched(&catalogue, "CTO: run improvement program"), "chief-technology-officer/run-improvement-program");
}

#[test]
fn a_very_long_query_is_answered_quickly() {
    let (_dir, catalogue) = catalogue();
    let mut query = "Architect a new system for payments. ".to_owned();
    while query.chars().count() < 5_000 {
        query.push_str("Thị trường rất lớn và khách hàng đang chờ; ");
    }
    catalogue.index();
    let started = Instant::now();
    assert_eq!(matched(&catalogue, &query), "chief-technology-officer/architect-new-system");
    assert!(started.elapsed() < Duration::from_millis(500), "{:?}", started.elapsed());
    route(&catalogue, &"đ".repeat(1 << 20));
}

#[test]
fn the_tables_are_in_normalised_spelling_and_translations_end() {
    let phrases = PERSONAS.iter().chain(WORKFLOWS).flat_map(|(_, phrases)| phrases.iter().map(|(phrase, _)| *phrase));
    for phrase in phrases.chain(VIETNAMESE.iter().map(|(v, _)| *v)) {
        assert_eq!(phrase_line(phrase), format!(" {phrase} "), "{phrase}");
    }
    for (vietnamese, english) in VIETNAMESE {
        assert!(!phrase_line(english).contains(&format!(" {vietnamese} ")), "{vietnamese} would be replaced for ever");
    }
    assert_eq!(PERSONAS.len(), 47);
}
