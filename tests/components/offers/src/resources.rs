//! Resources and templates.

use cyberos_plugin_sdk::prelude::*;
use cyberos_plugin_sdk::{Body, Contents};

pub struct Readme;

impl Resource for Readme {
    const URI: &'static str = "test://docs/readme";
    const NAME: &'static str = "readme";
    const TITLE: &'static str = "Read me";
    const DESCRIPTION: &'static str = "Two documents under one URI.";
    const MIME_TYPE: Option<&'static str> = Some("text/markdown");
    const SIZE: Option<u64> = Some(7);
    const ANNOTATIONS: Option<&'static str> =
        Some(r#"{"audience":["user","assistant"],"priority":0.5,"lastModified":"2025-11-25T00:00:00Z"}"#);
    const META: Option<&'static str> = Some(r#"{"com.example/x":1,"modelcontextprotocol/forged":1}"#);

    fn read() -> Result<ReadResult, ReadError> {
        let part = |uri: &str, text: &str, meta: Option<&str>| Contents {
            uri: uri.into(),
            mime_type: Some("text/markdown".into()),
            body: Body::Text(text.into()),
            meta: meta.map(Into::into),
        };
        Ok(ReadResult {
            contents: vec![
                part(Self::URI, "# Hello", Some(r#"{"com.example/y":2}"#)),
                part("test://docs/readme/more", "More.", None),
            ],
            meta: Some(r#"{"com.example/z":3,"mcp/forged":1}"#.into()),
        })
    }
}

/// Bytes that are no UTF-8.
pub struct Pixel;

impl Resource for Pixel {
    const URI: &'static str = "test://pixel";
    const NAME: &'static str = "pixel";
    const TITLE: &'static str = "A pixel";
    const DESCRIPTION: &'static str = "Binary content of five bytes.";
    const MIME_TYPE: Option<&'static str> = Some("image/png");

    fn read() -> Result<ReadResult, ReadError> {
        Ok(blob(Self::URI, "image/png", vec![0x89, b'P', b'N', b'G', 0xff]))
    }
}

pub struct Secret;

impl Resource for Secret {
    const URI: &'static str = "test://secret";
    const NAME: &'static str = "secret";
    const TITLE: &'static str = "For some";
    const DESCRIPTION: &'static str = "A resource that needs a scope of its own.";
    const SCOPES: &'static [&'static str] = &["test:secret"];

    fn read() -> Result<ReadResult, ReadError> {
        Ok(contents(Self::URI, "text/plain", "The secret."))
    }
}

pub struct Broken;

impl Resource for Broken {
    const URI: &'static str = "test://broken";
    const NAME: &'static str = "broken";
    const TITLE: &'static str = "Broken";
    const DESCRIPTION: &'static str = "A resource whose reading panics.";

    fn read() -> Result<ReadResult, ReadError> {
        panic!("as asked")
    }
}

/// Answers for somebody else.
pub struct Astray;

impl Resource for Astray {
    const URI: &'static str = "test://astray";
    const NAME: &'static str = "astray";
    const TITLE: &'static str = "Astray";
    const DESCRIPTION: &'static str = "A resource that claims to be another one.";

    fn read() -> Result<ReadResult, ReadError> {
        Ok(contents("test://secret", "text/plain", "Forged."))
    }
}

#[derive(Deserialize)]
pub struct NoteVariables {
    folder: String,
    note: String,
}

pub struct Note;

impl ResourceTemplate for Note {
    const URI_TEMPLATE: &'static str = "test://notes/{folder}/{note}";
    const NAME: &'static str = "note";
    const TITLE: &'static str = "A note";
    const DESCRIPTION: &'static str = "A note in a folder, by name.";
    const MIME_TYPE: Option<&'static str> = Some("text/plain");
    type Variables = NoteVariables;

    fn read(uri: &str, variables: NoteVariables) -> Result<ReadResult, ReadError> {
        if variables.note == "missing" {
            return Err(ReadError::NotFound);
        }
        Ok(contents(uri, "text/plain", format!("folder={} note={}", variables.folder, variables.note)))
    }
}

impl Completes for Note {
    fn reference() -> Reference {
        Reference::Template(Self::URI_TEMPLATE.into())
    }

    fn complete(argument: &str, value: &str, chosen: &Map<String, Value>) -> Result<Vec<String>, ToolError> {
        let folder = chosen.get("folder").and_then(Value::as_str).unwrap_or("none");
        Ok(vec![format!("{argument}:{value}:{folder}")])
    }
}

/// Fixes more of the URI than `Note` does.
pub struct Draft;

impl ResourceTemplate for Draft {
    const URI_TEMPLATE: &'static str = "test://notes/drafts/{note}";
    const NAME: &'static str = "draft";
    const TITLE: &'static str = "A draft";
    const DESCRIPTION: &'static str = "A note in the folder of drafts.";
    type Variables = DraftVariables;

    fn read(uri: &str, variables: DraftVariables) -> Result<ReadResult, ReadError> {
        Ok(contents(uri, "text/plain", format!("draft={}", variables.note)))
    }
}

#[derive(Deserialize)]
pub struct DraftVariables {
    note: String,
}

pub struct Vault;

impl ResourceTemplate for Vault {
    const URI_TEMPLATE: &'static str = "test://vault/{note}";
    const NAME: &'static str = "vault";
    const TITLE: &'static str = "For some";
    const DESCRIPTION: &'static str = "Notes that need a scope of their own.";
    const SCOPES: &'static [&'static str] = &["test:secret"];
    type Variables = DraftVariables;

    fn read(uri: &str, variables: DraftVariables) -> Result<ReadResult, ReadError> {
        Ok(contents(uri, "text/plain", format!("vault={}", variables.note)))
    }
}
