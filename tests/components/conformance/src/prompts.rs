//! Prompts with and without arguments, with each kind of content that the suite asks for, and completions for one.

use cyberos_plugin_sdk::content::{embedded_text, image};
use cyberos_plugin_sdk::prelude::*;

use crate::content::PIXEL;

pub struct Simple;

impl Prompt for Simple {
    const NAME: &'static str = "test_simple_prompt";
    const TITLE: &'static str = "Simple prompt";
    const DESCRIPTION: &'static str = "One message of the user's, always the same.";
    type Arguments = NoArguments;

    fn get(_: NoArguments) -> Result<PromptResult, ToolError> {
        Ok(vec![user(text("This is a simple prompt for testing."))].into())
    }
}

#[derive(Deserialize, JsonSchema)]
pub struct TwoArguments {
    /// First test argument
    arg1: String,
    /// Second test argument
    arg2: String,
}

pub struct WithArguments;

impl Prompt for WithArguments {
    const NAME: &'static str = "test_prompt_with_arguments";
    const TITLE: &'static str = "Prompt with arguments";
    const DESCRIPTION: &'static str = "One message that repeats both arguments.";
    type Arguments = TwoArguments;

    fn get(TwoArguments { arg1, arg2 }: TwoArguments) -> Result<PromptResult, ToolError> {
        Ok(vec![user(text(format!("Prompt with arguments: arg1='{arg1}', arg2='{arg2}'")))].into())
    }
}

impl Completes for WithArguments {
    fn reference() -> Reference {
        Reference::Prompt(Self::NAME.into())
    }

    fn complete(argument: &str, value: &str, _: &Map<String, Value>) -> Result<Vec<String>, ToolError> {
        let suggestion = format!("testValue{}", argument.trim_start_matches("arg"));
        Ok(Some(suggestion).filter(|suggestion| suggestion.starts_with(value)).into_iter().collect())
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceArguments {
    /// URI of the resource to embed
    resource_uri: String,
}

pub struct WithEmbeddedResource;

impl Prompt for WithEmbeddedResource {
    const NAME: &'static str = "test_prompt_with_embedded_resource";
    const TITLE: &'static str = "Prompt with a resource";
    const DESCRIPTION: &'static str =
        "A message that is a resource of the given URI, and one that says what to do with it.";
    type Arguments = ResourceArguments;

    fn get(arguments: ResourceArguments) -> Result<PromptResult, ToolError> {
        let resource = embedded_text(&arguments.resource_uri, "text/plain", "Embedded resource content for testing.");
        Ok(vec![user(resource), user(text("Please process the embedded resource above."))].into())
    }
}

pub struct WithImage;

impl Prompt for WithImage {
    const NAME: &'static str = "test_prompt_with_image";
    const TITLE: &'static str = "Prompt with an image";
    const DESCRIPTION: &'static str = "A message that is an image, and one that says what to do with it.";
    type Arguments = NoArguments;

    fn get(_: NoArguments) -> Result<PromptResult, ToolError> {
        let image = image(PIXEL.into(), "image/png");
        Ok(vec![user(image), user(text("Please analyze the image above."))].into())
    }
}
