//! What a plugin may offer beside tools: prompts, resources, templates of resources, and completions for them; as plugins
//! declare them and callers see them. Source: MCP 2025-11-25, prompts, resources, completion.

use serde_json::{Map, Value};

use super::{CallContext, Content, UriTemplate, normal_uri};

/// What a client shows and a model reads beside the name.
#[derive(Clone, Debug, PartialEq)]
pub struct Presentation {
    pub title: String,
    pub description: String,
    pub icons: Vec<Value>,
    pub meta: Option<Value>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Prompt {
    /// The same characters as in a tool's name.
    pub name: String,
    pub shown: Presentation,
    pub arguments: Vec<PromptArgument>,
    /// All of them are needed to see and to get it.
    pub scopes: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct PromptArgument {
    pub name: String,
    pub title: Option<String>,
    pub description: Option<String>,
    pub required: bool,
}

/// One resource with a URI of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    pub uri: String,
    pub name: String,
    pub shown: Presentation,
    pub mime_type: Option<String>,
    /// Bytes before any encoding.
    pub size: Option<u64>,
    pub scopes: Vec<String>,
    /// `audience`, `priority`, `lastModified`.
    pub annotations: Option<Value>,
}

/// A family of resources.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceTemplate {
    pub uri: UriTemplate,
    pub name: String,
    pub shown: Presentation,
    pub mime_type: Option<String>,
    pub scopes: Vec<String>,
    pub annotations: Option<Value>,
}

/// What one component declared when it was loaded.
#[derive(Clone, Debug, Default)]
pub struct Offers {
    pub prompts: Vec<Prompt>,
    pub resources: Vec<Resource>,
    pub templates: Vec<ResourceTemplate>,
    /// It can be asked for completions of its prompts and templates.
    pub completes: bool,
}

impl Offers {
    /// Is this the URI of something that the component lists, or could make from a template?
    pub fn covers(&self, uri: &str) -> bool {
        let uri = normal_uri(uri);
        self.resources.iter().any(|resource| normal_uri(&resource.uri) == uri)
            || self.templates.iter().any(|template| template.uri.matches(&uri).is_some())
    }
}

/// What a client asked for, before anything was checked.
pub struct PromptCall {
    pub name: String,
    pub arguments: Map<String, Value>,
    pub context: CallContext,
}

pub struct ReadCall {
    pub uri: String,
    pub context: CallContext,
}

pub struct CompleteCall {
    pub reference: Reference,
    /// The argument or variable that is being filled in.
    pub argument: String,
    pub value: String,
    /// What was chosen for the others; strings.
    pub chosen: Map<String, Value>,
    pub context: CallContext,
}

/// What a completion is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// A prompt's name.
    Prompt(String),
    /// A URI template as it was listed.
    Template(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    User,
    Assistant,
}

impl Role {
    pub fn as_str(self) -> &'static str {
        match self {
            Role::User => "user",
            Role::Assistant => "assistant",
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct PromptResult {
    pub description: Option<String>,
    pub messages: Vec<(Role, Content)>,
    pub meta: Option<Value>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ReadResult {
    pub contents: Vec<ResourceContents>,
    pub meta: Option<Value>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ResourceContents {
    pub uri: String,
    pub mime_type: Option<String>,
    pub body: ResourceBody,
    pub meta: Option<Value>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResourceBody {
    Text(String),
    /// In base64.
    Blob(String),
}

/// At most a hundred values, best first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Suggestions {
    pub values: Vec<String>,
    pub total: Option<u32>,
    pub has_more: bool,
}
