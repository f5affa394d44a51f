//! What the components here share: one good declaration to spoil, and the exports around it.

#![allow(dead_code, unused_imports, reason = "each component spoils something else")]

pub use cyberos_plugin_sdk::ToolDeclaration as Declaration;
use cyberos_plugin_sdk::{READ_ONLY, TaskSupport};

/// A tool that the host would serve.
pub fn good() -> Declaration {
    Declaration {
        name: "cyberos.test.good".into(),
        title: "Good".into(),
        description: "A tool with nothing wrong about it, for a component to spoil.".into(),
        input_schema: r#"{"type":"object","properties":{},"additionalProperties":false}"#.into(),
        output_schema: None,
        annotations: READ_ONLY,
        scopes: vec![],
        task_support: TaskSupport::Forbidden,
        idempotent_task: false,
        icons: None,
        meta: None,
    }
}

/// Export `tools` with this list; calls are refused.
#[macro_export]
macro_rules! lists {
    ($list:path) => {
        struct Component;

        impl cyberos_plugin_sdk::bindings::exports::cyberos::plugin::tools::Guest for Component {
            fn list_tools() -> Vec<Declaration> {
                $list()
            }
            fn call_tool(_: String, _: String) -> Result<cyberos_plugin_sdk::ToolResult, cyberos_plugin_sdk::ToolError> {
                Err(cyberos_plugin_sdk::ToolError::Internal("it should not have been loaded".into()))
            }
        }

        cyberos_plugin_sdk::bindings::export!(Component with_types_in cyberos_plugin_sdk::bindings);
    };
}
