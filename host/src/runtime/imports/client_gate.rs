//! What one call may ask of its client and tell it: how many questions, how many messages and how fast. Waiting for a
//! person stops the call's clock, and lets its turn and its share of the processor go.

use std::future::Future;
use std::time::Instant;

use crate::error::{Error, Reason, Result};
use crate::model::LogLevel;
use crate::runtime::bindings::cyberos::plugin::types::ClientError;
use crate::runtime::call::CallState;

/// From the WIT: `elicit` and `sample` together.
const MAX_QUESTIONS: u32 = 32;
const MAX_UPDATES: u32 = 100;
/// Log messages to the client: a burst, then a rate.
const LOG_BURST: f64 = 20.0;
const LOGS_PER_SECOND: f64 = 10.0;

pub struct ClientGate {
    questions_left: u32,
    updates_left: u32,
    logs: f64,
    logged: Option<Instant>,
    /// Questions that sent the user somewhere; only these can be completed.
    pub visits: Vec<String>,
}

impl Default for ClientGate {
    fn default() -> Self {
        ClientGate {
            questions_left: MAX_QUESTIONS,
            updates_left: MAX_UPDATES,
            logs: LOG_BURST,
            logged: None,
            visits: vec![],
        }
    }
}

impl ClientGate {
    pub fn admit_log(&mut self) -> bool {
        let now = Instant::now();
        let since = self.logged.map_or(0.0, |then| (now - then).as_secs_f64());
        self.logged = Some(now);
        self.logs = (self.logs + since * LOGS_PER_SECOND).min(LOG_BURST);
        let admitted = self.logs >= 1.0;
        self.logs -= if admitted { 1.0 } else { 0.0 };
        admitted
    }

    pub fn admit_update(&mut self) -> bool {
        take(&mut self.updates_left)
    }
}

fn take(left: &mut u32) -> bool {
    let some = *left > 0;
    *left = left.saturating_sub(1);
    some
}

impl CallState {
    /// Wait for the client's answer. Dropping the future, which is how a call is cancelled, withdraws the question.
    pub(super) async fn wait_for_client<T>(
        &mut self,
        answer: impl Future<Output = Result<T>>,
    ) -> Result<T, ClientError> {
        if !take(&mut self.client.questions_left) {
            return Err(ClientError::Invalid(format!("a call asks at most {MAX_QUESTIONS} questions")));
        }
        let place = match self.turns.wait_as(&self.call.caller) {
            Ok(place) => place,
            Err(full) => return Err(self.told(full)),
        };
        let answered = {
            let _still = self.deadline.stand_still();
            let _resting = self.clock.rest();
            drop(self.turn.take());
            answer.await
        };
        // On the call's own time: whoever thought for long goes on like everybody else, in turn.
        self.turn = Some(self.turns.next().await);
        drop(place);
        answered.map_err(|error| self.told(error))
    }

    fn told(&mut self, error: Error) -> ClientError {
        let told = match error.reason() {
            Reason::ClientUnsupported => ClientError::Unsupported,
            Reason::Timeout => ClientError::TimedOut,
            Reason::UserDeclined => ClientError::Declined,
            _ => ClientError::Unavailable(error.to_string()),
        };
        // Should the plugin pass the failure on, the caller gets this very error, with its hint.
        self.blame(error);
        told
    }

    /// The client did not say that it can do this.
    pub(super) fn unsupported(&mut self, what: &str) -> ClientError {
        self.blame(Error::new(Reason::ClientUnsupported, format!("This call needs a client that supports {what}.")));
        ClientError::Unsupported
    }

    /// To the client's log, if it listens and the call has not said too much.
    pub(super) fn tell_client(&mut self, level: LogLevel, logger: &str, data: serde_json::Value) {
        if self.client.admit_log() {
            self.call.client.log(level, logger, data);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_of_messages_passes_and_then_as_many_as_time_allows() {
        let mut gate = ClientGate::default();
        let passed = (0..1_000).filter(|_| gate.admit_log()).count();
        assert!((20..=25).contains(&passed), "{passed}");
        std::thread::sleep(std::time::Duration::from_millis(250));
        let passed = (0..1_000).filter(|_| gate.admit_log()).count();
        assert!((2..=6).contains(&passed), "{passed}");
    }
}
