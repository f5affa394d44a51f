//! The cheapest useful tool: gives its text back, with both schemas checked. Benchmarks call it.

use cyberos_plugin_sdk::prelude::*;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Comes back unchanged.
    #[schemars(length(max = 1_000_000))]
    text: String,
}

#[derive(Serialize, JsonSchema)]
struct Echo {
    /// What was passed.
    text: String,
}

struct EchoTool;

impl Tool for EchoTool {
    const NAME: &'static str = "cyberos.fixture.echo";
    const TITLE: &'static str = "Echo";
    const DESCRIPTION: &'static str = "Returns the text that it is given. It exists to measure what a call costs.";
    const ANNOTATIONS: Annotations = READ_ONLY;
    type Arguments = Arguments;
    type Output = Echo;

    fn call(arguments: Arguments) -> Result<Echo, ToolError> {
        Ok(Echo { text: arguments.text })
    }
}

export_tools!(EchoTool);
