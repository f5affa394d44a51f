//! Typed questions to the CUO supervisor (`cyberos:plugin/spawn-cuo`).

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

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

/// What a run did and wrote: the answer to `cuo.execute` and `skill.invoke`.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(description = "What the run did and wrote.")]
pub struct Execution {
    /// How many steps ran; a step whose condition did not hold is not counted.
    #[schemars(range(min = 0))]
    pub steps_executed: u32,
    /// What the run produced, in order of step.
    pub final_artifacts: Vec<Artifact>,
    /// What a reader should know about the run, such as an input that was missing.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// One document that a run produced.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Artifact {
    /// What later steps call it.
    pub name: String,
    /// The step that wrote it, from 1; null when the supervisor does not say.
    pub step: Option<u32>,
    /// The skill that wrote it.
    pub skill: Option<String>,
    /// Such as `text/markdown`.
    pub media_type: Option<String>,
    /// The file's name below the run's output directory.
    pub path: Option<String>,
    /// Size of the whole file in bytes.
    pub bytes: Option<u64>,
    /// SHA-256 of the whole file, in hex.
    pub sha256: Option<String>,
    /// The text itself, or its beginning.
    pub text: Option<String>,
    /// Whether `text` is only the beginning.
    #[serde(default)]
    pub text_truncated: bool,
}
