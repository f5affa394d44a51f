//! `cyberos.skill.invoke_skill`: one skill on its own, outside any workflow.

use cyberos_plugin_sdk::cuo::{self, Execution};
use cyberos_plugin_sdk::prelude::*;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The skill's id, as list_catalog gives it, such as `adr-author`.
    skill: Slug,
    /// What the skill works on, by name.
    inputs: Option<Map<String, Value>>,
    /// The run is stopped after this many seconds; the server's default when absent.
    #[schemars(range(min = 1, max = 3600))]
    #[expect(dead_code, reason = "the host reads it and stops the call")]
    timeout_seconds: Option<u32>,
}

struct InvokeSkill;

impl Tool for InvokeSkill {
    const NAME: &'static str = "cyberos.skill.invoke_skill";
    const TITLE: &'static str = "Invoke a skill";
    const DESCRIPTION: &'static str = "Runs one CyberOS skill on the given inputs and returns the document that it writes. Use it for a single piece of \
        work, such as one draft or one review; use execute_workflow when several skills belong together. Skill ids come \
        from list_catalog. It may take a while and answers at once with a task: follow it with tasks/get, stop it with \
        tasks/cancel.";
    const ANNOTATIONS: Annotations = WRITE;
    const SCOPES: &'static [&'static str] = &["cyberos:skill:invoke"];
    const TASK_SUPPORT: TaskSupport = TaskSupport::Optional;
    type Arguments = Arguments;
    type Output = Execution;

    fn call(arguments: Arguments) -> Result<Execution, ToolError> {
        let inputs = arguments.inputs.unwrap_or_default();
        cuo::request("skill.invoke", &json!({ "skill": arguments.skill, "inputs": inputs }))
    }
}

export_tools!(InvokeSkill);
