//! What sessions changed, the same on SQLite and on Postgres.

use bridge_tests::on_both_stores;
use bridge_tests::stores::{TestStore, some_tenant};
use cyberos_plugin_host::error::Reason;
use cyberos_plugin_host::model::LogLevel;
use cyberos_plugin_host::store::{MAX_SUBSCRIPTIONS, SessionState};
use jiff::Timestamp;
use std::collections::BTreeSet;
use std::time::Duration;
use uuid::Uuid;

on_both_stores! {
    a_session_that_changed_nothing_is_not_kept
    what_a_session_changed_is_seen_by_every_replica
    a_session_that_ended_stays_ended
    a_session_belongs_to_its_tenant
    the_last_subscription_goes_to_one_of_many
    a_uri_that_is_too_long_or_has_a_nul_is_refused
    what_a_session_changed_is_forgotten_when_it_expires
}

fn in_an_hour() -> Timestamp {
    Timestamp::now() + Duration::from_secs(3600)
}

fn uris(uris: &[&str]) -> BTreeSet<String> {
    uris.iter().map(ToString::to_string).collect()
}

async fn a_session_that_changed_nothing_is_not_kept(t: TestStore) {
    let (tenant, session) = (some_tenant(), Uuid::new_v4());
    assert_eq!(t.store.session_state(tenant, session).await.unwrap(), None);
    t.store.unsubscribe(tenant, session, "note://1").await.unwrap();
    assert_eq!(t.store.session_state(tenant, session).await.unwrap(), None);
}

async fn what_a_session_changed_is_seen_by_every_replica(t: TestStore) {
    // given
    let (tenant, session, there) = (some_tenant(), Uuid::new_v4(), t.another().await);
    // when: two replicas change it at once
    let (one, two, three, four) = tokio::join!(
        t.store.set_log_level(tenant, session, LogLevel::Warning, in_an_hour()),
        there.subscribe(tenant, session, "note://1", in_an_hour()),
        t.store.subscribe(tenant, session, "note://ghi-chú", in_an_hour()),
        there.subscribe(tenant, session, "note://3", in_an_hour()),
    );
    for done in [one, two, three, four] {
        done.unwrap();
    }
    t.store.subscribe(tenant, session, "note://3", in_an_hour()).await.unwrap();
    t.store.unsubscribe(tenant, session, "note://1").await.unwrap();
    t.store.unsubscribe(tenant, session, "note://\0").await.unwrap();
    // then
    let expected = SessionState {
        ended: false,
        log_level: Some(LogLevel::Warning),
        subscriptions: uris(&["note://3", "note://ghi-chú"]),
    };
    assert_eq!(there.session_state(tenant, session).await.unwrap(), Some(expected));
    for level in LogLevel::ALL {
        there.set_log_level(tenant, session, level, in_an_hour()).await.unwrap();
        assert_eq!(t.store.session_state(tenant, session).await.unwrap().unwrap().log_level, Some(level));
    }
}

async fn a_session_that_ended_stays_ended(t: TestStore) {
    // given
    let (tenant, [fresh, used]) = (some_tenant(), [Uuid::new_v4(), Uuid::new_v4()]);
    t.store.subscribe(tenant, used, "note://1", in_an_hour()).await.unwrap();
    // when
    for session in [fresh, used, used] {
        t.store.end_session(tenant, session, in_an_hour()).await.unwrap();
    }
    // then
    for session in [fresh, used] {
        let state = t.store.session_state(tenant, session).await.unwrap().unwrap();
        assert_eq!(state, SessionState { ended: true, ..SessionState::default() });
    }
    // and a request that was under way changes nothing about that
    t.store.set_log_level(tenant, used, LogLevel::Debug, in_an_hour()).await.unwrap();
    t.store.subscribe(tenant, fresh, "note://2", in_an_hour()).await.unwrap();
    assert!(t.store.session_state(tenant, used).await.unwrap().unwrap().ended);
    assert!(t.store.session_state(tenant, fresh).await.unwrap().unwrap().ended);
}

async fn a_session_belongs_to_its_tenant(t: TestStore) {
    let (mine, other, session) = (some_tenant(), some_tenant(), Uuid::new_v4());
    t.store.subscribe(mine, session, "note://1", in_an_hour()).await.unwrap();
    t.store.end_session(other, session, in_an_hour()).await.unwrap();
    t.store.unsubscribe(other, session, "note://1").await.unwrap();
    let state = t.store.session_state(mine, session).await.unwrap().unwrap();
    assert_eq!((state.ended, state.subscriptions), (false, uris(&["note://1"])));
}

async fn the_last_subscription_goes_to_one_of_many(t: TestStore) {
    // given: room for three
    let (tenant, session, there) = (some_tenant(), Uuid::new_v4(), t.another().await);
    for n in 0..MAX_SUBSCRIPTIONS - 3 {
        t.store.subscribe(tenant, session, &format!("note://{n}"), in_an_hour()).await.unwrap();
    }
    // when
    let mut tries = tokio::task::JoinSet::new();
    for n in 0..12 {
        let store = if n % 2 == 0 { t.store.clone() } else { there.clone() };
        tries.spawn(async move { store.subscribe(tenant, session, &format!("more://{n}"), in_an_hour()).await });
    }
    let refused: Vec<_> = tries.join_all().await.into_iter().filter_map(Result::err).collect();
    // then
    assert_eq!(refused.len(), 9);
    assert!(refused.iter().all(|error| error.reason() == Reason::Busy), "{refused:?}");
    t.store.subscribe(tenant, session, "note://0", in_an_hour()).await.unwrap();
    t.store.subscribe(tenant, Uuid::new_v4(), "note://0", in_an_hour()).await.unwrap();
    t.store.unsubscribe(tenant, session, "note://0").await.unwrap();
    t.store.subscribe(tenant, session, "last://1", in_an_hour()).await.unwrap();
    let state = t.store.session_state(tenant, session).await.unwrap().unwrap();
    assert_eq!(state.subscriptions.len(), MAX_SUBSCRIPTIONS as usize);
}

async fn a_uri_that_is_too_long_or_has_a_nul_is_refused(t: TestStore) {
    let (tenant, session) = (some_tenant(), Uuid::new_v4());
    // as incompressible as a URI gets, so that the index has to hold all of it
    let uri = |bytes: usize| -> String {
        (0..).flat_map(|_| Uuid::new_v4().to_string().into_bytes()).take(bytes).map(char::from).collect()
    };
    t.store.subscribe(tenant, session, &uri(2048), in_an_hour()).await.unwrap();
    for bad in [uri(2049), "note://\0".into()] {
        let error = t.store.subscribe(tenant, session, &bad, in_an_hour()).await.unwrap_err();
        assert_eq!(error.reason(), Reason::InvalidParams);
    }
}

async fn what_a_session_changed_is_forgotten_when_it_expires(t: TestStore) {
    // given
    let (tenant, [short, long]) = (some_tenant(), [Uuid::new_v4(), Uuid::new_v4()]);
    t.store.subscribe(tenant, short, "note://1", Timestamp::now() + Duration::from_millis(150)).await.unwrap();
    t.store.subscribe(tenant, long, "note://1", in_an_hour()).await.unwrap();
    // when
    tokio::time::sleep(Duration::from_millis(250)).await;
    // then: out of sight at once, and gone when somebody cleans up
    assert_eq!(t.store.session_state(tenant, short).await.unwrap(), None);
    t.store.prune_tasks().await.unwrap();
    t.store.set_log_level(tenant, short, LogLevel::Info, in_an_hour()).await.unwrap();
    assert!(t.store.session_state(tenant, short).await.unwrap().unwrap().subscriptions.is_empty());
    assert_eq!(t.store.session_state(tenant, long).await.unwrap().unwrap().subscriptions, uris(&["note://1"]));
}
