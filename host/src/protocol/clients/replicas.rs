//! Between replicas that share a store: an answer, a cancellation or a resumed stream may arrive at another replica than
//! the one that it is for, and is passed on.
//!
//! A letter acts only for the client key that it names, which the sending replica verified. What cannot be passed on is
//! dropped: every exchange here has a timeout at its end. Without replicas nothing is ever sent.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::asking::{Belongs, Outcome};
use super::listeners::Since;
use super::streams::{Reader, Sink, Stream, StreamKind};
use super::{Clients, Session, is_of};
use crate::auth::Caller;
use crate::error::{Reason, Result};
use crate::model::{LogLevel, TenantId};
use crate::protocol::jsonrpc::RequestId;
use crate::store::{Letter, Post};

/// How long the replica that holds a stream may take to say so.
const FOLLOW_TIME: Duration = Duration::from_secs(3);
/// How long one connection reads another replica's stream before its client is asked to come back: should that replica be
/// gone, the client learns of it then.
const FOLLOW_HOLD: Duration = Duration::from_secs(60);
/// How long the replica that holds the stream goes on, should the other one be gone.
const FOLLOWED_HOLD: Duration = Duration::from_secs(90);
/// Of an event in one letter; as a string in JSON it may take twice that, and a letter has at most 1 MiB.
const PART_BYTES: usize = 256 << 10;

#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Word {
    /// A client's answer to a question of yours.
    Answer {
        key: String,
        id: String,
        result: Option<Value>,
        error: Option<Value>,
    },
    /// A client cancels a request that is not mine.
    Cancel {
        key: String,
        id: Value,
    },
    /// For whoever holds this client's ear.
    Tell {
        key: String,
        message: Value,
    },
    Updated {
        uri: String,
    },
    /// A session's state has changed.
    Session {
        id: Uuid,
    },
    /// This client listens at my place, since then by the clock that we share; or nowhere at all.
    Listening {
        key: String,
        #[serde(default)]
        at_us: Option<i64>,
    },
    /// Read me this stream of yours.
    Follow {
        follower: String,
        stream: String,
        after: u64,
        key: String,
    },
    Following {
        follower: String,
        found: bool,
    },
    Event {
        follower: String,
        number: u64,
        text: String,
        /// Another part of the same event follows.
        #[serde(default)]
        more: bool,
    },
    End {
        follower: String,
    },
    Unfollow {
        follower: String,
    },
}

/// Streams that are read through another replica.
#[derive(Default)]
pub(super) struct Follows {
    /// Streams of others, that clients of ours read.
    ours: Mutex<HashMap<String, Followed>>,
    /// Streams of ours, that clients of others read.
    theirs: Mutex<HashMap<String, CancellationToken>>,
}

struct Followed {
    stream: Arc<Stream>,
    found: Option<oneshot::Sender<bool>>,
    /// The parts of an event that have come.
    parts: String,
}

impl Follows {
    /// What is read through us ends here.
    pub fn close(&self) {
        lock(&self.ours).values().for_each(|followed| followed.stream.close());
    }
}

impl Word {
    /// The client that it speaks for.
    fn key(&self) -> Option<&str> {
        match self {
            Word::Answer { key, .. }
            | Word::Cancel { key, .. }
            | Word::Tell { key, .. }
            | Word::Listening { key, .. }
            | Word::Follow { key, .. } => Some(key),
            Word::Updated { .. }
            | Word::Session { .. }
            | Word::Following { .. }
            | Word::Event { .. }
            | Word::End { .. }
            | Word::Unfollow { .. } => None,
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Clients {
    /// Read letters until the store closes.
    pub async fn read_letters(self: Arc<Self>) {
        if !self.store.replicas() {
            return;
        }
        let mut letters = self.store.letters(&self.replica);
        while let Some(post) = letters.recv().await {
            match post {
                Post::Letter(letter) => match serde_json::from_value(letter.body.clone()) {
                    Ok(word) if Word::key(&word).is_some_and(|key| !is_of(key, letter.tenant)) => {
                        tracing::warn!(from = letter.from, "a letter about another tenant's client was dropped");
                    }
                    Ok(word) => self.act(&letter, word).await,
                    Err(error) => tracing::warn!(%error, from = letter.from, "a letter of another version was dropped"),
                },
                Post::Missed => {
                    let clients = self.clone();
                    tokio::spawn(async move { clients.sessions.refresh_all().await });
                }
            }
        }
    }

    async fn act(self: &Arc<Self>, letter: &Letter, word: Word) {
        match word {
            Word::Answer { key, id, result, error } => {
                let outcome: Outcome = error.map_or(Ok(result.unwrap_or(Value::Null)), Err);
                self.asking.settle(&key, &id, outcome);
            }
            Word::Cancel { key, id } => {
                if let Some(id) = RequestId::read(&id) {
                    self.in_flight.cancel(&key.into(), &id);
                }
            }
            Word::Tell { key, message } => {
                self.listeners.tell(&key, message);
            }
            Word::Updated { uri } => self.tell_subscribers(letter.tenant, &uri),
            Word::Session { id } => self.sessions.refresh(letter.tenant, id).await,
            Word::Listening { key, at_us } => {
                let since = at_us.map(|at_us| Since { at_us, replica: letter.from.clone() });
                self.listeners.moved(&key, since.as_ref());
            }
            Word::Follow { follower, stream, after, key } => {
                self.be_followed(letter.from.clone(), letter.tenant, follower, &stream, after, &key).await;
            }
            Word::Following { follower, found } => {
                let waiting = lock(&self.follows.ours).get_mut(&follower).and_then(|followed| followed.found.take());
                if let Some(waiting) = waiting {
                    let _ = waiting.send(found);
                }
            }
            Word::Event { follower, number, text, more } => {
                let whole = lock(&self.follows.ours).get_mut(&follower).and_then(|followed| {
                    followed.parts.push_str(&text);
                    (!more).then(|| (followed.stream.clone(), std::mem::take(&mut followed.parts)))
                });
                if let Some((stream, text)) = whole {
                    stream.push_numbered(number, text.into());
                }
            }
            Word::End { follower } => {
                let followed = lock(&self.follows.ours).remove(&follower);
                if let Some(followed) = followed {
                    followed.stream.close();
                }
            }
            Word::Unfollow { follower } => {
                let reading = lock(&self.follows.theirs).remove(&follower);
                if let Some(reading) = reading {
                    reading.cancel();
                }
            }
        }
    }

    async fn write(&self, to: Option<String>, tenant: TenantId, word: &Word) {
        if let Err(error) = self.try_write(to, tenant, word).await {
            tracing::warn!(?error, "another replica could not be reached");
        }
    }

    async fn try_write(&self, to: Option<String>, tenant: TenantId, word: &Word) -> Result<()> {
        if !self.store.replicas() || word.key().is_some_and(|key| !is_of(key, tenant)) {
            return Ok(());
        }
        let body = serde_json::to_value(word).expect("words are JSON");
        let letter = Letter { to, from: self.replica.to_string(), tenant, body };
        self.store.send_letter(&letter).await
    }

    /// A client has answered a question of ours, or of another replica's.
    pub async fn answered(&self, tenant: TenantId, key: &str, id: &str, outcome: Outcome) {
        // Kept for the other replica before it is given away here.
        match self.asking.settle(key, id, outcome.clone()) {
            Belongs::Here => {}
            Belongs::To(replica) => {
                let word = |outcome: Outcome| {
                    let (result, error) = match outcome {
                        Ok(result) => (Some(result), None),
                        Err(error) => (None, Some(error)),
                    };
                    Word::Answer { key: key.to_owned(), id: id.to_owned(), result, error }
                };
                let bytes = outcome.as_ref().map_or_else(Value::to_string, Value::to_string).len();
                if !self.pays(tenant, bytes) {
                    return;
                }
                match self.try_write(Some(replica.clone()), tenant, &word(outcome)).await {
                    // Whoever asked should not have to wait for what cannot come.
                    Err(error) if error.reason() == Reason::PayloadTooLarge => {
                        let error = serde_json::json!({ "code": -32603, "message": "The answer is over 1 MiB." });
                        self.write(Some(replica), tenant, &word(Err(error))).await;
                    }
                    Err(error) => tracing::warn!(?error, "an answer could not be passed on"),
                    Ok(()) => {}
                }
            }
            Belongs::Nowhere => tracing::debug!(%id, "a response to no request of ours"),
        }
    }

    /// A client cancels a request of its own, wherever it runs.
    pub async fn cancelled(&self, tenant: TenantId, key: &Arc<str>, id: &RequestId, session: &Session) {
        if !self.in_flight.cancel(key, id) && !session.is_connection() && self.pays(tenant, 0) {
            self.write(None, tenant, &Word::Cancel { key: key.to_string(), id: id.to_json() }).await;
        }
    }

    /// Tell a client something that belongs to no request, if it listens anywhere.
    pub async fn tell(&self, tenant: TenantId, key: &str, message: Value) {
        if !self.listeners.tell(key, message.clone()) {
            self.write(None, tenant, &Word::Tell { key: key.to_owned(), message }).await;
        }
    }

    /// A resource of this tenant has changed.
    pub async fn resource_updated(&self, tenant: TenantId, uri: &str) {
        self.tell_subscribers(tenant, uri);
        self.write(None, tenant, &Word::Updated { uri: uri.to_owned() }).await;
    }

    pub async fn set_log_level(&self, tenant: TenantId, session: &Session, level: LogLevel) -> Result<()> {
        self.sessions.set_log_level(session, level).await?;
        self.session_changed(tenant, session).await;
        Ok(())
    }

    pub async fn subscribe(&self, tenant: TenantId, session: &Session, uri: &str) -> Result<()> {
        self.sessions.subscribe(session, uri).await?;
        self.session_changed(tenant, session).await;
        Ok(())
    }

    pub async fn unsubscribe(&self, tenant: TenantId, session: &Session, uri: &str) -> Result<()> {
        self.sessions.unsubscribe(session, uri).await?;
        self.session_changed(tenant, session).await;
        Ok(())
    }

    /// Its client has deleted it. Calls that are under way go on.
    pub async fn end_session(&self, tenant: TenantId, session: &Session, key: &str) -> Result<()> {
        self.sessions.end(session).await?;
        self.listeners.remove(key);
        self.session_changed(tenant, session).await;
        self.write(None, tenant, &Word::Listening { key: key.to_owned(), at_us: None }).await;
        Ok(())
    }

    async fn session_changed(&self, tenant: TenantId, session: &Session) {
        if let Some(id) = session.place() {
            self.write(None, tenant, &Word::Session { id }).await;
        }
    }

    /// A new stream for what belongs to no request; it takes the place of the client's older one, wherever that is.
    pub async fn listen(&self, caller: &Caller, session: &Session, key: &Arc<str>) -> Reader {
        let at_us = match self.store.replicas() {
            true => self.store.shared_clock_us().await.ok(),
            false => None,
        };
        let since = at_us.map(|at_us| Since { at_us, replica: self.replica.to_string() });
        let stream = self.streams.open(key.clone(), StreamKind::Listening);
        // Before the client learns of it: what is told from now on must find it.
        stream.id();
        let reader = stream.read_from(0);
        let (caller_of, session, sink) = (caller.clone(), session.clone(), stream as Arc<dyn Sink>);
        let listener = super::Listener { caller: caller_of, session, sink, since };
        self.listeners.add(key.clone(), listener);
        self.write(None, caller.tenant(), &Word::Listening { key: key.to_string(), at_us }).await;
        reader
    }

    /// Read a stream on from behind message `after`, here or at the replica that holds it. `None`: unknown, forgotten,
    /// or somebody else's.
    pub async fn resume(self: &Arc<Self>, tenant: TenantId, key: &Arc<str>, id: &str, after: u64) -> Option<Reader> {
        if let Some(stream) = self.streams.find(id, key) {
            return Some(stream.read_from(after));
        }
        let holder = self.streams.held_elsewhere(id).filter(|_| self.store.replicas())?.to_owned();
        if !self.pays(tenant, 0) {
            return None;
        }
        let follower = Uuid::new_v4().to_string();
        let stream = self.streams.mirror(key.clone(), id, after);
        let (found, answer) = oneshot::channel();
        lock(&self.follows.ours)
            .insert(follower.clone(), Followed { stream: stream.clone(), found: Some(found), parts: String::new() });
        let leave = Leave { clients: self.clone(), tenant, holder: holder.clone(), follower: follower.clone() };
        let key = key.to_string();
        self.write(Some(holder), tenant, &Word::Follow { follower, stream: id.to_owned(), after, key }).await;
        match tokio::time::timeout(FOLLOW_TIME, answer).await {
            Ok(Ok(true)) => Some(stream.read_from(after).holding(leave).until(Instant::now() + FOLLOW_HOLD)),
            _ => None,
        }
    }

    async fn be_followed(
        self: &Arc<Self>,
        from: String,
        tenant: TenantId,
        follower: String,
        stream: &str,
        after: u64,
        key: &str,
    ) {
        let found = self.streams.find(stream, key);
        let word = Word::Following { follower: follower.clone(), found: found.is_some() };
        self.write(Some(from.clone()), tenant, &word).await;
        let Some(stream) = found else { return };
        let left = CancellationToken::new();
        lock(&self.follows.theirs).insert(follower.clone(), left.clone());
        let clients = self.clone();
        tokio::spawn(async move {
            let mut reader = stream.read_from(after).until(Instant::now() + FOLLOWED_HOLD);
            'reading: while let Some(Some(event)) = left.run_until_cancelled(reader.next()).await {
                for (text, more) in parts(&event.text) {
                    let word =
                        Word::Event { follower: follower.clone(), number: event.number, text: text.into(), more };
                    // A reader that misses one must not get the next: it comes back and asks for what it misses.
                    if let Err(error) = clients.try_write(Some(from.clone()), tenant, &word).await {
                        tracing::warn!(?error, "a stream could not be passed on");
                        break 'reading;
                    }
                }
            }
            lock(&clients.follows.theirs).remove(&follower);
            clients.write(Some(from), tenant, &Word::End { follower }).await;
        });
    }

    /// May this tenant's clients have one more letter written?
    fn pays(&self, tenant: TenantId, bytes: usize) -> bool {
        let pays = !self.store.replicas() || self.postage.pay(tenant, bytes, Instant::now());
        if !pays {
            tracing::warn!(%tenant, "clients have too much passed on to other servers; it was dropped");
        }
        pays
    }

    fn tell_subscribers(&self, tenant: TenantId, uri: &str) {
        for listener in self.listeners.all() {
            let concerned = listener.caller.tenant() == tenant && listener.session.subscribes_to(uri);
            // What it may read can have changed since it subscribed.
            if concerned && self.broker.may_read(&listener.caller, uri).is_ok() {
                let params = serde_json::json!({ "uri": uri });
                let method = "notifications/resources/updated";
                listener.sink.send(serde_json::json!({ "jsonrpc": "2.0", "method": method, "params": params }));
            }
        }
    }
}

/// Tells the other replica, when it is dropped, that nobody reads its stream here any more.
struct Leave {
    clients: Arc<Clients>,
    tenant: TenantId,
    holder: String,
    follower: String,
}

impl Drop for Leave {
    fn drop(&mut self) {
        if lock(&self.clients.follows.ours).remove(&self.follower).is_none() {
            // It ended by itself.
            return;
        }
        let (clients, tenant, holder) = (self.clients.clone(), self.tenant, self.holder.clone());
        let word = Word::Unfollow { follower: self.follower.clone() };
        tokio::spawn(async move { clients.write(Some(holder), tenant, &word).await });
    }
}

/// An event in letters, and whether another one follows.
fn parts(text: &str) -> Vec<(&str, bool)> {
    let (mut parts, mut rest) = (vec![], text);
    while rest.len() > PART_BYTES {
        let (part, after) = rest.split_at(rest.floor_char_boundary(PART_BYTES));
        parts.push((part, true));
        rest = after;
    }
    parts.push((rest, false));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::MAX_LETTER_BYTES;

    #[test]
    fn an_event_of_any_size_goes_into_letters_and_comes_out_whole() {
        for text in ["{}".to_owned(), serde_json::json!("\"\\é\n".repeat(300 << 10)).to_string()] {
            let parts = parts(&text);
            assert_eq!(parts.iter().map(|(part, _)| *part).collect::<String>(), text);
            assert!(parts.iter().rev().skip(1).all(|(_, more)| *more) && !parts.last().unwrap().1);
            let longest = parts.iter().map(|(part, _)| serde_json::json!(part).to_string().len()).max().unwrap();
            assert!(longest < MAX_LETTER_BYTES - 1_024, "{longest}");
        }
    }
}
