//! What a task asks its owner and what came back, as the row keeps them.
//!
//! Written by the worker, read by whoever serves the owner, perhaps another process of another version: an answer is
//! checked against its question again where it is taken.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::{Error, Reason, Result};
use crate::model::{ClientPort, ElicitAnswer, Elicitation, Form, UrlVisit};
use crate::store::{TaskRow, TaskStatus};

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Question {
    Form { message: String, schema: Value },
    Url(UrlVisit),
    Sample { request: Map<String, Value> },
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Answer {
    Accept {
        content: Map<String, Value>,
    },
    Decline,
    Cancel,
    Sampled {
        result: Map<String, Value>,
    },
    /// The client was asked and could not answer, or its user did not let it.
    Failed {
        reason: String,
        message: String,
    },
}

impl From<&Elicitation> for Question {
    fn from(question: &Elicitation) -> Self {
        match question {
            Elicitation::Form(form) => Question::Form { message: form.message().to_owned(), schema: form.schema() },
            Elicitation::Url(visit) => Question::Url(visit.clone()),
        }
    }
}

impl Question {
    pub fn read(body: &Value) -> Result<Question> {
        serde_json::from_value(body.clone()).map_err(|error| unreadable(&error))
    }

    pub fn to_json(&self) -> Value {
        serde_json::to_value(self).expect("plain data is JSON")
    }

    /// Ask this client. An error means that the question stays open: the client cannot be asked, or said nothing.
    pub async fn put_to(self, client: &ClientPort) -> Result<Answer> {
        let answered = match self {
            Question::Form { message, schema } => {
                let form = Form::new(&message, schema).map_err(|why| unreadable(&why))?;
                client.elicit(Elicitation::Form(form)).await.map(Answer::from)
            }
            Question::Url(visit) => client.elicit(Elicitation::Url(visit)).await.map(Answer::from),
            Question::Sample { request } => client.sample(request).await.map(|result| Answer::Sampled { result }),
        };
        answered.or_else(|error| match error.reason() {
            Reason::UserDeclined | Reason::BadResponse => {
                Ok(Answer::Failed { reason: error.reason().as_str().into(), message: error.to_string() })
            }
            _ => Err(error),
        })
    }
}

impl From<ElicitAnswer> for Answer {
    fn from(answer: ElicitAnswer) -> Self {
        match answer {
            ElicitAnswer::Accept(content) => Answer::Accept { content },
            ElicitAnswer::Decline => Answer::Decline,
            ElicitAnswer::Cancel => Answer::Cancel,
        }
    }
}

impl Answer {
    pub fn read(body: Value) -> Result<Answer> {
        serde_json::from_value(body).map_err(|error| unreadable(&error))
    }

    pub fn to_json(&self) -> Value {
        serde_json::to_value(self).expect("plain data is JSON")
    }

    pub fn into_elicitation(self, question: &Elicitation) -> Result<ElicitAnswer> {
        match (self, question) {
            (Answer::Accept { content }, Elicitation::Form(form)) => {
                form.accept(content).map(ElicitAnswer::Accept).map_err(|why| unfit().detail(why))
            }
            (Answer::Accept { .. }, Elicitation::Url(_)) => Ok(ElicitAnswer::Accept(Map::new())),
            (Answer::Decline, _) => Ok(ElicitAnswer::Decline),
            (Answer::Cancel, _) => Ok(ElicitAnswer::Cancel),
            (other, _) => Err(other.failure()),
        }
    }

    pub fn into_sample(self) -> Result<Map<String, Value>> {
        match self {
            Answer::Sampled { result } => Ok(result),
            other => Err(other.failure()),
        }
    }

    fn failure(self) -> Error {
        match self {
            Answer::Failed { reason, message } => {
                Error::new(Reason::parse(&reason).unwrap_or(Reason::BadResponse), message)
            }
            _ => unfit(),
        }
    }
}

/// What an open task waits for, in a sentence for whoever looks at it. `None` when nobody has to do anything.
pub fn asked_of(row: &TaskRow) -> Option<String> {
    const MAX_CHARS: usize = 300;
    if row.status != TaskStatus::InputRequired || row.answer.is_some() {
        return None;
    }
    let said = match Question::read(&row.question.as_ref()?.body).ok()? {
        Question::Form { message, .. } | Question::Url(UrlVisit { message, .. }) => {
            let line: String = message.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_CHARS).collect();
            format!("an answer of its user: {line}")
        }
        Question::Sample { .. } => "an answer of the client's model".to_owned(),
    };
    Some(format!("Call tasks/result with a client that can be asked. The task needs {said}"))
}

fn unfit() -> Error {
    Error::new(Reason::BadResponse, "The client's answer does not fit the question.")
}

fn unreadable(why: &dyn std::fmt::Display) -> Error {
    Error::new(Reason::BadResponse, "A question of this task, or its answer, cannot be read.").detail(why)
}
