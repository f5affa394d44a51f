//! Resources of text and of bytes, one to subscribe to, and a template.

use cyberos_plugin_sdk::prelude::*;

use crate::content::PIXEL;

pub struct StaticText;

impl Resource for StaticText {
    const URI: &'static str = "test://static-text";
    const NAME: &'static str = "static-text";
    const TITLE: &'static str = "Static text";
    const DESCRIPTION: &'static str = "A text that never changes.";
    const MIME_TYPE: Option<&'static str> = Some("text/plain");

    fn read() -> Result<ReadResult, ReadError> {
        Ok(contents(Self::URI, "text/plain", "This is the content of the static text resource."))
    }
}

pub struct StaticBinary;

impl Resource for StaticBinary {
    const URI: &'static str = "test://static-binary";
    const NAME: &'static str = "static-binary";
    const TITLE: &'static str = "Static image";
    const DESCRIPTION: &'static str = "A PNG of a single red pixel.";
    const MIME_TYPE: Option<&'static str> = Some("image/png");
    const SIZE: Option<u64> = Some(PIXEL.len() as u64);

    fn read() -> Result<ReadResult, ReadError> {
        Ok(blob(Self::URI, "image/png", PIXEL.into()))
    }
}

pub struct Watched;

impl Resource for Watched {
    const URI: &'static str = "test://watched-resource";
    const NAME: &'static str = "watched-resource";
    const TITLE: &'static str = "Watched";
    const DESCRIPTION: &'static str = "A text that clients may subscribe to.";
    const MIME_TYPE: Option<&'static str> = Some("text/plain");

    fn read() -> Result<ReadResult, ReadError> {
        Ok(contents(Self::URI, "text/plain", "Watched resource content"))
    }
}

#[derive(Deserialize)]
pub struct DataVariables {
    id: String,
}

pub struct Data;

impl ResourceTemplate for Data {
    const URI_TEMPLATE: &'static str = "test://template/{id}/data";
    const NAME: &'static str = "template-data";
    const TITLE: &'static str = "Data by id";
    const DESCRIPTION: &'static str = "A JSON document that repeats the id.";
    const MIME_TYPE: Option<&'static str> = Some("application/json");
    type Variables = DataVariables;

    fn read(uri: &str, DataVariables { id }: DataVariables) -> Result<ReadResult, ReadError> {
        let data = json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") });
        Ok(contents(uri, "application/json", data.to_string()))
    }
}
