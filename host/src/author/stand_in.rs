//! The client of a case: whoever is asked gives the answers that the case wrote down, in their order.

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::case::{Action, ClientAnswer};
use crate::error::{Error, Reason, Result};
use crate::model::{Client, ClientFeatures, ElicitAnswer, Elicitation, LogLevel};

/// It can be asked what it has answers for.
#[derive(Default)]
pub struct StandIn {
    features: ClientFeatures,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    left: VecDeque<ClientAnswer>,
    complaints: Vec<String>,
}

impl StandIn {
    pub fn of(answers: &[ClientAnswer]) -> StandIn {
        let elicits = answers.iter().any(|answer| answer.elicit.is_some());
        let samples = answers.iter().any(|answer| answer.sample.is_some());
        let features =
            ClientFeatures { elicit_form: elicits, elicit_url: elicits, sample: samples, sample_tools: samples };
        let state = State { left: answers.iter().cloned().collect(), complaints: vec![] };
        StandIn { features, state: Mutex::new(state) }
    }

    /// What was asked and not scripted, and what was scripted and not asked.
    pub(super) fn complaints(&self) -> Vec<String> {
        let mut state = self.state();
        let mut complaints = std::mem::take(&mut state.complaints);
        if !state.left.is_empty() {
            complaints.push(format!("{} of the case's [[answer]]s were not asked for", state.left.len()));
        }
        complaints
    }

    fn next<T>(&self, what: &str, pick: impl Fn(&ClientAnswer) -> Option<T>) -> Result<T> {
        let mut state = self.state();
        if let Some(picked) = state.left.front().and_then(pick) {
            state.left.pop_front();
            return Ok(picked);
        }
        state.complaints.push(format!("it asked {what}, and that is not the next [[answer]] of the case"));
        Err(Error::new(Reason::Timeout, "Nobody answered."))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Client for StandIn {
    fn features(&self) -> ClientFeatures {
        self.features
    }

    async fn elicit(&self, question: Elicitation) -> Result<ElicitAnswer> {
        let message = match &question {
            Elicitation::Form(form) => form.message().to_owned(),
            Elicitation::Url(visit) => format!("{} {}", visit.message, visit.url),
        };
        let answer = self.next(&format!("the user {message:?}"), |answer| answer.elicit.clone())?;
        Ok(match (answer.action, question) {
            (Action::Decline, _) => ElicitAnswer::Decline,
            (Action::Cancel, _) => ElicitAnswer::Cancel,
            (Action::Accept, Elicitation::Url(_)) => ElicitAnswer::Accept(Map::new()),
            (Action::Accept, Elicitation::Form(form)) => match form.accept(answer.content) {
                Ok(content) => ElicitAnswer::Accept(content),
                Err(why) => {
                    self.state().complaints.push(format!("the case's answer does not fit the form {message:?}: {why}"));
                    return Err(Error::new(Reason::BadResponse, "The answer does not fit the form."));
                }
            },
        })
    }

    async fn sample(&self, _request: Map<String, Value>) -> Result<Map<String, Value>> {
        let text = self.next("the model", |answer| answer.sample.clone())?;
        let Value::Object(message) = json!({
            "role": "assistant",
            "content": { "type": "text", "text": text },
            "model": "case",
            "stopReason": "endTurn",
        }) else {
            unreachable!("it is an object")
        };
        Ok(message)
    }

    fn elicitation_complete(&self, _elicitation_id: &str) {}

    fn log(&self, _level: LogLevel, _logger: &str, _data: Value) {}
}
