//! Turns: how many calls run at once, of one plugin and of all, and how many wait for a person meanwhile.
//!
//! A call that waits for a person gives its turn back, because a person takes minutes and others would be shut out for as
//! long. It keeps its instance, so there are only so many places to wait in, and one caller has no more than a share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::engine::{MAX_CALLS, MAX_WAITING};
use crate::auth::Caller;
use crate::error::{Error, Reason, Result};
use crate::model::TenantId;

/// How long a call waits for its turn before it is told to come back. Never past its deadline.
const PATIENCE: Duration = Duration::from_secs(2);

/// Of [`MAX_WAITING`], for the calls of one caller.
const MAX_WAITING_OF_ONE: usize = MAX_WAITING / 4;

/// Of the whole process.
pub struct AllTurns {
    calls: Arc<Semaphore>,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    all: usize,
    by_caller: HashMap<(TenantId, String), usize>,
}

/// Of one plugin.
#[derive(Clone)]
pub struct Turns {
    own: Arc<Semaphore>,
    all: Arc<AllTurns>,
}

/// A call runs for as long as it is held.
pub struct Turn {
    _own: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

/// A call waits for a person for as long as it is held.
pub struct Place {
    all: Arc<AllTurns>,
    caller: (TenantId, String),
}

impl AllTurns {
    pub fn new() -> Arc<AllTurns> {
        Arc::new(AllTurns { calls: Arc::new(Semaphore::new(MAX_CALLS)), waiting: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turns {
    pub fn new(concurrency: usize, all: Arc<AllTurns>) -> Turns {
        Turns { own: Arc::new(Semaphore::new(concurrency.max(1))), all }
    }

    /// Wait for a turn: first among this plugin's calls, so that one busy plugin cannot fill the whole house.
    pub async fn admit(&self, deadline: Instant) -> Result<Turn> {
        // Without a wait in most cases, and then without a timer.
        if let Ok(own) = self.own.clone().try_acquire_owned()
            && let Ok(all) = self.all.calls.clone().try_acquire_owned()
        {
            return Ok(Turn { _own: own, _all: all });
        }
        let patience = PATIENCE.min(deadline.saturating_duration_since(Instant::now()));
        tokio::time::timeout(patience, self.next()).await.map_err(|_| {
            Error::new(Reason::Busy, "Too many calls of this tool are running.")
                .with("retry_after_ms", PATIENCE.as_millis() as u64)
        })
    }

    /// However long it takes: for a call that had its turn before, and has a deadline.
    pub async fn next(&self) -> Turn {
        let own = self.own.clone().acquire_owned().await.expect("never closed");
        let all = self.all.calls.clone().acquire_owned().await.expect("never closed");
        Turn { _own: own, _all: all }
    }

    /// Refuses with `busy` when all places are taken, or this caller has its share.
    pub fn wait_as(&self, caller: &Caller) -> Result<Place> {
        let caller = (caller.tenant(), caller.subject().to_owned());
        let mut waiting = self.all.lock();
        let of_one = waiting.by_caller.get(&caller).copied().unwrap_or_default();
        if waiting.all >= MAX_WAITING || of_one >= MAX_WAITING_OF_ONE {
            return Err(Error::new(Reason::Busy, "Too many calls are waiting for an answer of their user.")
                .with("retry_after_ms", PATIENCE.as_millis() as u64));
        }
        waiting.all += 1;
        waiting.by_caller.insert(caller.clone(), of_one + 1);
        drop(waiting);
        Ok(Place { all: self.all.clone(), caller })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut waiting = self.all.lock();
        waiting.all -= 1;
        if let Some(of_one) = waiting.by_caller.get_mut(&self.caller) {
            *of_one -= 1;
            if *of_one == 0 {
                waiting.by_caller.remove(&self.caller);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_caller_cannot_take_every_place_and_gives_back_what_it_took() {
        let turns = Turns::new(1, AllTurns::new());
        let alice = Caller::local();
        let taken: Vec<_> = std::iter::from_fn(|| turns.wait_as(&alice).ok()).collect();
        assert_eq!(taken.len(), MAX_WAITING_OF_ONE);
        assert_eq!(turns.wait_as(&alice).err().unwrap().reason(), Reason::Busy);
        drop(taken);
        let waiting = turns.all.lock();
        assert!(waiting.all == 0 && waiting.by_caller.is_empty());
    }

    #[tokio::test]
    async fn who_had_a_turn_before_gets_the_next_one() {
        let turns = Turns::new(1, AllTurns::new());
        let soon = || Instant::now() + Duration::from_millis(50);
        let first = turns.admit(soon()).await.unwrap();
        assert_eq!(turns.admit(soon()).await.err().unwrap().reason(), Reason::Busy);
        let (_turn, ()) = tokio::join!(turns.next(), async { drop(first) });
        assert_eq!(turns.admit(soon()).await.err().unwrap().reason(), Reason::Busy);
    }
}
