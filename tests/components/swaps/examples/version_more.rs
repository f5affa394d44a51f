//! A version with another tool and a prompt.

mod common;

version!("more");

struct More;

impl Tool for More {
    const NAME: &'static str = "cyberos.test.more";
    const TITLE: &'static str = "More";
    const DESCRIPTION: &'static str = "Test guest: a tool that only the newer version of the component has.";
    const ANNOTATIONS: Annotations = READ_ONLY;
    type Arguments = common::Arguments;
    type Output = common::Answer;

    fn call(_: common::Arguments) -> Result<common::Answer, ToolError> {
        Ok(common::Answer { version: "more".into() })
    }
}

struct Ask;

impl Prompt for Ask {
    const NAME: &'static str = "cyberos.test.ask";
    const TITLE: &'static str = "Ask";
    const DESCRIPTION: &'static str = "Test guest: a prompt that only the newer version of the component has.";
    type Arguments = NoArguments;

    fn get(_: NoArguments) -> Result<PromptResult, ToolError> {
        Ok(vec![].into())
    }
}

export_plugin! { tools: [Version, More], prompts: [Ask] }
