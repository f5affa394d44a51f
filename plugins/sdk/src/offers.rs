//! What a component may offer beside tools, a trait each, and what turns them into the exports of the worlds.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::bindings::completions::exports::cyberos::plugin::completions as wit_completions;
use crate::bindings::prompts::exports::cyberos::plugin::prompts as wit_prompts;
use crate::bindings::resources::exports::cyberos::plugin::resources as wit_resources;
use crate::tool::read_schema;
use crate::{Body, Contents, Message, PromptResult, ReadError, ReadResult, Reference, Role, Suggestions, ToolError};

/// Messages that a user picks by name to start a conversation with.
pub trait Prompt {
    /// See `prompt` in `wit/types.wit`.
    const NAME: &'static str;
    const TITLE: &'static str;
    const DESCRIPTION: &'static str;
    /// All that a caller must hold.
    const SCOPES: &'static [&'static str] = &[];
    /// A JSON array of icons.
    const ICONS: Option<&'static str> = None;
    /// A JSON object that clients see as `_meta`.
    const META: Option<&'static str> = None;

    /// A struct of `String` and `Option<String>`: its fields become the arguments, its doc comments their descriptions.
    type Arguments: DeserializeOwned + JsonSchema;

    /// `Ok(vec![user(text("…"))].into())` is the usual end.
    fn get(arguments: Self::Arguments) -> Result<PromptResult, ToolError>;
}

/// What clients can read under one URI.
pub trait Resource {
    /// See `resource` in `wit/types.wit`.
    const URI: &'static str;
    const NAME: &'static str;
    const TITLE: &'static str;
    const DESCRIPTION: &'static str;
    const MIME_TYPE: Option<&'static str> = None;
    /// Bytes before any encoding.
    const SIZE: Option<u64> = None;
    const SCOPES: &'static [&'static str] = &[];
    /// A JSON object: `audience`, `priority`, `lastModified`.
    const ANNOTATIONS: Option<&'static str> = None;
    const ICONS: Option<&'static str> = None;
    const META: Option<&'static str> = None;

    /// [`contents`] and [`blob`] make the usual result.
    fn read() -> Result<ReadResult, ReadError>;
}

/// A family of resources.
pub trait ResourceTemplate {
    /// See `template` in `wit/types.wit`: `notes://{folder}/{note}`.
    const URI_TEMPLATE: &'static str;
    const NAME: &'static str;
    const TITLE: &'static str;
    const DESCRIPTION: &'static str;
    const MIME_TYPE: Option<&'static str> = None;
    const SCOPES: &'static [&'static str] = &[];
    const ANNOTATIONS: Option<&'static str> = None;
    const ICONS: Option<&'static str> = None;
    const META: Option<&'static str> = None;

    /// A struct with a `String` for each variable.
    type Variables: DeserializeOwned;

    /// `ReadError::NotFound` where there is nothing.
    fn read(uri: &str, variables: Self::Variables) -> Result<ReadResult, ReadError>;
}

/// Suggestions for a prompt's arguments or a template's variables.
pub trait Completes {
    /// `Reference::Prompt(Self::NAME.into())` or `Reference::Template(Self::URI_TEMPLATE.into())`.
    fn reference() -> Reference;

    /// What `argument` could be, best first, given what was typed and what was chosen for the others (strings). The first
    /// hundred reach the client.
    fn complete(argument: &str, value: &str, chosen: &Map<String, Value>) -> Result<Vec<String>, ToolError>;
}

/// A message of the user's.
pub fn user(content: crate::Content) -> Message {
    Message { role: Role::User, content }
}

/// A message of the assistant's.
pub fn assistant(content: crate::Content) -> Message {
    Message { role: Role::Assistant, content }
}

impl From<Vec<Message>> for PromptResult {
    fn from(messages: Vec<Message>) -> PromptResult {
        PromptResult { description: None, messages, meta: None }
    }
}

/// One text under this URI.
pub fn contents(uri: &str, mime_type: &str, text: impl Into<String>) -> ReadResult {
    single(uri, mime_type, Body::Text(text.into()))
}

/// Bytes under this URI.
pub fn blob(uri: &str, mime_type: &str, bytes: Vec<u8>) -> ReadResult {
    single(uri, mime_type, Body::Blob(bytes))
}

fn single(uri: &str, mime_type: &str, body: Body) -> ReadResult {
    let contents = Contents { uri: uri.into(), mime_type: Some(mime_type.into()), body, meta: None };
    ReadResult { contents: vec![contents], meta: None }
}

impl From<ToolError> for ReadError {
    fn from(error: ToolError) -> ReadError {
        ReadError::Failed(error)
    }
}

pub fn declare_prompt<P: Prompt>() -> wit_prompts::Prompt {
    let schema = read_schema::<P::Arguments>().to_value();
    let required = |name: &str| schema["required"].as_array().is_some_and(|all| all.iter().any(|r| r == name));
    let fields = schema["properties"].as_object().into_iter().flatten();
    let argument = |(name, field): (&String, &Value)| wit_prompts::Argument {
        name: name.clone(),
        title: field["title"].as_str().map(Into::into),
        description: field["description"].as_str().map(Into::into),
        required: required(name),
    };
    wit_prompts::Prompt {
        name: P::NAME.into(),
        title: P::TITLE.into(),
        description: P::DESCRIPTION.into(),
        arguments: fields.map(argument).collect(),
        scopes: texts(P::SCOPES),
        icons: P::ICONS.map(Into::into),
        meta: P::META.map(Into::into),
    }
}

pub fn get<P: Prompt>(arguments: &str) -> Result<PromptResult, ToolError> {
    P::get(serde_json::from_str(arguments).map_err(|e| ToolError::InvalidInput(e.to_string()))?)
}

pub fn declare_resource<R: Resource>() -> wit_resources::Resource {
    wit_resources::Resource {
        uri: R::URI.into(),
        name: R::NAME.into(),
        title: R::TITLE.into(),
        description: R::DESCRIPTION.into(),
        mime_type: R::MIME_TYPE.map(Into::into),
        size: R::SIZE,
        scopes: texts(R::SCOPES),
        annotations: R::ANNOTATIONS.map(Into::into),
        icons: R::ICONS.map(Into::into),
        meta: R::META.map(Into::into),
    }
}

pub fn read<R: Resource>() -> Result<ReadResult, ReadError> {
    R::read()
}

pub fn declare_template<T: ResourceTemplate>() -> wit_resources::Template {
    wit_resources::Template {
        uri_template: T::URI_TEMPLATE.into(),
        name: T::NAME.into(),
        title: T::TITLE.into(),
        description: T::DESCRIPTION.into(),
        mime_type: T::MIME_TYPE.map(Into::into),
        scopes: texts(T::SCOPES),
        annotations: T::ANNOTATIONS.map(Into::into),
        icons: T::ICONS.map(Into::into),
        meta: T::META.map(Into::into),
    }
}

pub fn read_template<T: ResourceTemplate>(request: &wit_resources::Request) -> Result<ReadResult, ReadError> {
    let variables = serde_json::from_str(&request.variables).map_err(|e| ToolError::Internal(e.to_string()))?;
    T::read(&request.uri, variables)
}

/// `None`: it was not asked for this one.
pub fn complete<C: Completes>(request: &wit_completions::Request) -> Option<Result<Suggestions, ToolError>> {
    let is_meant = match (&request.reference, C::reference()) {
        (Reference::Prompt(asked), Reference::Prompt(own)) => *asked == own,
        (Reference::Template(asked), Reference::Template(own)) => *asked == own,
        _ => false,
    };
    is_meant.then(|| {
        let chosen = serde_json::from_str(&request.context).map_err(|e| ToolError::Internal(e.to_string()))?;
        let values = C::complete(&request.argument, &request.value, &chosen)?;
        Ok(Suggestions { total: u32::try_from(values.len()).ok(), has_more: false, values })
    })
}

fn texts(all: &[&str]) -> Vec<String> {
    all.iter().map(|text| (*text).into()).collect()
}
