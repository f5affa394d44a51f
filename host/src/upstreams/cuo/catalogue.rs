//! The catalogue: personas, their workflows, and the skills that workflows chain.
//!
//! Values and look-ups only. How they are read from disk is `reading`, how a query finds one is `router`, how long
//! they are kept is `cache`.

use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::OnceLock;

use super::tree::Tree;
use super::{reading, router, text};

/// Everything under one root, as of one reading.
#[derive(Debug, Default)]
pub struct Catalogue {
    pub tree: Tree,
    /// By slug. An extinct persona is here with no workflows.
    pub personas: BTreeMap<String, Persona>,
    /// By name (the folder's).
    pub skills: BTreeMap<String, Skill>,
    index: OnceLock<router::Index>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Persona {
    pub slug: String,
    pub title: String,
    /// In order of slug.
    pub workflows: Vec<Workflow>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Workflow {
    pub slug: String,
    /// The persona's slug, as its folder says.
    pub persona: String,
    pub title: String,
    pub purpose: String,
    pub version: String,
    pub cadence: String,
    pub status: String,
    /// `linear` when the file names none.
    pub pattern: String,
    pub inputs: Vec<Parameter>,
    pub outputs: Vec<Parameter>,
    /// Empty for a retired workflow.
    pub skill_chain: Vec<Step>,
    pub escalates_to: Vec<String>,
    pub consults: Vec<String>,
}

/// Something that a workflow takes or gives.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Parameter {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required: Option<bool>,
}

/// One link of a skill chain.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Step {
    /// From 1, as the file numbers it.
    pub step: u32,
    pub skill: String,
    pub inputs_from: Vec<Binding>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outputs_to: Option<String>,
    /// An expression over the inputs, or prose for a reader.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
}

/// `to` is what the skill calls the value, `from` a workflow input or an earlier step's `outputs_to`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Binding {
    pub to: String,
    pub from: String,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Skill {
    pub name: String,
    pub description: String,
    pub version: Option<String>,
    pub license: Option<String>,
    /// Name of the document that it makes.
    pub produces: String,
    /// For `x-author` with a sibling `x-audit`, and the other way round: the sibling's name.
    pub counterpart: Option<String>,
}

/// A file or folder that was skipped, or read in part. For the log and `doctor`, not for callers: it names a path.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    pub path: PathBuf,
    pub what: String,
}

impl Catalogue {
    /// Read `modules/{cuo,skill}`. Never fails: what cannot be read is a [`Problem`], and an absent tree is an
    /// empty catalogue with one.
    pub fn load(tree: &Tree) -> (Catalogue, Vec<Problem>) {
        reading::load(tree)
    }

    pub(super) fn of(tree: Tree, personas: BTreeMap<String, Persona>, skills: BTreeMap<String, Skill>) -> Self {
        Catalogue { tree, personas, skills, index: OnceLock::new() }
    }

    pub fn persona(&self, slug: &str) -> Option<&Persona> {
        self.personas.get(slug.strip_prefix("cuo/").unwrap_or(slug))
    }

    pub fn workflow(&self, persona: &str, slug: &str) -> Option<&Workflow> {
        self.persona(persona)?.workflows.iter().find(|w| w.slug == slug)
    }

    /// Personas that can be asked: those with a workflow.
    pub fn active_personas(&self) -> impl Iterator<Item = &Persona> {
        self.personas.values().filter(|p| !p.workflows.is_empty())
    }

    pub fn workflows(&self) -> impl Iterator<Item = &Workflow> {
        self.personas.values().flat_map(|p| &p.workflows)
    }

    /// Up to three slugs that the caller may have meant, best first.
    pub fn personas_like(&self, wrong: &str) -> Vec<String> {
        nearest(wrong, self.active_personas().map(|p| p.slug.clone()))
    }

    /// Up to three workflows that the caller may have meant: the persona's own by slug, and the same slug elsewhere as
    /// `persona/workflow`.
    pub fn workflows_like(&self, persona: &Persona, wrong: &str) -> Vec<String> {
        let elsewhere = self.workflows().filter(|w| w.slug == wrong).map(|w| w.id());
        let mut near: Vec<String> = elsewhere.take(1).collect();
        near.extend(nearest(wrong, persona.workflows.iter().map(|w| w.slug.clone())));
        near.truncate(3);
        near
    }

    pub fn skills_like(&self, wrong: &str) -> Vec<String> {
        nearest(wrong, self.skills.keys().cloned())
    }

    pub(super) fn index(&self) -> &router::Index {
        self.index.get_or_init(|| router::Index::build(self))
    }
}

impl Workflow {
    /// `persona/workflow`, as CyberOS writes it.
    pub fn id(&self) -> String {
        format!("{}/{}", self.persona, self.slug)
    }

    /// A workflow that was retired says so, or has nothing left in its chain.
    pub fn runnable(&self) -> bool {
        !self.skill_chain.is_empty() && self.status != "retired"
    }
}

/// What a skill's document is called when nothing else is said: "risk-register-author" makes a `risk_register`.
pub(super) fn document_name(skill: &str) -> String {
    skill.strip_suffix("-author").unwrap_or(skill).replace('-', "_")
}

fn nearest(wrong: &str, all: impl Iterator<Item = String>) -> Vec<String> {
    // A slug is at most a few dozen bytes; a caller's kilobytes are no typing mistake.
    let wrong = text::normalise(&wrong.chars().take(100).collect::<String>()).replace([' ', '_'], "-");
    let mut scored: Vec<(f64, String)> =
        all.map(|slug| (text::likeness(&wrong, &slug), slug)).filter(|(likeness, _)| *likeness >= 0.4).collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    scored.into_iter().take(3).map(|(_, slug)| slug).collect()
}
