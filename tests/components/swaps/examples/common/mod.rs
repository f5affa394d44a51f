//! The tool that every version has: it says which one answers.

use cyberos_plugin_sdk::prelude::*;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Arguments {
    /// How long to take.
    #[serde(default)]
    pub ms: u64,
}

#[derive(Serialize, JsonSchema)]
pub struct Answer {
    pub version: String,
}

/// Declares the tool of this version.
#[macro_export]
macro_rules! version {
    ($version:literal) => {
        use cyberos_plugin_sdk::prelude::*;

        struct Version;

        impl Tool for Version {
            const NAME: &'static str = "cyberos.test.version";
            const TITLE: &'static str = "Version";
            const DESCRIPTION: &'static str = "Test guest: says which version of the component answers, after a while.";
            const ANNOTATIONS: Annotations = READ_ONLY;
            type Arguments = common::Arguments;
            type Output = common::Answer;

            fn call(arguments: common::Arguments) -> Result<common::Answer, ToolError> {
                std::thread::sleep(std::time::Duration::from_millis(arguments.ms));
                Ok(common::Answer { version: $version.into() })
            }
        }
    };
}
