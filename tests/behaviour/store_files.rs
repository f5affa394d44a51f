//! The SQLite store as a file: who may read it, what survives, and what is refused.

use bridge_tests::stores::{TestStore, audit_row, some_tenant};
use cyberos_plugin_host::error::Error;
use cyberos_plugin_host::model::TenantId;
use cyberos_plugin_host::store::verify::verify_chain;
use cyberos_plugin_host::store::{AuditFilter, Durability, SqliteStore, Store};
use serde_json::json;
use sqlx::ConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

async fn refusal(path: &Path) -> Error {
    match SqliteStore::open(path).await {
        Ok(_) => panic!("it opened"),
        Err(error) => error,
    }
}

#[tokio::test]
async fn only_its_user_may_read_the_store() {
    // given
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("state/bridge/store.db");
    // when
    let store = SqliteStore::open(&file).await.unwrap();
    store.append_audit(&[audit_row(TenantId::LOCAL, "note", json!({}))], Durability::Synced).await.unwrap();
    // then
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(file.parent().unwrap()), 0o700);
    for name in ["store.db", "store.db-wal", "store.db-shm"] {
        assert_eq!(mode(&file.with_file_name(name)), 0o600, "{name}");
    }
}

#[tokio::test]
async fn a_damaged_file_is_refused_with_one_sentence() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("store.db");
    std::fs::write(&file, "this is not a database, whatever its name says".repeat(100)).unwrap();
    let error = refusal(&file).await;
    assert_eq!(error.to_string(), "The store file is damaged or not a database.");
    assert!(error.log_detail().unwrap().contains("store.db"), "the operator learns which file");
}

#[tokio::test]
async fn a_store_of_a_newer_bridge_is_refused_and_left_alone() {
    // given
    let t = TestStore::sqlite().await;
    t.store.close().await;
    let file = t.sqlite_file();
    let mut connection = SqliteConnectOptions::new().filename(&file).connect().await.unwrap();
    sqlx::raw_sql("PRAGMA user_version = 99").execute(&mut connection).await.unwrap();
    // when, then
    assert_eq!(refusal(&file).await.to_string(), "The store was written by a newer version of this bridge.");
    let version: i64 = sqlx::query_scalar("PRAGMA user_version").fetch_one(&mut connection).await.unwrap();
    assert_eq!(version, 99);
}

#[tokio::test]
async fn a_database_of_another_program_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("photos.db");
    let options = SqliteConnectOptions::new().filename(&file).create_if_missing(true);
    let mut connection = options.connect().await.unwrap();
    sqlx::raw_sql("CREATE TABLE photos (id)").execute(&mut connection).await.unwrap();
    assert_eq!(refusal(&file).await.to_string(), "The store file belongs to another program.");
}

#[tokio::test]
async fn a_place_that_cannot_be_written_is_refused() {
    let error = refusal(Path::new("/proc/no/such/place/store.db")).await;
    assert_eq!(error.to_string(), "The store file cannot be opened.");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_processes_may_open_a_new_store_at_once() {
    // given
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("store.db");
    // when
    let mut opens = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let file = file.clone();
        opens.spawn(async move {
            let store = SqliteStore::open(&file).await.unwrap();
            store.append_audit(&[audit_row(TenantId::LOCAL, "note", json!({}))], Durability::Written).await.unwrap();
        });
    }
    opens.join_all().await;
    // then
    let store = SqliteStore::open(&file).await.unwrap();
    let rows = store.read_audit(TenantId::LOCAL, &AuditFilter { limit: 100, ..Default::default() }).await.unwrap();
    assert_eq!(verify_chain(rows, None).rows, 8);
}

#[tokio::test]
async fn the_log_refuses_to_be_changed_through_plain_sql() {
    let t = TestStore::sqlite().await;
    let tenant = some_tenant();
    t.store.append_audit(&[audit_row(tenant, "note", json!({}))], Durability::Written).await.unwrap();
    let mut file = SqliteConnectOptions::new().filename(t.sqlite_file()).connect().await.unwrap();
    for sql in ["UPDATE audit SET body = '{}'", "DELETE FROM audit"] {
        assert!(sqlx::raw_sql(sql).execute(&mut file).await.is_err(), "{sql}");
    }
    assert_eq!(t.all_audit(tenant).await.len(), 1);
}

const FILE: &str = "BRIDGE_TEST_APPEND_TO";

/// Not a test of its own: the process that the next test kills. It says the position of every append that returned.
#[tokio::test]
async fn appends_until_it_is_killed() {
    let Some(file) = std::env::var_os(FILE) else { return };
    let store = SqliteStore::open(Path::new(&file)).await.unwrap();
    for n in 0.. {
        let row = audit_row(TenantId::LOCAL, "note", json!({ "n": n }));
        let answers = store.append_audit(&[row], Durability::Written).await.unwrap();
        // Past the harness's capture, which only takes what `print!` writes.
        std::io::Write::write_all(&mut std::io::stderr(), format!("at {}\n", answers[0].position().seq).as_bytes())
            .unwrap();
    }
}

#[tokio::test]
async fn kill_nine_loses_no_row_whose_append_returned() {
    // given
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("store.db");
    for round in 1..=3 {
        // when: a process appends, and dies in the middle of it
        let mut writer = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "store_files::appends_until_it_is_killed", "--nocapture"])
            .env(FILE, &file)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(writer.stderr.take().unwrap()).lines().map_while(Result::ok);
        let mut last = 0;
        for line in said.by_ref().filter(|line| line.starts_with("at ")).take(200) {
            last = line[3..].parse().unwrap();
        }
        writer.kill().unwrap();
        // What it said before it died counts, too.
        for line in said.filter(|line| line.starts_with("at ")) {
            last = line[3..].parse().unwrap_or(last);
        }
        writer.wait().unwrap();
        // then
        let store = SqliteStore::open(&file).await.unwrap();
        let filter = AuditFilter { limit: 1_000_000, ..Default::default() };
        let report = verify_chain(store.read_audit(TenantId::LOCAL, &filter).await.unwrap(), None);
        assert_eq!(report.fault, None);
        assert!(last >= 200 && report.rows as i64 >= last, "round {round}: {} rows of {last}", report.rows);
        store.close().await;
    }
}
