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
//! Prompts, resources and completions go beside tools: see [`Prompt`], [`Resource`], [`ResourceTemplate`], [`Completes`]
//! and [`export_plugin`].
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

    pub mod prompts {
        wit_bindgen::generate!({
            path: "../../wit",
            world: "with-prompts",
            pub_export_macro: true,
            default_bindings_module: "cyberos_plugin_sdk::bindings::prompts",
            with: { "cyberos:plugin/types@1.0.0": crate::bindings::cyberos::plugin::types },
        });
    }

    pub mod resources {
        wit_bindgen::generate!({
            path: "../../wit",
            world: "with-resources",
            pub_export_macro: true,
            default_bindings_module: "cyberos_plugin_sdk::bindings::resources",
            with: { "cyberos:plugin/types@1.0.0": crate::bindings::cyberos::plugin::types },
        });
    }

    pub mod completions {
        wit_bindgen::generate!({
            path: "../../wit",
            world: "with-completions",
            pub_export_macro: true,
            default_bindings_module: "cyberos_plugin_sdk::bindings::completions",
            with: { "cyberos:plugin/types@1.0.0": crate::bindings::cyberos::plugin::types },
        });
    }
}

pub mod ask;
pub mod content;
pub mod cuo;
mod export;
pub mod memory;
mod offers;
mod tool;

pub use bindings::completions::exports::cyberos::plugin::completions::{Reference, Suggestions};
pub use bindings::cyberos::plugin::types::{
    Annotations, BinaryContent, ClientError, Content, ResourceLink, TaskSupport, TextContent, Tool as ToolDeclaration,
    ToolError, ToolResult,
};
pub use bindings::cyberos::plugin::{
    audit_append, audit_read, call_context, config, elicit, http_fetch, log, progress, resource_updates, sample,
    spawn_cuo,
};
pub use bindings::prompts::exports::cyberos::plugin::prompts::{Message, PromptResult, Role};
pub use bindings::resources::exports::cyberos::plugin::resources::{Body, Contents, ReadError, ReadResult};
pub use content::text;
pub use offers::{Completes, Prompt, Resource, ResourceTemplate, assistant, blob, contents, user};
pub use schemars;
pub use serde;
pub use serde_json;
pub use tool::{DESTRUCTIVE, NoArguments, Output, READ_ONLY, Slug, Tool, WRITE, call, declare};

/// What the macros of `export` expand to; not for use by hand.
#[doc(hidden)]
pub mod glue {
    pub use crate::offers::{complete, declare_prompt, declare_resource, declare_template, get, read, read_template};
}

/// Everything that a tool usually needs.
pub mod prelude {
    pub use crate::{
        Annotations, Completes, Content, DESTRUCTIVE, NoArguments, Prompt, PromptResult, READ_ONLY, ReadError,
        ReadResult, Reference, Resource, ResourceTemplate, Slug, TaskSupport, Tool, ToolError, ToolResult, WRITE,
        assistant, blob, contents, export_plugin, export_tools, text, user,
    };
    pub use schemars::JsonSchema;
    pub use serde::{Deserialize, Serialize};
    pub use serde_json::{Map, Value, json};
}
