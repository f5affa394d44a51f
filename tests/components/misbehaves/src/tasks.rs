//! Tools that take long or need a person's word, as their declarations say.

use cyberos_plugin_sdk::prelude::*;
use cyberos_plugin_sdk::progress;
use std::thread::sleep;
use std::time::Duration;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Steps {
    /// How many.
    steps: u32,
    /// Length of each.
    ms: u64,
    /// It fails before this step, from 1; it does not when absent.
    fail_at: Option<u32>,
    /// The host reads it.
    #[schemars(range(min = 1, max = 3600))]
    #[expect(dead_code, reason = "the host reads it and stops the call")]
    timeout_seconds: Option<u32>,
}

#[derive(Serialize, JsonSchema)]
pub struct Done {
    steps_executed: u32,
}

fn work(steps: Steps) -> Result<Done, ToolError> {
    for step in 1..=steps.steps {
        if steps.fail_at == Some(step) {
            return Err(ToolError::Unavailable(format!("step {step} was told to fail")));
        }
        sleep(Duration::from_millis(steps.ms));
        progress::report(step.into(), Some(steps.steps.into()), Some(&format!("step {step}")));
    }
    Ok(Done { steps_executed: steps.steps })
}

macro_rules! task {
    ($tool:ident, $name:literal, $says:literal, $with:expr, $support:expr, $idempotent:literal) => {
        pub struct $tool;

        impl Tool for $tool {
            const NAME: &'static str = concat!("test.", $name);
            const TITLE: &'static str = $name;
            const DESCRIPTION: &'static str = concat!("Test guest: ", $says);
            const ANNOTATIONS: Annotations = $with;
            const TASK_SUPPORT: TaskSupport = $support;
            const IDEMPOTENT_TASK: bool = $idempotent;
            type Arguments = Steps;
            type Output = Done;

            fn call(arguments: Steps) -> Result<Done, ToolError> {
                work(arguments)
            }
        }
    };
}

task!(LongTask, "long_task", "takes steps with pauses and reports each.", WRITE, TaskSupport::Optional, false);
task!(InlineSteps, "inline_steps", "the same, and answers when it is done.", WRITE, TaskSupport::Forbidden, false);
task!(RequiredTask, "required_task", "the same, and only as a task of MCP.", WRITE, TaskSupport::Required, false);
task!(IdempotentTask, "idempotent_task", "the same, and may be run again.", WRITE, TaskSupport::Optional, true);
task!(
    DestructiveTask,
    "destructive_task",
    "the same, for good: a person must confirm.",
    DESTRUCTIVE,
    TaskSupport::Optional,
    false
);

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// Comes back in the result; binds a confirmation to its arguments.
    target: String,
}

behaviour!(Destructive, "destructive", "claims to destroy the target, so that a person must confirm.", DESTRUCTIVE,
    Target => Target, Ok);

behaviour!(ExternalEffect, "external_effect", "claims to act outside CyberOS, so that a person must confirm.",
    Annotations { external_effect: true, open_world: true, ..WRITE }, Target => Target, Ok);
