//! Blocks of a result or a prompt: all the kinds that MCP has.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::{BinaryContent, Content, ResourceLink, TextContent};

/// One block of text.
pub fn text(text: impl Into<String>) -> Content {
    Content::Text(TextContent { text: text.into(), extra: None })
}

/// A picture, such as `image/png`.
pub fn image(data: Vec<u8>, mime_type: &str) -> Content {
    Content::Image(BinaryContent { data, mime_type: mime_type.into(), extra: None })
}

/// A sound, such as `audio/wav`.
pub fn audio(data: Vec<u8>, mime_type: &str) -> Content {
    Content::Audio(BinaryContent { data, mime_type: mime_type.into(), extra: None })
}

/// A pointer to a resource that the client may read.
pub fn link(uri: &str, name: &str) -> Content {
    Content::ResourceLink(ResourceLink { uri: uri.into(), name: name.into(), extra: None })
}

/// A resource's text, put into the result itself.
pub fn embedded_text(uri: &str, mime_type: &str, text: &str) -> Content {
    Content::EmbeddedResource(json!({ "uri": uri, "mimeType": mime_type, "text": text }).to_string())
}

/// A resource's bytes, put into the result itself.
pub fn embedded_blob(uri: &str, mime_type: &str, data: &[u8]) -> Content {
    Content::EmbeddedResource(json!({ "uri": uri, "mimeType": mime_type, "blob": STANDARD.encode(data) }).to_string())
}

/// Add fields to a block, such as `{"annotations": {"audience": ["user"], "priority": 1}}`. An embedded resource takes
/// none.
pub fn with(mut content: Content, fields: &Value) -> Content {
    match &mut content {
        Content::Text(block) => block.extra = Some(fields.to_string()),
        Content::Image(block) | Content::Audio(block) => block.extra = Some(fields.to_string()),
        Content::ResourceLink(block) => block.extra = Some(fields.to_string()),
        Content::EmbeddedResource(_) => {}
    }
    content
}
