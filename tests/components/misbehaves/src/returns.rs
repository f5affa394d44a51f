//! Tools whose results are too large, malformed or of every kind.

use cyberos_plugin_sdk::prelude::*;
use cyberos_plugin_sdk::{BinaryContent, Content, ResourceLink, TextContent, text};

fn result(content: Vec<Content>, structured: Option<&str>) -> ToolResult {
    ToolResult { content, structured: structured.map(Into::into), is_error: false, meta: None }
}

behaviour!(ReturnsHuge, "returns_huge", "returns a hundred mebibytes of text, if its memory holds them.", READ_ONLY,
    NoArguments => ToolResult, |_| Ok(result(vec![text("x".repeat(100 << 20))], None)));

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Size {
    /// Length of the one text block that comes back.
    bytes: usize,
}

behaviour!(ReturnsNearLimit, "returns_near_limit", "returns one block of text of exactly the given size.", READ_ONLY,
    Size => ToolResult, |Size { bytes }| Ok(result(vec![text("x".repeat(bytes))], None)));

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Malformed {
    /// Text that is no JSON where the structured result belongs.
    Structured,
    /// An array there.
    StructuredArray,
    /// JSON that is nested deeper than parsers go.
    StructuredDeep,
    Meta,
    Extra,
    Resource,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Which {
    what: Malformed,
}

behaviour!(ReturnsMalformedJson, "returns_malformed_json", "returns text that is no JSON where JSON belongs.", READ_ONLY,
Which => ToolResult, |Which { what }| {
    const BROKEN: &str = "{\"answer\": 42";
    let mut result = result(vec![text("fine")], None);
    match what {
        Malformed::Structured => result.structured = Some(BROKEN.into()),
        Malformed::StructuredArray => result.structured = Some("[42]".into()),
        Malformed::StructuredDeep => {
            let (open, close) = ("{\"a\":".repeat(20_000), "}".repeat(20_000));
            result.structured = Some(format!("{open}1{close}"));
        }
        Malformed::Meta => result.meta = Some(BROKEN.into()),
        Malformed::Extra => {
            result.content = vec![Content::Text(TextContent { text: "fine".into(), extra: Some(BROKEN.into()) })];
        }
        Malformed::Resource => result.content = vec![Content::EmbeddedResource(BROKEN.into())],
    }
    Ok(result)
});

#[derive(Serialize, JsonSchema)]
pub struct Answer {
    #[schemars(with = "u32")]
    answer: &'static str,
}

behaviour!(BreaksOutputSchema, "breaks_output_schema", "promises a number in its output schema and returns a string.",
    READ_ONLY, NoArguments => Answer, |_| Ok(Answer { answer: "forty-two" }));

behaviour!(ReturnsNothing, "returns_nothing", "returns a result with neither content nor structure.", READ_ONLY,
    NoArguments => ToolResult, |_| Ok(result(vec![], None)));

/// The smallest PNG: one transparent pixel.
const PIXEL: &[u8] = &[
    0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 13, b'I', b'H', b'D', b'R', 0, 0, 0, 1, 0, 0, 0, 1, 8, 6,
    0, 0, 0, 0x1f, 0x15, 0xc4, 0x89, 0, 0, 0, 13, b'I', b'D', b'A', b'T', 0x78, 0x9c, 0x63, 0, 1, 0, 0, 5, 0, 1, 0x0d,
    0x0a, 0x2d, 0xb4, 0, 0, 0, 0, b'I', b'E', b'N', b'D', 0xae, 0x42, 0x60, 0x82,
];

behaviour!(ReturnsEveryContentKind, "returns_every_content_kind", "returns a block of every kind, with extras.",
READ_ONLY, NoArguments => ToolResult, |_| Ok(ToolResult {
    content: vec![
        // The last two fields of `extra` are the block's own, and not the plugin's to replace.
        Content::Text(TextContent {
            text: "plain".into(),
            extra: Some(r#"{"annotations":{"audience":["user"],"priority":0.5},"type":"image","text":"forged"}"#.into()),
        }),
        Content::Image(BinaryContent { data: PIXEL.into(), mime_type: "image/png".into(), extra: None }),
        Content::Audio(BinaryContent { data: b"RIFF".into(), mime_type: "audio/wav".into(), extra: None }),
        Content::ResourceLink(ResourceLink {
            uri: "https://example.com/report".into(),
            name: "report".into(),
            extra: Some(r#"{"title":"Report","mimeType":"text/html"}"#.into()),
        }),
        Content::EmbeddedResource(r#"{"uri":"test://note","mimeType":"text/plain","text":"a note"}"#.into()),
    ],
    structured: Some(r#"{"kinds":5}"#.into()),
    is_error: false,
    meta: Some(r#"{"example.com/origin":"guest"}"#.into()),
}));
