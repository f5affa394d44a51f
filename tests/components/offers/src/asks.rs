//! Tools that turn to the client behind the call. What came of it is an ordinary result.

use cyberos_plugin_sdk::ask::{self, Answer};
use cyberos_plugin_sdk::prelude::*;
use cyberos_plugin_sdk::{ClientError, call_context, elicit, log, resource_updates, sample};

#[derive(Serialize, JsonSchema)]
pub struct Came {
    /// What the client said that it can do.
    can: Vec<String>,
    /// `accept`, `decline`, `cancel`, or the error's name in the WIT.
    answer: String,
    /// The content, or what the error says.
    says: String,
    /// Milliseconds that the call had left before and after.
    left: (u64, u64),
}

fn came(can: &[(&str, bool)], ask: impl FnOnce() -> Result<(String, String), ClientError>) -> Came {
    let before = call_context::get().remaining_ms;
    let (answer, says) = ask().unwrap_or_else(|error| {
        let (name, says) = match error {
            ClientError::Unsupported => ("unsupported", String::new()),
            ClientError::Invalid(why) => ("invalid", why),
            ClientError::Declined => ("declined", String::new()),
            ClientError::TimedOut => ("timed-out", String::new()),
            ClientError::Unavailable(why) => ("unavailable", why),
        };
        (name.into(), says)
    });
    let can = can.iter().filter(|(_, can)| *can).map(|(what, _)| (*what).into()).collect();
    Came { can, answer, says, left: (before, call_context::get().remaining_ms) }
}

macro_rules! asks {
    ($tool:ident, $name:literal, $arguments:ty => $output:ty, $call:expr) => {
        pub struct $tool;

        impl Tool for $tool {
            const NAME: &'static str = $name;
            const TITLE: &'static str = $name;
            const DESCRIPTION: &'static str = concat!("Test guest: turns to the client behind the call, ", $name, ".");
            const ANNOTATIONS: Annotations = READ_ONLY;
            type Arguments = $arguments;
            type Output = $output;

            fn call(arguments: $arguments) -> Result<$output, ToolError> {
                let call: fn($arguments) -> Result<$output, ToolError> = $call;
                call(arguments)
            }
        }
    };
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FormArguments {
    #[serde(default = "please")]
    message: String,
    /// A JSON Schema as text; without it, a form made from a type.
    schema: Option<String>,
}

fn please() -> String {
    "Please fill this in.".into()
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Delivery {
    /// Where it goes.
    city: String,
    /// How many.
    #[schemars(range(min = 1, max = 9))]
    count: Option<u32>,
    express: bool,
    size: Option<Size>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Size {
    Small,
    Large,
}

asks!(AsksForm, "test.asks_form", FormArguments => Came, |arguments| {
    let can = elicit::can();
    Ok(came(&[("form", can.form), ("url", can.url)], || {
        let Some(schema) = &arguments.schema else {
            return Ok(match ask::form::<Delivery>(&arguments.message)? {
                Answer::Accepted(delivery) => ("accept".into(), json!(delivery).to_string()),
                Answer::Declined => ("decline".into(), String::new()),
                Answer::Cancelled => ("cancel".into(), String::new()),
            });
        };
        Ok(match elicit::form(&arguments.message, schema)? {
            elicit::Answer::Accept(content) => ("accept".into(), content),
            elicit::Answer::Decline => ("decline".into(), String::new()),
            elicit::Answer::Cancel => ("cancel".into(), String::new()),
        })
    }))
});

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UrlArguments {
    url: String,
}

asks!(AsksUrl, "test.asks_url", UrlArguments => Came, |arguments| {
    let can = elicit::can();
    Ok(came(&[("form", can.form), ("url", can.url)], || {
        Ok(match elicit::url("Please sign in there.", &arguments.url)? {
            elicit::Visit::Accept(id) => {
                elicit::completed("an id that nobody gave");
                elicit::completed(&id);
                elicit::completed(&id);
                ("accept".into(), id)
            }
            elicit::Visit::Decline => ("decline".into(), String::new()),
            elicit::Visit::Cancel => ("cancel".into(), String::new()),
        })
    }))
});

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelArguments {
    question: Option<String>,
    /// Whole params as JSON text.
    request: Option<String>,
}

asks!(AsksModel, "test.asks_model", ModelArguments => Came, |arguments| {
    let can = sample::can();
    Ok(came(&[("messages", can.messages), ("tools", can.tools)], || {
        let answer = match &arguments.request {
            Some(request) => sample::create_message(request)?,
            None => ask::model(arguments.question.as_deref().unwrap_or("Why?"), 100)?,
        };
        Ok(("accept".into(), answer))
    }))
});

/// The same as tasks, whose client is found when it asks for the result.
macro_rules! as_task {
    ($tool:ident, $name:literal, $of:ident) => {
        pub struct $tool;

        impl Tool for $tool {
            const NAME: &'static str = $name;
            const TITLE: &'static str = $name;
            const DESCRIPTION: &'static str = concat!("Test guest: turns to its client from a task, ", $name, ".");
            const ANNOTATIONS: Annotations = READ_ONLY;
            const TASK_SUPPORT: TaskSupport = TaskSupport::Optional;
            type Arguments = <$of as Tool>::Arguments;
            type Output = <$of as Tool>::Output;

            fn call(arguments: Self::Arguments) -> Result<Self::Output, ToolError> {
                $of::call(arguments)
            }
        }
    };
}

as_task!(AsksFormAsTask, "test.asks_form_as_task", AsksForm);
as_task!(AsksModelAsTask, "test.asks_model_as_task", AsksModel);

#[derive(Serialize, JsonSchema)]
pub struct Asked {
    answered: u32,
    last: String,
}

asks!(AsksWithoutEnd, "test.asks_without_end", NoArguments => Asked, |_| {
    let mut answered = 0;
    loop {
        match ask::form::<Delivery>("Again?") {
            Ok(_) => answered += 1,
            Err(error) => return Ok(Asked { answered, last: format!("{error:?}") }),
        }
    }
});

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogArguments {
    /// One of the eight.
    level: String,
    message: Option<String>,
    /// JSON text.
    data: Option<String>,
    logger: Option<String>,
    #[serde(default = "once")]
    times: u32,
}

fn once() -> u32 {
    1
}

#[derive(Serialize, JsonSchema)]
pub struct Done {
    done: bool,
}

asks!(Logs, "test.logs", LogArguments => Done, |arguments| {
    let level = match arguments.level.as_str() {
        "debug" => log::Level::Debug,
        "info" => log::Level::Info,
        "notice" => log::Level::Notice,
        "warning" => log::Level::Warning,
        "error" => log::Level::Error,
        "critical" => log::Level::Critical,
        "alert" => log::Level::Alert,
        "emergency" => log::Level::Emergency,
        _ => return Err(ToolError::InvalidInput("no such level".into())),
    };
    for _ in 0..arguments.times {
        if let Some(message) = &arguments.message {
            log::write(level, message);
        }
        if let Some(data) = &arguments.data {
            log::event(level, arguments.logger.as_deref(), data);
        }
    }
    Ok(Done { done: true })
});

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UpdatedArguments {
    uris: Vec<String>,
    #[serde(default = "once")]
    times: u32,
}

asks!(TellsUpdated, "test.tells_updated", UpdatedArguments => Done, |arguments| {
    for _ in 0..arguments.times {
        arguments.uris.iter().for_each(|uri| resource_updates::updated(uri));
    }
    Ok(Done { done: true })
});
