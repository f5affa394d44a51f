//! The catalogue as JSON: what listing answers, the same in process and from the supervisor.

use serde_json::{Map, Value, json};

use super::catalogue::{Catalogue, Persona, Workflow};
use super::error::CuoError;
use super::router;

/// Answer a method that needs nothing but the catalogue; `None` when the method is another kind.
pub(super) fn answer(catalogue: &Catalogue, method: &str, params: &Value) -> Option<Result<Value, CuoError>> {
    match method {
        "cuo.list_personas" => Some(Ok(personas(catalogue))),
        "cuo.list_workflows" => Some(workflows(catalogue, params)),
        "cuo.route" => Some(text(params, "query").map(|query| router::route(catalogue, query).to_json())),
        "skill.list" => Some(skills(catalogue, params)),
        _ => None,
    }
}

/// `{personas: [{slug, title, workflow_count}]}`, in order of slug; those without a workflow are left out.
fn personas(catalogue: &Catalogue) -> Value {
    let personas: Vec<Value> = catalogue
        .active_personas()
        .map(|p| json!({ "slug": p.slug, "title": p.title, "workflow_count": p.workflows.len() }))
        .collect();
    json!({ "personas": personas })
}

/// `{persona, title, workflows: [{slug, title, purpose, cadence, status, runnable, inputs, outputs, skill_chain, …}]}`
fn workflows(catalogue: &Catalogue, params: &Value) -> Result<Value, CuoError> {
    let persona = persona(catalogue, params)?;
    let workflows: Vec<Value> = persona
        .workflows
        .iter()
        .map(|w| {
            json!({
                "slug": w.slug,
                "title": w.title,
                "purpose": w.purpose,
                "version": w.version,
                "cadence": w.cadence,
                "status": w.status,
                "pattern": w.pattern,
                "runnable": w.runnable(),
                "inputs": w.inputs,
                "outputs": w.outputs,
                "skill_chain": w.skill_chain,
                "escalates_to": w.escalates_to,
                "consults": w.consults,
            })
        })
        .collect();
    Ok(json!({ "persona": persona.slug, "title": persona.title, "workflows": workflows }))
}

/// `{skills: [{id, description, version, pair}]}`; `filter` keeps those whose id or description holds every word of it.
fn skills(catalogue: &Catalogue, params: &Value) -> Result<Value, CuoError> {
    let filter = match params.get("filter") {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(filter)) => super::text::normalise(filter),
        Some(_) => return Err(CuoError::invalid("filter must be a string.")),
    };
    let wanted = |text: &str| {
        let text = super::text::normalise(text);
        filter.split_whitespace().all(|word| text.contains(word))
    };
    let skills: Vec<Value> = catalogue
        .skills
        .values()
        .filter(|s| filter.is_empty() || wanted(&format!("{} {}", s.name, s.description)))
        .map(|s| json!({ "id": s.name, "description": s.description, "version": s.version, "pair": s.counterpart }))
        .collect();
    Ok(json!({ "skills": skills }))
}

pub(super) fn persona<'c>(catalogue: &'c Catalogue, params: &Value) -> Result<&'c Persona, CuoError> {
    let slug = text(params, "persona")?;
    let active = catalogue.persona(slug).filter(|p| !p.workflows.is_empty());
    active.ok_or_else(|| CuoError::not_found("persona", catalogue.personas_like(slug)))
}

pub(super) fn workflow<'c>(catalogue: &'c Catalogue, params: &Value) -> Result<&'c Workflow, CuoError> {
    let persona = persona(catalogue, params)?;
    let slug = text(params, "workflow")?;
    let slug = slug.strip_prefix(&format!("{}/", persona.slug)).unwrap_or(slug);
    let found = persona.workflows.iter().find(|w| w.slug == slug);
    let workflow = found
        .ok_or_else(|| CuoError::not_found("workflow of this persona", catalogue.workflows_like(persona, slug)))?;
    if !workflow.runnable() {
        return Err(CuoError::invalid("This workflow was retired and can no longer be run."));
    }
    Ok(workflow)
}

pub(super) fn text<'p>(params: &'p Value, key: &str) -> Result<&'p str, CuoError> {
    match params.get(key) {
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(CuoError::invalid(format!("{key} must be a string."))),
        None => Err(CuoError::invalid(format!("{key} is missing."))),
    }
}

/// `inputs`: an object, or absent.
pub(super) fn inputs(params: &Value) -> Result<Map<String, Value>, CuoError> {
    match params.get("inputs") {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::Object(inputs)) => Ok(inputs.clone()),
        Some(_) => Err(CuoError::invalid("inputs must be an object.")),
    }
}
