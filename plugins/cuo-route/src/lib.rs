//! `cyberos.cuo.route`: from a request in plain words to the persona and workflow that answer it.

use cyberos_plugin_sdk::cuo;
use cyberos_plugin_sdk::prelude::*;

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// What is wanted, in any language, such as `draft an architecture decision for the payments queue`.
    #[schemars(length(max = 5000))]
    query: String,
}

/// Persona and workflow are null when nothing fits; that is an answer, not an error.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Routing {
    /// Whether a workflow fits.
    matched: bool,
    /// The persona's slug, or null.
    persona: Option<String>,
    /// The workflow's slug, or null.
    workflow: Option<String>,
    /// 0 (no match) to 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    confidence: f64,
    /// What else may be meant, as `persona/workflow`, best first.
    #[serde(default)]
    alternates: Vec<String>,
    /// Why, in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    rationale: Option<String>,
    /// What to do when nothing matched.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

struct Route;

impl Tool for Route {
    const NAME: &'static str = "cyberos.cuo.route";
    const TITLE: &'static str = "Find the workflow for a request";
    const DESCRIPTION: &'static str = "Finds the CyberOS persona and workflow that fit a request in plain words, with a confidence and alternatives. Use \
        it first when a person asks for a piece of work and names neither. If `matched` is true, see the inputs with \
        list_workflows and run it with execute_workflow; if confidence is low, ask the person to choose among the \
        alternatives. No match is an ordinary answer with a hint.";
    const ANNOTATIONS: Annotations = READ_ONLY;
    const SCOPES: &'static [&'static str] = &["cyberos:cuo:route"];
    type Arguments = Arguments;
    type Output = Routing;

    fn call(arguments: Arguments) -> Result<Routing, ToolError> {
        cuo::request("cuo.route", &arguments)
    }
}

export_tools!(Route);
