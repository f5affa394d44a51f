//! More resources than one page of a list holds.

use cyberos_plugin_sdk::bindings::resources;
use cyberos_plugin_sdk::bindings::resources::exports::cyberos::plugin::resources as wit;
use cyberos_plugin_sdk::prelude::*;

struct Nothing;

impl Tool for Nothing {
    const NAME: &'static str = "test.does_nothing";
    const TITLE: &'static str = "Nothing";
    const DESCRIPTION: &'static str = "Test guest: a component has at least one tool, and this is it.";
    const ANNOTATIONS: Annotations = READ_ONLY;
    type Arguments = NoArguments;
    type Output = ToolResult;

    fn call(_: NoArguments) -> Result<ToolResult, ToolError> {
        Ok(ToolResult { content: vec![], structured: None, is_error: false, meta: None })
    }
}

export_tools!(Nothing);

struct Component;

impl wit::Guest for Component {
    fn list_resources() -> Vec<wit::Resource> {
        (0..200).map(resource).collect()
    }
    fn list_templates() -> Vec<wit::Template> {
        vec![]
    }
    fn read_resource(request: wit::Request) -> Result<wit::ReadResult, wit::ReadError> {
        Ok(contents(&request.uri, "text/plain", "one of many"))
    }
}

fn resource(number: u32) -> wit::Resource {
    wit::Resource {
        uri: format!("many://{number}"),
        name: number.to_string(),
        title: format!("Number {number}"),
        description: "One of many resources.".into(),
        mime_type: None,
        size: None,
        scopes: vec![],
        annotations: None,
        icons: None,
        meta: None,
    }
}

resources::export!(Component with_types_in resources);
