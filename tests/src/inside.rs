//! A bridge inside the test's own process, behind its real HTTP transport, for what cannot be done to a real one from
//! outside: a store that panics, or whose ids are always taken.

use async_trait::async_trait;
use clap::Parser;
use cyberos_plugin_host::app::{self, TaskHome};
use cyberos_plugin_host::config::SettingsArgs;
use cyberos_plugin_host::error::Result;
use cyberos_plugin_host::model::{LogLevel, Progress, TenantId};
use cyberos_plugin_host::store::{
    Appended, AuditFilter, AuditHead, AuditRow, CancelOutcome, Durability, Inserted, Letter, NewAuditRow, NewTask,
    OutboxRow, Post, SessionState, SqliteStore, Store, TaskEnd, TaskId, TaskOwner, TaskQuestion, TaskRow, TaskStatus,
    WorkerId,
};
use cyberos_plugin_host::transport::http::{HttpServer, HttpSettings, Origins};
use jiff::Timestamp;
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

#[derive(Parser)]
struct CommandLine {
    #[command(flatten)]
    settings: SettingsArgs,
}

/// Served until it is dropped.
pub struct Inside {
    pub address: SocketAddr,
    pub store: Arc<ShakyStore>,
    pub home: TempDir,
    stop: CancellationToken,
}

/// A bridge and its HTTP transport, without a listener.
pub struct Made {
    pub bridge: app::Bridge,
    pub server: HttpServer,
    pub store: Arc<ShakyStore>,
    pub home: TempDir,
}

impl Made {
    pub async fn with(flags: &[&str]) -> Made {
        let home = TempDir::with_prefix("bridge-inside-").expect("a temporary directory");
        let state = format!("--state-dir={}", home.path().display());
        let fixed = ["bridge", "--transport=http", "--auth=none", "--listen=127.0.0.1:0", &state];
        let line = CommandLine::parse_from(fixed.iter().chain(flags));
        let settings = app::settings(line.settings).expect("good settings");
        let telemetry = app::start_telemetry(&settings).expect("telemetry starts");
        let inner = SqliteStore::open(&home.path().join("bridge.db")).await.expect("an empty store opens");
        let store = Arc::new(ShakyStore { inner, panics: AtomicBool::new(false), taken: AtomicU32::new(0) });
        let bridge = app::Bridge::start_with(settings, telemetry, TaskHome::Here, store.clone()).await;
        let bridge = bridge.expect("the bridge starts");
        let (ready, shown, counted) =
            (store.clone(), bridge.telemetry.metrics.clone(), bridge.telemetry.metrics.clone());
        let server = HttpServer {
            protocol: bridge.protocol.clone(),
            identifier: bridge.identifier.clone(),
            settings: HttpSettings {
                policy: bridge.policy(true),
                origins: Origins::default(),
                max_body_bytes: 1 << 20,
                open_initialize: true,
                hold: None,
                drain: Duration::from_secs(1),
            },
            health: Arc::new(|| "ok\n".into()),
            ready: Arc::new(move || {
                let store = ready.clone();
                Box::pin(async move { store.ping().await })
            }),
            metrics: Arc::new(move || shown.render()),
            count: Arc::new(move |route, status| counted.http_request(route, status)),
            beside: axum::Router::new(),
        };
        Made { bridge, server, store, home }
    }
}

impl Inside {
    pub async fn start(flags: &[&str]) -> Inside {
        let Made { bridge, server, store, home } = Made::with(flags).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound port");
        let stop = CancellationToken::new();
        let stopping = stop.clone();
        tokio::spawn(async move {
            let _ = server.serve(listener, stopping).await;
            bridge.stop().await;
        });
        Inside { address, store, home, stop }
    }

    /// A JSON-RPC message and its answer, with its status.
    pub async fn send(&self, message: &Value) -> (u16, Value) {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        let request = client.post(format!("http://{}/mcp", self.address)).json(message);
        let answer = request.send().await.expect("an answer");
        let status = answer.status().as_u16();
        (status, answer.json().await.expect("JSON"))
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// A good store until a test shakes it.
pub struct ShakyStore {
    inner: SqliteStore,
    /// Reading a task panics.
    pub panics: AtomicBool,
    /// So many more task ids are taken.
    pub taken: AtomicU32,
}

#[async_trait]
impl Store for ShakyStore {
    async fn ping(&self) -> Result<()> {
        self.inner.ping().await
    }
    async fn insert_task(&self, task: &NewTask, most_open: u64) -> Result<Inserted> {
        let one_less = |taken: u32| taken.checked_sub(1);
        if self.taken.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok() {
            return Ok(Inserted::IdTaken);
        }
        self.inner.insert_task(task, most_open).await
    }
    async fn task(&self, owner: &TaskOwner, id: &TaskId) -> Result<Option<TaskRow>> {
        assert!(!self.panics.load(Ordering::SeqCst), "hunter2: a bug, with a secret in its message");
        self.inner.task(owner, id).await
    }
    async fn list_tasks(
        &self,
        owner: &TaskOwner,
        before: Option<(Timestamp, TaskId)>,
        limit: u32,
    ) -> Result<Vec<TaskRow>> {
        self.inner.list_tasks(owner, before, limit).await
    }
    async fn open_tasks(&self, tenant: TenantId) -> Result<u64> {
        self.inner.open_tasks(tenant).await
    }
    async fn claim_task(
        &self,
        tenant: TenantId,
        id: &TaskId,
        worker: &WorkerId,
        lease: Duration,
    ) -> Result<Option<TaskRow>> {
        self.inner.claim_task(tenant, id, worker, lease).await
    }
    async fn renew_task(
        &self,
        tenant: TenantId,
        id: &TaskId,
        worker: &WorkerId,
        lease: Duration,
        progress: Option<&Progress>,
    ) -> Result<Option<TaskStatus>> {
        self.inner.renew_task(tenant, id, worker, lease, progress).await
    }
    async fn set_input_required(
        &self,
        tenant: TenantId,
        id: &TaskId,
        worker: &WorkerId,
        question: &TaskQuestion,
    ) -> Result<Option<TaskStatus>> {
        self.inner.set_input_required(tenant, id, worker, question).await
    }
    async fn set_running(
        &self,
        tenant: TenantId,
        id: &TaskId,
        worker: &WorkerId,
        timeout_at: Timestamp,
        call: Option<&Value>,
    ) -> Result<Option<TaskStatus>> {
        self.inner.set_running(tenant, id, worker, timeout_at, call).await
    }
    async fn answer_task(&self, owner: &TaskOwner, id: &TaskId, question_id: &str, answer: &Value) -> Result<bool> {
        self.inner.answer_task(owner, id, question_id, answer).await
    }
    async fn finish_task(
        &self,
        tenant: TenantId,
        id: &TaskId,
        worker: Option<&WorkerId>,
        end: &TaskEnd,
    ) -> Result<bool> {
        self.inner.finish_task(tenant, id, worker, end).await
    }
    async fn cancel_task(&self, owner: &TaskOwner, id: &TaskId) -> Result<CancelOutcome> {
        self.inner.cancel_task(owner, id).await
    }
    async fn abandoned_tasks(&self, grace: Duration) -> Result<Vec<(TenantId, TaskId)>> {
        self.inner.abandoned_tasks(grace).await
    }
    async fn prune_tasks(&self) -> Result<u64> {
        self.inner.prune_tasks().await
    }
    async fn task_changed(&self, tenant: TenantId, id: &TaskId, seen: Timestamp, patience: Duration) {
        self.inner.task_changed(tenant, id, seen, patience).await
    }
    async fn append_audit(&self, rows: &[NewAuditRow], durability: Durability) -> Result<Vec<Appended>> {
        self.inner.append_audit(rows, durability).await
    }
    async fn read_audit(&self, tenant: TenantId, filter: &AuditFilter) -> Result<Vec<AuditRow>> {
        self.inner.read_audit(tenant, filter).await
    }
    async fn audit_head(&self, tenant: TenantId) -> Result<Option<AuditHead>> {
        self.inner.audit_head(tenant).await
    }
    async fn audit_by_key(&self, tenant: TenantId, idempotency_key: &str) -> Result<Option<AuditRow>> {
        self.inner.audit_by_key(tenant, idempotency_key).await
    }
    async fn claim_outbox(&self, limit: u32, hold: Duration) -> Result<Vec<OutboxRow>> {
        self.inner.claim_outbox(limit, hold).await
    }
    async fn ack_outbox(&self, tenant: TenantId, seq: i64) -> Result<()> {
        self.inner.ack_outbox(tenant, seq).await
    }
    async fn retry_outbox(&self, tenant: TenantId, seq: i64, next: Option<Timestamp>, error: &str) -> Result<()> {
        self.inner.retry_outbox(tenant, seq, next, error).await
    }
    async fn outbox_depth(&self) -> Result<(u64, u64)> {
        self.inner.outbox_depth().await
    }
    async fn session_state(&self, tenant: TenantId, session: Uuid) -> Result<Option<SessionState>> {
        self.inner.session_state(tenant, session).await
    }
    async fn end_session(&self, tenant: TenantId, session: Uuid, expires_at: Timestamp) -> Result<()> {
        self.inner.end_session(tenant, session, expires_at).await
    }
    async fn set_log_level(
        &self,
        tenant: TenantId,
        session: Uuid,
        level: LogLevel,
        expires_at: Timestamp,
    ) -> Result<()> {
        self.inner.set_log_level(tenant, session, level, expires_at).await
    }
    async fn subscribe(&self, tenant: TenantId, session: Uuid, uri: &str, expires_at: Timestamp) -> Result<()> {
        self.inner.subscribe(tenant, session, uri, expires_at).await
    }
    async fn unsubscribe(&self, tenant: TenantId, session: Uuid, uri: &str) -> Result<()> {
        self.inner.unsubscribe(tenant, session, uri).await
    }
    fn replicas(&self) -> bool {
        self.inner.replicas()
    }
    async fn shared_clock_us(&self) -> Result<i64> {
        self.inner.shared_clock_us().await
    }
    async fn send_letter(&self, letter: &Letter) -> Result<()> {
        self.inner.send_letter(letter).await
    }
    fn letters(&self, me: &str) -> mpsc::Receiver<Post> {
        self.inner.letters(me)
    }
    async fn use_once(&self, tenant: TenantId, key: &str, expires_at: Timestamp) -> Result<bool> {
        self.inner.use_once(tenant, key, expires_at).await
    }
    async fn close(&self) {
        self.inner.close().await
    }
}
