//! Between the WIT's shapes and the model's. Guests are not trusted to be well-formed: JSON text is parsed, names and
//! schemas are checked, sizes are bounded.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::bindings::cyberos::plugin::types as wit;
use crate::error::{Error, Reason, Result};
use crate::model::{Annotations, Content, TaskSupport, Tool, ToolName, ToolResult};

/// A declaration that the host can serve, or the sentence that says what is wrong with it.
pub fn tool(declared: wit::Tool) -> Result<Tool, String> {
    let name = ToolName::parse(&declared.name)
        .ok_or_else(|| format!("tool name {:?} is not 1 to 64 characters of A-Za-z0-9_.-", clip(&declared.name)))?;
    let says = |what: &str| format!("tool {name}: {what}");

    if declared.title.trim().is_empty() || declared.title.chars().count() > 80 {
        return Err(says("title is not 1 to 80 characters"));
    }
    if !(30..=2000).contains(&declared.description.chars().count()) {
        return Err(says("description is not 30 to 2000 characters"));
    }
    let invisible = |c: char| {
        (c.is_control() && c != '\n')
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
    };
    if declared.title.chars().chain(declared.description.chars()).any(invisible) {
        return Err(says("title or description holds control or invisible characters"));
    }
    let input_schema = schema(&declared.input_schema).map_err(|e| says(&format!("inputSchema {e}")))?;
    let output_schema =
        declared.output_schema.map(|s| schema(&s).map_err(|e| says(&format!("outputSchema {e}")))).transpose()?;
    let icons = match declared.icons {
        None => vec![],
        Some(text) => icons(&text).map_err(|e| says(&format!("icons: {e}")))?,
    };
    let meta = match declared.meta {
        None => None,
        Some(text) => Some(object(&text).map_err(|e| says(&format!("meta {e}")))?.into()),
    };
    let a = declared.annotations;
    if a.read_only && (a.destructive || a.write) {
        return Err(says("is marked read-only and also write or destructive"));
    }
    Ok(Tool {
        title: declared.title,
        description: declared.description,
        input_schema,
        output_schema,
        annotations: Annotations {
            read_only: a.read_only,
            destructive: a.destructive,
            idempotent: a.idempotent,
            open_world: a.open_world,
            write: a.write,
            external_effect: a.external_effect,
        },
        scopes: declared.scopes,
        task_support: match declared.task_support {
            wit::TaskSupport::Forbidden => TaskSupport::Forbidden,
            wit::TaskSupport::Optional => TaskSupport::Optional,
            wit::TaskSupport::Required => TaskSupport::Required,
        },
        idempotent_task: declared.idempotent_task,
        icons,
        meta,
        name,
    })
}

/// A result within `limit` bytes (of text, decoded data and JSON together).
pub fn tool_result(result: wit::ToolResult, limit: usize) -> Result<ToolResult> {
    let size = result_bytes(&result);
    if size > limit {
        return Err(Error::new(
            Reason::OutputTooLarge,
            format!("The tool's result is over its output limit of {limit} bytes."),
        )
        .detail(format!("{size} bytes")));
    }
    let broken = |what: String| Error::new(Reason::InvalidResult, "The tool returned a malformed result.").detail(what);
    let structured = match result.structured {
        None => None,
        Some(text) => Some(Value::Object(object(&text).map_err(|e| broken(format!("structured {e}")))?)),
    };
    let meta = match result.meta {
        None => None,
        Some(text) => Some(Value::Object(object(&text).map_err(|e| broken(format!("meta {e}")))?)),
    };
    let mut content = result.content.into_iter().map(block).collect::<Result<Vec<_>, _>>().map_err(broken)?;
    // Clients that read only text get the structured result as text (MCP 2025-11-25, structured content).
    if content.is_empty()
        && let Some(value) = &structured
    {
        content.push(Content::text(value.to_string()));
    }
    Ok(ToolResult { content, structured, is_error: result.is_error, meta })
}

fn block(content: wit::Content) -> Result<Content, String> {
    let extra = |text: Option<String>| match text {
        None => Ok(Map::new()),
        Some(text) => object(&text).map_err(|e| format!("extra {e}")).map(|mut map| {
            // The block's own fields are not the plugin's to replace.
            map.retain(|key, _| {
                !matches!(key.as_str(), "type" | "text" | "data" | "mimeType" | "uri" | "name" | "resource")
            });
            map
        }),
    };
    Ok(match content {
        wit::Content::Text(t) => Content::Text { text: t.text, extra: extra(t.extra)? },
        wit::Content::Image(b) => {
            Content::Image { data: STANDARD.encode(b.data), mime_type: b.mime_type, extra: extra(b.extra)? }
        }
        wit::Content::Audio(b) => {
            Content::Audio { data: STANDARD.encode(b.data), mime_type: b.mime_type, extra: extra(b.extra)? }
        }
        wit::Content::ResourceLink(l) => Content::ResourceLink { uri: l.uri, name: l.name, extra: extra(l.extra)? },
        wit::Content::EmbeddedResource(text) => Content::Resource {
            resource: object(&text).map_err(|e| format!("resource {e}"))?.into(),
            extra: Map::new(),
        },
    })
}

fn result_bytes(result: &wit::ToolResult) -> usize {
    let len = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let blocks = result.content.iter().map(|block| match block {
        wit::Content::Text(t) => t.text.len() + len(&t.extra),
        wit::Content::Image(b) | wit::Content::Audio(b) => b.data.len() + b.mime_type.len() + len(&b.extra),
        wit::Content::ResourceLink(l) => l.uri.len() + l.name.len() + len(&l.extra),
        wit::Content::EmbeddedResource(text) => text.len(),
    });
    blocks.sum::<usize>() + len(&result.structured) + len(&result.meta)
}

fn object(text: &str) -> Result<Map<String, Value>, String> {
    match serde_json::from_str(text) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(_) => Err("is not a JSON object".into()),
        Err(error) => Err(format!("is not JSON: {error}")),
    }
}

fn schema(text: &str) -> Result<Value, String> {
    let map = object(text)?;
    if map.get("type").and_then(Value::as_str) != Some("object") {
        return Err("has no \"type\": \"object\" at its root".into());
    }
    Ok(Value::Object(map))
}

fn icons(text: &str) -> Result<Vec<Value>, String> {
    let Ok(Value::Array(icons)) = serde_json::from_str(text) else {
        return Err("is not a JSON array".into());
    };
    let good = |src: &str| src.starts_with("https://") || src.starts_with("data:");
    match icons.iter().all(|icon| icon.get("src").and_then(Value::as_str).is_some_and(good)) {
        true => Ok(icons),
        false => Err("src is neither an https nor a data URI".into()),
    }
}

fn clip(text: &str) -> String {
    text.chars().take(80).collect()
}
