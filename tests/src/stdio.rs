//! The client's end of a stdio conversation: lines out, answers back by id, everything else in order of arrival.

use serde_json::Value;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{Mutex as AsyncMutex, mpsc, oneshot};

/// No answer of a healthy bridge takes longer, however busy the machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Clone)]
pub struct Stdio {
    stdin: Arc<AsyncMutex<Option<ChildStdin>>>,
    waiting: Waiting,
    unclaimed: Arc<AsyncMutex<mpsc::UnboundedReceiver<Value>>>,
}

type Waiting = Arc<Mutex<HashMap<String, oneshot::Sender<Value>>>>;

impl Stdio {
    pub fn new(stdin: ChildStdin, stdout: ChildStdout) -> Stdio {
        let waiting = Waiting::default();
        let (unclaimed, receiver) = mpsc::unbounded_channel();
        tokio::spawn(read(stdout, waiting.clone(), unclaimed));
        Stdio { stdin: Arc::new(AsyncMutex::new(Some(stdin))), waiting, unclaimed: Arc::new(AsyncMutex::new(receiver)) }
    }

    /// Send a request and wait for the answer with its id.
    pub async fn request(&self, message: &Value) -> Value {
        let answer = self.begin(message).await;
        self.finish(message, answer).await
    }

    /// Send a request; its answer comes through the receiver.
    pub async fn begin(&self, message: &Value) -> oneshot::Receiver<Value> {
        let (sender, answer) = oneshot::channel();
        self.waiting.lock().unwrap().insert(message["id"].to_string(), sender);
        self.send(&message.to_string()).await;
        answer
    }

    pub async fn finish(&self, message: &Value, answer: oneshot::Receiver<Value>) -> Value {
        match tokio::time::timeout(PATIENCE, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => panic!("the bridge closed its output before it answered {message}"),
            Err(_) => panic!("no answer within {PATIENCE:?} to {message}"),
        }
    }

    /// One line, as it is.
    pub async fn send(&self, line: &str) {
        // In one go, or lines of requests that are sent at once would mix.
        self.send_bytes(format!("{line}\n").as_bytes()).await;
    }

    pub async fn send_bytes(&self, bytes: &[u8]) {
        let mut stdin = self.stdin.lock().await;
        let stdin = stdin.as_mut().expect("the input was closed");
        stdin.write_all(bytes).await.expect("the bridge reads");
        stdin.flush().await.expect("the bridge reads");
    }

    /// The next message that answers no request of ours: a notification, a batch, an error without an id.
    pub async fn next(&self) -> Value {
        self.next_within(PATIENCE).await.expect("the bridge sends another message")
    }

    pub async fn next_within(&self, patience: Duration) -> Option<Value> {
        tokio::time::timeout(patience, self.unclaimed.lock().await.recv()).await.ok().flatten()
    }

    /// End of input.
    pub async fn close(&self) {
        self.stdin.lock().await.take();
    }
}

async fn read(stdout: ChildStdout, waiting: Waiting, unclaimed: mpsc::UnboundedSender<Value>) {
    let mut lines = BufReader::new(stdout).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let message: Value = serde_json::from_str(&line)
            .unwrap_or_else(|_| serde_json::json!({ "not_a_message": line, "error": "stdout carries messages only" }));
        let expected = waiting.lock().unwrap().remove(&message["id"].to_string());
        match expected {
            Some(sender) => drop(sender.send(message)),
            None => drop(unclaimed.send(message)),
        }
    }
    // Whoever still waits learns that nothing more will come.
    waiting.lock().unwrap().clear();
}
