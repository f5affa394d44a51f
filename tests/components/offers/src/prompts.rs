//! Prompts.

use cyberos_plugin_sdk::content;
use cyberos_plugin_sdk::prelude::*;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReviewArguments {
    /// Programming language.
    language: String,
    /// How strict to be.
    tone: Option<String>,
}

pub struct Review;

impl Prompt for Review {
    const NAME: &'static str = "test.review";
    const TITLE: &'static str = "Review code";
    const DESCRIPTION: &'static str = "Asks for a review of code in some language.";
    const ICONS: Option<&'static str> =
        Some(r#"[{"src":"https://example.com/review.png","mimeType":"image/png","sizes":["48x48"],"theme":"dark"}]"#);
    const META: Option<&'static str> = Some(r#"{"com.example/kind":"review","mcp/forged":true}"#);
    type Arguments = ReviewArguments;

    fn get(arguments: ReviewArguments) -> Result<PromptResult, ToolError> {
        let tone = arguments.tone.as_deref().unwrap_or("kind");
        Ok(PromptResult {
            description: Some(format!("A {tone} review")),
            messages: vec![
                user(text(format!("Review this {} code, and be {tone}.", arguments.language))),
                assistant(text("Show me the code.")),
            ],
            meta: Some(r#"{"com.example/made":true,"io.modelcontextprotocol/forged":true}"#.into()),
        })
    }
}

impl Completes for Review {
    fn reference() -> Reference {
        Reference::Prompt(Self::NAME.into())
    }

    fn complete(argument: &str, value: &str, chosen: &Map<String, Value>) -> Result<Vec<String>, ToolError> {
        let all: Vec<String> = match argument {
            "language" => ["python", "pascal", "perl", "rust"].map(Into::into).into(),
            // More than the host sends, and what was chosen before.
            _ => (0..150)
                .map(|n| format!("{} {n}", chosen.get("language").map_or("any", |l| l.as_str().unwrap_or(""))))
                .collect(),
        };
        Ok(all.into_iter().filter(|word| word.starts_with(value)).collect())
    }
}

pub struct Secret;

impl Prompt for Secret {
    const NAME: &'static str = "test.secret";
    const TITLE: &'static str = "For some";
    const DESCRIPTION: &'static str = "A prompt that needs a scope of its own.";
    const SCOPES: &'static [&'static str] = &["test:secret"];
    type Arguments = NoArguments;

    fn get(_: NoArguments) -> Result<PromptResult, ToolError> {
        Ok(vec![user(text("The secret."))].into())
    }
}

/// One message of each kind of content.
pub struct EveryKind;

impl Prompt for EveryKind {
    const NAME: &'static str = "test.every_kind";
    const TITLE: &'static str = "Every kind";
    const DESCRIPTION: &'static str = "One message of each kind of content.";
    type Arguments = NoArguments;

    fn get(_: NoArguments) -> Result<PromptResult, ToolError> {
        Ok(crate::tools::every_kind().into_iter().map(user).collect::<Vec<_>>().into())
    }
}

/// Breaks the rule that a prompt has messages.
pub struct Empty;

impl Prompt for Empty {
    const NAME: &'static str = "test.empty";
    const TITLE: &'static str = "Empty";
    const DESCRIPTION: &'static str = "A prompt without a message, or one that fails.";
    type Arguments = EmptyArguments;

    fn get(arguments: EmptyArguments) -> Result<PromptResult, ToolError> {
        match arguments.fails {
            None => Ok(vec![].into()),
            Some(text) if text == "panic" => panic!("as asked"),
            Some(text) if text == "huge" => Ok(vec![user(content::text("x".repeat(2 << 20)))].into()),
            Some(text) => Err(ToolError::Denied(text)),
        }
    }
}

#[derive(Deserialize, JsonSchema)]
pub struct EmptyArguments {
    fails: Option<String>,
}
