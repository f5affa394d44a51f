//! One or more of everything that a component can offer: prompts, resources, templates and completions beside tools, and
//! tools that ask the client behind the call. The host's answer to each is in `tests/components/README.md`.

mod asks;
mod prompts;
mod resources;
mod tools;

cyberos_plugin_sdk::export_plugin! {
    tools: [
        asks::AsksForm,
        asks::AsksUrl,
        asks::AsksModel,
        asks::AsksFormAsTask,
        asks::AsksModelAsTask,
        asks::AsksWithoutEnd,
        asks::Logs,
        asks::TellsUpdated,
        tools::Schema2020,
        tools::SchemaDraft07,
        tools::EveryKind,
    ],
    prompts: [prompts::Review, prompts::Secret, prompts::EveryKind, prompts::Empty],
    resources: [resources::Readme, resources::Pixel, resources::Secret, resources::Broken, resources::Astray],
    templates: [resources::Note, resources::Draft, resources::Vault],
    completions: [prompts::Review, resources::Note],
}
