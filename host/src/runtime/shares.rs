//! What a plugin may have at once over all its calls: turns and memory. Counted through all its versions, so that a swap,
//! while calls of the old version finish, does not give it twice as much.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::turns::{AllTurns, Turns};
use crate::config::Limits;
use crate::model::PluginId;

/// Of the whole process: who has what.
pub struct Shares {
    turns: Arc<AllTurns>,
    by_plugin: Mutex<HashMap<PluginId, Weak<Kept>>>,
}

/// What the versions of a plugin count together, for as long as one of them is there.
struct Kept {
    memory: AtomicUsize,
    turns: Mutex<(usize, Turns)>,
}

/// One plugin's, held by each of its versions.
#[derive(Clone)]
pub struct Share {
    pub turns: Turns,
    pub memory: MemoryShare,
}

/// Bytes of linear memory over all calls of a plugin.
#[derive(Clone)]
pub struct MemoryShare {
    kept: Arc<Kept>,
    limit: usize,
}

impl Shares {
    pub fn new() -> Shares {
        Shares { turns: AllTurns::new(), by_plugin: Mutex::default() }
    }

    /// What this plugin has, under these limits from now on. With another concurrency the calls that run already are
    /// not counted against it.
    pub fn of(&self, plugin: &PluginId, limits: &Limits) -> Share {
        let mut plugins = self.by_plugin.lock().unwrap_or_else(PoisonError::into_inner);
        plugins.retain(|_, kept| kept.strong_count() > 0);
        let kept = plugins.get(plugin).and_then(Weak::upgrade).unwrap_or_else(|| {
            let turns = Turns::new(limits.concurrency, self.turns.clone());
            Arc::new(Kept { memory: AtomicUsize::new(0), turns: Mutex::new((limits.concurrency, turns)) })
        });
        plugins.insert(plugin.clone(), Arc::downgrade(&kept));
        let turns = {
            let mut current = kept.turns.lock().unwrap_or_else(PoisonError::into_inner);
            if current.0 != limits.concurrency {
                *current = (limits.concurrency, Turns::new(limits.concurrency, self.turns.clone()));
            }
            current.1.clone()
        };
        Share { turns, memory: MemoryShare { kept, limit: limits.memory_share_bytes } }
    }
}

impl MemoryShare {
    /// False, and nothing taken, when that would be more than the plugin may have.
    pub fn take(&self, bytes: usize) -> bool {
        let more = |used: usize| used.checked_add(bytes).filter(|after| *after <= self.limit);
        self.kept.memory.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    pub fn give_back(&self, bytes: usize) {
        self.kept.memory.fetch_sub(bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_one_plugin_share_and_other_plugins_do_not() {
        let shares = Shares::new();
        let limits = Limits { memory_share_bytes: 100, ..Limits::default() };
        let id = |name| PluginId::parse(name).unwrap();
        let (old, new, other) =
            (shares.of(&id("a"), &limits), shares.of(&id("a"), &limits), shares.of(&id("b"), &limits));
        assert!(old.memory.take(60) && !new.memory.take(60) && other.memory.take(60));
        old.memory.give_back(60);
        assert!(new.memory.take(60));
        drop((old, new));
        assert!(shares.of(&id("a"), &limits).memory.take(100), "a plugin that was removed is forgotten");
    }
}
