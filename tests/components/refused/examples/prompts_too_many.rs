//! Thousands of prompts.

mod common;

use cyberos_plugin_sdk::bindings::prompts;
use cyberos_plugin_sdk::bindings::prompts::exports::cyberos::plugin::prompts as wit;

cyberos_plugin_sdk::export_tools!(common::Good);

struct Component;

impl wit::Guest for Component {
    fn list_prompts() -> Vec<wit::Prompt> {
        (0..5_000).map(prompt).collect()
    }
    fn get_prompt(_: String, _: String) -> Result<wit::PromptResult, cyberos_plugin_sdk::ToolError> {
        Err(cyberos_plugin_sdk::ToolError::Internal("it should not have been loaded".into()))
    }
}

fn prompt(number: u32) -> wit::Prompt {
    wit::Prompt {
        name: format!("cyberos.test.prompt_{number}"),
        title: "One of many".into(),
        description: "One of many prompts.".into(),
        arguments: vec![],
        scopes: vec![],
        icons: None,
        meta: None,
    }
}

prompts::export!(Component with_types_in prompts);
