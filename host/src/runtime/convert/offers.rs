//! Prompts, resources, templates and completions: declarations that the host can serve, and results that it can pass on.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::{block, block_bytes, broken, check_length, icons, object, option_bytes, too_large, visible};
use crate::error::{Error, Reason, Result};
use crate::model::{
    Presentation, Prompt, PromptArgument, PromptResult, ReadResult, Resource, ResourceBody, ResourceContents,
    ResourceTemplate, Role, Suggestions, ToolName, UriTemplate, is_uri,
};
use crate::runtime::bindings::completions::exports::cyberos::plugin::completions as wit_completions;
use crate::runtime::bindings::prompts::exports::cyberos::plugin::prompts as wit_prompts;
use crate::runtime::bindings::resources::exports::cyberos::plugin::resources as wit_resources;

const MAX_ARGUMENTS: usize = 32;
const MAX_SUGGESTIONS: usize = 100;

pub fn prompt(declared: wit_prompts::Prompt) -> Result<Prompt, String> {
    let name = name("prompt", declared.name)?;
    let says = |what: String| format!("prompt {name}: {what}");
    let shown = presentation(declared.title, declared.description, declared.icons, declared.meta).map_err(says)?;
    if declared.arguments.len() > MAX_ARGUMENTS {
        return Err(says(format!("has {} arguments; at most {MAX_ARGUMENTS} are served", declared.arguments.len())));
    }
    let arguments = declared.arguments.into_iter().map(argument).collect::<Result<Vec<_>, _>>().map_err(says)?;
    if let Some(twin) = arguments.iter().enumerate().find(|(n, a)| arguments[..*n].iter().any(|b| b.name == a.name)) {
        return Err(says(format!("declares the argument {} twice", twin.1.name)));
    }
    Ok(Prompt { shown, arguments, scopes: declared.scopes, name })
}

fn argument(declared: wit_prompts::Argument) -> Result<PromptArgument, String> {
    let name = name("argument", declared.name)?;
    let bounded = |field: &str, text: &Option<String>, max| match text {
        None => Ok(()),
        Some(text) => check_length(field, text, 1, max).and_then(|()| visible(text)),
    };
    bounded("title", &declared.title, 80)
        .and_then(|()| bounded("description", &declared.description, 1_000))
        .map_err(|what| format!("argument {name}: {what}"))?;
    Ok(PromptArgument { title: declared.title, description: declared.description, required: declared.required, name })
}

/// The same characters as in tools' names.
fn name(what: &str, name: String) -> Result<String, String> {
    match ToolName::parse(&name) {
        Some(_) => Ok(name),
        None => Err(format!("{what} name {:?} is not 1 to 64 characters of A-Za-z0-9_.-", super::clip(&name))),
    }
}

pub fn resource(declared: wit_resources::Resource) -> Result<Resource, String> {
    let uri = declared.uri;
    let says = |what: String| format!("resource {:?}: {what}", super::clip(&uri));
    if !is_uri(&uri) {
        return Err(says("is no absolute URI of at most 2048 characters".into()));
    }
    check_scheme(&uri).and_then(|()| check_mime_type(declared.mime_type.as_deref())).map_err(says)?;
    check_length("name", &declared.name, 1, 128).and_then(|()| visible(&declared.name)).map_err(says)?;
    Ok(Resource {
        name: declared.name,
        shown: presentation(declared.title, declared.description, declared.icons, declared.meta).map_err(says)?,
        mime_type: declared.mime_type,
        size: declared.size,
        scopes: declared.scopes,
        annotations: annotations(declared.annotations).map_err(says)?,
        uri,
    })
}

pub fn template(declared: wit_resources::Template) -> Result<ResourceTemplate, String> {
    let text = declared.uri_template;
    let says = |what: String| format!("template {:?}: {what}", super::clip(&text));
    let uri = UriTemplate::parse(&text).map_err(says)?;
    check_scheme(&text).and_then(|()| check_mime_type(declared.mime_type.as_deref())).map_err(says)?;
    check_length("name", &declared.name, 1, 128).and_then(|()| visible(&declared.name)).map_err(says)?;
    Ok(ResourceTemplate {
        uri,
        name: declared.name,
        shown: presentation(declared.title, declared.description, declared.icons, declared.meta).map_err(says)?,
        mime_type: declared.mime_type,
        scopes: declared.scopes,
        annotations: annotations(declared.annotations).map_err(says)?,
    })
}

fn presentation(
    title: String,
    description: String,
    icons_text: Option<String>,
    meta: Option<String>,
) -> Result<Presentation, String> {
    check_length("title", title.trim(), 1, 80)?;
    check_length("description", &description, 10, 2_000)?;
    visible(&title).and_then(|()| visible(&description))?;
    let icons = icons_text.map(|text| icons(&text).map_err(|e| format!("icons: {e}"))).transpose()?.unwrap_or_default();
    let meta = meta.map(|text| object(&text).map(Value::Object).map_err(|e| format!("meta {e}"))).transpose()?;
    Ok(Presentation { title, description, icons, meta })
}

/// An https resource is one that the client fetches itself (MCP 2025-11-25, resources, common URI schemes); the other two
/// are content, not places.
fn check_scheme(uri: &str) -> Result<(), String> {
    let (scheme, _) = uri.split_once(':').expect("it is a URI");
    match scheme.to_ascii_lowercase().as_str() {
        scheme @ ("http" | "https" | "javascript" | "data") => Err(format!("the scheme {scheme} is not served")),
        _ => Ok(()),
    }
}

pub(super) fn check_mime_type(mime_type: Option<&str>) -> Result<(), String> {
    let token = |text: &str| {
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic() && !b"()<>@,:\\\"[]?=/".contains(&b))
    };
    let is_type = |text: &str| {
        let (essence, _parameters) = text.split_once(';').unwrap_or((text, ""));
        text.len() <= 255
            && text.bytes().all(|b| (b' '..=b'~').contains(&b))
            && essence.trim().split_once('/').is_some_and(|(kind, subtype)| token(kind) && token(subtype))
    };
    match mime_type {
        Some(text) if !is_type(text) => Err(format!("{:?} is no media type", super::clip(text))),
        _ => Ok(()),
    }
}

/// MCP 2025-11-25, `Annotations`; fields that it does not know pass.
fn annotations(text: Option<String>) -> Result<Option<Value>, String> {
    let Some(text) = text else { return Ok(None) };
    let map = object(&text).map_err(|e| format!("annotations {e}"))?;
    let fits = |field: &str, fits: fn(&Value) -> bool| match map.get(field) {
        Some(value) if !fits(value) => Err(format!("annotations: {field} is not as MCP defines it")),
        _ => Ok(()),
    };
    let is_audience = |value: &Value| {
        let known = |who: &Value| matches!(who.as_str(), Some("user" | "assistant"));
        value.as_array().is_some_and(|all| all.iter().all(known))
    };
    fits("audience", is_audience)?;
    fits("priority", |value| value.as_f64().is_some_and(|p| (0.0..=1.0).contains(&p)))?;
    fits("lastModified", |value| value.as_str().is_some_and(|text| text.len() <= 64))?;
    Ok(Some(Value::Object(map)))
}

pub fn prompt_result(result: wit_prompts::PromptResult, limit: usize) -> Result<PromptResult> {
    let blocks: usize = result.messages.iter().map(|message| block_bytes(&message.content)).sum();
    too_large(blocks + option_bytes(&result.description) + option_bytes(&result.meta), limit)?;
    if result.messages.is_empty() {
        return Err(broken("the prompt has no messages".into()));
    }
    let message = |message: wit_prompts::Message| {
        let role = match message.role {
            wit_prompts::Role::User => Role::User,
            wit_prompts::Role::Assistant => Role::Assistant,
        };
        Ok((role, block(message.content)?))
    };
    Ok(PromptResult {
        description: result.description,
        messages: result.messages.into_iter().map(message).collect::<Result<_, String>>().map_err(broken)?,
        meta: meta(result.meta)?,
    })
}

pub fn read_result(result: wit_resources::ReadResult, limit: usize) -> Result<ReadResult> {
    let bytes = |contents: &wit_resources::Contents| {
        let body = match &contents.body {
            wit_resources::Body::Text(text) => text.len(),
            wit_resources::Body::Blob(bytes) => bytes.len(),
        };
        body + contents.uri.len() + option_bytes(&contents.mime_type) + option_bytes(&contents.meta)
    };
    too_large(result.contents.iter().map(bytes).sum::<usize>() + option_bytes(&result.meta), limit)?;
    Ok(ReadResult {
        contents: result.contents.into_iter().map(contents).collect::<Result<_>>()?,
        meta: meta(result.meta)?,
    })
}

fn contents(contents: wit_resources::Contents) -> Result<ResourceContents> {
    if !is_uri(&contents.uri) {
        return Err(broken(format!("{:?} is no URI", super::clip(&contents.uri))));
    }
    check_mime_type(contents.mime_type.as_deref()).map_err(broken)?;
    Ok(ResourceContents {
        uri: contents.uri,
        mime_type: contents.mime_type,
        body: match contents.body {
            wit_resources::Body::Text(text) => ResourceBody::Text(text),
            wit_resources::Body::Blob(bytes) => ResourceBody::Blob(STANDARD.encode(bytes)),
        },
        meta: meta(contents.meta)?,
    })
}

/// A guest that returns too many meant well: the first hundred are sent, and that there are more.
pub fn suggestions(suggested: wit_completions::Suggestions, limit: usize) -> Result<Suggestions> {
    too_large(suggested.values.iter().map(String::len).sum(), limit)?;
    let (mut values, count) = (suggested.values, suggested.total);
    let cut = values.len() > MAX_SUGGESTIONS;
    let total = match count {
        Some(total) if (total as usize) < values.len() => {
            return Err(broken(format!("{} values of a total of {total}", values.len())));
        }
        None if cut && !suggested.has_more => u32::try_from(values.len()).ok(),
        total => total,
    };
    values.truncate(MAX_SUGGESTIONS);
    Ok(Suggestions { values, total, has_more: suggested.has_more || cut })
}

fn meta(text: Option<String>) -> Result<Option<Value>> {
    let parsed = text.map(|text| object(&text).map(Value::Object)).transpose();
    parsed.map_err(|e| {
        Error::new(Reason::InvalidResult, "The plugin returned a malformed result.").detail(format!("meta {e}"))
    })
}
