//! Which workflow a sentence asks for: keyword scoring in two stages, no language model.
//!
//! First personas are scored; when one is clearly meant, only the best three are searched, else all. Then workflows
//! are scored. Confidence is sqrt(persona * workflow) when a persona was clear, else 0.85 * workflow; 0.5 is needed.
//! "No match" is an ordinary answer. Source: the CyberOS router, with its bank of acronyms keyed so that "CTO" counts.

use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};

use super::catalogue::Catalogue;
use super::keywords::{PERSONAS, STOP_WORDS, VIETNAMESE, WORKFLOWS};
use super::text::{normalise, phrase_line, stem, words};

/// What a persona, a workflow and a match must reach.
const ACCEPT: f64 = 0.5;
/// Below this an alternative is noise.
const MENTION: f64 = 0.25;
const WITHOUT_PERSONA: f64 = 0.85;
/// A query's first bytes decide; the rest only costs time.
const MAX_QUERY_BYTES: usize = 16 << 10;

#[derive(Clone, Debug, PartialEq)]
pub struct Routing {
    pub matched: Option<Match>,
    /// `persona/workflow`, best first, at most three, without the match.
    pub alternates: Vec<String>,
    /// One or two sentences for a person.
    pub rationale: String,
    /// What to do when nothing matched.
    pub hint: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Match {
    pub persona: String,
    pub workflow: String,
    /// 0.5 to 1, two decimals.
    pub confidence: f64,
}

impl Routing {
    /// `{matched, persona, workflow, confidence, alternates, rationale, hint?}`; without a match persona and workflow
    /// are null and confidence is 0.
    pub fn to_json(&self) -> Value {
        let mut answer = json!({
            "matched": self.matched.is_some(),
            "persona": self.matched.as_ref().map(|m| &m.persona),
            "workflow": self.matched.as_ref().map(|m| &m.workflow),
            "confidence": self.matched.as_ref().map_or(0.0, |m| m.confidence),
            "alternates": self.alternates,
            "rationale": self.rationale,
        });
        if let Some(hint) = &self.hint {
            answer["hint"] = hint.as_str().into();
        }
        answer
    }
}

/// The catalogue's words, stemmed once.
#[derive(Debug)]
pub struct Index {
    personas: Vec<PersonaWords>,
    workflows: Vec<WorkflowWords>,
    /// How rare a slug's word is; "annual" says little, "adr" much.
    rarity: HashMap<String, f64>,
}

#[derive(Debug)]
struct PersonaWords {
    slug: String,
    /// " chief technology officer ", stemmed.
    name: String,
    phrases: Vec<(String, f64)>,
}

#[derive(Debug)]
struct WorkflowWords {
    persona: usize,
    slug: String,
    name: String,
    slug_words: Vec<String>,
    purpose: HashSet<String>,
    phrases: Vec<(String, f64)>,
}

impl Index {
    pub(super) fn build(catalogue: &Catalogue) -> Self {
        let stop: HashSet<&str> = STOP_WORDS.iter().copied().collect();
        let mut index = Index { personas: Vec::new(), workflows: Vec::new(), rarity: HashMap::new() };
        let mut seen: HashMap<String, usize> = HashMap::new();
        for persona in catalogue.active_personas() {
            let at = index.personas.len();
            index.personas.push(PersonaWords {
                slug: persona.slug.clone(),
                name: stem_line(&persona.slug),
                phrases: persona_phrases(&persona.slug),
            });
            for workflow in persona.workflows.iter().filter(|w| w.runnable()) {
                let slug_words: Vec<String> = content_stems(&workflow.slug, &stop).collect();
                for word in &slug_words {
                    *seen.entry(word.clone()).or_default() += 1;
                }
                index.workflows.push(WorkflowWords {
                    persona: at,
                    slug: workflow.slug.clone(),
                    name: stem_line(&workflow.slug),
                    slug_words,
                    purpose: content_stems(&workflow.purpose, &stop).collect(),
                    phrases: bank(WORKFLOWS, &workflow.slug),
                });
            }
        }
        let total = index.workflows.len() as f64;
        index.rarity = seen.into_iter().map(|(word, n)| (word, ((1.0 + total) / (n as f64)).ln().max(0.1))).collect();
        index
    }
}

/// Find the workflow that `query` asks for.
pub fn route(catalogue: &Catalogue, query: &str) -> Routing {
    let query = Query::read(query);
    if query.content.is_empty() {
        return Routing::none(
            "The query holds no words to route by.",
            "Say in one sentence what should be done, for example: record the decision to use Postgres as an ADR.",
        );
    }
    let index = catalogue.index();
    let personas = score_personas(index, &query);
    let clear = personas.first().is_some_and(|(_, score, _)| *score >= ACCEPT);

    let mut candidates = Vec::new();
    if clear {
        for &(at, persona, _) in personas.iter().take(3) {
            candidates.extend(
                score_workflows(index, &query, Some(at)).map(|(w, score)| (w, score, (persona * score).sqrt())),
            );
        }
    }
    if !candidates.iter().any(acceptable) {
        candidates.extend(score_workflows(index, &query, None).map(|(w, score)| (w, score, score * WITHOUT_PERSONA)));
    }
    candidates.sort_by(|a, b| {
        b.2.total_cmp(&a.2).then(b.1.total_cmp(&a.1)).then_with(|| id(index, a.0).cmp(&id(index, b.0)))
    });

    let best = candidates.iter().find(|c| acceptable(c)).copied();
    let matched = best.map(|(w, _, confidence)| Match {
        persona: index.personas[index.workflows[w].persona].slug.clone(),
        workflow: index.workflows[w].slug.clone(),
        confidence: (confidence.min(1.0) * 100.0).round() / 100.0,
    });
    let mut alternates: Vec<String> = Vec::new();
    for &(w, _, confidence) in &candidates {
        let name = id(index, w);
        if confidence >= MENTION && best.is_none_or(|b| b.0 != w) && !alternates.contains(&name) && alternates.len() < 3
        {
            alternates.push(name);
        }
    }
    let Some(best) = best else {
        let nearest = alternates.first().map_or(String::new(), |a| format!(" The nearest is {a}."));
        return Routing {
            alternates,
            ..Routing::none(
                &format!("No workflow fits well enough.{nearest}"),
                "Name the persona (such as CTO) or the kind of document that you want, or list the personas and their workflows.",
            )
        };
    };
    Routing { matched, alternates, rationale: rationale(index, &query, &personas, best, clear), hint: None }
}

impl Routing {
    fn none(rationale: &str, hint: &str) -> Self {
        Routing { matched: None, alternates: Vec::new(), rationale: rationale.into(), hint: Some(hint.into()) }
    }
}

/// A query as both stages read it.
struct Query {
    /// Stems in order, with a space at either end of each.
    line: String,
    content: HashSet<String>,
}

impl Query {
    fn read(query: &str) -> Self {
        let cut = query.floor_char_boundary(MAX_QUERY_BYTES);
        let translated = translate(&phrase_line(&query[..cut]));
        let stop: HashSet<&str> = STOP_WORDS.iter().copied().collect();
        let content = content_stems(&translated, &stop).collect();
        Query { line: stem_line(&translated), content }
    }
}

/// Put English words in place of Vietnamese phrases.
fn translate(line: &str) -> String {
    let mut phrases: Vec<_> = VIETNAMESE.to_vec();
    phrases.sort_by_key(|(vietnamese, _)| std::cmp::Reverse(vietnamese.len()));
    let mut line = line.to_owned();
    for (vietnamese, english) in phrases {
        let spaced = format!(" {vietnamese} ");
        // Replacing leaves the spaces between words in place, so neighbouring phrases are still found.
        while let Some(at) = line.find(&spaced) {
            line.replace_range(at + 1..at + spaced.len() - 1, english);
        }
    }
    line
}

fn stem_line(text: &str) -> String {
    let normalised = normalise(text);
    let mut line = String::from(" ");
    for word in words(&normalised) {
        line.push_str(stem(word));
        line.push(' ');
    }
    line
}

fn content_stems<'a>(text: &str, stop: &'a HashSet<&str>) -> impl Iterator<Item = String> + use<'a> {
    let normalised = normalise(text);
    let found: Vec<String> = words(&normalised).filter(|w| !stop.contains(w)).map(|w| stem(w).to_owned()).collect();
    found.into_iter()
}

fn bank(table: &[(&str, &[(&str, f64)])], slug: &str) -> Vec<(String, f64)> {
    let phrases = table.iter().filter(|(of, _)| *of == slug).flat_map(|(_, phrases)| phrases.iter());
    phrases.map(|(phrase, weight)| (stem_line(phrase), *weight)).collect()
}

/// The bank's phrases; for a persona that it does not know, the words that tell it from others, and its initials.
fn persona_phrases(slug: &str) -> Vec<(String, f64)> {
    let known = bank(PERSONAS, slug);
    if !known.is_empty() {
        return known;
    }
    let telling: Vec<&str> =
        slug.split('-').filter(|w| !matches!(*w, "chief" | "officer" | "of" | "head" | "vp")).collect();
    let mut phrases = vec![(stem_line(&telling.join(" ")), 0.5)];
    let initials: String = slug.split('-').filter_map(|w| w.chars().next()).collect();
    if initials.len() >= 3 {
        phrases.push((stem_line(&initials), 0.6));
    }
    phrases
}

fn phrase_score(phrases: &[(String, f64)], line: &str) -> f64 {
    phrases.iter().filter(|(phrase, _)| line.contains(phrase.as_str())).map(|(_, weight)| weight).sum()
}

/// Personas with a score, best first: index, score, what spoke for it.
fn score_personas<'a>(index: &'a Index, query: &Query) -> Vec<(usize, f64, Vec<&'a str>)> {
    let mut scored: Vec<_> = index
        .personas
        .iter()
        .enumerate()
        .filter_map(|(at, persona)| {
            let named = if query.line.contains(&persona.name) { 0.6 } else { 0.0 };
            let score = f64::min(1.0, named + phrase_score(&persona.phrases, &query.line));
            let because =
                persona.phrases.iter().filter(|(p, _)| query.line.contains(p.as_str())).map(|(p, _)| p.trim());
            (score > 0.0).then(|| (at, score, because.collect::<Vec<_>>()))
        })
        .collect();
    scored.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| index.personas[a.0].slug.cmp(&index.personas[b.0].slug)));
    scored
}

fn score_workflows(index: &Index, query: &Query, persona: Option<usize>) -> impl Iterator<Item = (usize, f64)> {
    index
        .workflows
        .iter()
        .enumerate()
        .filter(move |(_, workflow)| persona.is_none_or(|p| p == workflow.persona))
        .map(|(at, workflow)| (at, score_workflow(index, query, workflow)))
}

fn score_workflow(index: &Index, query: &Query, workflow: &WorkflowWords) -> f64 {
    let named = if query.line.contains(&workflow.name) { 0.6 } else { 0.0 };
    let rarity = |word: &String| index.rarity.get(word).copied().unwrap_or(1.0);
    let all: f64 = workflow.slug_words.iter().map(rarity).sum();
    let met: f64 = workflow.slug_words.iter().filter(|w| query.content.contains(*w)).map(rarity).sum();
    let slug = if all > 0.0 { 0.7 * met / all } else { 0.0 };
    // Against at most six words: a long query must not make every purpose look distant.
    let wanted = query.content.len().clamp(1, 6) as f64;
    let shared = query.content.iter().filter(|w| workflow.purpose.contains(*w)).count() as f64;
    let purpose = 0.3 * f64::min(1.0, shared / wanted);
    f64::min(1.0, named + slug + purpose + phrase_score(&workflow.phrases, &query.line))
}

fn acceptable(candidate: &(usize, f64, f64)) -> bool {
    candidate.1 >= ACCEPT && candidate.2 >= ACCEPT
}

fn id(index: &Index, workflow: usize) -> String {
    let workflow = &index.workflows[workflow];
    format!("{}/{}", index.personas[workflow.persona].slug, workflow.slug)
}

fn rationale(
    index: &Index,
    query: &Query,
    personas: &[(usize, f64, Vec<&str>)],
    (best, score, _): (usize, f64, f64),
    clear: bool,
) -> String {
    let workflow = &index.workflows[best];
    let met: Vec<&str> =
        workflow.slug_words.iter().filter(|w| query.content.contains(*w)).map(String::as_str).collect();
    let words = if met.is_empty() { "its keywords".into() } else { met.join(", ") };
    let workflow_part = format!("workflow {} scored {score:.2} on {words}", workflow.slug);
    let persona = personas.iter().find(|(at, ..)| *at == workflow.persona).filter(|_| clear);
    match persona {
        Some((at, score, because)) => {
            let because = if because.is_empty() { "its name".into() } else { because.join(", ") };
            format!("Persona {} scored {score:.2} on {because}; {workflow_part}.", index.personas[*at].slug)
        }
        None => format!("No persona was named clearly; {workflow_part}."),
    }
}

#[cfg(test)]
mod tests;
