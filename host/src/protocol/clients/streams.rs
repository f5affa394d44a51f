//! Streams of messages to a client that outlive its connection: numbered, kept for a while, and read on from where a
//! connection was cut.
//!
//! A stream belongs to one client (its key: tenant, subject, session) and only that client can read it. It has one reader
//! at a time; a newer one takes over. What is kept is bounded, and the last message, which is usually the response, is kept
//! longest. Source: MCP 2025-11-25, transports, resumability and redelivery.

use serde_json::Value;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Where messages for a client go.
pub trait Sink: Send + Sync {
    /// Never blocks. False when the message was dropped: the client has gone, or does not read.
    fn send(&self, message: Value) -> bool;
    /// Nothing will come any more.
    fn close(&self) {}
    fn is_open(&self) -> bool;
}

/// Most messages and bytes that one stream keeps for a reader that was cut off.
const KEPT_EVENTS: usize = 256;
const KEPT_BYTES: usize = 1 << 20;
/// How long a stream is kept with nobody reading it, from the last message or the reader's departure.
const KEPT_FOR: Duration = Duration::from_secs(120);
/// Streams that can be resumed at once. Beyond that a stream works, and ends with its connection.
const MOST_STREAMS: usize = 4_096;
/// Of them, those of one subject. Beyond that its oldest one that nobody reads is forgotten, so that no subject can keep
/// the others from resuming theirs.
const MOST_OF_ONE: usize = 256;
/// What all streams together keep. Beyond that those that have ended and are not read are forgotten, oldest first.
const MOST_BYTES: usize = 64 << 20;
/// How often forgotten streams are looked for, at most.
const SWEEP_PAUSE: Duration = Duration::from_secs(1);

#[derive(Clone)]
pub struct Streams(Arc<Registry>);

struct Registry {
    replica: Arc<str>,
    known: Mutex<Known>,
    /// That all streams keep.
    bytes: AtomicUsize,
}

struct Known {
    by_id: HashMap<Arc<str>, Arc<Stream>>,
    /// The same streams, oldest first.
    by_owner: HashMap<(String, String), VecDeque<Arc<str>>>,
    swept: Instant,
    /// Last looked for streams to forget in vain, for want of memory.
    relieved: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamKind {
    /// Messages around one request; ends with its response.
    Request,
    /// Messages that belong to no request; ends when the client leaves.
    Listening,
}

pub struct Stream {
    registry: Weak<Registry>,
    /// Whose it is.
    key: Arc<str>,
    kind: StreamKind,
    /// `<replica>-<random>`; made when there is something to number.
    id: OnceLock<Arc<str>>,
    /// It can be found by its id.
    known: AtomicBool,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    kept: VecDeque<Event>,
    kept_bytes: usize,
    /// Number of the newest message; the first has 1.
    last: u64,
    ended: bool,
    /// The reader that may read; older ones have been taken over.
    reader: u64,
    readers: u32,
    touched: Option<Instant>,
}

/// One message with its place in its stream.
#[derive(Clone, Debug)]
pub struct Event {
    pub number: u64,
    /// JSON text.
    pub text: Arc<str>,
}

impl Streams {
    pub(super) fn new(replica: Arc<str>) -> Self {
        let (by_id, by_owner) = (HashMap::new(), HashMap::new());
        let known = Mutex::new(Known { by_id, by_owner, swept: Instant::now(), relieved: None });
        Streams(Arc::new(Registry { replica, known, bytes: AtomicUsize::new(0) }))
    }

    /// A new stream, known under an id as soon as it carries something.
    pub fn open(&self, key: Arc<str>, kind: StreamKind) -> Arc<Stream> {
        Arc::new(Stream {
            registry: Arc::downgrade(&self.0),
            key,
            kind,
            id: OnceLock::new(),
            known: AtomicBool::new(false),
            state: Mutex::default(),
            changed: Notify::new(),
        })
    }

    /// This replica's copy of another's stream: read once, by who asked for it.
    pub(super) fn mirror(&self, key: Arc<str>, id: &str, after: u64) -> Arc<Stream> {
        let stream = self.open(key, StreamKind::Request);
        stream.id.set(id.into()).expect("it is new");
        stream.lock().last = after;
        stream
    }

    /// The stream with this id, if it is this client's. Foreign and forgotten ones look the same.
    pub fn find(&self, id: &str, key: &str) -> Option<Arc<Stream>> {
        self.0.lock().by_id.get(id).filter(|stream| &*stream.key == key).cloned()
    }

    /// The replica that holds the stream with this id, when that is another one.
    pub fn held_elsewhere<'a>(&self, id: &'a str) -> Option<&'a str> {
        let (replica, _) = id.split_once('-')?;
        let is_replica = replica.len() == self.0.replica.len() && replica.bytes().all(|b| b.is_ascii_hexdigit());
        (is_replica && replica != &*self.0.replica).then_some(replica)
    }

    /// We go: nobody will be told anything any more. Request streams end with their calls.
    pub fn close_listening(&self) {
        let all: Vec<_> = self.0.lock().by_id.values().cloned().collect();
        all.iter().filter(|stream| stream.kind == StreamKind::Listening).for_each(|stream| stream.close());
    }

    #[cfg(test)]
    fn count(&self) -> usize {
        self.0.lock().by_id.len()
    }
}

impl Registry {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, id: Arc<str>, stream: Arc<Stream>) {
        let (tenant, subject) = owner(&stream.key);
        let owner = (tenant.to_owned(), subject.to_owned());
        let mut known = self.lock();
        if known.swept.elapsed() >= SWEEP_PAUSE {
            known.swept = Instant::now();
            known.retain(|_, stream| !stream.is_forgotten());
        }
        if known.by_id.len() < MOST_STREAMS && known.has_room_for(&owner) {
            stream.known.store(true, Ordering::Release);
            known.by_owner.entry(owner).or_default().push_back(id.clone());
            known.by_id.insert(id, stream);
        } else {
            tracing::warn!("too many streams: this one cannot be resumed");
        }
    }

    fn count(&self, before: usize, after: usize) {
        if after >= before {
            self.bytes.fetch_add(after - before, Ordering::Relaxed);
        } else {
            self.bytes.fetch_sub(before - after, Ordering::Relaxed);
        }
    }

    /// Forget what nobody reads when too much is kept. Never called with a stream locked.
    fn relieve(&self) {
        let too_much = || self.bytes.load(Ordering::Relaxed).saturating_sub(MOST_BYTES);
        if too_much() == 0 {
            return;
        }
        let mut known = self.lock();
        if known.relieved.is_some_and(|at| at.elapsed() < SWEEP_PAUSE) {
            return;
        }
        let spare = known.by_id.iter().filter_map(|(id, stream)| {
            let state = stream.lock();
            (state.ended && state.readers == 0).then(|| (state.touched, state.kept_bytes, id.clone()))
        });
        let mut spare: Vec<_> = spare.collect();
        spare.sort();
        // A little more than is needed, so that the next message does not begin anew.
        let (needed, mut freed, mut forgotten) = (too_much() + MOST_BYTES / 8, 0, HashSet::new());
        for (_, bytes, id) in spare {
            if freed < needed {
                freed += bytes;
                forgotten.insert(id);
            }
        }
        known.relieved = forgotten.is_empty().then(Instant::now);
        tracing::warn!(count = forgotten.len(), "streams keep too much: the oldest are forgotten");
        known.retain(|id, _| !forgotten.contains(id));
    }
}

impl Known {
    fn retain(&mut self, keeps: impl Fn(&Arc<str>, &Stream) -> bool) {
        let Known { by_id, by_owner, .. } = self;
        by_id.retain(|id, stream| keeps(id, stream));
        by_owner.retain(|_, ids| {
            ids.retain(|id| by_id.contains_key(id));
            !ids.is_empty()
        });
    }

    /// Make room when this owner has as many as it may.
    fn has_room_for(&mut self, owner: &(String, String)) -> bool {
        let Some(ids) = self.by_owner.get_mut(owner).filter(|ids| ids.len() >= MOST_OF_ONE) else { return true };
        let by_id = &self.by_id;
        let Some(at) = ids.iter().position(|id| by_id.get(id).is_none_or(|stream| stream.is_spare())) else {
            return false;
        };
        let oldest = ids.remove(at).and_then(|id| self.by_id.remove(&id));
        if let Some(oldest) = oldest {
            oldest.close();
        }
        true
    }
}

/// The tenant and subject behind a client key, whatever its session.
pub(super) fn owner(key: &str) -> (&str, &str) {
    let mut parts = key.splitn(3, '/');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(tenant), Some(_), Some(subject)) => (tenant, subject),
        _ => (key, ""),
    }
}

impl Stream {
    pub fn id(self: &Arc<Self>) -> Arc<str> {
        self.id
            .get_or_init(|| {
                let registry = self.registry.upgrade();
                let replica = registry.as_ref().map_or("gone", |registry| &registry.replica);
                let id: Arc<str> = format!("{replica}-{}", hex::encode(rand::random::<[u8; 12]>())).into();
                if let Some(registry) = registry {
                    registry.add(id.clone(), self.clone());
                }
                id
            })
            .clone()
    }

    /// Add a message. False when the stream has ended.
    pub fn push(&self, message: &Value) -> bool {
        let text: Arc<str> = message.to_string().into();
        let state = self.lock();
        if state.ended {
            return false;
        }
        self.keep(state, [text]);
        true
    }

    fn keep(&self, mut state: MutexGuard<'_, State>, texts: impl IntoIterator<Item = Arc<str>>) {
        let before = state.kept_bytes;
        texts.into_iter().for_each(|text| state.add(text));
        let after = state.kept_bytes;
        drop(state);
        self.changed.notify_waiters();
        if let Some(registry) = self.registry.upgrade() {
            registry.count(before, after);
            registry.relieve();
        }
    }

    /// Add a message to a mirrored stream under the number that it has there.
    pub(super) fn push_numbered(&self, number: u64, text: Arc<str>) {
        let mut state = self.lock();
        state.last = number.saturating_sub(1);
        self.keep(state, [text]);
    }

    /// End. When the stream has carried anything before, `last` comes last and the answer is true; else it ends empty,
    /// and what would have been last can be answered without a stream.
    pub fn finish(&self, last: impl FnOnce() -> Vec<Value>) -> bool {
        let mut state = self.lock();
        let began = state.last > 0;
        state.ended = true;
        let last = if began { last() } else { vec![] };
        self.keep(state, last.iter().map(|answer| answer.to_string().into()));
        began
    }

    /// Returns when there is a message; never, while there is none.
    pub async fn begun(&self) {
        self.wait(|state| (state.last > 0).then_some(())).await
    }

    /// Read from behind message `after` (0: from the beginning). Whoever read before reads no more.
    pub fn read_from(self: &Arc<Self>, after: u64) -> Reader {
        let mut state = self.lock();
        state.reader += 1;
        state.readers += 1;
        let number = state.reader;
        drop(state);
        self.changed.notify_waiters();
        Reader { stream: self.clone(), number, after, held: None, until: None }
    }

    async fn wait<T>(&self, ready: impl Fn(&State) -> Option<T>) -> T {
        loop {
            let changed = self.changed.notified();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            if let Some(found) = ready(&self.lock()) {
                return found;
            }
            changed.await;
        }
    }

    /// Nobody reads it, and nothing that runs fills it.
    fn is_spare(&self) -> bool {
        let state = self.lock();
        state.readers == 0 && (state.ended || self.kind == StreamKind::Listening)
    }

    fn is_forgotten(&self) -> bool {
        let mut state = self.lock();
        if state.readers > 0 || (self.kind == StreamKind::Request && !state.ended) {
            return false;
        }
        let forgotten = state.touched.is_none_or(|at| at.elapsed() >= KEPT_FOR);
        state.ended |= forgotten;
        forgotten
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink for Stream {
    fn send(&self, message: Value) -> bool {
        self.push(&message)
    }
    fn close(&self) {
        self.lock().ended = true;
        self.changed.notify_waiters();
    }
    fn is_open(&self) -> bool {
        // One that nobody comes back to is left as if it had said so.
        !self.is_forgotten() && !self.lock().ended
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(registry) = self.registry.upgrade() {
            registry.count(self.lock().kept_bytes, 0);
        }
    }
}

impl State {
    fn add(&mut self, text: Arc<str>) {
        self.last += 1;
        self.touched = Some(Instant::now());
        self.kept_bytes += text.len();
        self.kept.push_back(Event { number: self.last, text });
        while self.kept.len() > 1 && (self.kept.len() > KEPT_EVENTS || self.kept_bytes > KEPT_BYTES) {
            let oldest = self.kept.pop_front().expect("there are two at least");
            self.kept_bytes -= oldest.text.len();
        }
    }
}

/// One connection's view of a stream.
pub struct Reader {
    stream: Arc<Stream>,
    number: u64,
    after: u64,
    /// Dropped with the reader.
    held: Option<Box<dyn Send + Sync>>,
    until: Option<Instant>,
}

impl Reader {
    pub(super) fn holding(mut self, guard: impl Send + Sync + 'static) -> Reader {
        self.held = Some(Box::new(guard));
        self
    }

    /// Reads no longer than this.
    pub(super) fn until(mut self, until: Instant) -> Reader {
        self.until = Some(until);
        self
    }

    /// The next message. `None` when there will be no more, another reader has taken over, or its time is over.
    pub async fn next(&mut self) -> Option<Event> {
        match self.until {
            Some(until) => tokio::time::timeout_at(until.into(), self.read()).await.ok().flatten(),
            None => self.read().await,
        }
    }

    async fn read(&mut self) -> Option<Event> {
        let (number, after) = (self.number, self.after);
        let event = self
            .stream
            .wait(|state| {
                if state.reader != number {
                    return Some(None);
                }
                // Numbers are in order, so what comes after the last one read is near the end.
                let next = state.kept.partition_point(|event| event.number <= after);
                match state.kept.get(next) {
                    Some(event) => Some(Some(event.clone())),
                    None => state.ended.then_some(None),
                }
            })
            .await?;
        self.after = event.number;
        Some(event)
    }

    pub fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    /// Number of the last message read.
    pub fn position(&self) -> u64 {
        self.after
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = self.stream.lock();
        state.readers -= 1;
        state.touched = Some(Instant::now());
        // Nobody can come back to it.
        let is_left = state.readers == 0 && !self.stream.known.load(Ordering::Acquire);
        state.ended |= is_left && self.stream.kind == StreamKind::Listening;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn streams() -> Streams {
        Streams::new("0123456789ab".into())
    }

    #[tokio::test]
    async fn a_reader_that_was_cut_off_reads_on_where_it_was() {
        let streams = streams();
        let stream = streams.open("alice".into(), StreamKind::Request);
        let id = stream.id();
        for n in 1..=3 {
            stream.push(&json!(n));
        }
        let mut first = stream.read_from(0);
        assert_eq!(first.next().await.unwrap().number, 1);
        drop(first);
        let mut second = streams.find(&id, "alice").unwrap().read_from(1);
        assert_eq!(&*second.next().await.unwrap().text, "2");
        assert_eq!(&*second.next().await.unwrap().text, "3");
        assert!(stream.finish(|| vec![json!("answer")]));
        assert_eq!(&*second.next().await.unwrap().text, "\"answer\"");
        assert!(second.next().await.is_none());
    }

    #[tokio::test]
    async fn nobody_else_finds_a_stream_and_a_newer_reader_takes_over() {
        let streams = streams();
        let stream = streams.open("alice".into(), StreamKind::Listening);
        let id = stream.id();
        assert!(streams.find(&id, "bob").is_none());
        let mut older = stream.read_from(0);
        let mut newer = stream.read_from(0);
        stream.push(&json!(1));
        assert!(older.next().await.is_none());
        assert!(newer.next().await.is_some());
    }

    #[test]
    fn what_is_kept_is_bounded_and_the_last_message_is_kept() {
        let stream = streams().open("alice".into(), StreamKind::Request);
        for _ in 0..1_000 {
            stream.push(&json!("x".repeat(2_000)));
        }
        stream.finish(|| vec![json!("y".repeat(2 * KEPT_BYTES))]);
        let state = stream.lock();
        assert_eq!((state.kept.len(), state.last), (1, 1_001));
    }

    #[test]
    fn one_subject_cannot_keep_others_from_resuming_and_all_together_keep_only_so_much() {
        let streams = streams();
        let listen = |key: String| {
            let stream = streams.open(key.into(), StreamKind::Listening);
            stream.id();
            drop(stream.read_from(0));
            stream
        };
        let first = listen("tenant/1/mallory".into());
        for session in 0..10_000 {
            listen(format!("tenant/{session}/mallory"));
        }
        assert_eq!(streams.count(), MOST_OF_ONE);
        assert!(!first.is_open(), "a listener that is forgotten is left");
        let alice = listen("tenant/1/alice".into());
        assert!(streams.find(&alice.id(), "tenant/1/alice").is_some());
        // and what has ended is kept as long as there is room
        let begun = streams.open("tenant/-/carol".into(), StreamKind::Request);
        begun.id();
        begun.push(&json!(1));
        for n in 0..200 {
            let stream = streams.open("tenant/-/bob".into(), StreamKind::Request);
            stream.id();
            stream.push(&json!(n));
            stream.finish(|| vec![json!("y".repeat(1 << 20))]);
        }
        assert!(streams.0.bytes.load(Ordering::Relaxed) <= MOST_BYTES + (2 << 20));
        assert!(streams.find(&begun.id(), "tenant/-/carol").is_some(), "what runs is not forgotten");
        drop((first, alice, begun));
        streams.0.lock().retain(|_, _| false);
        assert_eq!(streams.0.bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_listener_that_cannot_come_back_is_left_with_its_connection() {
        let streams = streams();
        let held: Vec<_> = (0..=MOST_OF_ONE)
            .map(|session| {
                let stream = streams.open(format!("tenant/{session}/alice").into(), StreamKind::Listening);
                stream.id();
                (stream.read_from(0), stream)
            })
            .collect();
        let (known, unknown) = (&held[0].1.clone(), &held[MOST_OF_ONE].1.clone());
        assert!(unknown.is_open());
        drop(held);
        assert!(known.is_open() && !unknown.is_open());
    }

    #[tokio::test]
    async fn a_reader_with_a_bound_leaves_in_time() {
        let stream = streams().open("alice".into(), StreamKind::Request);
        let mut reader = stream.read_from(0).until(Instant::now() + Duration::from_millis(20));
        stream.push(&json!(1));
        assert!(reader.next().await.is_some());
        assert!(reader.next().await.is_none());
    }

    #[test]
    fn a_stream_that_carried_nothing_ends_empty() {
        let streams = streams();
        let stream = streams.open("alice".into(), StreamKind::Request);
        assert!(!stream.finish(|| unreachable!("nobody reads it")));
        assert!(!stream.push(&json!(2)), "nothing comes after the end");
        assert_eq!(streams.count(), 0);
    }

    #[test]
    fn ids_name_the_replica_that_holds_the_stream() {
        let streams = streams();
        let id = streams.open("alice".into(), StreamKind::Request).id();
        assert_eq!(streams.held_elsewhere(&id), None);
        assert_eq!(streams.held_elsewhere("ffffffffffff-00"), Some("ffffffffffff"));
        assert_eq!(streams.held_elsewhere("../../etc-00"), None);
        assert_eq!(streams.held_elsewhere("nonsense"), None);
    }
}
