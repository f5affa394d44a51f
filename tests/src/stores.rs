//! Both stores behind one face, so that one suite of tests runs on each.

use cyberos_plugin_host::model::{TenantId, ToolName, TraceId};
use cyberos_plugin_host::store::{
    AuditFilter, AuditRow, NewAuditRow, NewTask, PostgresStore, SqliteStore, Store, TaskId, TaskOwner,
};
use jiff::Timestamp;
use serde_json::{Value, json};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use uuid::Uuid;

use crate::postgres::{Database, Login};

/// Declares each named async function as a test on SQLite and on Postgres.
#[macro_export]
macro_rules! on_both_stores {
    ($($test:ident)*) => {
        mod sqlite { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() { super::$test($crate::stores::TestStore::sqlite().await).await }
        )* }
        mod postgres { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() { super::$test($crate::stores::TestStore::postgres().await).await }
        )* }
    };
}

/// An empty store of its own for one test.
pub struct TestStore {
    pub store: Arc<dyn Store>,
    pub at: Place,
}

pub enum Place {
    Sqlite(TempDir),
    Postgres(Box<Database>),
}

impl TestStore {
    pub async fn sqlite() -> Self {
        let directory = TempDir::with_prefix("bridge-store-").expect("a temporary directory");
        let store = SqliteStore::open(&directory.path().join("store.db")).await.expect("an empty store opens");
        TestStore { store: Arc::new(store), at: Place::Sqlite(directory) }
    }

    pub async fn postgres() -> Self {
        let database = Database::migrated().await;
        let store = PostgresStore::connect(&database.url(Login::Bridge), 6).await.expect("a migrated store opens");
        TestStore { store: Arc::new(store), at: Place::Postgres(Box::new(database)) }
    }

    pub fn sqlite_file(&self) -> PathBuf {
        match &self.at {
            Place::Sqlite(directory) => directory.path().join("store.db"),
            Place::Postgres(_) => panic!("this store is no file"),
        }
    }

    /// A second bridge on the same store, as another process or replica would open it.
    pub async fn another(&self) -> Arc<dyn Store> {
        match &self.at {
            Place::Sqlite(_) => Arc::new(SqliteStore::open(&self.sqlite_file()).await.expect("the store opens again")),
            Place::Postgres(database) => Arc::new(
                PostgresStore::connect(&database.url(Login::Bridge), 6).await.expect("the store connects again"),
            ),
        }
    }

    /// Change tables behind the bridge's back, as somebody could who owns the file or the database.
    pub async fn tamper(&self, sql: &str) {
        match &self.at {
            Place::Sqlite(_) => {
                let options = SqliteConnectOptions::new().filename(self.sqlite_file()).foreign_keys(false);
                let mut file = options.connect().await.expect("the file opens");
                let guards = "DROP TRIGGER IF EXISTS audit_keeps_rows; DROP TRIGGER IF EXISTS audit_keeps_text;
                              DROP TRIGGER IF EXISTS audit_continues; DROP TRIGGER IF EXISTS audit_moves_head;
                              DROP TRIGGER IF EXISTS audit_ships;";
                sqlx::raw_sql(guards).execute(&mut file).await.expect("the guards are only SQL");
                sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut file).await.expect("tampering works");
            }
            Place::Postgres(database) => {
                let mut admin = database.connect(Login::Admin).await;
                let sql = format!("SET search_path = plugin_host; {sql}");
                sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut admin).await.expect("tampering works");
            }
        }
    }

    pub async fn all_audit(&self, tenant: TenantId) -> Vec<AuditRow> {
        let filter = AuditFilter { limit: 100_000, ..AuditFilter::default() };
        self.store.read_audit(tenant, &filter).await.expect("the log can be read")
    }
}

pub fn some_tenant() -> TenantId {
    TenantId(Uuid::new_v4())
}

pub fn owner(tenant: TenantId, subject: &str) -> TaskOwner {
    TaskOwner { tenant, subject: subject.to_owned() }
}

pub fn some_task(owner: &TaskOwner) -> NewTask {
    let now = Timestamp::now();
    NewTask {
        id: TaskId::random(),
        owner: owner.clone(),
        tool: ToolName::parse("cyberos.cuo.execute_workflow").expect("a tool's name"),
        arguments: json!({ "persona": "chief", "inputs": { "n": 0.1 } }).as_object().expect("an object").clone(),
        call: json!({ "scopes": ["cyberos:cuo:execute"] }),
        trace_id: TraceId::random(),
        created_at: now,
        timeout_at: now + Duration::from_secs(600),
        ttl: Duration::from_secs(3600),
    }
}

pub fn audit_row(tenant: TenantId, kind: &str, body: Value) -> NewAuditRow {
    NewAuditRow {
        tenant,
        kind: kind.to_owned(),
        actor: "alice".to_owned(),
        body: body.into(),
        ts: Timestamp::now(),
        trace_id: TraceId::random().to_string(),
        idempotency_key: None,
        ship: false,
    }
}
