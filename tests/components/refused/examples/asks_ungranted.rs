//! Imports the CUO supervisor; loaded without that grant. With it, it is a good component that answers.

use cyberos_plugin_sdk::cuo;
use cyberos_plugin_sdk::prelude::*;

struct AsksUngranted;

impl Tool for AsksUngranted {
    const NAME: &'static str = "cyberos.test.asks_ungranted";
    const TITLE: &'static str = "Ask without a grant";
    const DESCRIPTION: &'static str = "Test guest: lists personas through an import that has to be granted.";
    const ANNOTATIONS: Annotations = READ_ONLY;
    type Arguments = NoArguments;
    type Output = ToolResult;

    fn call(_: NoArguments) -> Result<ToolResult, ToolError> {
        let answer: Value = cuo::request("cuo.list_personas", &json!({}))?;
        Ok(ToolResult { content: vec![], structured: Some(answer.to_string()), is_error: false, meta: None })
    }
}

export_tools!(AsksUngranted);
