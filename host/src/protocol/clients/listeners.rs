//! Clients that can be told something unasked, right now: a stdio connection, or a session's GET stream.
//!
//! One listener a client: a message goes to exactly one stream, so a newer one takes the older one's place. Source: MCP
//! 2025-11-25, transports, listening for messages.

use serde_json::Value;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Session, Sink};
use crate::auth::Caller;

pub struct Listener {
    pub caller: Caller,
    pub session: Session,
    pub sink: Arc<dyn Sink>,
    /// `None`: not known, or it is a connection, which listens nowhere else.
    pub since: Option<Since>,
}

/// When a client began to listen at which replica. Of two, all replicas agree which one is later.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Since {
    /// By the clock that replicas share.
    pub at_us: i64,
    pub replica: String,
}

/// By client key.
#[derive(Default)]
pub struct Listeners(Mutex<HashMap<Arc<str>, Arc<Listener>>>);

impl Listeners {
    pub fn add(&self, key: Arc<str>, listener: Listener) {
        let mut all = self.lock();
        let older = all.insert(key, Arc::new(listener));
        // Entering is rare beside telling, so this is where those who left are cleared away.
        all.retain(|_, listener| listener.sink.is_open());
        drop(all);
        if let Some(older) = older {
            older.sink.close();
        }
    }

    /// The client listens, or listened, elsewhere. Word of it may come after the client has come back here: what began
    /// later stays. `None`: it is not known since when.
    pub fn moved(&self, key: &str, elsewhere: Option<&Since>) {
        let mut all = self.lock();
        let here = all.get(key).and_then(|listener| listener.since.as_ref());
        if here.zip(elsewhere).is_some_and(|(here, elsewhere)| here > elsewhere) {
            return;
        }
        let gone = all.remove(key);
        drop(all);
        if let Some(listener) = gone {
            listener.sink.close();
        }
    }

    /// The client does not listen any more.
    pub fn remove(&self, key: &str) {
        let gone = self.lock().remove(key);
        if let Some(listener) = gone {
            listener.sink.close();
        }
    }

    /// Nobody listens any more.
    pub fn close(&self) {
        let all = std::mem::take(&mut *self.lock());
        all.values().for_each(|listener| listener.sink.close());
    }

    /// False when this client does not listen here.
    pub fn tell(&self, key: &str, message: Value) -> bool {
        let listener = self.lock().get(key).cloned();
        listener.is_some_and(|listener| listener.sink.send(message))
    }

    /// Everybody who listens here.
    pub fn all(&self) -> Vec<Arc<Listener>> {
        self.lock().values().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Arc<Listener>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::super::streams::{StreamKind, Streams};
    use super::*;

    fn since(at_us: i64, replica: &str) -> Since {
        Since { at_us, replica: replica.into() }
    }

    #[test]
    fn word_of_an_older_listener_elsewhere_that_comes_late_closes_nothing() {
        let (listeners, key): (Listeners, Arc<str>) = (Listeners::default(), "tenant/1/alice".into());
        let streams = Streams::new("0123456789ab".into());
        let listen = |own: Option<Since>| {
            let sink = streams.open(key.clone(), StreamKind::Listening);
            // Somebody reads it.
            sink.id();
            let reader = sink.read_from(0);
            let (caller, session) = (Caller::local(), Session::none());
            listeners.add(key.clone(), Listener { caller, session, sink: sink.clone(), since: own });
            (sink, reader)
        };
        for (own, elsewhere, stays) in [
            (Some(since(5, "b")), Some(since(4, "c")), true),
            (Some(since(5, "b")), Some(since(6, "a")), false),
            // At the same moment: one of the two, and each replica knows which.
            (Some(since(5, "b")), Some(since(5, "a")), true),
            (Some(since(5, "a")), Some(since(5, "b")), false),
            // A session that has ended, and whoever has no time.
            (Some(since(5, "b")), None, false),
            (None, Some(since(4, "c")), false),
        ] {
            let (sink, _reader) = listen(own.clone());
            listeners.moved(&key, elsewhere.as_ref());
            assert_eq!(sink.is_open(), stays, "{own:?} {elsewhere:?}");
        }
    }
}
