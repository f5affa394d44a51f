//! `spawn-cuo`, with any method and any parameters.

use cyberos_plugin_sdk::prelude::*;
use cyberos_plugin_sdk::serde_json;
use cyberos_plugin_sdk::spawn_cuo::{self, CuoError};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Question {
    method: String,
    /// Passed on as it is, JSON or not.
    params: String,
}

#[derive(Serialize, JsonSchema)]
pub struct Answer {
    answer: Option<Value>,
    /// The error's name in the WIT.
    error: Option<String>,
    says: Option<String>,
}

pub struct AsksCuo;

impl Tool for AsksCuo {
    const NAME: &'static str = "test.asks_cuo";
    const TITLE: &'static str = "asks_cuo";
    const DESCRIPTION: &'static str = "Test guest: asks the CUO supervisor anything and returns what came of it.";
    const ANNOTATIONS: Annotations = WRITE;
    type Arguments = Question;
    type Output = Answer;

    fn call(Question { method, params }: Question) -> Result<Answer, ToolError> {
        let (error, says) = match spawn_cuo::request(&method, &params) {
            Ok(text) => return Ok(Answer { answer: serde_json::from_str(&text).ok(), error: None, says: None }),
            Err(CuoError::UnknownMethod) => ("unknown-method", None),
            Err(CuoError::InvalidParams(text)) => ("invalid-params", Some(text)),
            Err(CuoError::Unavailable(text)) => ("unavailable", Some(text)),
            Err(CuoError::Failed(text)) => ("failed", Some(text)),
        };
        Ok(Answer { answer: None, error: Some(error.into()), says })
    }
}
