//! Thousands of resources.

mod common;

use cyberos_plugin_sdk::bindings::resources;
use cyberos_plugin_sdk::bindings::resources::exports::cyberos::plugin::resources as wit;

cyberos_plugin_sdk::export_tools!(common::Good);

struct Component;

impl wit::Guest for Component {
    fn list_resources() -> Vec<wit::Resource> {
        (0..5_000).map(resource).collect()
    }
    fn list_templates() -> Vec<wit::Template> {
        vec![]
    }
    fn read_resource(_: wit::Request) -> Result<wit::ReadResult, wit::ReadError> {
        Err(wit::ReadError::NotFound)
    }
}

fn resource(number: u32) -> wit::Resource {
    wit::Resource {
        uri: format!("many://{number}"),
        name: number.to_string(),
        title: "One of many".into(),
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
