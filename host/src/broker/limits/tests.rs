//! Tenants, users and tools against each other, with a clock of the test's own.

use std::collections::BTreeSet;

use super::*;
use crate::store::TaskOwner;
use uuid::Uuid;

fn caller(tenant: u128, subject: &str) -> Caller {
    let owner = TaskOwner { tenant: TenantId(Uuid::from_u128(tenant)), subject: subject.into() };
    Caller::of_task(&owner, Some(BTreeSet::new()))
}

fn limits(user: &str, tenant: &str, tool: &str) -> (Limits, Instant) {
    let began = Instant::now();
    (Limits::new(user.parse().unwrap(), tenant.parse().unwrap(), tool.parse().unwrap(), began), began)
}

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

#[test]
fn a_user_has_a_burst_and_then_one_call_a_second() {
    let (limits, now) = limits("60,1/s", "300,5/s", "100/min,200/30s");
    let alice = caller(1, "alice");
    for _ in 0..60 {
        limits.take(&alice, "a", now).unwrap();
    }
    let refused = limits.take(&alice, "a", now + ms(300)).unwrap_err();
    assert_eq!(refused, Refused { limit: Limit::User, retry_after_ms: 700 });
    assert!(limits.take(&alice, "b", now + ms(999)).is_err(), "another tool is the same user");
    limits.take(&alice, "a", now + ms(1000)).unwrap();
    // Neither a user of the same name elsewhere nor a colleague is any poorer.
    limits.take(&caller(2, "alice"), "a", now).unwrap();
    limits.take(&caller(1, "bob"), "a", now).unwrap();
}

#[test]
fn a_user_keeps_their_token_when_the_tenant_has_none() {
    // given: a tenant that has run out, and a user with two calls
    let (limits, now) = limits("2,1/h", "3,1/s", "off");
    for subject in ["b", "c", "d"] {
        limits.take(&caller(1, subject), "t", now).unwrap();
    }
    let alice = caller(1, "alice");
    // when
    for _ in 0..10 {
        let refused = limits.take(&alice, "t", now).unwrap_err();
        assert_eq!(refused, Refused { limit: Limit::Tenant, retry_after_ms: 1000 });
    }
    // then both are still hers
    limits.take(&alice, "t", now + ms(1000)).unwrap();
    limits.take(&alice, "t", now + ms(2000)).unwrap();
    assert_eq!(limits.take(&alice, "t", now + ms(3000)).unwrap_err().limit, Limit::User);
}

#[test]
fn a_tool_that_is_full_costs_neither_user_nor_tenant_and_other_tools_go_on() {
    let (limits, now) = limits("3,1/h", "3,1/h", "1/min");
    let alice = caller(1, "alice");
    limits.take(&alice, "t", now).unwrap();
    for _ in 0..5 {
        let refused = limits.take(&alice, "t", now + ms(1)).unwrap_err();
        assert_eq!(refused, Refused { limit: Limit::Tool, retry_after_ms: 59_999 });
    }
    limits.take(&alice, "u", now).unwrap();
    limits.take(&alice, "v", now).unwrap();
    assert_eq!(limits.take(&alice, "w", now).unwrap_err().retry_after_ms, 3_600_000);
}

#[test]
fn whoever_waits_as_long_as_they_were_told_gets_through_and_not_before() {
    let (limits, mut now) = limits("7,3/s", "11,7/s", "5/7s,9/2s");
    let callers = [caller(1, "a"), caller(1, "b"), caller(1, "c")];
    let mut refusals = BTreeSet::new();
    for n in 0..2_000 {
        let (who, name) = (&callers[n % 3], ["x", "y"][n % 2]);
        if let Err(refused) = limits.take(who, name, now) {
            refusals.insert(refused.limit.as_str());
            let early = limits.take(who, name, now + ms(refused.retry_after_ms - 1));
            assert!(early.is_err(), "call {n}: a millisecond less would have done");
            now += ms(refused.retry_after_ms);
            limits.take(who, name, now).unwrap_or_else(|again| panic!("call {n}: {refused:?}, then {again:?}"));
        }
        now += Duration::from_micros(n as u64 * 37 % 5_000);
    }
    assert!(refusals.contains("tool"), "{refusals:?}");
}

#[test]
fn the_local_principal_and_a_bridge_without_limits_are_not_held_up() {
    let (limits, now) = limits("1,1/h", "1,1/h", "1/h");
    for _ in 0..1000 {
        limits.take(&Caller::local(), "t", now).unwrap();
        Limits::none().take(&caller(1, "alice"), "t", now).unwrap();
    }
    assert_eq!(limits.entries(), 0);
}

#[test]
fn a_crowd_of_subjects_is_forgotten_when_it_rests_and_bounded_while_it_does_not() {
    // given: a crowd that comes slowly
    let (limits, began) = limits("60,1/s", "off", "off");
    for n in 0..200_000u64 {
        limits.take(&caller(1, &format!("s{n}")), "t", began + ms(n)).unwrap();
    }
    assert!(limits.entries() < 4_000, "{}: each rests after a second", limits.entries());
    // when one comes that does not rest
    let (limits, began) = self::limits("60,1/h", "off", "off");
    let mut refused = 0;
    for n in 0..150_000u64 {
        match limits.take(&caller(n.into(), "s"), "t", began) {
            Ok(()) => {}
            Err(full) => {
                assert_eq!(full, Refused { limit: Limit::Capacity, retry_after_ms: 1000 });
                refused += 1;
            }
        }
    }
    // then memory has its bound, and those who are known are served
    assert_eq!((limits.entries(), refused), (MOST_ENTRIES, 100_000));
    limits.take(&caller(7, "s"), "t", began).unwrap();
    limits.take(&caller(200_000, "s"), "t", began + ms(2 * 3_600_000)).unwrap();
    assert_eq!(limits.entries(), 2);
}
