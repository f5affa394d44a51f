//! Between the WIT's shapes and the model's. Guests are not trusted to be well-formed: JSON text is parsed, names and
//! schemas are checked, sizes are bounded.

mod offers;

pub use offers::{prompt, prompt_result, read_result, resource, suggestions, template};

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

    check_length("title", declared.title.trim(), 1, 80)
        .and_then(|()| check_length("description", &declared.description, 30, 2000))
        .and_then(|()| visible(&declared.title))
        .and_then(|()| visible(&declared.description))
        .map_err(|what| says(&what))?;
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
    too_large(result_bytes(&result), limit)?;
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

fn too_large(size: usize, limit: usize) -> Result<()> {
    if size <= limit {
        return Ok(());
    }
    let public = format!("The tool's result is over its output limit of {limit} bytes.");
    Err(Error::new(Reason::OutputTooLarge, public).detail(format!("{size} bytes")))
}

fn broken(what: String) -> Error {
    Error::new(Reason::InvalidResult, "The tool returned a malformed result.").detail(what)
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
    let blocks: usize = result.content.iter().map(block_bytes).sum();
    blocks + option_bytes(&result.structured) + option_bytes(&result.meta)
}

fn block_bytes(block: &wit::Content) -> usize {
    match block {
        wit::Content::Text(t) => t.text.len() + option_bytes(&t.extra),
        wit::Content::Image(b) | wit::Content::Audio(b) => b.data.len() + b.mime_type.len() + option_bytes(&b.extra),
        wit::Content::ResourceLink(l) => l.uri.len() + l.name.len() + option_bytes(&l.extra),
        wit::Content::EmbeddedResource(text) => text.len(),
    }
}

fn option_bytes(text: &Option<String>) -> usize {
    text.as_ref().map_or(0, String::len)
}

fn check_length(field: &str, text: &str, least: usize, most: usize) -> Result<(), String> {
    match (least..=most).contains(&text.chars().count()) {
        true => Ok(()),
        false => Err(format!("{field} is not {least} to {most} characters")),
    }
}

/// A model would read what a person does not see.
fn visible(text: &str) -> Result<(), String> {
    let invisible = |c: char| {
        (c.is_control() && c != '\n')
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
    };
    match text.chars().any(invisible) {
        true => Err("title or description holds control or invisible characters".into()),
        false => Ok(()),
    }
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

/// MCP 2025-11-25, `Icon`. Nothing that a client would run, and nothing fetched without TLS.
fn icons(text: &str) -> Result<Vec<Value>, String> {
    let Ok(Value::Array(icons)) = serde_json::from_str(text) else {
        return Err("is not a JSON array".into());
    };
    if icons.len() > MAX_ICONS {
        return Err(format!("has {} icons; at most {MAX_ICONS} are served", icons.len()));
    }
    for icon in &icons {
        let good = |src: &str| src.starts_with("https://") || src.starts_with("data:image/");
        if !icon.get("src").and_then(Value::as_str).is_some_and(good) {
            return Err("src is neither an https URI nor a data URI of an image".into());
        }
        let fits = |field: &str, fits: fn(&Value) -> bool| icon.get(field).is_none_or(fits);
        let are_texts = |value: &Value| value.as_array().is_some_and(|all| all.iter().all(Value::is_string));
        if !fits("mimeType", Value::is_string) || !fits("sizes", are_texts) {
            return Err("mimeType is not a string, or sizes no array of strings".into());
        }
        if !fits("theme", |theme| matches!(theme.as_str(), Some("light" | "dark"))) {
            return Err("theme is neither light nor dark".into());
        }
    }
    Ok(icons)
}

const MAX_ICONS: usize = 8;

fn clip(text: &str) -> String {
    text.chars().take(80).collect()
}
