//! Waking those who wait for a task: a registry of bells, one per task that somebody waits for.
//!
//! It knows nothing of databases. A ring without a listener costs one look-up; a bell lives as long as its listeners.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use tokio::sync::Notify;

use super::tasks::TaskId;

#[derive(Default)]
pub(super) struct Bells(Mutex<HashMap<String, Weak<Notify>>>);

impl Bells {
    /// Enter before looking at the row, wait after: a change between the two is then not missed.
    pub fn enter(&self, id: &TaskId) -> Arc<Notify> {
        let mut bells = self.lock();
        if let Some(bell) = bells.get(id.as_str()).and_then(Weak::upgrade) {
            return bell;
        }
        // Entering is rare beside ringing, so this is where the bells of those who left are cleared away.
        bells.retain(|_, bell| bell.strong_count() > 0);
        let bell = Arc::new(Notify::new());
        bells.insert(id.as_str().to_owned(), Arc::downgrade(&bell));
        bell
    }

    pub fn ring(&self, id: &str) {
        let bell = self.lock().get(id).and_then(Weak::upgrade);
        if let Some(bell) = bell {
            bell.notify_waiters();
        }
    }

    /// Something may have been missed: everybody looks again.
    pub fn ring_all(&self) {
        let bells: Vec<_> = self.lock().values().filter_map(Weak::upgrade).collect();
        bells.iter().for_each(|bell| bell.notify_waiters());
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Weak<Notify>>> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
