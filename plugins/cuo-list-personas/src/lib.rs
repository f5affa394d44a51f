//! `cyberos.cuo.list_personas`: who can be asked.

use cyberos_plugin_sdk::cuo;
use cyberos_plugin_sdk::prelude::*;

#[derive(Serialize, Deserialize, JsonSchema)]
struct Personas {
    /// Those that can be asked, in order of slug.
    personas: Vec<Persona>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Persona {
    /// Pass this as `persona` to the other tools.
    slug: String,
    /// For people.
    title: String,
    /// How many workflows it can run.
    workflow_count: u32,
}

struct ListPersonas;

impl Tool for ListPersonas {
    const NAME: &'static str = "cyberos.cuo.list_personas";
    const TITLE: &'static str = "List CUO personas";
    const DESCRIPTION: &'static str = "Lists every CyberOS persona (chief technology officer, chief financial officer, …) with its slug, title and \
        number of workflows. Use it first when you do not know which persona fits; pass a slug to list_workflows.";
    const ANNOTATIONS: Annotations = READ_ONLY;
    const SCOPES: &'static [&'static str] = &["cyberos:cuo:list"];
    type Arguments = NoArguments;
    type Output = Personas;

    fn call(_: NoArguments) -> Result<Personas, ToolError> {
        cuo::request("cuo.list_personas", &json!({}))
    }
}

export_tools!(ListPersonas);
