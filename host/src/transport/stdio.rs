//! MCP over standard input and output: one JSON message a line, nothing else on stdout.
//!
//! Requests run at the same time and are answered as they finish. A line that is not JSON gets an error and the
//! conversation goes on; a line that is too long is skipped without being kept. End of input ends the process; tasks
//! that run elsewhere go on. Source: MCP 2025-11-25, transports, stdio.

use serde_json::Value;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::auth::Identifier;
use crate::error::{Error, Reason, Result};
use crate::model::TraceId;
use crate::protocol::{Message, Peer, PeerPolicy, Protocol, Session, Sink, accept, error_body, may_wait, parse};

/// Messages that wait for the client to read. Beyond that answers wait, with the requests behind them, and notifications
/// are dropped.
const OUTBOX: usize = 64;
/// Requests at once that are answered without waiting for anybody.
const SHORT: usize = 16;
/// How long a line waits while all places are taken, and how often it looks whether it must not.
const PATIENCE: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(20);

/// How the transport is bounded.
#[derive(Clone, Copy, Debug)]
pub struct StdioSettings {
    pub policy: PeerPolicy,
    /// Longest line, in bytes.
    pub max_line_bytes: usize,
    /// Requests at once; beyond that the next line is not read.
    pub max_in_flight: usize,
    /// How long answers that are under way may take after the end of input.
    pub drain: Duration,
}

/// Serve until the input ends or `stop` fires.
pub async fn serve(
    protocol: Arc<Protocol>,
    identifier: Arc<Identifier>,
    settings: StdioSettings,
    input: impl tokio::io::AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin + Send + 'static,
    stop: CancellationToken,
) -> std::io::Result<()> {
    let (outbox, messages) = mpsc::channel(OUTBOX);
    let writer = tokio::spawn(write(output, messages));
    let conversation = Conversation {
        protocol,
        identifier,
        settings,
        sink: Arc::new(Outbox(outbox.clone())),
        outbox,
        session: Session::of_connection(),
        listens: AtomicBool::new(false),
        turns: Arc::new(Semaphore::new(settings.max_in_flight)),
        short_turns: Arc::new(Semaphore::new(SHORT)),
        running: TaskTracker::new(),
    };
    let ended = conversation.read(BufReader::with_capacity(64 << 10, input), &stop).await;
    conversation.running.close();
    // The client has gone or is going: what is nearly done may finish, the rest is stopped and its end recorded.
    if tokio::time::timeout(settings.drain, conversation.running.wait()).await.is_err() {
        conversation.protocol.clients().in_flight.cancel_all();
        let _ = tokio::time::timeout(settings.drain, conversation.running.wait()).await;
    }
    conversation.protocol.clients().leave(KEY);
    drop(conversation);
    let _ = tokio::time::timeout(settings.drain, writer).await;
    ended
}

struct Conversation {
    protocol: Arc<Protocol>,
    identifier: Arc<Identifier>,
    settings: StdioSettings,
    outbox: mpsc::Sender<Value>,
    /// The same, for whoever must not wait.
    sink: Arc<dyn Sink>,
    session: Session,
    listens: AtomicBool,
    turns: Arc<Semaphore>,
    /// For what is answered at once, so that a task can be cancelled while all others wait.
    short_turns: Arc<Semaphore>,
    running: TaskTracker,
}

impl Conversation {
    async fn read(&self, mut input: impl AsyncBufRead + Unpin, stop: &CancellationToken) -> std::io::Result<()> {
        let mut line = Vec::new();
        loop {
            let read = tokio::select! {
                read = next_line(&mut input, &mut line, self.settings.max_line_bytes) => read?,
                () = stop.cancelled() => return Ok(()),
            };
            let taken = async {
                match read {
                    Line::End => return false,
                    Line::Empty => {}
                    Line::TooLong => {
                        let limit = self.settings.max_line_bytes;
                        let text = format!("A message may have at most {limit} bytes.");
                        self.refuse(Error::new(Reason::PayloadTooLarge, text)).await;
                    }
                    Line::Complete => match parse(&line) {
                        Err(error) => self.refuse(error).await,
                        Ok((messages, batch)) => self.accept(messages, batch).await,
                    },
                }
                true
            };
            // A client that does not read holds up its own next line, never our end.
            tokio::select! {
                go_on = taken => if !go_on { return Ok(()) },
                () = stop.cancelled() => return Ok(()),
            }
        }
    }

    async fn refuse(&self, error: Error) {
        let _ = self.outbox.send(error_body(None, &error, &TraceId::random())).await;
    }

    async fn accept(&self, messages: Vec<Message>, batch: bool) {
        let peer = match self.peer().await {
            Ok(peer) => peer,
            Err(error) => {
                // Identity comes from the environment: without it nothing is answered but the reason.
                return self.refuse_all(&messages, &error).await;
            }
        };
        if !self.listens.swap(true, Ordering::Relaxed) {
            self.protocol.clients().hear(&peer);
        }
        let alone = !batch && matches!(messages[0], Message::Notification { .. } | Message::Response { .. });
        // A notification takes effect before the next line is read: a cancellation must not overtake nor lag.
        if alone {
            let accepted = accept(&peer, messages);
            self.protocol.answer(&peer, accepted, None).await;
            return;
        }
        let waits = |message: &Message| matches!(message, Message::Request { method, .. } if may_wait(method));
        let turn = match messages.iter().any(waits) {
            true => self.turn().await,
            false => Some(self.short_turns.clone().acquire_owned().await.expect("never closed")),
        };
        let Some(turn) = turn else {
            let busy = Error::new(Reason::Busy, "Too many requests are being answered.").with("retry_after_ms", 1_000);
            return self.refuse_all(&messages, &busy).await;
        };
        let accepted = accept(&peer, messages);
        let (protocol, outbox) = (self.protocol.clone(), self.outbox.clone());
        self.running.spawn(async move {
            let answers = protocol.answer(&peer, accepted, None).await;
            let mut bodies: Vec<Value> = answers.into_iter().map(|a| a.body).collect();
            if batch && !bodies.is_empty() {
                let _ = outbox.send(Value::Array(bodies)).await;
            } else if let Some(body) = bodies.pop() {
                let _ = outbox.send(body).await;
            }
            drop(turn);
        });
    }

    async fn refuse_all(&self, messages: &[Message], error: &Error) {
        for message in messages {
            if let Message::Request { id, .. } = message {
                let _ = self.outbox.send(error_body(Some(id), error, &TraceId::random())).await;
            }
        }
    }

    /// When all places are taken, the next line waits, but not for long: it, or a line behind it, may be what those that
    /// are answered wait for (an answer of this client's, a cancellation). `None`, then.
    async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(turn) = self.turns.clone().try_acquire_owned() {
            return Some(turn);
        }
        let started = Instant::now();
        let mut turn = pin!(self.turns.clone().acquire_owned());
        while !self.protocol.clients().awaits(KEY) && started.elapsed() < PATIENCE {
            if let Ok(turn) = tokio::time::timeout(LOOK, &mut turn).await {
                return Some(turn.expect("never closed"));
            }
        }
        None
    }

    /// Checked for every message: a token may expire, or be refreshed, while the conversation goes on.
    async fn peer(&self) -> Result<Peer> {
        Ok(Peer {
            caller: self.identifier.for_stdio().await?,
            policy: self.settings.policy,
            session: self.session.clone(),
            sink: Some(self.sink.clone()),
            in_flight: self.protocol.clients().in_flight.clone(),
            key: KEY.into(),
        })
    }
}

/// There is one client.
const KEY: &str = "stdio";

struct Outbox(mpsc::Sender<Value>);

impl Sink for Outbox {
    fn send(&self, message: Value) -> bool {
        self.0.try_send(message).is_ok()
    }
    fn is_open(&self) -> bool {
        !self.0.is_closed()
    }
}

enum Line {
    Complete,
    Empty,
    TooLong,
    End,
}

/// Read up to the next newline, keeping at most `limit` bytes.
async fn next_line(input: &mut (impl AsyncBufRead + Unpin), line: &mut Vec<u8>, limit: usize) -> std::io::Result<Line> {
    line.clear();
    let mut too_long = false;
    loop {
        let available = input.fill_buf().await?;
        if available.is_empty() {
            // A last line without its newline was cut off; there is nobody left to tell.
            return Ok(Line::End);
        }
        let newline = available.iter().position(|b| *b == b'\n');
        let part = &available[..newline.unwrap_or(available.len())];
        if line.len() + part.len() > limit {
            too_long = true;
            line.clear();
            line.shrink_to(64 << 10);
        } else if !too_long {
            line.extend_from_slice(part);
        }
        let used = newline.map_or(available.len(), |at| at + 1);
        input.consume(used);
        if newline.is_some() {
            return Ok(match () {
                () if too_long => Line::TooLong,
                () if line.trim_ascii().is_empty() => Line::Empty,
                () => Line::Complete,
            });
        }
    }
}

/// The only writer of stdout. Messages that wait are written together.
async fn write(mut output: impl AsyncWrite + Unpin, mut messages: mpsc::Receiver<Value>) -> std::io::Result<()> {
    let mut waiting = Vec::new();
    let mut bytes = Vec::new();
    while messages.recv_many(&mut waiting, 64).await > 0 {
        for message in waiting.drain(..) {
            serde_json::to_writer(&mut bytes, &message)?;
            bytes.push(b'\n');
        }
        output.write_all(&bytes).await?;
        output.flush().await?;
        bytes.clear();
        bytes.shrink_to(1 << 20);
    }
    Ok(())
}
