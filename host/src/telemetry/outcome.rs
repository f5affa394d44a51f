//! How a call ended, in the few words that spans and metrics share.

use crate::error::{Error, Reason};
use crate::model::ToolResult;

/// A closed set, so that it may be a metric label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Success,
    /// The tool ran and said that it failed (`isError: true`).
    ToolError,
    /// We refused or ended the call.
    Failed(Reason),
}

impl Outcome {
    pub fn of(result: &Result<ToolResult, Error>) -> Self {
        match result {
            Ok(result) if result.is_error => Outcome::ToolError,
            Ok(_) => Outcome::Success,
            Err(error) => Outcome::Failed(error.reason()),
        }
    }

    /// `success`, `tool_error`, `panic`, or the error's class.
    pub fn as_str(self) -> &'static str {
        match self {
            Outcome::Success => "success",
            Outcome::ToolError => "tool_error",
            Outcome::Failed(Reason::Panic) => "panic",
            Outcome::Failed(reason) => reason.class().as_str(),
        }
    }

    /// `error.type` of the semantic conventions: the reason, or `tool_error`; none for a success.
    pub fn error_type(self) -> Option<&'static str> {
        match self {
            Outcome::Success => None,
            Outcome::ToolError => Some("tool_error"),
            Outcome::Failed(reason) => Some(reason.as_str()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_is_success_tool_error_panic_or_a_class() {
        let failed = |reason| Outcome::of(&Err(Error::new(reason, "No.")));
        let tool_error = Outcome::of(&Ok(ToolResult { is_error: true, ..ToolResult::default() }));
        assert_eq!(Outcome::of(&Ok(ToolResult::default())).as_str(), "success");
        assert_eq!((tool_error.as_str(), tool_error.error_type()), ("tool_error", Some("tool_error")));
        assert_eq!(failed(Reason::Panic).as_str(), "panic");
        assert_eq!(failed(Reason::OutOfFuel).as_str(), "internal_error");
        assert_eq!(failed(Reason::OutOfFuel).error_type(), Some("out_of_fuel"));
    }
}
