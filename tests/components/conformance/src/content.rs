//! One tool for each kind of content, and one that fails as a tool should.

use cyberos_plugin_sdk::prelude::*;
use cyberos_plugin_sdk::{BinaryContent, Content, text};

/// A PNG of one red pixel.
pub const PIXEL: &[u8] = &[
    0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 13, b'I', b'H', b'D', b'R', 0, 0, 0, 1, 0, 0, 0, 1, 8, 2,
    0, 0, 0, 0x90, 0x77, 0x53, 0xde, 0, 0, 0, 12, b'I', b'D', b'A', b'T', 0x78, 0x9c, 0x63, 0xf8, 0xcf, 0xc0, 0, 0, 3,
    1, 1, 0, 0xc9, 0xfe, 0x92, 0xef, 0, 0, 0, 0, b'I', b'E', b'N', b'D', 0xae, 0x42, 0x60, 0x82,
];

/// A WAV of one silent sample: 8 kHz, one channel, 8 bits, padded to an even length.
const SILENCE: &[u8] = &[
    b'R', b'I', b'F', b'F', 38, 0, 0, 0, b'W', b'A', b'V', b'E', b'f', b'm', b't', b' ', 16, 0, 0, 0, 1, 0, 1, 0, 0x40,
    0x1f, 0, 0, 0x40, 0x1f, 0, 0, 1, 0, 8, 0, b'd', b'a', b't', b'a', 1, 0, 0, 0, 0x80, 0,
];

pub fn answer(content: Vec<Content>) -> ToolResult {
    ToolResult { content, structured: None, is_error: false, meta: None }
}

fn image() -> Content {
    Content::Image(BinaryContent { data: PIXEL.into(), mime_type: "image/png".into(), extra: None })
}

fn resource(resource: &Value) -> Content {
    Content::EmbeddedResource(resource.to_string())
}

fixture!(SimpleText, "test_simple_text", "Simple text", "Returns one block of text, always the same.",
    NoArguments => ToolResult, |_| Ok(answer(vec![text("This is a simple text response for testing.")])));

fixture!(Image, "test_image_content", "Image", "Returns one image, a PNG of a single red pixel.",
    NoArguments => ToolResult, |_| Ok(answer(vec![image()])));

fixture!(Audio, "test_audio_content", "Audio", "Returns one sound, a WAV of a single silent sample.",
NoArguments => ToolResult, |_| {
    let sound = BinaryContent { data: SILENCE.into(), mime_type: "audio/wav".into(), extra: None };
    Ok(answer(vec![Content::Audio(sound)]))
});

fixture!(EmbeddedResource, "test_embedded_resource", "Embedded resource", "Returns one resource as part of its result.",
NoArguments => ToolResult, |_| Ok(answer(vec![resource(&json!({
    "uri": "test://embedded-resource",
    "mimeType": "text/plain",
    "text": "This is an embedded resource content.",
}))])));

fixture!(MultipleContentTypes, "test_multiple_content_types", "Several kinds of content",
"Returns a text, an image and a resource in one result.",
NoArguments => ToolResult, |_| Ok(answer(vec![
    text("Multiple content types test:"),
    image(),
    resource(&json!({
        "uri": "test://mixed-content-resource",
        "mimeType": "application/json",
        "text": r#"{"test":"data","value":123}"#,
    })),
])));

fixture!(ErrorHandling, "test_error_handling", "Failure", "Always fails, in a way that the model can read.",
NoArguments => ToolResult, |_| {
    let why = text("This tool intentionally returns an error for testing");
    Ok(ToolResult { is_error: true, ..answer(vec![why]) })
});
