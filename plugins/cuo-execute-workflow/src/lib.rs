//! `cyberos.cuo.execute_workflow`: a workflow from its first step to its artefacts.

use cyberos_plugin_sdk::cuo::{self, Execution};
use cyberos_plugin_sdk::prelude::*;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The persona's slug, such as `chief-technology-officer`.
    persona: Slug,
    /// The workflow's slug, such as `adr-quick-capture`.
    workflow: Slug,
    /// What the workflow works on, by the input names that list_workflows gives.
    inputs: Option<Map<String, Value>>,
    /// The run is stopped after this many seconds; the server's default when absent.
    #[schemars(range(min = 1, max = 3600))]
    #[expect(dead_code, reason = "the host reads it and stops the call")]
    timeout_seconds: Option<u32>,
}

struct ExecuteWorkflow;

impl Tool for ExecuteWorkflow {
    const NAME: &'static str = "cyberos.cuo.execute_workflow";
    const TITLE: &'static str = "Execute a workflow";
    const DESCRIPTION: &'static str = "Runs a CyberOS workflow: its skills one after another, each working on your inputs and on what the steps before it \
        wrote. Use it when persona and workflow are known (from route or list_workflows) and the person wants the work \
        done. It takes a while and answers at once with a task: follow it with tasks/get, stop it with tasks/cancel. The \
        task's result counts the steps and holds the documents that were written.";
    const ANNOTATIONS: Annotations = Annotations { open_world: true, ..WRITE };
    const SCOPES: &'static [&'static str] = &["cyberos:cuo:execute", "cyberos:memory:write"];
    const TASK_SUPPORT: TaskSupport = TaskSupport::Optional;
    type Arguments = Arguments;
    type Output = Execution;

    fn call(arguments: Arguments) -> Result<Execution, ToolError> {
        let Arguments { persona, workflow, inputs, .. } = arguments;
        let inputs = inputs.unwrap_or_default();
        cuo::request("cuo.execute", &json!({ "persona": persona, "workflow": workflow, "inputs": inputs }))
    }
}

export_tools!(ExecuteWorkflow);
