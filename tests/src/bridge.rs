//! A running bridge: the real binary as its clients and its operator see it.

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::{Map, Value};
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::Child;
use tokio::sync::{Mutex as AsyncMutex, Notify};
use uuid::Uuid;

use cyberos_plugin_host::auth::{Clock, Confirmations, Confirming};
use cyberos_plugin_host::model::{TenantId, ToolName};
use cyberos_plugin_host::store::verify::ChainCheck;
use cyberos_plugin_host::store::{AuditFilter, AuditRow, PostgresStore, SqliteStore, Store};
use secrecy::ExposeSecret;

use crate::caller::{Caller, local_tenant};
use crate::postgres::Login;
use crate::setup::{Setup, Transport};
use crate::stdio::{PATIENCE, Stdio};

/// Declares each named async function, which takes a [`Setup`], as a test over stdio and over HTTP.
#[macro_export]
macro_rules! on_both_transports {
    ($($test:ident)*) => {
        mod stdio { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() { super::$test($crate::bridge::Bridge::stdio()).await }
        )* }
        mod http { $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() { super::$test($crate::bridge::Bridge::http()).await }
        )* }
    };
}

pub struct Bridge {
    pub setup: Setup,
    pub pid: Pid,
    child: AsyncMutex<Child>,
    stderr: Stderr,
    stdio: Option<Stdio>,
    address: Option<SocketAddr>,
    client: reqwest::Client,
    next_id: AtomicI64,
}

#[derive(Clone, Default)]
struct Stderr(Arc<(Mutex<Vec<String>>, Notify)>);

/// An HTTP answer whatever it holds.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub text: String,
}

impl Bridge {
    /// Over stdio: the local principal, who may do everything.
    pub fn stdio() -> Setup {
        Setup::new(Transport::Stdio)
    }

    /// Over HTTP with bearer tokens, on a free port.
    pub fn http() -> Setup {
        Setup::new(Transport::Http)
    }

    /// Somebody with every scope, in tenant A unless said otherwise. Over stdio identity comes with the process, so
    /// there the name is only a name.
    pub fn caller(&self, name: &str) -> Caller<'_> {
        Caller::new(self, name)
    }

    pub(crate) fn next_id(&self) -> i64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    pub fn line(&self) -> &Stdio {
        self.stdio.as_ref().expect("this bridge is served over HTTP")
    }

    pub fn is_stdio(&self) -> bool {
        self.stdio.is_some()
    }

    pub fn address(&self) -> SocketAddr {
        self.address.expect("this bridge is served over stdio")
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address())
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[], vec![]).await
    }

    /// Any HTTP request. Bodies are JSON unless a header says otherwise.
    pub async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: Vec<u8>) -> Answer {
        let response = self.open(method, &self.url(path), headers, body).await;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Answer { status, headers, text: response.text().await.expect("a whole answer") }
    }

    /// The same at any address, whose body may go on for long.
    pub async fn open(&self, method: &str, url: &str, headers: &[(&str, &str)], body: Vec<u8>) -> reqwest::Response {
        let method = reqwest::Method::from_bytes(method.as_bytes()).expect("a method");
        let mut all = HeaderMap::new();
        if !body.is_empty() {
            all.insert("content-type", HeaderValue::from_static("application/json"));
        }
        for (name, value) in headers {
            let name = HeaderName::from_bytes(name.as_bytes()).expect("a header's name");
            all.insert(name, HeaderValue::from_str(value).expect("a header's value"));
        }
        let request = self.client.request(method, url).headers(all).body(body);
        request.send().await.expect("the bridge answers")
    }

    /// Bytes on a connection of their own, and what comes back until the bridge closes it.
    pub async fn raw(&self, bytes: &[u8]) -> String {
        let mut socket = TcpStream::connect(self.address()).await.expect("the bridge accepts");
        // It may answer and close before it has read everything.
        let _ = socket.write_all(bytes).await;
        let mut answer = Vec::new();
        let _ = tokio::time::timeout(PATIENCE, socket.read_to_end(&mut answer)).await.expect("an answer in time");
        String::from_utf8_lossy(&answer).into_owned()
    }

    pub fn log(&self) -> String {
        self.stderr.0.0.lock().unwrap().join("\n")
    }

    /// The first line of the log that holds this text, as soon as there is one.
    pub async fn logged(&self, text: &str) -> String {
        self.stderr.find(text).await.unwrap_or_else(|| panic!("{text:?} is not logged:\n{}", self.log()))
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid, signal).expect("the bridge runs");
    }

    /// The exit status, which must come within this time.
    pub async fn exit_within(&self, time: Duration) -> ExitStatus {
        let mut child = self.child.lock().await;
        match tokio::time::timeout(time, child.wait()).await {
            Ok(status) => status.expect("a child can be waited for"),
            Err(_) => panic!("the bridge still runs after {time:?}; it logged:\n{}", self.log()),
        }
    }

    /// SIGKILL, as the kernel does it when memory is short.
    pub async fn kill(&self) {
        self.signal(Signal::KILL);
        self.exit_within(PATIENCE).await;
    }

    /// A line of `/proc/<pid>/status` in KiB, such as `VmRSS` or `VmHWM`.
    pub fn memory_kib(&self, line: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid.as_raw_nonzero())).expect("it runs");
        let found = status.lines().find_map(|l| l.strip_prefix(line)?.strip_prefix(':')).expect("a known line");
        found.trim().trim_end_matches(" kB").parse().expect("a number of KiB")
    }

    /// The bridge's own store, opened beside it as another process would.
    pub async fn store(&self) -> Arc<dyn Store> {
        open_store(&self.setup).await
    }

    /// Every audit row of a tenant but those about the plugins themselves; the chain must be whole.
    pub async fn audit(&self, tenant: &str) -> Vec<AuditRow> {
        audit(&self.setup, tenant).await
    }

    /// The rows about the plugins themselves: what was loaded, swapped, refused.
    pub async fn plugin_audit(&self) -> Vec<AuditRow> {
        let mut rows = whole_audit(&self.setup, local_tenant()).await;
        rows.retain(is_about_plugins);
        rows
    }

    /// A person agrees to exactly this call.
    pub fn confirmation(&self, caller: &Caller<'_>, tool: &str, arguments: &Map<String, Value>) -> String {
        let state = self.setup.state_dir();
        let signer = Confirmations::open_or_create(&state, Clock::system()).expect("the bridge's key");
        let tool = ToolName::parse(tool).expect("a tool's name");
        let (tenant, subject) = caller.identity();
        let token = signer.sign(&Confirming { tenant: tenant_id(tenant), subject, tool: &tool, arguments });
        token.expose_secret().to_owned()
    }
}

pub fn tenant_id(text: &str) -> TenantId {
    TenantId(Uuid::parse_str(text).expect("a tenant is a UUID"))
}

pub async fn open_store(setup: &Setup) -> Arc<dyn Store> {
    match &setup.database {
        Some(database) => {
            let store = PostgresStore::connect(&database.url(Login::Bridge), 2).await;
            Arc::new(store.expect("the database answers"))
        }
        None => Arc::new(SqliteStore::open(&setup.state_dir().join("bridge.db")).await.expect("the store opens")),
    }
}

pub async fn audit(setup: &Setup, tenant: &str) -> Vec<AuditRow> {
    let mut rows = whole_audit(setup, tenant).await;
    rows.retain(|row| !is_about_plugins(row));
    rows
}

fn is_about_plugins(row: &AuditRow) -> bool {
    row.kind.starts_with("plugin.") && row.kind != "plugin.invoked"
}

async fn whole_audit(setup: &Setup, tenant: &str) -> Vec<AuditRow> {
    let store = open_store(setup).await;
    let filter = AuditFilter { limit: 100_000, ..AuditFilter::default() };
    let rows = store.read_audit(tenant_id(tenant), &filter).await.expect("the log can be read");
    store.close().await;
    let mut check = ChainCheck::new(None);
    rows.iter().all(|row| check.row(row));
    let report = check.finish();
    assert_eq!(report.fault, None, "the chain is broken");
    rows
}

/// HTTP clients of this process need to know whose cryptography they use.
pub fn with_tls() {
    static TLS: Once = Once::new();
    TLS.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
}

impl Setup {
    /// Start it. Over HTTP this returns when it listens; over stdio at once, as a client sees it.
    pub async fn start(&self) -> Bridge {
        with_tls();
        let mut child = self.command().spawn().expect("the bridge starts");
        let pid = Pid::from_raw(child.id().expect("it runs") as i32).expect("a process id");
        let stderr = Stderr::default();
        tokio::spawn(stderr.clone().collect(child.stderr.take().expect("piped")));
        let (stdin, stdout) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        let stdio = (self.transport == Transport::Stdio).then(|| Stdio::new(stdin, stdout));
        let mut bridge = Bridge {
            setup: self.clone(),
            pid,
            child: AsyncMutex::new(child),
            stderr,
            stdio,
            address: None,
            client: client(),
            next_id: AtomicI64::new(1),
        };
        if self.transport == Transport::Http {
            let line = bridge.logged("listening on http://").await;
            let address = line.split("http://").nth(1).and_then(|rest| rest.split('/').next());
            bridge.address = Some(address.and_then(|a| a.parse().ok()).expect("an address in the line"));
        }
        bridge
    }

    /// Start it with settings that must stop it; what it says.
    pub async fn refuses_to_start(&self) -> String {
        let child = self.command().stdin(std::process::Stdio::null()).spawn().expect("the bridge starts");
        let output = tokio::time::timeout(PATIENCE, child.wait_with_output()).await.expect("it ends");
        let output = output.expect("a child can be waited for");
        assert!(!output.status.success(), "it started");
        assert!(output.stdout.is_empty(), "stdout carries messages only");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        // Once it has been waited for, its number may be somebody else's.
        if self.child.get_mut().id().is_some() {
            let _ = kill_process_group(self.pid, Signal::KILL);
        }
        if std::thread::panicking() {
            eprintln!("--- the bridge logged:\n{}\n---", self.log());
            print_file(&self.setup.state_dir().join("task-workers.log"));
        }
    }
}

/// Sees what is sent, redirects included.
fn client() -> reqwest::Client {
    let client = reqwest::Client::builder().no_proxy().tcp_nodelay(true).redirect(reqwest::redirect::Policy::none());
    client.build().expect("a client")
}

fn print_file(path: &Path) {
    if let Ok(text) = std::fs::read_to_string(path) {
        eprintln!("--- its task workers logged:\n{text}\n---");
    }
}

impl Stderr {
    async fn collect(self, stderr: tokio::process::ChildStderr) {
        let mut lines = BufReader::new(stderr).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            self.0.0.lock().unwrap().push(line);
            self.0.1.notify_waiters();
        }
        self.0.0.lock().unwrap().push("(end of the log)".into());
        self.0.1.notify_waiters();
    }

    /// `None` when the log ends, or patience does, without it.
    async fn find(&self, text: &str) -> Option<String> {
        let looking = async {
            loop {
                let changed = self.0.1.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                {
                    let lines = self.0.0.lock().unwrap();
                    if let Some(line) = lines.iter().find(|line| line.contains(text)) {
                        return Some(line.clone());
                    }
                    if lines.last().is_some_and(|line| line == "(end of the log)") {
                        return None;
                    }
                }
                changed.await;
            }
        };
        tokio::time::timeout(PATIENCE, looking).await.ok().flatten()
    }
}
