//! The trait that a tool implements, and what turns it into the exports of the world.

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::bindings::cyberos::plugin::types::{Annotations, TaskSupport, Tool as Declaration, ToolError, ToolResult};

/// Reads, changes nothing, stays inside CyberOS.
pub const READ_ONLY: Annotations = Annotations {
    read_only: true,
    destructive: false,
    idempotent: true,
    open_world: false,
    write: false,
    external_effect: false,
};

/// Changes something that can be undone or added to.
pub const WRITE: Annotations = Annotations { read_only: false, idempotent: false, write: true, ..READ_ONLY };

/// Changes something for good: every call needs a person's confirmation.
pub const DESTRUCTIVE: Annotations = Annotations { destructive: true, ..WRITE };

/// One tool. Constants describe it, types give its schemas, `call` does the work.
pub trait Tool {
    /// See `tool.name` in `wit/types.wit`.
    const NAME: &'static str;
    const TITLE: &'static str;
    /// For the agent that chooses: what it does, when to use it, what comes back.
    const DESCRIPTION: &'static str;
    const ANNOTATIONS: Annotations;
    /// All that a caller must hold.
    const SCOPES: &'static [&'static str] = &[];
    const TASK_SUPPORT: TaskSupport = TaskSupport::Forbidden;
    const IDEMPOTENT_TASK: bool = false;
    /// A JSON array of icons.
    const ICONS: Option<&'static str> = None;
    /// A JSON object that clients see as `_meta`.
    const META: Option<&'static str> = None;

    /// Give it `#[serde(deny_unknown_fields)]`, so that a misspelt argument is refused by the schema.
    type Arguments: DeserializeOwned + JsonSchema;
    /// A `Serialize + JsonSchema` type for a structured result, or [`ToolResult`] for full control.
    type Output: Output;

    /// JSON Schema of the arguments, for one that is written by hand.
    fn input_schema() -> String {
        read_schema::<Self::Arguments>().as_value().to_string()
    }

    fn call(arguments: Self::Arguments) -> Result<Self::Output, ToolError>;
}

/// No arguments.
// Some clients refuse an object schema that says nothing of its properties.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("properties" = {}))]
pub struct NoArguments {}

/// A slug, as CyberOS names its personas, workflows and skills.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(extend("minLength" = 1, "maxLength" = 100, "pattern" = "^[a-z0-9][a-z0-9-]*$"))]
pub struct Slug(pub String);

/// What a tool may return.
pub trait Output {
    fn schema() -> Option<Schema>;
    fn into_result(self) -> Result<ToolResult, ToolError>;
}

impl<T: Serialize + JsonSchema> Output for T {
    fn schema() -> Option<Schema> {
        Some(schema_of::<T>(SchemaSettings::for_serialize, of_result))
    }
    /// The host repeats the structured result as text for clients that read only text.
    fn into_result(self) -> Result<ToolResult, ToolError> {
        let structured = serde_json::to_string(&self).map_err(|e| ToolError::Internal(format!("result: {e}")))?;
        Ok(ToolResult { content: vec![], structured: Some(structured), is_error: false, meta: None })
    }
}

impl Output for ToolResult {
    fn schema() -> Option<Schema> {
        None
    }
    fn into_result(self) -> Result<ToolResult, ToolError> {
        Ok(self)
    }
}

/// What `list-tools` says of a tool.
pub fn declare<T: Tool>() -> Declaration {
    Declaration {
        name: T::NAME.into(),
        title: T::TITLE.into(),
        description: T::DESCRIPTION.into(),
        input_schema: T::input_schema(),
        output_schema: T::Output::schema().map(|s| s.as_value().to_string()),
        annotations: T::ANNOTATIONS,
        scopes: T::SCOPES.iter().map(|s| (*s).into()).collect(),
        task_support: T::TASK_SUPPORT,
        idempotent_task: T::IDEMPOTENT_TASK,
        icons: T::ICONS.map(Into::into),
        meta: T::META.map(Into::into),
    }
}

/// What `call-tool` does for a tool.
pub fn call<T: Tool>(arguments: &str) -> Result<ToolResult, ToolError> {
    let arguments = serde_json::from_str(arguments).map_err(|e| ToolError::InvalidInput(e.to_string()))?;
    T::call(arguments)?.into_result()
}

/// The schema of what is read as `T`.
pub(crate) fn read_schema<T: JsonSchema>() -> Schema {
    schema_of::<T>(SchemaSettings::for_deserialize, tidy)
}

/// JSON Schema 2020-12 without references, which some clients cannot follow, from one side of serde: what is read or
/// what is written.
fn schema_of<T: JsonSchema>(side: fn(SchemaSettings) -> SchemaSettings, tidy: fn(&mut Schema)) -> Schema {
    let settings = side(SchemaSettings::draft2020_12()).with(|s| {
        s.inline_subschemas = true;
        s.meta_schema = None;
        s.transforms.push(Box::new(RecursiveTransform(tidy)));
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.remove("title");
    schema
}

/// What serde would put in for a missing field says nothing about a result, where no field is missing.
fn of_result(schema: &mut Schema) {
    schema.remove("default");
    tidy(schema);
}

fn tidy(schema: &mut Schema) {
    // `"format": "uint32"` and its like are Rust's, not JSON Schema's: strict clients warn of them or refuse the tool.
    let rust = |f: &str| f.starts_with("int") || f.starts_with("uint") || matches!(f, "float" | "double");
    if schema.get("format").and_then(|f| f.as_str()).is_some_and(rust) {
        schema.remove("format");
    }
    // Doc comments are wrapped for our eyes; an agent reads one line.
    if let Some(description) = schema.get("description").and_then(|d| d.as_str()).map(|d| d.replace('\n', " ")) {
        schema.insert("description".into(), description.into());
    }
}
