//! Tenants in Postgres, tried with raw SQL as the role that the bridge has.

use bridge_tests::postgres::{Database, Login};
use bridge_tests::stores::{TestStore, audit_row, owner, some_task, some_tenant};
use cyberos_plugin_host::error::Error;
use cyberos_plugin_host::model::TenantId;
use cyberos_plugin_host::store::{Durability, Letter, NewAuditRow, PostgresStore, Store, postgres};
use secrecy::ExposeSecret;
use serde_json::json;
use sqlx::postgres::{PgConnection, PgPoolOptions, PgRow};
use sqlx::{AssertSqlSafe, Row};
use std::time::Duration;

use bridge_tests::stores::Place;

const TABLES: [&str; 8] =
    ["tasks", "audit", "audit_heads", "outbox", "used_once", "sessions", "session_subscriptions", "letters"];

fn database(t: &TestStore) -> &Database {
    match &t.at {
        Place::Postgres(database) => database,
        Place::Sqlite(_) => panic!("these tests are about Postgres"),
    }
}

/// One row in every table.
async fn fill(t: &TestStore, tenant: TenantId) {
    let mut row = audit_row(tenant, "note", json!({ "secret": "of one tenant" }));
    row.ship = true;
    t.store.append_audit(&[row], Durability::Written).await.unwrap();
    t.store.insert_task(&some_task(&owner(tenant, "alice")), u64::MAX).await.unwrap();
    let soon = jiff::Timestamp::now() + Duration::from_secs(60);
    t.store.use_once(tenant, "k", soon).await.unwrap();
    t.store.subscribe(tenant, uuid::Uuid::new_v4(), "note://1", soon).await.unwrap();
    let letter = Letter { to: Some("b".into()), from: "a".into(), tenant, body: json!("of one tenant") };
    t.store.send_letter(&letter).await.unwrap();
}

async fn as_the_bridge(t: &TestStore) -> PgConnection {
    let mut connection = database(t).connect(Login::Bridge).await;
    run(&mut connection, "SET ROLE cyberos_plugin_host").await.unwrap();
    connection
}

async fn run(connection: &mut PgConnection, sql: &str) -> sqlx::Result<u64> {
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(connection).await.map(|done| done.rows_affected())
}

async fn count(connection: &mut PgConnection, table: &str) -> i64 {
    let sql = AssertSqlSafe(format!("SELECT count(*) FROM plugin_host.{table}"));
    sqlx::query_scalar(sql).fetch_one(connection).await.unwrap()
}

async fn set_tenant(connection: &mut PgConnection, tenant: &str) {
    sqlx::query("SELECT set_config('auth.tenant_id', $1, true)").bind(tenant).execute(connection).await.unwrap();
}

fn code(error: sqlx::Error) -> String {
    error.as_database_error().and_then(|e| e.code()).map(|c| c.into_owned()).unwrap_or_else(|| error.to_string())
}

const DENIED: &str = "42501";

#[tokio::test]
async fn without_a_tenant_there_are_no_rows_and_with_the_wrong_one_none_either() {
    // given
    let t = TestStore::postgres().await;
    let (mine, other) = (some_tenant(), some_tenant());
    fill(&t, mine).await;
    let mut bridge = as_the_bridge(&t).await;
    // when, then: never set, set to nothing, set to another
    for table in TABLES {
        assert_eq!(count(&mut bridge, table).await, 0, "{table} without a tenant");
    }
    for (tenant, expected) in [(String::new(), 0), (other.to_string(), 0), (mine.to_string(), 1)] {
        run(&mut bridge, "BEGIN").await.unwrap();
        set_tenant(&mut bridge, &tenant).await;
        for table in TABLES {
            assert_eq!(count(&mut bridge, table).await, expected, "{table} as '{tenant}'");
        }
        run(&mut bridge, "COMMIT").await.unwrap();
    }
    // and what is no tenant at all is an error, not a way in
    run(&mut bridge, "BEGIN").await.unwrap();
    set_tenant(&mut bridge, "' OR true --").await;
    assert!(run(&mut bridge, "SELECT * FROM plugin_host.audit").await.is_err());
}

#[tokio::test]
async fn a_row_of_another_tenant_cannot_be_written() {
    // given
    let t = TestStore::postgres().await;
    let (mine, other) = (some_tenant(), some_tenant());
    fill(&t, other).await;
    let mut bridge = as_the_bridge(&t).await;
    let as_me = |sql: String| format!("BEGIN; SELECT set_config('auth.tenant_id', '{mine}', true); {sql}; COMMIT");
    // when, then: new rows are refused
    for insert in [
        format!("INSERT INTO plugin_host.used_once VALUES ('{other}', 'x', 0)"),
        format!(
            "INSERT INTO plugin_host.audit_heads VALUES ('{other}', 9, 'x') ON CONFLICT (tenant_id) DO UPDATE SET seq = 9"
        ),
        format!("INSERT INTO plugin_host.outbox (tenant_id, seq) VALUES ('{other}', 7)"),
        format!("INSERT INTO plugin_host.sessions VALUES ('{other}', gen_random_uuid(), true, NULL, 0)"),
        format!("INSERT INTO plugin_host.letters VALUES ('{other}', gen_random_uuid(), 'a', NULL, '1', 0)"),
        format!("INSERT INTO plugin_host.audit VALUES ('{other}', 2, 'k', 'a', '{{}}', 't', 't', 'p', 'c', NULL)"),
    ] {
        assert_eq!(code(run(&mut bridge, &as_me(insert.clone())).await.unwrap_err()), DENIED, "{insert}");
        run(&mut bridge, "ROLLBACK").await.unwrap();
    }
    // and existing ones are not there to be changed, or to be given away
    run(&mut bridge, &as_me("UPDATE plugin_host.tasks SET status = 'cancelled'".into())).await.unwrap();
    run(&mut bridge, &as_me("DELETE FROM plugin_host.outbox".into())).await.unwrap();
    let mut admin = database(&t).connect(Login::Admin).await;
    let untouched: i64 = sqlx::query_scalar("SELECT count(*) FROM plugin_host.tasks WHERE status = 'running'")
        .fetch_one(&mut admin)
        .await
        .unwrap();
    assert_eq!((untouched, count(&mut admin, "outbox").await), (1, 1));
    fill(&t, mine).await;
    let give = as_me(format!("UPDATE plugin_host.tasks SET tenant_id = '{other}'"));
    assert_eq!(code(run(&mut bridge, &give).await.unwrap_err()), DENIED);
}

#[tokio::test]
async fn a_tenant_does_not_leak_to_the_next_user_of_a_connection() {
    // given: a pool of one, so that everybody gets the same connection
    let t = TestStore::postgres().await;
    let mine = some_tenant();
    fill(&t, mine).await;
    let options = database(&t).url(Login::Bridge).expose_secret().parse().unwrap();
    let pool = PgPoolOptions::new().max_connections(1).connect_with(options).await.unwrap();
    // when: one transaction commits, one rolls back
    for end in ["COMMIT", "ROLLBACK"] {
        let mut connection = pool.acquire().await.unwrap();
        run(&mut connection, "SET ROLE cyberos_plugin_host; BEGIN").await.unwrap();
        set_tenant(&mut connection, &mine.to_string()).await;
        assert_eq!(count(&mut connection, "audit").await, 1);
        run(&mut connection, end).await.unwrap();
        drop(connection);
        // then
        let mut next = pool.acquire().await.unwrap();
        assert_eq!(count(&mut next, "audit").await, 0, "after {end}");
    }
}

#[tokio::test]
async fn the_stores_own_connections_keep_no_tenant() {
    // given: one connection for everything but listening
    let t = TestStore::postgres().await;
    let (mine, other) = (some_tenant(), some_tenant());
    let bridge = PostgresStore::connect(&database(&t).url(Login::Bridge), 2).await.unwrap();
    let store: &dyn Store = &bridge;
    let no_tenant = async || {
        let set: Option<String> = sqlx::query_scalar("SELECT current_setting('auth.tenant_id', true)")
            .fetch_one(bridge.pool())
            .await
            .unwrap();
        set.unwrap_or_default().is_empty()
    };
    // when, then: after a write across tenants, a read, a failed write, and a call that was dropped half-way
    let batch = [mine, other].map(|tenant| audit_row(tenant, "note", json!({})));
    store.append_audit(&batch, Durability::Written).await.unwrap();
    assert!(no_tenant().await, "after a write");
    assert_eq!(store.audit_head(mine).await.unwrap().unwrap().seq, 1);
    assert!(no_tenant().await, "after a read");
    let endless: String = (0..2000).map(|_| some_tenant().to_string()).collect();
    let endless = NewAuditRow { idempotency_key: Some(endless), ..batch[0].clone() };
    assert!(store.append_audit(&[endless], Durability::Written).await.is_err(), "too long for its index");
    assert!(no_tenant().await, "after a failure");
    for micros in (0..2000).step_by(100) {
        let append = store.append_audit(&batch, Durability::Written);
        let _ = tokio::time::timeout(Duration::from_micros(micros), append).await;
        assert!(no_tenant().await, "after a call that was dropped");
    }
}

#[tokio::test]
async fn the_bridges_role_cannot_lift_the_guard_or_rewrite_the_log() {
    let t = TestStore::postgres().await;
    let mine = some_tenant();
    fill(&t, mine).await;
    let mut bridge = as_the_bridge(&t).await;
    run(&mut bridge, &format!("SET auth.tenant_id = '{mine}'")).await.unwrap();
    for forbidden in [
        "ALTER TABLE plugin_host.audit DISABLE ROW LEVEL SECURITY",
        "ALTER TABLE plugin_host.audit NO FORCE ROW LEVEL SECURITY",
        "DROP POLICY own_tenant ON plugin_host.audit",
        "CREATE POLICY all_rows ON plugin_host.audit USING (true)",
        "DROP TABLE plugin_host.audit",
        "TRUNCATE plugin_host.audit",
        "UPDATE plugin_host.audit SET body = '{}'",
        "DELETE FROM plugin_host.audit",
        "DELETE FROM plugin_host.audit_heads",
        "DELETE FROM plugin_host.tasks",
        "CREATE TABLE plugin_host.mine (id int)",
        "CREATE OR REPLACE FUNCTION plugin_host.outbox_depth() RETURNS TABLE (waiting bigint, failed bigint)
         LANGUAGE sql AS 'SELECT 0::bigint, 0::bigint'",
        "SET ROLE cyberos_plugin_host_sweeper",
        "SET ROLE bridge_owner",
        "ALTER ROLE cyberos_plugin_host BYPASSRLS",
        "UPDATE plugin_host.schema_migrations SET version = 99",
    ] {
        assert_eq!(code(run(&mut bridge, forbidden).await.unwrap_err()), DENIED, "{forbidden}");
    }
    // row_security = off turns a filter into an error, never into more rows
    run(&mut bridge, "SET row_security = off").await.unwrap();
    assert_eq!(code(run(&mut bridge, "SELECT * FROM plugin_host.audit").await.unwrap_err()), DENIED);
}

#[tokio::test]
async fn what_looks_across_tenants_gives_ids_and_counts_only() {
    // given
    let t = TestStore::postgres().await;
    for _ in 0..3 {
        fill(&t, some_tenant()).await;
    }
    let mut bridge = as_the_bridge(&t).await;
    let columns = |rows: &[PgRow]| -> Vec<String> {
        use sqlx::Column;
        rows[0].columns().iter().map(|c| c.name().to_owned()).collect()
    };
    // when, then
    for (call, expected, rows) in [
        ("SELECT * FROM plugin_host.abandoned_tasks(-60000000)", vec!["tenant_id", "id"], 3),
        ("SELECT * FROM plugin_host.claim_outbox(10, 1000)", vec!["tenant_id", "seq", "attempts"], 3),
        ("SELECT * FROM plugin_host.outbox_depth()", vec!["waiting", "failed"], 1),
        ("SELECT plugin_host.prune()", vec!["prune"], 1),
        ("SELECT plugin_host.prune_expired()", vec!["prune_expired"], 1),
        ("SELECT * FROM plugin_host.letters_for('b')", vec!["tenant_id", "id"], 3),
    ] {
        let found = sqlx::query(AssertSqlSafe(call)).fetch_all(&mut bridge).await.unwrap();
        assert_eq!((columns(&found), found.len()), (expected.iter().map(|c| c.to_string()).collect(), rows), "{call}");
    }
    // and nobody forgot one: these are all the functions that run as somebody else, and nobody else may call them
    let mut admin = database(&t).connect(Login::Admin).await;
    let functions = sqlx::query(
        "SELECT p.proname::text AS name, p.proowner::regrole::text AS owner, p.proconfig::text AS config,
                has_function_privilege('public', p.oid, 'EXECUTE') AS public
         FROM pg_proc p WHERE p.pronamespace = 'plugin_host'::regnamespace AND p.prosecdef ORDER BY 1",
    )
    .fetch_all(&mut admin)
    .await
    .unwrap();
    let names: Vec<String> = functions.iter().map(|f| f.get("name")).collect();
    assert_eq!(names, ["abandoned_tasks", "claim_outbox", "letters_for", "outbox_depth", "prune", "prune_expired"]);
    for function in &functions {
        assert_eq!(function.get::<String, _>("owner"), "cyberos_plugin_host_sweeper");
        assert_eq!(function.get::<String, _>("config"), "{search_path=pg_catalog}");
        assert!(!function.get::<bool, _>("public"));
    }
    // the one they run as cannot read what tenants wrote, even if a function asked for it
    run(&mut admin, "SET ROLE cyberos_plugin_host_sweeper").await.unwrap();
    for read in [
        "SELECT body FROM plugin_host.audit",
        "SELECT arguments FROM plugin_host.tasks",
        "SELECT output FROM plugin_host.tasks",
        "SELECT last_error FROM plugin_host.outbox",
        "SELECT key FROM plugin_host.used_once",
        "SELECT question FROM plugin_host.tasks",
        "SELECT answer FROM plugin_host.tasks",
        "SELECT id FROM plugin_host.sessions",
        "SELECT uri FROM plugin_host.session_subscriptions",
        "SELECT body FROM plugin_host.letters",
    ] {
        assert_eq!(code(run(&mut admin, read).await.unwrap_err()), DENIED, "{read}");
    }
}

#[tokio::test]
async fn every_table_is_guarded_and_the_owner_is_held_to_it() {
    // given
    let t = TestStore::postgres().await;
    fill(&t, some_tenant()).await;
    let mut owner = database(&t).connect(Login::Owner).await;
    // then
    let tables = sqlx::query(
        "SELECT c.relname::text AS name, c.relrowsecurity AND c.relforcerowsecurity AS forced,
                EXISTS (SELECT 1 FROM pg_policy p WHERE p.polrelid = c.oid AND p.polname = 'own_tenant') AS policy
         FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id'
         WHERE c.relnamespace = 'plugin_host'::regnamespace AND c.relkind IN ('r', 'p')",
    )
    .fetch_all(&mut owner)
    .await
    .unwrap();
    assert_eq!(tables.len(), TABLES.len());
    for table in tables {
        let name: String = table.get("name");
        assert!(table.get::<bool, _>("forced") && table.get::<bool, _>("policy"), "{name}");
        assert_eq!(count(&mut owner, &name).await, 0, "the owner reads {name}");
    }
}

async fn refusal(database: &Database, login: Login) -> Error {
    match PostgresStore::connect(&database.url(login), 2).await {
        Ok(_) => panic!("it connected"),
        Err(error) => error,
    }
}

#[tokio::test]
async fn a_role_that_the_guard_does_not_bind_is_refused() {
    let database = Database::migrated().await;
    let mut admin = database.connect(Login::Admin).await;
    // the owner of the tables: it may become the application, but not when it was not granted that
    let error = refusal(&database, Login::Owner).await;
    assert!(error.to_string().contains("owns tables"), "{error:?}");
    // a login that was granted nothing
    let stranger = format!("stranger_{}", uuid::Uuid::new_v4().simple());
    run(&mut admin, &format!("CREATE ROLE {stranger} LOGIN")).await.unwrap();
    let url = database.url(Login::Bridge).expose_secret().replace("bridge_login", &stranger).into();
    let error = PostgresStore::connect(&url, 2).await.err().unwrap();
    assert!(error.to_string().contains("not granted"), "{error:?}");
    // one that bypasses the policies
    run(&mut admin, &format!("ALTER ROLE {stranger} BYPASSRLS")).await.unwrap();
    let error = PostgresStore::connect(&url, 2).await.err().unwrap();
    assert!(error.to_string().contains("BYPASSRLS"), "{error:?}");
    // and a table that lost its guard
    run(&mut admin, "ALTER TABLE plugin_host.tasks NO FORCE ROW LEVEL SECURITY").await.unwrap();
    let error = refusal(&database, Login::Bridge).await;
    assert!(error.to_string().contains("without forced"), "{error:?}");
    run(&mut admin, &format!("DROP ROLE {stranger}")).await.unwrap();
}

#[tokio::test]
async fn an_empty_database_asks_for_the_migration_and_the_migration_runs_twice() {
    // given
    let database = Database::empty().await;
    let error = refusal(&database, Login::Bridge).await;
    assert!(error.to_string().contains("schema is missing"), "{error:?}");
    // when: by two at once, by a role that is no superuser, and again
    let url = database.url(Login::Owner);
    let (one, two) = tokio::join!(postgres::migrate(&url), postgres::migrate(&url));
    one.unwrap();
    two.unwrap();
    postgres::migrate(&url).await.unwrap();
    // then
    let mut admin = database.connect(Login::Admin).await;
    run(&mut admin, "GRANT cyberos_plugin_host TO bridge_login").await.unwrap();
    PostgresStore::connect(&database.url(Login::Bridge), 2).await.unwrap();
}

#[tokio::test]
async fn an_error_of_the_store_never_shows_the_urls_password() {
    for url in ["postgres://bridge:hunter2@127.0.0.1:1/db", "no url with hunter2"] {
        let error = PostgresStore::connect(&url.into(), 2).await.err().unwrap();
        assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
    }
}
