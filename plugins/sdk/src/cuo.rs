//! Typed questions to the CUO supervisor (`cyberos:plugin/spawn-cuo`).

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::ToolError;
use crate::spawn_cuo::{self, CuoError};

/// Ask and read the answer; a failure becomes the error class that the caller should see.
pub fn request<T: DeserializeOwned>(method: &str, params: &impl Serialize) -> Result<T, ToolError> {
    let params = serde_json::to_string(params).map_err(|e| ToolError::Internal(format!("params: {e}")))?;
    let answer = spawn_cuo::request(method, &params).map_err(|error| match error {
        CuoError::UnknownMethod => ToolError::Internal(format!("the supervisor has no method {method}")),
        CuoError::InvalidParams(text) => ToolError::InvalidInput(text),
        CuoError::Unavailable(text) | CuoError::Failed(text) => ToolError::Unavailable(text),
    })?;
    serde_json::from_str(&answer).map_err(|e| ToolError::Internal(format!("the supervisor's answer: {e}")))
}
