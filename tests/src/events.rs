//! The client's end of a stream of server-sent events.

use serde_json::Value;
use std::time::Duration;

use crate::stdio::PATIENCE;

/// One event as it came.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Event {
    pub id: Option<String>,
    pub retry: Option<u64>,
    pub data: String,
}

impl Event {
    pub fn message(&self) -> Value {
        serde_json::from_str(&self.data).unwrap_or_else(|_| panic!("no message: {self:?}"))
    }
}

/// A response that streams.
pub struct Events {
    pub status: u16,
    pub headers: reqwest::header::HeaderMap,
    response: reqwest::Response,
    read: String,
    /// The id that came last.
    pub last_id: Option<String>,
}

impl Events {
    pub fn new(response: reqwest::Response) -> Events {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Events { status, headers, response, read: String::new(), last_id: None }
    }

    pub fn is_stream(&self) -> bool {
        self.headers.get("content-type").is_some_and(|t| t.as_bytes().starts_with(b"text/event-stream"))
    }

    /// The rest of a response that is no stream.
    pub async fn text(self) -> String {
        self.response.text().await.expect("a whole answer")
    }

    /// The next event; `None` at the end of the stream.
    pub async fn next(&mut self) -> Option<Event> {
        tokio::time::timeout(PATIENCE, self.read_event()).await.expect("the stream goes on or ends")
    }

    /// `Err` when nothing came in this time.
    pub async fn next_within(&mut self, time: Duration) -> Result<Option<Event>, ()> {
        tokio::time::timeout(time, self.read_event()).await.map_err(drop)
    }

    /// The next event that carries a message.
    pub async fn message(&mut self) -> Value {
        loop {
            let event = self.next().await.expect("another message");
            if !event.data.is_empty() {
                return event.message();
            }
        }
    }

    /// Every message up to the end of the stream.
    pub async fn rest(&mut self) -> Vec<Value> {
        let mut messages = vec![];
        while let Some(event) = self.next().await {
            if !event.data.is_empty() {
                messages.push(event.message());
            }
        }
        messages
    }

    async fn read_event(&mut self) -> Option<Event> {
        loop {
            if let Some(end) = self.read.find("\n\n") {
                let block: String = self.read.drain(..end + 2).collect();
                match parse(&block) {
                    // A comment keeps the connection alive.
                    event if event == Event::default() => continue,
                    event => {
                        self.last_id = event.id.clone().or(self.last_id.take());
                        return Some(event);
                    }
                }
            }
            let chunk = self.response.chunk().await.ok().flatten()?;
            self.read.push_str(std::str::from_utf8(&chunk).expect("events are UTF-8"));
        }
    }
}

/// Every message in a whole body of events.
pub fn messages(body: &str) -> Vec<Value> {
    body.split("\n\n").map(parse).filter(|event| !event.data.is_empty()).map(|event| event.message()).collect()
}

fn parse(block: &str) -> Event {
    let mut event = Event::default();
    // As clients do: a block without a line of data is no event.
    if !block.lines().any(|line| line.starts_with("data")) {
        return event;
    }
    for line in block.lines() {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => event.id = Some(value.to_owned()),
            "retry" => event.retry = value.parse().ok(),
            "data" => event.data.push_str(value),
            _ => {}
        }
    }
    event
}
