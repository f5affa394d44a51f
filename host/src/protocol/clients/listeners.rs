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

    /// The client listens elsewhere now, or not at all.
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
