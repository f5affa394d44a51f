//! `cyberos.cuo.list_workflows`: what one persona can do.

use cyberos_plugin_sdk::cuo;
use cyberos_plugin_sdk::prelude::*;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The persona's slug, as list_personas gives it, such as `chief-technology-officer`.
    persona: Slug,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Workflows {
    /// The persona's slug.
    persona: String,
    /// Its title, for people.
    #[serde(default)]
    title: String,
    workflows: Vec<Workflow>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Workflow {
    /// Pass this as `workflow` to execute_workflow.
    slug: String,
    /// For people.
    #[serde(default)]
    title: String,
    /// What it is for.
    #[serde(default)]
    purpose: String,
    /// When it is meant to run, such as `monthly` or `on demand`; empty when the catalogue does not say.
    #[serde(default)]
    cadence: String,
    /// `shipped`, `retired`, …, as the catalogue says.
    #[serde(default)]
    status: String,
    /// A retired workflow cannot be executed.
    #[serde(default = "yes")]
    runnable: bool,
    /// What to put into `inputs` of execute_workflow.
    #[serde(default)]
    inputs: Vec<Parameter>,
    /// What it produces.
    #[serde(default)]
    outputs: Vec<Parameter>,
    /// The skills that it runs, in order.
    #[serde(default)]
    skill_chain: Vec<Step>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Parameter {
    /// The key.
    name: String,
    /// What it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// Such as `markdown` or `date`.
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<String>,
    /// Who or what usually supplies it.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    /// Absent when the catalogue does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    required: Option<bool>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Step {
    /// From 1.
    step: u32,
    /// The skill's id, as list_catalog gives it.
    skill: String,
    /// When this step runs; absent when it always does.
    #[serde(skip_serializing_if = "Option::is_none")]
    condition: Option<String>,
}

struct ListWorkflows;

impl Tool for ListWorkflows {
    const NAME: &'static str = "cyberos.cuo.list_workflows";
    const TITLE: &'static str = "List a persona's workflows";
    const DESCRIPTION: &'static str = "Lists the workflows of one CyberOS persona: what each is for, when it is meant to run, the inputs that it \
        needs and the skills that it chains. Use it when you know the persona and need the workflow or its inputs; then \
        call execute_workflow. Persona slugs come from list_personas; if you only have a request in plain words, use route.";
    const ANNOTATIONS: Annotations = READ_ONLY;
    const SCOPES: &'static [&'static str] = &["cyberos:cuo:list"];
    type Arguments = Arguments;
    type Output = Workflows;

    fn call(arguments: Arguments) -> Result<Workflows, ToolError> {
        cuo::request("cuo.list_workflows", &arguments)
    }
}

fn yes() -> bool {
    true
}

export_tools!(ListWorkflows);
