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

/// A tool with nothing wrong about it, for a component that offers something else as well.
pub struct Good;

impl cyberos_plugin_sdk::Tool for Good {
    const NAME: &'static str = concat!("cyberos.test.", env!("CARGO_CRATE_NAME"));
    const TITLE: &'static str = "Good";
    const DESCRIPTION: &'static str = "A tool with nothing wrong about it, beside something that is.";
    const ANNOTATIONS: cyberos_plugin_sdk::Annotations = READ_ONLY;
    type Arguments = cyberos_plugin_sdk::NoArguments;
    type Output = cyberos_plugin_sdk::ToolResult;

    fn call(_: Self::Arguments) -> Result<Self::Output, cyberos_plugin_sdk::ToolError> {
        Err(cyberos_plugin_sdk::ToolError::Internal("it should not have been loaded".into()))
    }
}

/// Export [`Good`] and one prompt, whose constants are those that a component spoils.
#[macro_export]
macro_rules! prompts {
    ($name:literal, $icons:expr) => {
        $crate::prompts!($name, $icons, cyberos_plugin_sdk::NoArguments);
    };
    ($name:literal, $icons:expr, $arguments:ty) => {
        use cyberos_plugin_sdk::prelude::*;

        struct Spoilt;

        impl Prompt for Spoilt {
            const NAME: &'static str = $name;
            const TITLE: &'static str = "A prompt";
            const DESCRIPTION: &'static str = "A prompt for a component to spoil.";
            const ICONS: Option<&'static str> = $icons;
            type Arguments = $arguments;

            fn get(_: $arguments) -> Result<PromptResult, ToolError> {
                Ok(vec![].into())
            }
        }

        export_plugin! { tools: [common::Good], prompts: [Spoilt] }
    };
}

/// Export [`Good`] and one resource.
#[macro_export]
macro_rules! resources {
    ($uri:literal) => {
        use cyberos_plugin_sdk::prelude::*;

        struct Spoilt;

        impl Resource for Spoilt {
            const URI: &'static str = $uri;
            const NAME: &'static str = "spoilt";
            const TITLE: &'static str = "A resource";
            const DESCRIPTION: &'static str = "A resource for a component to spoil.";

            fn read() -> Result<ReadResult, ReadError> {
                Err(ReadError::NotFound)
            }
        }

        export_plugin! { tools: [common::Good], resources: [Spoilt] }
    };
}

/// Export [`Good`] and one template.
#[macro_export]
macro_rules! templates {
    ($template:literal) => {
        use cyberos_plugin_sdk::prelude::*;

        struct Spoilt;

        impl ResourceTemplate for Spoilt {
            const URI_TEMPLATE: &'static str = $template;
            const NAME: &'static str = "spoilt";
            const TITLE: &'static str = "A template";
            const DESCRIPTION: &'static str = "A template for a component to spoil.";
            type Variables = Map<String, Value>;

            fn read(_: &str, _: Map<String, Value>) -> Result<ReadResult, ReadError> {
                Err(ReadError::NotFound)
            }
        }

        export_plugin! { tools: [common::Good], templates: [Spoilt] }
    };
}
