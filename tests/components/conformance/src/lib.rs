//! Everything that the official conformance suite asks a server for, in one component: the suite fixes the names, the
//! arguments and the texts. What it wants for which scenario is in the `README.md` beside this.
//!
//! The names have no module in front, which only an operator may allow (`any_tool_name`). Nothing here knows the suite's
//! transport: whether an answer streams is the host's decision.

/// A tool from its name, a title, what it does and a closure.
macro_rules! fixture {
    ($tool:ident, $name:literal, $title:literal, $says:literal, $arguments:ty => $output:ty, $call:expr) => {
        pub struct $tool;

        impl cyberos_plugin_sdk::Tool for $tool {
            const NAME: &'static str = $name;
            const TITLE: &'static str = $title;
            const DESCRIPTION: &'static str = $says;
            const ANNOTATIONS: cyberos_plugin_sdk::Annotations = cyberos_plugin_sdk::READ_ONLY;
            type Arguments = $arguments;
            type Output = $output;

            fn call(arguments: $arguments) -> Result<$output, cyberos_plugin_sdk::ToolError> {
                let call: fn($arguments) -> Result<$output, cyberos_plugin_sdk::ToolError> = $call;
                call(arguments)
            }
        }
    };
}

mod asks;
mod content;
mod prompts;
mod resources;
mod schema;
mod streams;

cyberos_plugin_sdk::export_plugin! {
    tools: [
        content::SimpleText,
        content::Image,
        content::Audio,
        content::EmbeddedResource,
        content::MultipleContentTypes,
        content::ErrorHandling,
        schema::JsonSchema202012,
        streams::WithLogging,
        streams::WithProgress,
        streams::Reconnection,
        asks::Sampling,
        asks::Elicitation,
        asks::ElicitationDefaults,
        asks::ElicitationEnums,
    ],
    prompts: [prompts::Simple, prompts::WithArguments, prompts::WithEmbeddedResource, prompts::WithImage],
    resources: [resources::StaticText, resources::StaticBinary, resources::Watched],
    templates: [resources::Data],
    completions: [prompts::WithArguments],
}
