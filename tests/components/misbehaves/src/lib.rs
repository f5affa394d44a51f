//! Tools that do what a tool must not, one behaviour each, named `test.<behaviour>`.
//!
//! This component imports only what every plugin is granted, so that a test can load it with any grants. What needs a
//! grant is in `guest-reaches`. The host's answer to each is in `tests/components/README.md`.

/// A tool from its name, what it does and a closure. The description is the behaviour in words.
macro_rules! behaviour {
    ($tool:ident, $name:literal, $says:literal, $with:expr, $arguments:ty => $output:ty, $call:expr) => {
        pub struct $tool;

        impl cyberos_plugin_sdk::Tool for $tool {
            const NAME: &'static str = concat!("test.", $name);
            const TITLE: &'static str = $name;
            const DESCRIPTION: &'static str = concat!("Test guest: ", $says);
            const ANNOTATIONS: cyberos_plugin_sdk::Annotations = $with;
            type Arguments = $arguments;
            type Output = $output;

            fn call(arguments: $arguments) -> Result<$output, cyberos_plugin_sdk::ToolError> {
                let call: fn($arguments) -> Result<$output, cyberos_plugin_sdk::ToolError> = $call;
                call(arguments)
            }
        }
    };
}

mod answers;
mod computes;
mod grows;
mod leaves_traces;
mod looks_around;
mod prints;
mod reports;
mod returns;
mod tasks;

cyberos_plugin_sdk::export_tools!(
    answers::Echoes,
    answers::CountsItself,
    answers::FailsPolitely,
    answers::TellsContext,
    computes::SpinsForever,
    computes::RecursesForever,
    computes::Panics,
    computes::Exits,
    computes::DividesByZero,
    computes::Sleeps,
    computes::CallsHostWithoutEnd,
    grows::AllocatesWithoutEnd,
    grows::AllocatesPolitely,
    grows::OpensWithoutEnd,
    grows::HoldsMemory,
    leaves_traces::WritesMarker,
    leaves_traces::FindsMarker,
    looks_around::ReadsEnvironment,
    looks_around::ReadsFiles,
    looks_around::OpensSocket,
    prints::PrintsWithoutEnd,
    prints::HugeLog,
    reports::ReportsProgress,
    reports::ReportsNoNumber,
    returns::ReturnsHuge,
    returns::ReturnsNearLimit,
    returns::ReturnsMalformedJson,
    returns::BreaksOutputSchema,
    returns::ReturnsEveryContentKind,
    returns::ReturnsNothing,
    tasks::InlineSteps,
    tasks::LongTask,
    tasks::RequiredTask,
    tasks::IdempotentTask,
    tasks::DestructiveTask,
    tasks::Destructive,
    tasks::ExternalEffect,
);
