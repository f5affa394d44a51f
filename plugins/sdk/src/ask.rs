//! Ask the caller's user or model, and tell its client something. The imports themselves are `elicit`, `sample` and `log`.

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::tool::read_schema;
use crate::{ClientError, ToolError, elicit, log, sample};

/// What the user did with a form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer<T> {
    Accepted(T),
    Declined,
    /// Closed without a choice.
    Cancelled,
}

/// Show a form whose fields are those of `T`: a struct of strings, numbers, booleans, enums without fields, and options of
/// those. Doc comments become the fields' descriptions.
pub fn form<T: DeserializeOwned + JsonSchema>(message: &str) -> Result<Answer<T>, ClientError> {
    match elicit::form(message, &form_schema::<T>().to_string())? {
        elicit::Answer::Accept(content) => match serde_json::from_str(&content) {
            Ok(content) => Ok(Answer::Accepted(content)),
            Err(error) => Err(ClientError::Unavailable(error.to_string())),
        },
        elicit::Answer::Decline => Ok(Answer::Declined),
        elicit::Answer::Cancel => Ok(Answer::Cancelled),
    }
}

/// A form has fields and nothing around them: no `additionalProperties`, and an optional field is one that is not required.
fn form_schema<T: JsonSchema>() -> Value {
    let mut schema = read_schema::<T>().to_value();
    if let Some(object) = schema.as_object_mut() {
        object.retain(|key, _| matches!(key.as_str(), "type" | "properties" | "required" | "description"));
    }
    let fields = schema.get_mut("properties").and_then(Value::as_object_mut);
    for field in fields.into_iter().flat_map(|fields| fields.values_mut()) {
        without_null(field);
    }
    schema
}

fn without_null(field: &mut Value) {
    let Some(object) = field.as_object_mut() else { return };
    // An optional enum with documented cases is `anyOf` it or null.
    if let Some(Value::Array(either)) = object.remove("anyOf") {
        let only = either.into_iter().find(|one| one["type"] != "null");
        object.extend(only.and_then(|one| one.as_object().cloned()).into_iter().flatten());
    }
    for key in ["type", "enum"] {
        if let Some(Value::Array(all)) = object.get_mut(key) {
            all.retain(|one| !one.is_null() && one != "null");
        }
    }
    if let Some([only]) = object.get("type").and_then(Value::as_array).map(Vec::as_slice) {
        let only = only.clone();
        object.insert("type".into(), only);
    }
    if object.get("default").is_some_and(Value::is_null) {
        object.remove("default");
    }
}

/// Ask the model one question in plain text; the answer's text.
pub fn model(question: &str, max_tokens: u32) -> Result<String, ClientError> {
    let request = json!({
        "maxTokens": max_tokens,
        "messages": [{ "role": "user", "content": { "type": "text", "text": question } }],
    });
    let answer = sample::create_message(&request.to_string())?;
    let unusable = || ClientError::Unavailable("the model's answer holds no text".into());
    let answer: Value = serde_json::from_str(&answer).map_err(|_| unusable())?;
    let blocks = match &answer["content"] {
        Value::Array(blocks) => blocks.as_slice(),
        block => std::slice::from_ref(block),
    };
    blocks.iter().find_map(|block| block["text"].as_str().map(str::to_owned)).ok_or_else(unusable)
}

/// Log something with structure, for the operator and for a client that listens.
pub fn log_event(level: log::Level, logger: Option<&str>, data: &impl Serialize) {
    // A value that cannot be JSON is the author's mistake, and not worth the call.
    if let Ok(data) = serde_json::to_string(data) {
        log::event(level, logger, &data);
    }
}

/// For tools that cannot do without the answer.
impl From<ClientError> for ToolError {
    fn from(error: ClientError) -> ToolError {
        match error {
            ClientError::Unsupported => {
                ToolError::InvalidInput("The client cannot be asked for what this needs.".into())
            }
            ClientError::Invalid(why) => ToolError::Internal(why),
            ClientError::Declined => ToolError::Denied("The user declined.".into()),
            ClientError::TimedOut => ToolError::Unavailable("Nobody answered in time.".into()),
            ClientError::Unavailable(why) => ToolError::Unavailable(why),
        }
    }
}
