//! A small CyberOS tree for tests, in the spellings that real checkouts use.

use std::path::Path;
use tempfile::TempDir;

pub fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// Three personas (one extinct), six workflows (one retired), six skills (one without a template).
pub fn tree() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    write(
        root,
        "modules/cuo/chief-technology-officer/README.md",
        "# CTO\n\n| **Full disambiguated title** | Chief Technology Officer (CTO) |\n",
    );
    workflow(
        root,
        "chief-technology-officer",
        "adr-quick-capture",
        "Capture one architecture decision as an ADR and have it reviewed.",
        "  - {step: 1, skill: adr-author, inputs_from: decision_context, outputs_to: adr}\n  - {step: '2', skill: adr-audit, inputs_from: {artefact: adr}, outputs_to: adr_review}\n",
    );
    workflow(
        root,
        "chief-technology-officer",
        "architect-new-system",
        "Design a new system from its requirements to a reviewed architecture.",
        "  - {step: 1, skill: adr-author, outputs_to: design}\n  - {step: 2, skill: legal-author, condition: inputs.legal, outputs_to: opinion}\n  - {step: 3, skill: adr-audit, inputs_from: [design], condition: when the risk is high}\n",
    );
    workflow(root, "chief-technology-officer", "run-improvement-program", "Retired.", "");
    workflow(
        root,
        "chief-financial-officer",
        "annual-budget",
        "Draw up the budget for a year.",
        "  - {step: 1, skill: budget-author}\n",
    );
    workflow(
        root,
        "chief-financial-officer",
        "broken-skill",
        "Chains a skill that is not there.",
        "  - {step: 1, skill: nobody-author}\n",
    );
    workflow(
        root,
        "chief-financial-officer",
        "bad-template",
        "Chains a skill that never ends.",
        "  - {step: 1, skill: adr-author}\n  - {step: 2, skill: endless-author}\n",
    );
    write(root, "modules/cuo/chief-metaverse-officer/README.md", "# Chief Metaverse Officer\n");
    write(root, "modules/cuo/_template/README.md", "# Template\n");
    write(root, "modules/cuo/docs/README.md", "# Docs\n");
    skill(root, "adr-author", "Writes an architecture decision record.");
    skill(root, "adr-audit", "Reviews an architecture decision record.");
    skill(root, "budget-author", "Draws up a budget.");
    skill(root, "legal-author", "Writes a legal opinion.");
    skill(root, "endless-author", "Never ends.");
    skill(root, "escaping-author", "Reads what it must not.");
    write(root, "modules/skill/_shared/head.md.j2", "{% macro head(t) %}# {{ t }}{% endmacro %}");
    template(
        root,
        "adr-author",
        "{% from '_shared/head.md.j2' import head %}{{ head(inputs.title or workflow.title) }}\n\n{{ inputs.decision_context or '> Open question' }}\n{{ inputs.nothing.at.all }}\nfor {{ workflow.persona }} on {{ date }} ({{ trace_id }})",
    );
    template(
        root,
        "adr-audit",
        "# Review\n\n{% for name, text in previous|items %}- {{ name }}: {{ text|length > 0 }}\n{% endfor %}artefact: {{ inputs.artefact|length > 0 }}",
    );
    template(root, "legal-author", "Opinion on {{ inputs.legal }}");
    template(
        root,
        "endless-author",
        "{% for a in range(9999) %}{% for b in range(9999) %}{{ a }}{% endfor %}{% endfor %}",
    );
    template(root, "escaping-author", "{% include '../../../secret' %}");
    dir
}

pub fn workflow(root: &Path, persona: &str, slug: &str, purpose: &str, chain: &str) {
    let chain = if chain.is_empty() { " []\n".into() } else { format!("\n{chain}") };
    write(
        root,
        &format!("modules/cuo/{persona}/workflows/{slug}.md"),
        &format!(
            "---\nworkflow_id: cuo/{persona}/{slug}\nworkflow_version: 1.0\npurpose: {purpose}\npersona: cuo/{persona}\ncadence: on-demand\nstatus: shipped\ninputs:\n  - {{name: decision_context, source: caller, format: markdown}}\n  - title\noutputs:\n  - name: adr\nskill_chain:{chain}---\n\n# {slug}\n"
        ),
    );
}

fn skill(root: &Path, name: &str, description: &str) {
    write(
        root,
        &format!("modules/skill/{name}/SKILL.md"),
        &format!(
            "---\nname: {name}\ndescription: {description}\nlicense: Apache-2.0\nmetadata: {{version: 2, module: skill}}\nexpects:\n  required_fields: [decision_context]\nproduces: [report]\n---\n\n# {name}\n\n## When to use\n\nWhenever it fits.\n\n## Steps\n\n1. Read.\n2. Write.\n"
        ),
    );
}

fn template(root: &Path, skill: &str, text: &str) {
    write(root, &format!("modules/skill/{skill}/templates/artefact.md.j2"), text);
}
