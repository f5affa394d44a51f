//! Tools whose declarations clients must get to the letter, and one of every kind of content.

use cyberos_plugin_sdk::content::{audio, embedded_blob, embedded_text, image, link, text, with};
use cyberos_plugin_sdk::prelude::*;
use cyberos_plugin_sdk::serde_json::json;

/// Words of JSON Schema 2020-12 that a careless server drops.
pub const SCHEMA_2020: &str = include_str!("schema_2020.json");
pub const SCHEMA_DRAFT07: &str = include_str!("schema_draft07.json");

#[derive(Deserialize, JsonSchema)]
pub struct Anything {
    #[serde(flatten)]
    fields: Map<String, Value>,
}

macro_rules! written_schema {
    ($tool:ident, $name:literal, $schema:ident) => {
        pub struct $tool;

        impl Tool for $tool {
            const NAME: &'static str = $name;
            const TITLE: &'static str = "Schema";
            const DESCRIPTION: &'static str =
                "Test guest: a schema that was written by hand, passed to clients as it is.";
            const ANNOTATIONS: Annotations = READ_ONLY;
            const ICONS: Option<&'static str> = Some(r#"[{"src":"data:image/png;base64,iVBORw0KGgo="}]"#);
            const META: Option<&'static str> = Some(r#"{"com.example/x":1,"io.modelcontextprotocol/forged":1}"#);
            type Arguments = Anything;
            type Output = ToolResult;

            fn input_schema() -> String {
                $schema.into()
            }

            fn call(arguments: Anything) -> Result<ToolResult, ToolError> {
                let fields = Value::Object(arguments.fields).to_string();
                Ok(ToolResult { content: vec![text(fields)], structured: None, is_error: false, meta: None })
            }
        }
    };
}

written_schema!(Schema2020, "test.schema_2020", SCHEMA_2020);
written_schema!(SchemaDraft07, "test.schema_draft07", SCHEMA_DRAFT07);

pub struct EveryKind;

impl Tool for EveryKind {
    const NAME: &'static str = "test.every_kind";
    const TITLE: &'static str = "Every kind";
    const DESCRIPTION: &'static str = "Test guest: a result with one block of each kind of content.";
    const ANNOTATIONS: Annotations = READ_ONLY;
    type Arguments = NoArguments;
    type Output = ToolResult;

    fn call(_: NoArguments) -> Result<ToolResult, ToolError> {
        Ok(ToolResult { content: every_kind(), structured: None, is_error: false, meta: None })
    }
}

pub fn every_kind() -> Vec<Content> {
    // Blocks do not speak for the protocol any more than results do.
    let meta = json!({ "com.example/b": 1, "io.modelcontextprotocol/related-task": { "taskId": "t-forged" } });
    let annotated = json!({ "annotations": { "audience": ["user"], "priority": 1 }, "_meta": meta });
    vec![
        with(text("words"), &annotated),
        image(vec![1, 2, 3], "image/png"),
        audio(vec![4, 5], "audio/wav"),
        link("test://docs/readme", "readme"),
        embedded_text("test://docs/readme", "text/markdown", "# Hello"),
        embedded_blob("test://pixel", "image/png", &[0xff]),
    ]
}
