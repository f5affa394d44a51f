//! `config`: one setting by name.

use cyberos_plugin_sdk::config;
use cyberos_plugin_sdk::prelude::*;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Name {
    name: String,
}

#[derive(Serialize, JsonSchema)]
pub struct Setting {
    /// Null when the operator did not set it.
    value: Option<String>,
}

pub struct ReadsConfig;

impl Tool for ReadsConfig {
    const NAME: &'static str = "test.reads_config";
    const TITLE: &'static str = "reads_config";
    const DESCRIPTION: &'static str = "Test guest: reads one setting that the operator gave this plugin.";
    const ANNOTATIONS: Annotations = READ_ONLY;
    type Arguments = Name;
    type Output = Setting;

    fn call(Name { name }: Name) -> Result<Setting, ToolError> {
        Ok(Setting { value: config::get(&name) })
    }
}
