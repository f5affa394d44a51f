//! A client that is asked things while it waits for an answer, over either transport.

use serde_json::Value;
use std::time::Duration;
use tokio::sync::oneshot;

use crate::caller::Caller;
use crate::events::Events;
use crate::reply::Reply;
use crate::stdio::{PATIENCE, Stdio};

/// A request under way, and everything that the bridge says before its answer.
pub struct Conversation<'c> {
    message: Value,
    line: Line<'c>,
}

enum Line<'c> {
    Stdio(&'c Stdio, oneshot::Receiver<Value>),
    Events(Box<Events>),
    /// It did not stream.
    Answered(Value),
}

/// What the bridge said.
#[derive(Debug)]
pub enum Said {
    /// A request of the bridge, or a notification.
    Message(Value),
    Answer(Reply),
}

impl Caller<'_> {
    pub async fn begin(&self, message: Value) -> Conversation<'_> {
        let line = if self.bridge.is_stdio() {
            Line::Stdio(self.bridge.line(), self.bridge.line().begin(&message).await)
        } else {
            let events = self.open(&message).await;
            match events.is_stream() {
                true => Line::Events(Box::new(events)),
                false => Line::Answered(serde_json::from_str(&events.text().await).expect("JSON")),
            }
        };
        Conversation { message, line }
    }

    /// Send a request, give `answer` to each question, and wait for the request's own answer. Also what was asked.
    pub async fn send_answering(&self, message: Value, answer: &Value) -> (Reply, Vec<Value>) {
        let mut conversation = self.begin(message).await;
        let mut asked = vec![];
        loop {
            match conversation.next().await {
                Said::Answer(reply) => return (reply, asked),
                Said::Message(message) if message.get("id").is_some() => {
                    self.answer(&message, answer.clone()).await;
                    asked.push(message);
                }
                Said::Message(_) => {}
            }
        }
    }
}

impl Conversation<'_> {
    pub async fn next(&mut self) -> Said {
        tokio::time::timeout(PATIENCE, self.read()).await.expect("the bridge goes on")
    }

    /// `None` when nothing was said in this time.
    pub async fn next_within(&mut self, time: Duration) -> Option<Said> {
        tokio::time::timeout(time, self.read()).await.ok()
    }

    /// The next request of the bridge.
    pub async fn question(&mut self) -> Value {
        loop {
            match self.next().await {
                Said::Message(message) if message.get("id").is_some() => return message,
                Said::Message(_) => {}
                Said::Answer(reply) => panic!("it was answered and asked nothing: {reply:?}"),
            }
        }
    }

    /// The next notification of this method.
    pub async fn notification(&mut self, method: &str) -> Value {
        loop {
            match self.next().await {
                Said::Message(message) if message["method"] == method => return message,
                Said::Message(_) => {}
                Said::Answer(reply) => panic!("it was answered without {method}: {reply:?}"),
            }
        }
    }

    /// The request's own answer, whatever comes before.
    pub async fn reply(&mut self) -> Reply {
        loop {
            if let Said::Answer(reply) = self.next().await {
                return reply;
            }
        }
    }

    async fn read(&mut self) -> Said {
        let message = match &mut self.line {
            Line::Stdio(line, answer) => tokio::select! {
                // What was said before the answer comes before it.
                biased;
                message = line.next() => message,
                answer = answer => return Said::Answer(Reply::of_line(answer.expect("the bridge answers"))),
            },
            Line::Events(events) => events.message().await,
            Line::Answered(body) => body.clone(),
        };
        match message["id"] == self.message["id"] && message.get("method").is_none() {
            true => Said::Answer(Reply { body: message, status: None, headers: Default::default() }),
            false => Said::Message(message),
        }
    }
}
