//! How much a tenant's clients may have us write to other replicas.
//!
//! An answer, a cancellation or an event id can name any replica and any request: whoever makes them up would fill the
//! store with letters that nobody reads. So they cost, by their number and size, and who has spent everything is not
//! served until some of it has come back. What we write on our own account is free.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::model::TenantId;

/// Letters that a tenant can have written at once, and a second after that.
const BURST: f64 = 500.0;
const PER_SECOND: f64 = 100.0;
/// A letter costs one, and one for each of these.
const BYTES_PER_UNIT: usize = 16 << 10;
/// Tenants that are remembered before those who have everything back are looked for.
const FEW: usize = 1_024;

#[derive(Default)]
pub struct Postage(Mutex<HashMap<TenantId, Spent>>);

/// What was spent, as of a moment.
struct Spent {
    units: f64,
    at: Instant,
}

impl Spent {
    fn left_at(&self, now: Instant) -> f64 {
        (self.units - now.saturating_duration_since(self.at).as_secs_f64() * PER_SECOND).max(0.0)
    }
}

impl Postage {
    /// Pay for a letter with a body of about so many bytes. False: not now.
    pub fn pay(&self, tenant: TenantId, bytes: usize, now: Instant) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= FEW && !all.contains_key(&tenant) {
            all.retain(|_, spent| spent.left_at(now) > 0.0);
        }
        let spent = all.entry(tenant).or_insert(Spent { units: 0.0, at: now });
        let units = spent.left_at(now) + 1.0 + (bytes / BYTES_PER_UNIT) as f64;
        let pays = units <= BURST;
        if pays {
            *spent = Spent { units, at: now };
        }
        pays
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn tenant(n: u128) -> TenantId {
        TenantId(uuid::Uuid::from_u128(n))
    }

    #[test]
    fn a_tenant_that_has_letters_written_without_end_waits_and_no_other_does() {
        let (postage, now) = (Postage::default(), Instant::now());
        let paid = (0..10_000).filter(|_| postage.pay(tenant(1), 100, now)).count();
        assert_eq!(paid, 500);
        assert!(postage.pay(tenant(2), 100, now));
        let later = now + Duration::from_secs(1);
        assert_eq!((0..10_000).filter(|_| postage.pay(tenant(1), 100, later)).count(), 100);
    }

    #[test]
    fn big_letters_cost_more() {
        let (postage, now) = (Postage::default(), Instant::now());
        let paid = (0..10_000).filter(|_| postage.pay(tenant(1), 1 << 20, now)).count();
        assert!((1..10).contains(&paid), "{paid} MiB at once");
    }

    #[test]
    fn tenants_that_have_everything_back_are_forgotten() {
        let (postage, now) = (Postage::default(), Instant::now());
        for n in 0..5_000 {
            assert!(postage.pay(tenant(n), 0, now + Duration::from_millis(n as u64)));
        }
        assert!(postage.0.lock().unwrap().len() <= FEW + 1);
    }
}
