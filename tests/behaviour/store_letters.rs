//! Letters from replica to replica, which Postgres carries; SQLite has nobody to write to.

use bridge_tests::postgres::Login;
use bridge_tests::stores::{Place, TestStore, some_tenant};
use cyberos_plugin_host::error::Reason;
use cyberos_plugin_host::model::TenantId;
use cyberos_plugin_host::store::{Letter, MAX_LETTER_BYTES, Post};
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;
use sqlx::postgres::{PgConnection, PgListener};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

fn letter(from: &str, to: Option<&str>, tenant: TenantId, body: Value) -> Letter {
    Letter { to: to.map(str::to_owned), from: from.to_owned(), tenant, body }
}

async fn next(post: &mut mpsc::Receiver<Post>) -> Letter {
    match tokio::time::timeout(Duration::from_secs(10), post.recv()).await.expect("a letter within ten seconds") {
        Some(Post::Letter(letter)) => (*letter).clone(),
        other => panic!("expected a letter, got {other:?}"),
    }
}

async fn is_silent(post: &mut mpsc::Receiver<Post>) -> bool {
    tokio::time::timeout(Duration::from_millis(200), post.recv()).await.is_err()
}

async fn admin(t: &TestStore) -> PgConnection {
    let Place::Postgres(database) = &t.at else { panic!("letters are Postgres's") };
    database.connect(Login::Admin).await
}

async fn run(connection: &mut PgConnection, sql: &str) {
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(connection).await.unwrap();
}

async fn kept(t: &TestStore) -> i64 {
    sqlx::query_scalar("SELECT count(*) FROM plugin_host.letters").fetch_one(&mut admin(t).await).await.unwrap()
}

#[tokio::test]
async fn sqlite_has_nobody_to_write_to() {
    let t = TestStore::sqlite().await;
    assert!(!t.store.replicas());
    let mut post = t.another().await.letters("b");
    t.store.send_letter(&letter("a", Some("b"), some_tenant(), json!(1))).await.unwrap();
    assert_eq!(post.recv().await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_letter_reaches_its_addressee_and_nobody_else() {
    // given
    let t = TestStore::postgres().await;
    assert!(t.store.replicas());
    let (b, c) = (t.another().await, t.another().await);
    let (mut to_a, mut to_b, mut to_c) = (t.store.letters("a"), b.letters("b"), c.letters("c"));
    let sent = letter("a", Some("b"), some_tenant(), json!({ "zeta": "\u{0} Tiếng Việt", "alpha": 0.1 }));
    // when
    t.store.send_letter(&sent).await.unwrap();
    // then
    let received = next(&mut to_b).await;
    assert_eq!(received, sent);
    assert_eq!(received.body.to_string(), sent.body.to_string(), "order included");
    assert!(is_silent(&mut to_c).await && is_silent(&mut to_a).await);
    assert_eq!(kept(&t).await, 0, "its addressee took it with it");
    // and one to oneself arrives, too
    t.store.send_letter(&letter("a", Some("a"), some_tenant(), json!(1))).await.unwrap();
    assert_eq!(next(&mut to_a).await.body, json!(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_letter_to_everybody_reaches_every_other_replica() {
    // given
    let t = TestStore::postgres().await;
    let (b, c) = (t.another().await, t.another().await);
    let (mut to_a, mut to_b, mut to_c) = (t.store.letters("a"), b.letters("b"), c.letters("c"));
    // when
    let sent = letter("a", None, some_tenant(), json!({ "method": "notifications/resources/updated" }));
    t.store.send_letter(&sent).await.unwrap();
    // then
    assert_eq!((next(&mut to_b).await, next(&mut to_c).await), (sent.clone(), sent));
    assert!(is_silent(&mut to_a).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_of_letters_arrives_in_order_and_soon() {
    // given: letters of two tenants, some of them large
    const MANY: usize = 500;
    let t = TestStore::postgres().await;
    let b = t.another().await;
    let mut to_b = b.letters("b");
    let tenants = [some_tenant(), some_tenant()];
    let padding = "x".repeat(50_000);
    // when
    let start = Instant::now();
    let sending = tokio::spawn(async move {
        for n in 0..MANY {
            let body = json!({ "n": n, "padding": if n % 50 == 0 { padding.as_str() } else { "" } });
            let to = (n % 3 > 0).then_some("b");
            t.store.send_letter(&letter("a", to, tenants[n % 2], body)).await.unwrap();
        }
        (t, start.elapsed())
    });
    for n in 0..MANY {
        assert_eq!(next(&mut to_b).await.body["n"], n);
    }
    let received = start.elapsed();
    let (_t, sent) = sending.await.unwrap();
    // then: a few milliseconds each, in a debug build on a busy machine
    eprintln!("{MANY} letters: sent in {sent:?}, the last one received after {received:?}");
    assert!(received < Duration::from_millis(20) * MANY as u32, "{received:?}");
}

#[tokio::test]
async fn a_letter_that_is_too_large_or_has_no_address_is_refused() {
    let t = TestStore::postgres().await;
    let b = t.another().await;
    let mut to_b = b.letters("b");
    let fits = json!("x".repeat(MAX_LETTER_BYTES - 2));
    t.store.send_letter(&letter("a", Some("b"), some_tenant(), fits.clone())).await.unwrap();
    assert_eq!(next(&mut to_b).await.body, fits);
    let large = letter("a", Some("b"), some_tenant(), json!("x".repeat(MAX_LETTER_BYTES - 1)));
    assert_eq!(t.store.send_letter(&large).await.unwrap_err().reason(), Reason::PayloadTooLarge);
    for (from, to) in [("a", Some("b c")), ("a", Some("*")), ("", None), ("a\0", Some("b"))] {
        let error = t.store.send_letter(&letter(from, to, some_tenant(), json!(1))).await.unwrap_err();
        assert_eq!(error.reason(), Reason::Internal, "{from} {to:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_listens_in_the_database_learns_no_content() {
    // given: a stranger who may connect, and no more
    let t = TestStore::postgres().await;
    let Place::Postgres(database) = &t.at else { panic!("letters are Postgres's") };
    let url = secrecy::ExposeSecret::expose_secret(&database.url(Login::Owner)).to_owned();
    let mut stranger = PgListener::connect(&url).await.unwrap();
    stranger.listen("plugin_host_letter").await.unwrap();
    // when
    t.store.send_letter(&letter("a", Some("b"), some_tenant(), json!("hunter2"))).await.unwrap();
    // then
    let heard = tokio::time::timeout(Duration::from_secs(10), stranger.recv()).await.unwrap().unwrap();
    assert!(heard.payload().starts_with("b a ") && !heard.payload().contains("hunter2"), "{}", heard.payload());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forged_notification_brings_nothing() {
    // given: a letter to somebody else, one of another tenant, and one to everybody from us
    let t = TestStore::postgres().await;
    let b = t.another().await;
    let mut to_b = b.letters("b");
    let (mine, other) = (some_tenant(), some_tenant());
    t.store.send_letter(&letter("a", Some("c"), mine, json!("for c"))).await.unwrap();
    let mut admin = admin(&t).await;
    let id: uuid::Uuid = sqlx::query_scalar("SELECT id FROM plugin_host.letters").fetch_one(&mut admin).await.unwrap();
    // when
    for forged in [format!("b a {mine} {id}"), format!("* a {mine} {id}"), format!("b a {other} {id}"), "b".into()] {
        run(&mut admin, &format!("SELECT pg_notify('plugin_host_letter', '{forged}')")).await;
    }
    // then: nothing of it arrives, and what is real still does
    t.store.send_letter(&letter("a", Some("b"), mine, json!("real"))).await.unwrap();
    assert_eq!(next(&mut to_b).await.body, json!("real"));
    assert_eq!(kept(&t).await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_lost_its_connection_is_told_and_gets_its_letters() {
    // given
    let t = TestStore::postgres().await;
    let b = t.another().await;
    let mut to_b = b.letters("b");
    t.store.send_letter(&letter("a", Some("b"), some_tenant(), json!(1))).await.unwrap();
    assert_eq!(next(&mut to_b).await.body, json!(1));
    // when: its listening connection is cut, and a letter is sent meanwhile
    let mut admin = admin(&t).await;
    let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
               WHERE datname = current_database() AND pid <> pg_backend_pid() AND query LIKE '%LISTEN%'";
    run(&mut admin, cut).await;
    let c = t.another().await;
    c.send_letter(&letter("c", Some("b"), some_tenant(), json!(2))).await.unwrap();
    // then
    let mut seen = Vec::new();
    while seen.len() < 2 {
        let post = tokio::time::timeout(Duration::from_secs(20), to_b.recv()).await.expect("it listens again");
        seen.push(post.expect("the store is open"));
    }
    let letters: Vec<_> =
        seen.iter().filter_map(|p| if let Post::Letter(l) = p { Some(&l.body) } else { None }).collect();
    assert!(seen.contains(&Post::Missed), "{seen:?}");
    assert_eq!(letters, [&json!(2)]);
    // and it goes on
    c.send_letter(&letter("c", Some("b"), some_tenant(), json!(3))).await.unwrap();
    assert_eq!(next(&mut to_b).await.body, json!(3));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscriber_that_does_not_read_costs_no_memory_and_is_told() {
    // given: nobody reads while more letters come than are kept waiting
    const MANY: usize = 6_000;
    let t = TestStore::postgres().await;
    let b = t.another().await;
    let mut to_b = b.letters("b");
    let mut admin = admin(&t).await;
    let tenant = some_tenant();
    run(
        &mut admin,
        &format!(
            "WITH sent AS (
                 INSERT INTO plugin_host.letters (tenant_id, id, sender, body, expires_at_us)
                 SELECT '{tenant}', gen_random_uuid(), 'a', '1', plugin_host.now_us() + 60000000
                 FROM generate_series(1, {MANY}) RETURNING id
             )
             SELECT pg_notify('plugin_host_letter', '* a {tenant} ' || id) FROM sent"
        ),
    )
    .await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    // when
    let (mut letters, mut missed) = (0, 0);
    while let Ok(Some(post)) = tokio::time::timeout(Duration::from_secs(2), to_b.recv()).await {
        match post {
            Post::Letter(_) => letters += 1,
            Post::Missed => missed += 1,
        }
    }
    // then
    assert!(letters < MANY && missed >= 1, "{letters} letters, {missed} times missed");
}

#[tokio::test]
async fn letters_that_nobody_took_are_deleted_in_the_end() {
    // given
    let t = TestStore::postgres().await;
    t.store.send_letter(&letter("a", Some("gone"), some_tenant(), json!(1))).await.unwrap();
    t.store.send_letter(&letter("a", None, some_tenant(), json!(2))).await.unwrap();
    t.store.prune_tasks().await.unwrap();
    assert_eq!(kept(&t).await, 2);
    // when: their five minutes are over
    let late = "UPDATE plugin_host.letters SET expires_at_us = expires_at_us - 300000000";
    run(&mut admin(&t).await, late).await;
    t.store.prune_tasks().await.unwrap();
    // then
    assert_eq!(kept(&t).await, 0);
}
