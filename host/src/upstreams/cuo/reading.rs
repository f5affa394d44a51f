//! Reads a CyberOS tree: `modules/cuo/<persona>/{README.md,workflows/*.md}`, `modules/skill/<name>/SKILL.md`.
//!
//! An ill-formed file is reported and skipped, never fatal: one bad file in a checkout of hundreds must not take the
//! catalogue away. Files are parsed on all cores, because a cold start waits for this.

use serde_json::{Map, Value};
use std::collections::BTreeMap;

use super::catalogue::{Binding, Catalogue, Parameter, Persona, Problem, Skill, Step, Workflow, document_name};
use super::frontmatter::{self, text_of, texts_of};
use super::text::title_of_slug;
use super::tree::Tree;

/// Folders of `modules/cuo` that hold no persona.
const NOT_PERSONAS: [&str; 4] = ["_template", "docs", "cuo", "tests"];
/// More files than this in one tree is a wrong `CYBEROS_ROOT`, not a catalogue.
const MAX_FILES: usize = 20_000;
/// A chain that is longer is a mistake; the longest known has 32 steps.
const MAX_STEPS: usize = 200;

/// What one file gives.
enum Read1 {
    Title(String, String),
    Workflow(Box<Workflow>),
    Skill(Skill),
}

enum Job {
    Title { persona: String, path: String },
    Workflow { persona: String, slug: String, path: String },
    Skill { name: String, path: String },
}

pub(super) fn load(tree: &Tree) -> (Catalogue, Vec<Problem>) {
    let mut problems = Vec::new();
    let (slugs, mut jobs) = persona_jobs(tree, &mut problems);
    jobs.extend(skill_jobs(tree, &mut problems));
    if jobs.len() > MAX_FILES {
        problems
            .push(Problem { path: tree.shown(""), what: format!("more than {MAX_FILES} files; the rest is skipped") });
        jobs.truncate(MAX_FILES);
    }

    let mut personas: BTreeMap<String, Persona> = slugs
        .into_iter()
        .map(|slug| (slug.clone(), Persona { title: title_of_slug(&slug), slug, workflows: Vec::new() }))
        .collect();
    let mut skills = BTreeMap::new();
    for outcome in read_all(tree, &jobs) {
        match outcome {
            Ok(Read1::Title(slug, title)) => {
                if let Some(persona) = personas.get_mut(&slug) {
                    persona.title = title;
                }
            }
            Ok(Read1::Workflow(workflow)) => {
                if let Some(persona) = personas.get_mut(&workflow.persona) {
                    persona.workflows.push(*workflow);
                }
            }
            Ok(Read1::Skill(skill)) => {
                skills.insert(skill.name.clone(), skill);
            }
            Err(problem) => problems.push(problem),
        }
    }
    for persona in personas.values_mut() {
        persona.workflows.sort_by(|a, b| a.slug.cmp(&b.slug));
    }
    pair_up(&mut skills);
    problems.sort_by(|a, b| a.path.cmp(&b.path));
    (Catalogue::of(tree.clone(), personas, skills), problems)
}

fn persona_jobs(tree: &Tree, problems: &mut Vec<Problem>) -> (Vec<String>, Vec<Job>) {
    let (mut slugs, mut jobs) = (Vec::new(), Vec::new());
    for persona in entries(tree, "modules/cuo", problems) {
        if NOT_PERSONAS.contains(&persona.as_str()) || persona.starts_with(['.', '_']) {
            continue;
        }
        let readme = format!("modules/cuo/{persona}/README.md");
        let workflows = format!("modules/cuo/{persona}/workflows");
        let (has_readme, has_workflows) = (tree.is_file(&readme), tree.is_dir(&workflows));
        // `src`, `schemas` and their like are neither; nor are files.
        if !has_readme && !has_workflows {
            continue;
        }
        if has_readme {
            jobs.push(Job::Title { persona: persona.clone(), path: readme });
        }
        for name in if has_workflows { entries(tree, &workflows, problems) } else { Vec::new() } {
            let Some(slug) = name.strip_suffix(".md") else { continue };
            let path = format!("{workflows}/{name}");
            if slug.starts_with(['.', '_']) || slug.eq_ignore_ascii_case("readme") || !tree.is_file(&path) {
                continue;
            }
            jobs.push(Job::Workflow { persona: persona.clone(), slug: slug.to_owned(), path });
        }
        slugs.push(persona);
    }
    (slugs, jobs)
}

fn skill_jobs(tree: &Tree, problems: &mut Vec<Problem>) -> Vec<Job> {
    entries(tree, "modules/skill", problems)
        .into_iter()
        .filter(|name| !name.starts_with(['.', '_']))
        .map(|name| (format!("modules/skill/{name}/SKILL.md"), name))
        // `crates`, `docs` and their like hold no skill.
        .filter(|(path, _)| tree.is_file(path))
        .map(|(path, name)| Job::Skill { name, path })
        .collect()
}

fn entries(tree: &Tree, dir: &str, problems: &mut Vec<Problem>) -> Vec<String> {
    tree.entries(dir).unwrap_or_else(|e| {
        problems.push(Problem { path: tree.shown(dir), what: format!("the folder cannot be listed: {e}") });
        Vec::new()
    })
}

fn read_all(tree: &Tree, jobs: &[Job]) -> Vec<Result<Read1, Problem>> {
    let workers = std::thread::available_parallelism().map_or(1, |n| n.get()).min(8);
    let share = jobs.len().div_ceil(workers).max(1);
    let read_some = |jobs: &[Job]| jobs.iter().map(|job| read_one(tree, job)).collect::<Vec<_>>();
    if jobs.len() < 32 || workers == 1 {
        return read_some(jobs);
    }
    std::thread::scope(|scope| {
        let running: Vec<_> = jobs.chunks(share).map(|chunk| scope.spawn(|| read_some(chunk))).collect();
        running.into_iter().flat_map(|worker| worker.join().expect("a file's reader does not panic")).collect()
    })
}

fn read_one(tree: &Tree, job: &Job) -> Result<Read1, Problem> {
    let (Job::Title { path, .. } | Job::Workflow { path, .. } | Job::Skill { path, .. }) = job;
    let problem = |what: String| Problem { path: tree.shown(path), what };
    let text = tree.read(path).map_err(problem)?;
    match job {
        Job::Title { persona, .. } => {
            Ok(Read1::Title(persona.clone(), title_in_readme(&text).unwrap_or_else(|| title_of_slug(persona))))
        }
        Job::Workflow { persona, slug, .. } => {
            let fields = frontmatter::parse(&text).map_err(problem)?.fields;
            let workflow = workflow(persona, slug, &fields).map_err(problem)?;
            Ok(Read1::Workflow(Box::new(workflow)))
        }
        Job::Skill { name, .. } => {
            let fields = frontmatter::parse(&text).map_err(problem)?.fields;
            Ok(Read1::Skill(skill(name, &fields).map_err(problem)?))
        }
    }
}

/// The README's line "Full disambiguated title" (a table row, a bullet or a bold label), else its first heading.
fn title_in_readme(text: &str) -> Option<String> {
    const LABEL: &str = "full disambiguated title";
    let clean = |s: &str| {
        let s = s.trim_matches(|c: char| c.is_whitespace() || "*|:_`—–-".contains(c));
        (!s.is_empty()).then(|| s.to_owned())
    };
    let labelled = text.lines().find_map(|line| {
        let at = line.to_ascii_lowercase().find(LABEL)?;
        clean(&line[at + LABEL.len()..])
    });
    labelled.or_else(|| text.lines().find_map(|line| clean(line.strip_prefix("# ")?)))
}

fn workflow(persona: &str, slug: &str, fields: &Map<String, Value>) -> Result<Workflow, String> {
    let purpose = text_of(fields, &["purpose", "description"]).ok_or("the frontmatter has no purpose")?;
    let skill_chain = match fields.get("skill_chain") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(steps)) if steps.len() <= MAX_STEPS => {
            steps.iter().enumerate().map(|(at, step)| chain_step(at, step)).collect::<Result<_, _>>()?
        }
        Some(Value::Array(_)) => return Err(format!("skill_chain has more than {MAX_STEPS} steps")),
        Some(_) => return Err("skill_chain is no list".into()),
    };
    Ok(Workflow {
        slug: slug.to_owned(),
        persona: persona.to_owned(),
        title: text_of(fields, &["title", "name"]).unwrap_or_else(|| title_of_slug(slug)),
        purpose,
        version: text_of(fields, &["workflow_version", "version"]).unwrap_or_default(),
        cadence: text_of(fields, &["cadence"]).unwrap_or_default(),
        status: text_of(fields, &["status"]).unwrap_or_default(),
        pattern: text_of(fields, &["pattern"]).unwrap_or_else(|| "linear".into()),
        inputs: parameters(fields.get("inputs")),
        outputs: parameters(fields.get("outputs")),
        skill_chain,
        escalates_to: texts_of(fields, "escalates_to"),
        consults: texts_of(fields, "consults"),
    })
}

fn chain_step(at: usize, value: &Value) -> Result<Step, String> {
    let number = u32::try_from(at + 1).expect("a chain has at most 200 steps");
    if let Some(skill) = frontmatter::text(value) {
        return Ok(Step { step: number, skill, ..Step::default() });
    }
    let Value::Object(fields) = value else {
        return Err(format!("step {number} of skill_chain is neither a name nor a mapping"));
    };
    let skill = text_of(fields, &["skill", "skill_id", "name"]).ok_or(format!("step {number} names no skill"))?;
    Ok(Step {
        step: text_of(fields, &["step"]).and_then(|s| s.parse().ok()).unwrap_or(number),
        // Some chains write `skill/x-author` or `cuo/skill/x-author`; the folder's name is what counts.
        skill: skill.rsplit('/').next().unwrap_or_default().to_owned(),
        inputs_from: bindings(fields.get("inputs_from")),
        outputs_to: fields.get("outputs_to").and_then(first_name),
        condition: text_of(fields, &["condition", "when"]),
    })
}

fn first_name(value: &Value) -> Option<String> {
    match value {
        Value::Array(items) => items.iter().find_map(first_name),
        Value::Object(map) => text_of(map, &["name", "id"])
            .or_else(|| map.values().find_map(frontmatter::text))
            .or(map.keys().next().cloned()),
        other => frontmatter::text(other),
    }
}

/// `prd`, `prd, quarter`, `[prd, quarter]` and `{artefact: prd}` all occur.
fn bindings(value: Option<&Value>) -> Vec<Binding> {
    let same = |name: &str| Binding { to: name.to_owned(), from: name.to_owned() };
    match value {
        Some(Value::Object(map)) => map
            .iter()
            .flat_map(|(to, from)| match from {
                Value::Array(many) => many.iter().filter_map(frontmatter::text).map(|f| (to.clone(), f)).collect(),
                one => vec![(to.clone(), first_name(one).unwrap_or_else(|| to.clone()))],
            })
            .map(|(to, from)| Binding { to, from })
            .collect(),
        Some(Value::Array(items)) => items.iter().flat_map(|item| bindings(Some(item))).collect(),
        Some(Value::String(names)) => names.split(',').map(str::trim).filter(|n| !n.is_empty()).map(same).collect(),
        Some(other) => frontmatter::text(other).iter().map(|name| same(name)).collect(),
        None => Vec::new(),
    }
}

fn parameters(value: Option<&Value>) -> Vec<Parameter> {
    let named = |name: String| Parameter { name, ..Parameter::default() };
    let of_map = |name: String, map: &Map<String, Value>| Parameter {
        name,
        source: text_of(map, &["source", "from"]),
        format: text_of(map, &["format", "type"]),
        description: text_of(map, &["description", "purpose", "ask"]),
        required: map.get("required").and_then(Value::as_bool),
    };
    match value {
        Some(Value::Array(items)) => items
            .iter()
            .filter_map(|item| match item {
                Value::Object(map) => match text_of(map, &["name", "id", "artefact", "artifact"]) {
                    Some(name) => Some(of_map(name, map)),
                    // `- prd: the approved requirements`
                    None => map
                        .iter()
                        .next()
                        .map(|(k, v)| Parameter { description: frontmatter::text(v), ..named(k.clone()) }),
                },
                other => frontmatter::text(other).map(named),
            })
            .collect(),
        Some(Value::Object(map)) => map
            .iter()
            .map(|(name, value)| match value {
                Value::Object(fields) => of_map(name.clone(), fields),
                other => Parameter { description: frontmatter::text(other), ..named(name.clone()) },
            })
            .collect(),
        Some(other) => frontmatter::text(other).map(named).into_iter().collect(),
        None => Vec::new(),
    }
}

fn skill(folder: &str, fields: &Map<String, Value>) -> Result<Skill, String> {
    let metadata = fields.get("metadata").and_then(Value::as_object);
    Ok(Skill {
        name: folder.to_owned(),
        description: text_of(fields, &["description"]).ok_or("the frontmatter has no description")?,
        version: text_of(fields, &["version"]).or_else(|| text_of(metadata?, &["version"])),
        license: text_of(fields, &["license"]),
        produces: text_of(fields, &["produces"])
            .filter(|name| name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-')))
            .unwrap_or_else(|| document_name(folder)),
        counterpart: None,
    })
}

fn pair_up(skills: &mut BTreeMap<String, Skill>) {
    let counterpart = |name: &str| {
        name.strip_suffix("-author")
            .map(|stem| format!("{stem}-audit"))
            .or_else(|| name.strip_suffix("-audit").map(|stem| format!("{stem}-author")))
    };
    let pairs: Vec<(String, String)> = skills
        .keys()
        .filter_map(|name| counterpart(name).map(|other| (name.clone(), other)))
        .filter(|(_, other)| skills.contains_key(other))
        .collect();
    for (name, other) in pairs {
        if let Some(skill) = skills.get_mut(&name) {
            skill.counterpart = Some(other);
        }
    }
}

#[cfg(test)]
mod tests;
