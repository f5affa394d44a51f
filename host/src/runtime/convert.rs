//! Between the WIT's shapes and the model's. Guests are not trusted to be well-formed: JSON text is parsed, names and
//! schemas are checked, sizes are bounded.

mod offers;

pub use offers::{prompt, prompt_result, read_result, resource, suggestions, template};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::bindings::cyberos::plugin::types as wit;
use crate::error::{Error, Reason, Result};
use crate::model::{
    Annotations, Content, TaskSupport, Tool, ToolName, ToolResult, is_hidden, is_uri, without_reserved,
};
use offers::check_mime_type;

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
        None => Ok::<_, String>(Map::new()),
        Some(text) => {
            let mut map = object(&text).map_err(|e| format!("extra {e}"))?;
            // The block's own fields are not the plugin's to replace.
            map.retain(|key, _| {
                !matches!(key.as_str(), "type" | "text" | "data" | "mimeType" | "uri" | "name" | "resource")
            });
            tidy_meta(&mut map);
            if let Some(icons) = map.get("icons") {
                check_icons(icons).map_err(|e| format!("icons: {e}"))?;
            }
            Ok(map)
        }
    };
    let typed = |mime_type: &str, kind: &str| match mime_type.starts_with(kind) {
        true => check_mime_type(Some(mime_type)),
        false => Err(format!("{:?} is no media type {kind}*", clip(mime_type))),
    };
    Ok(match content {
        wit::Content::Text(t) => Content::Text { text: t.text, extra: extra(t.extra)? },
        wit::Content::Image(b) => {
            typed(&b.mime_type, "image/")?;
            Content::Image { data: STANDARD.encode(b.data), mime_type: b.mime_type, extra: extra(b.extra)? }
        }
        wit::Content::Audio(b) => {
            typed(&b.mime_type, "audio/")?;
            Content::Audio { data: STANDARD.encode(b.data), mime_type: b.mime_type, extra: extra(b.extra)? }
        }
        wit::Content::ResourceLink(l) if !is_uri(&l.uri) || runs(&l.uri) => {
            return Err(format!("{:?} is no URI that a client can read", clip(&l.uri)));
        }
        wit::Content::ResourceLink(l) => Content::ResourceLink { uri: l.uri, name: l.name, extra: extra(l.extra)? },
        wit::Content::EmbeddedResource(text) => Content::Resource {
            resource: object(&text).and_then(embedded).map_err(|e| format!("resource {e}"))?.into(),
            extra: Map::new(),
        },
    })
}

/// MCP 2025-11-25, `TextResourceContents` and `BlobResourceContents`; fields that it does not know pass.
fn embedded(mut resource: Map<String, Value>) -> Result<Map<String, Value>, String> {
    if !resource.get("uri").and_then(Value::as_str).is_some_and(is_uri) {
        return Err("has no uri".into());
    }
    match (resource.get("text"), resource.get("blob")) {
        (Some(Value::String(_)), None) => {}
        (None, Some(Value::String(blob))) if STANDARD.decode(blob).is_ok() => {}
        _ => return Err("has neither text nor a blob in base64, or both".into()),
    }
    match resource.get("mimeType") {
        Some(Value::String(mime_type)) => check_mime_type(Some(mime_type))?,
        None => {}
        Some(_) => return Err("mimeType is not a string".into()),
    }
    tidy_meta(&mut resource);
    Ok(resource)
}

/// A plugin must not speak for the protocol, in a block no more than in a result.
fn tidy_meta(object: &mut Map<String, Value>) {
    if let Some(Value::Object(meta)) = object.remove("_meta") {
        let meta = without_reserved(meta);
        if !meta.is_empty() {
            object.insert("_meta".into(), meta.into());
        }
    }
}

/// Is it code rather than a place?
fn runs(uri: &str) -> bool {
    uri.split_once(':').is_some_and(|(scheme, _)| scheme.eq_ignore_ascii_case("javascript"))
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
    let invisible = |c: char| (c.is_control() && c != '\n') || is_hidden(c);
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
    let icons = serde_json::from_str(text).map_err(|error| format!("is not JSON: {error}"))?;
    check_icons(&icons)?;
    let Value::Array(icons) = icons else { unreachable!("it was checked") };
    Ok(icons)
}

fn check_icons(icons: &Value) -> Result<(), String> {
    let Some(icons) = icons.as_array() else { return Err("is not a JSON array".into()) };
    if icons.len() > MAX_ICONS {
        return Err(format!("has {} icons; at most {MAX_ICONS} are served", icons.len()));
    }
    for icon in icons {
        // An SVG is a document, which can hold a script; from the web it runs apart from what shows it, as data it may not.
        let good = |src: &str| {
            is_icon_uri(src)
                && (src.starts_with("https://") || src.starts_with("data:image/") && !src.starts_with("data:image/svg"))
        };
        if !icon.get("src").and_then(Value::as_str).is_some_and(good) {
            return Err("src is neither an https URI nor a data URI of an image that holds no script".into());
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
    Ok(())
}

fn is_icon_uri(src: &str) -> bool {
    src.bytes().all(|b| b.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&b))
}

const MAX_ICONS: usize = 8;

fn clip(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_icon_is_fetched_over_tls_or_is_a_picture_that_runs_nothing() {
        let icon = |src: &str| icons(&json!([{ "src": src }]).to_string());
        for good in ["https://example.com/i.svg", "data:image/png;base64,iVBORw0KGgo="] {
            icon(good).unwrap();
        }
        for bad in [
            "http://example.com/i.png",
            "javascript:alert(1)",
            "data:text/html,x",
            "data:image/svg+xml,%3Csvg%20onload=alert(1)%3E",
            "data:image/png,\"><script>",
            "https://example.com/ i",
            "https://example.com/\u{202e}gnp",
        ] {
            icon(bad).unwrap_err();
        }
    }

    #[test]
    fn a_block_says_nothing_for_the_protocol_and_shows_nothing_that_runs() {
        let text = |extra: Value| {
            block(wit::Content::Text(wit::TextContent { text: "x".into(), extra: Some(extra.to_string()) }))
        };
        let Content::Text { extra, .. } =
            text(json!({ "_meta": { "mcp/x": 1, "com.example/y": 2 }, "text": "forged" })).unwrap()
        else {
            panic!("it is text")
        };
        assert_eq!(Value::Object(extra), json!({ "_meta": { "com.example/y": 2 } }));
        text(json!({ "icons": [{ "src": "javascript:alert(1)" }] })).unwrap_err();
        let link = |uri: &str| {
            block(wit::Content::ResourceLink(wit::ResourceLink { uri: uri.into(), name: "x".into(), extra: None }))
        };
        link("https://example.com/").unwrap();
        for bad in ["javascript:alert(1)", "JavaScript:alert(1)", "relative", "a b:c", "x:\n"] {
            link(bad).unwrap_err();
        }
        let image = |mime_type: &str| {
            block(wit::Content::Image(wit::BinaryContent { data: vec![1], mime_type: mime_type.into(), extra: None }))
        };
        image("image/png").unwrap();
        image("text/html").unwrap_err();
        image("image/png\r\nx").unwrap_err();
    }

    #[test]
    fn an_embedded_resource_is_one() {
        let resource = |resource: Value| block(wit::Content::EmbeddedResource(resource.to_string()));
        let forged = json!({ "uri": "a:b", "text": "x", "_meta": { "mcp/x": 1 } });
        let Content::Resource { resource: kept, .. } = resource(forged).unwrap() else { panic!("it is a resource") };
        assert_eq!(kept, json!({ "uri": "a:b", "text": "x" }));
        for bad in [
            json!({ "text": "x" }),
            json!({ "uri": "a:b" }),
            json!({ "uri": "a:b", "text": "x", "blob": "" }),
            json!({ "uri": "a:b", "blob": "no base64!" }),
            json!({ "uri": "a:b", "text": { "x": 1 } }),
            json!({ "uri": "a:b", "text": "x", "mimeType": 7 }),
        ] {
            resource(bad).unwrap_err();
        }
    }
}
