//! A plugin that keeps failing rests: its calls are refused at once with `busy`, for a second at first and twice as long
//! each time that it fails again, so that it cannot burn its neighbours' processor call after call.
//!
//! Kept per tenant, because what makes a plugin fail may be what one tenant sends it, and that is no reason to keep
//! another tenant from it. A new version of a plugin starts with a clean slate.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{Error, Reason, Result};
use crate::model::TenantId;

const FIRST_REST: Duration = Duration::from_secs(1);
const LONGEST_REST: Duration = Duration::from_secs(60);

/// Tenants that are remembered as having trouble. Beyond that the ones that may call again are forgotten.
const MAX_TENANTS: usize = 4_096;

/// The circuits of one version of a plugin.
pub struct Circuits {
    /// Failures one after another that open a circuit. 0: never.
    limit: u32,
    /// How many tenants have trouble. Most plugins never fail, and then a call takes no lock here.
    troubled: AtomicUsize,
    by_tenant: Mutex<HashMap<TenantId, Trouble>>,
}

struct Trouble {
    failures: u32,
    rests: u32,
    until: Option<Instant>,
    /// One call runs to see whether the plugin works again.
    tries: bool,
}

impl Circuits {
    pub fn new(limit: u32) -> Circuits {
        Circuits { limit, troubled: AtomicUsize::new(0), by_tenant: Mutex::default() }
    }

    /// May a call of this tenant run now? After a rest one call may try; the others wait until it has shown that it works.
    pub fn admit(&self, tenant: TenantId, now: Instant) -> Result<()> {
        if self.troubled.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        let mut tenants = self.lock();
        let Some(trouble) = tenants.get_mut(&tenant) else { return Ok(()) };
        let Some(until) = trouble.until else { return Ok(()) };
        if now >= until {
            // Should the trial be dropped half-way, the next one comes after another rest.
            trouble.until = Some(now + rest(trouble.rests));
            trouble.tries = true;
            return Ok(());
        }
        let left = u64::try_from((until - now).as_millis()).unwrap_or(u64::MAX).max(1);
        Err(Error::new(Reason::Busy, "The plugin of this tool failed many times in a row and rests.")
            .with("retry_after_ms", left))
    }

    /// What became of a call that ran. True when the plugin now rests.
    pub fn ended(&self, tenant: TenantId, failure: Option<Reason>, now: Instant) -> bool {
        if !failure.is_some_and(counts) {
            self.recovered(tenant, failure);
            return false;
        }
        if self.limit == 0 {
            return false;
        }
        let mut tenants = self.lock();
        if tenants.len() >= MAX_TENANTS && !tenants.contains_key(&tenant) {
            tenants.retain(|_, trouble| trouble.until.is_some_and(|until| until > now));
        }
        let trouble = tenants.entry(tenant).or_insert(Trouble { failures: 0, rests: 0, until: None, tries: false });
        trouble.failures += 1;
        // Calls that were running when the rest began say nothing new; only a trial does.
        let opens = match trouble.until {
            None => trouble.failures >= self.limit,
            Some(_) => trouble.tries,
        };
        if opens {
            trouble.until = Some(now + rest(trouble.rests));
            trouble.rests += 1;
            trouble.tries = false;
        }
        self.troubled.store(tenants.len(), Ordering::Relaxed);
        opens
    }

    /// Only a call that did its work shows that the plugin works; one that was cancelled or found no turn shows nothing.
    fn recovered(&self, tenant: TenantId, failure: Option<Reason>) {
        let says_nothing = matches!(failure, Some(Reason::Cancelled | Reason::Busy));
        if says_nothing || self.troubled.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut tenants = self.lock();
        tenants.remove(&tenant);
        self.troubled.store(tenants.len(), Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TenantId, Trouble>> {
        self.by_tenant.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ways of ending that cost the host the most and that a working plugin does not have.
fn counts(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::PluginTrapped
            | Reason::OutOfFuel
            | Reason::OutOfMemory
            | Reason::StackOverflow
            | Reason::HostCallLimit
            | Reason::Deadline
    )
}

fn rest(rests: u32) -> Duration {
    FIRST_REST.saturating_mul(1 << rests.min(6)).min(LONGEST_REST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    const ACME: TenantId = TenantId(Uuid::from_u128(1));
    const OTHER: TenantId = TenantId(Uuid::from_u128(2));

    fn fail(circuits: &Circuits, times: u32, now: Instant) -> bool {
        (0..times).fold(false, |_, _| circuits.ended(ACME, Some(Reason::PluginTrapped), now))
    }

    #[test]
    fn a_plugin_that_keeps_trapping_rests_and_its_other_tenants_do_not_notice() {
        let (circuits, now) = (Circuits::new(3), Instant::now());
        assert!(!fail(&circuits, 2, now) && circuits.admit(ACME, now).is_ok());
        assert!(fail(&circuits, 1, now));
        let refused = circuits.admit(ACME, now).unwrap_err();
        assert_eq!(refused.reason(), Reason::Busy);
        assert_eq!(refused.data("retry_after_ms").unwrap(), 1_000);
        assert!(circuits.admit(OTHER, now).is_ok());
    }

    #[test]
    fn after_a_rest_one_call_may_try_and_its_failure_doubles_the_rest() {
        let (circuits, start) = (Circuits::new(1), Instant::now());
        let mut now = start;
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
            assert!(fail(&circuits, 1, now));
            assert!(circuits.admit(ACME, now + Duration::from_secs(seconds) - Duration::from_millis(1)).is_err());
            now += Duration::from_secs(seconds);
            assert!(circuits.admit(ACME, now).is_ok(), "the trial");
            assert!(circuits.admit(ACME, now).is_err(), "nobody beside the trial");
        }
        assert!(!circuits.ended(ACME, None, now));
        assert!(circuits.admit(ACME, now).is_ok(), "it works again");
        assert_eq!(circuits.troubled.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn calls_that_were_running_when_the_rest_began_do_not_prolong_it() {
        let (circuits, now) = (Circuits::new(2), Instant::now());
        assert!(fail(&circuits, 2, now));
        fail(&circuits, 30, now);
        assert!(circuits.admit(ACME, now + Duration::from_secs(1)).is_ok());
    }

    #[test]
    fn what_a_caller_does_wrong_is_not_held_against_the_plugin() {
        let (circuits, now) = (Circuits::new(1), Instant::now());
        for reason in [Reason::InvalidParams, Reason::Cancelled, Reason::Busy, Reason::ToolFailed, Reason::Unreachable]
        {
            assert!(!circuits.ended(ACME, Some(reason), now));
        }
        assert!(circuits.admit(ACME, now).is_ok());
    }
}
