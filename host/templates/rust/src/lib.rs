use cyberos_plugin_sdk::prelude::*;

/// What the caller passes. The input schema is derived from this; doc comments become descriptions.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Who to greet.
    #[schemars(length(min = 1, max = 100))]
    name: String,
}

/// What comes back. The output schema is derived from this.
#[derive(Serialize, JsonSchema)]
struct Greeting {
    /// The greeting, ready to be shown.
    text: String,
}

struct Greet;

impl Tool for Greet {
    const NAME: &'static str = "{{ tool }}";
    const TITLE: &'static str = "Greet";
    const DESCRIPTION: &'static str = "Returns a greeting for the given name. Use it to try the bridge.";
    const ANNOTATIONS: Annotations = READ_ONLY;
    type Arguments = Arguments;
    type Output = Greeting;

    fn call(arguments: Arguments) -> Result<Greeting, ToolError> {
        Ok(Greeting { text: format!("Hello, {}!", arguments.name) })
    }
}

export_tools!(Greet);
