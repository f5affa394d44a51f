//! Who may call how often: one bucket per user, one per tenant, one window per tenant and tool.
//!
//! All three are asked together and pay together: a call that one of them refuses costs nothing with the others, so a
//! user's token is not lost to a tenant that has run out. Keys are the verified tenant and subject; nothing that a
//! client writes into a header or a body is one. In memory, so every process counts for itself. Source: design section
//! 5; `docs/decisions/0016-rate-limits.md`.

mod shapes;

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::auth::Caller;
use crate::config::{BucketRate, RateSetting, WindowRate};
use crate::model::TenantId;
use shapes::{Bucket, Passed, Window};

/// The most tenants, users and windows that are remembered at once. Whoever would be one more is refused until others rest: to
/// forget somebody who is busy would be to let them begin anew.
const MOST_ENTRIES: usize = 100_000;
/// Below this, nobody is looked for who could be forgotten.
const FEW_ENTRIES: usize = 1024;
/// Between two searches through all entries when there is no room.
const SEARCH_EVERY: Duration = Duration::from_secs(1);

pub struct Limits {
    user: Option<Bucket>,
    tenant: Option<Bucket>,
    tool: Option<Window>,
    /// Moments are counted from here.
    began: Instant,
    state: Mutex<State>,
}

/// Which limit a call ran into; the one to wait longest for, when there are several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    User,
    Tenant,
    Tool,
    /// This process remembers as many callers as it can.
    Capacity,
}

impl Limit {
    pub fn as_str(self) -> &'static str {
        match self {
            Limit::User => "user",
            Limit::Tenant => "tenant",
            Limit::Tool => "tool",
            Limit::Capacity => "capacity",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    pub limit: Limit,
    /// The same call passes after exactly this time, unless others of its tenant are quicker. Whole milliseconds, at
    /// least one.
    pub retry_after_ms: u64,
}

#[derive(Default)]
struct State {
    tenants: HashMap<TenantId, Tenant>,
    /// Tenants, and users and windows of all of them.
    entries: usize,
    /// Look for idle ones when there are this many.
    search_at: usize,
    searched: u64,
}

#[derive(Default)]
struct Tenant {
    /// When its bucket is full.
    full_at: u64,
    /// The same of its users' buckets.
    users: HashMap<Box<str>, u64>,
    names: HashMap<Box<str>, Passed>,
}

impl Limits {
    pub fn new(
        user: RateSetting<BucketRate>,
        tenant: RateSetting<BucketRate>,
        tool: RateSetting<WindowRate>,
        began: Instant,
    ) -> Limits {
        Limits {
            user: user.0.as_ref().map(Bucket::new),
            tenant: tenant.0.as_ref().map(Bucket::new),
            tool: tool.0.as_ref().map(Window::new),
            began,
            state: Mutex::default(),
        }
    }

    /// Nobody is limited.
    pub fn none() -> Limits {
        Limits { user: None, tenant: None, tool: None, began: Instant::now(), state: Mutex::default() }
    }

    /// Take one call of `name`, which comes from a closed set, or say when it may be tried again. The local principal
    /// is alone on its machine and is not limited.
    pub fn take(&self, caller: &Caller, name: &str, now: Instant) -> Result<(), Refused> {
        if caller.is_local() || (self.user.is_none() && self.tenant.is_none() && self.tool.is_none()) {
            return Ok(());
        }
        let now = self.nanos(now);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let known = state.tenants.get(&caller.tenant());
        let full_at = known.and_then(|tenant| tenant.users.get(caller.subject())).copied();
        let passed = known.and_then(|tenant| tenant.names.get(name));
        let waits = [
            (Limit::User, self.user.map_or(0, |bucket| bucket.wait(full_at.unwrap_or(0), now))),
            (Limit::Tenant, self.tenant.map_or(0, |bucket| bucket.wait(known.map_or(0, |t| t.full_at), now))),
            (Limit::Tool, self.tool.as_ref().zip(passed).map_or(0, |(window, passed)| window.wait(passed, now))),
        ];
        let (limit, wait) = waits.into_iter().max_by_key(|(_, wait)| *wait).expect("there are three");
        if wait > 0 {
            return Err(Refused { limit, retry_after_ms: wait.div_ceil(1_000_000) });
        }
        let new = usize::from(known.is_none())
            + usize::from(self.user.is_some() && full_at.is_none())
            + usize::from(self.tool.is_some() && passed.is_none());
        if new > 0 && !self.make_room(&mut state, new, now) {
            return Err(Refused { limit: Limit::Capacity, retry_after_ms: SEARCH_EVERY.as_millis() as u64 });
        }
        state.entries += new;
        self.pay(state.tenants.entry(caller.tenant()).or_default(), caller.subject(), name, now);
        Ok(())
    }

    fn pay(&self, tenant: &mut Tenant, subject: &str, name: &str, now: u64) {
        if let Some(bucket) = &self.tenant {
            tenant.full_at = bucket.take(tenant.full_at, now);
        }
        if let Some(bucket) = &self.user {
            match tenant.users.get_mut(subject) {
                Some(full_at) => *full_at = bucket.take(*full_at, now),
                None => drop(tenant.users.insert(subject.into(), bucket.take(0, now))),
            }
        }
        if let Some(window) = &self.tool {
            match tenant.names.get_mut(name) {
                Some(passed) => window.take(passed, now),
                None => window.take(tenant.names.entry(name.into()).or_default(), now),
            }
        }
    }

    /// Forget whoever is at rest, when it is time to. `false`: there is no room for `new` more.
    fn make_room(&self, state: &mut State, new: usize, now: u64) -> bool {
        let full = state.entries + new > MOST_ENTRIES;
        let due = state.entries + new > state.search_at.max(FEW_ENTRIES) && !full;
        // In a flood every newcomer would search through everything.
        let rested = state.searched == 0 || now >= state.searched + SEARCH_EVERY.as_nanos() as u64;
        if due || (full && rested) {
            self.forget_idle(state, now);
        }
        state.entries + new <= MOST_ENTRIES
    }

    /// An entry that is full again says the same as none, so nothing is lost with it.
    fn forget_idle(&self, state: &mut State, now: u64) {
        let mut entries = 0;
        state.tenants.retain(|_, tenant| {
            tenant.users.retain(|_, full_at| *full_at > now);
            tenant.names.retain(|_, passed| self.tool.as_ref().is_some_and(|window| !window.is_idle(passed, now)));
            tenant.users.shrink_to(2 * tenant.users.len());
            let held = tenant.users.len() + tenant.names.len();
            let keep = held > 0 || tenant.full_at > now;
            entries += held + usize::from(keep);
            keep
        });
        state.tenants.shrink_to(2 * state.tenants.len());
        state.entries = entries;
        state.search_at = 2 * entries;
        state.searched = now;
    }

    fn nanos(&self, now: Instant) -> u64 {
        // One more than elapsed: 0 is for what never happened.
        u64::try_from(now.saturating_duration_since(self.began).as_nanos()).unwrap_or(u64::MAX / 2) + 1
    }

    #[cfg(test)]
    fn entries(&self) -> usize {
        let state = self.state.lock().unwrap();
        let held: usize = state.tenants.values().map(|t| 1 + t.users.len() + t.names.len()).sum();
        assert_eq!(held, state.entries);
        held
    }
}

#[cfg(test)]
mod tests;
