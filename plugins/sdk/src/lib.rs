//! Write a tool component in about thirty lines: typed arguments in, typed result out, schemas derived from the types.
//!
//! ```ignore
//! use cyberos_plugin_sdk::prelude::*;
//!
//! /// What the caller passes. The schema is derived from this; doc comments become descriptions.
//! #[derive(Deserialize, JsonSchema)]
//! #[serde(deny_unknown_fields)]
//! struct Arguments {
//!     /// Who to greet.
//!     name: String,
//! }
//!
//! #[derive(Serialize, JsonSchema)]
//! struct Greeting {
//!     text: String,
//! }
//!
//! struct Greet;
//!
//! impl Tool for Greet {
//!     const NAME: &'static str = "demo.greet";
//!     const TITLE: &'static str = "Greet";
//!     const DESCRIPTION: &'static str = "Returns a greeting for the given name. Use it to try the bridge.";
//!     const ANNOTATIONS: Annotations = READ_ONLY;
//!     type Arguments = Arguments;
//!     type Output = Greeting;
//!
//!     fn call(arguments: Arguments) -> Result<Greeting, ToolError> {
//!         Ok(Greeting { text: format!("Hello, {}!", arguments.name) })
//!     }
//! }
//!
//! export_tools!(Greet);
//! ```
//!
//! The contract itself, with every limit and error, is in `wit/`.

/// What `wit-bindgen` makes of the world `cyberos:plugin/plugin`.
#[allow(missing_docs, clippy::all)]
pub mod bindings {
    wit_bindgen::generate!({
        path: "../../wit",
        world: "plugin",
        pub_export_macro: true,
        default_bindings_module: "cyberos_plugin_sdk::bindings",
    });
}

pub mod cuo;
pub mod memory;
mod tool;

pub use bindings::cyberos::plugin::types::{
    Annotations, BinaryContent, Content, ResourceLink, TaskSupport, TextContent, Tool as ToolDeclaration, ToolError,
    ToolResult,
};
pub use bindings::cyberos::plugin::{
    audit_append, audit_read, call_context, config, http_fetch, log, progress, spawn_cuo,
};
pub use schemars;
pub use serde;
pub use serde_json;
pub use tool::{DESTRUCTIVE, NoArguments, Output, READ_ONLY, Slug, Tool, WRITE, call, declare, text};

/// Everything that a tool usually needs.
pub mod prelude {
    pub use crate::{
        Annotations, DESTRUCTIVE, NoArguments, READ_ONLY, Slug, TaskSupport, Tool, ToolError, ToolResult, WRITE,
        export_tools,
    };
    pub use schemars::JsonSchema;
    pub use serde::{Deserialize, Serialize};
    pub use serde_json::{Map, Value, json};
}

/// Make a component of one or more types that implement [`Tool`].
#[macro_export]
macro_rules! export_tools {
    ($($tool:ty),+ $(,)?) => {
        struct Component;

        impl $crate::bindings::exports::cyberos::plugin::tools::Guest for Component {
            fn list_tools() -> Vec<$crate::ToolDeclaration> {
                vec![$($crate::declare::<$tool>()),+]
            }
            fn call_tool(name: String, arguments: String) -> Result<$crate::ToolResult, $crate::ToolError> {
                $(if name == <$tool as $crate::Tool>::NAME {
                    return $crate::call::<$tool>(&arguments);
                })+
                Err($crate::ToolError::Internal(format!("this component has no tool {name}")))
            }
        }

        $crate::bindings::export!(Component with_types_in $crate::bindings);
    };
}
