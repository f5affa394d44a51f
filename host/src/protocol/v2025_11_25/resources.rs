//! `resources/list`, `resources/templates/list` and `resources/read`. Source: MCP 2025-11-25, resources.

use serde_json::{Map, Value};

use super::shapes::{insert_meta, insert_some, shown};
use super::{Request, cursor, invalid};
use crate::error::Result;
use crate::model::{ReadCall, ReadResult, Resource, ResourceBody, ResourceContents, ResourceTemplate};

pub fn list(request: Request<'_>) -> Result<Value> {
    let resources = request.protocol.broker.catalog().resources_for(&request.peer.caller);
    cursor::page(&request, "resources", &resources, |resource| wire_resource(&resource.declared))
}

pub fn list_templates(request: Request<'_>) -> Result<Value> {
    let templates = request.protocol.broker.catalog().templates_for(&request.peer.caller);
    cursor::page(&request, "resourceTemplates", &templates, |template| wire_template(&template.declared))
}

fn wire_resource(resource: &Resource) -> Value {
    let mut wire = shown(&resource.name, &resource.shown);
    wire.insert("uri".into(), resource.uri.as_str().into());
    insert_some(&mut wire, "mimeType", resource.mime_type.clone());
    insert_some(&mut wire, "size", resource.size);
    insert_some(&mut wire, "annotations", resource.annotations.clone());
    Value::Object(wire)
}

fn wire_template(template: &ResourceTemplate) -> Value {
    let mut wire = shown(&template.name, &template.shown);
    wire.insert("uriTemplate".into(), template.uri.as_str().into());
    insert_some(&mut wire, "mimeType", template.mime_type.clone());
    insert_some(&mut wire, "annotations", template.annotations.clone());
    Value::Object(wire)
}

pub async fn read(request: Request<'_>) -> Result<Value> {
    let uri = request.text("uri")?.ok_or_else(|| invalid("params.uri is missing.".into()))?.to_owned();
    let call = ReadCall { uri, context: request.context()? };
    request.protocol.broker.read_resource(&request.peer.caller, call).await.map(wire_result)
}

fn wire_result(result: ReadResult) -> Value {
    let mut wire = Map::new();
    wire.insert("contents".into(), result.contents.into_iter().map(wire_contents).collect());
    insert_meta(&mut wire, result.meta);
    Value::Object(wire)
}

fn wire_contents(contents: ResourceContents) -> Value {
    let mut wire = Map::new();
    wire.insert("uri".into(), contents.uri.into());
    insert_some(&mut wire, "mimeType", contents.mime_type);
    match contents.body {
        ResourceBody::Text(text) => wire.insert("text".into(), text.into()),
        ResourceBody::Blob(base64) => wire.insert("blob".into(), base64.into()),
    };
    insert_meta(&mut wire, contents.meta);
    Value::Object(wire)
}
