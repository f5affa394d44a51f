//! A bridge with one plugin and nothing around it: the real runtime, the real pipeline, a store of its own that is gone
//! with it. What its calls reach outside is scripted.

use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value};
use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::backdrop::Backdrop;
use super::script::Script;
use super::stand_in::StandIn;
use crate::auth::{Caller, Clock, Confirmations, Confirming};
use crate::broker::{
    AuditLog, Broker, BrokerParts, Catalog, ConfirmationPolicy, Limits, Observer, Reply, Spent, TaskLauncher,
    TaskSettings, Tasks,
};
use crate::config::Grants;
use crate::error::{Error, PublicError, Reason};
use crate::model::{CallContext, ClientPort, PluginId, ProgressSink, TenantId, ToolCall, ToolResult, Trace, TraceId};
use crate::runtime::Plugin;
use crate::store::{Store, TaskId, TaskOwner};
use crate::telemetry::Telemetry;
use crate::upstreams::cuo::Cuo;

/// `params._meta` key of a confirmation token (design section 6).
const CONFIRMATION_KEY: &str = "cyberos/confirmation_token";

/// Whoever has an answer gives it at once.
const ASK_TIMEOUT: Duration = Duration::from_secs(2);

pub struct Stage {
    plugin: Arc<Plugin>,
    broker: Broker,
    tasks: Arc<Tasks>,
    store: Arc<dyn Store>,
    script: Arc<Script>,
    spent: Arc<Mutex<HashMap<TraceId, Spent>>>,
    confirmations: Confirmations,
    audit: AuditLog,
    telemetry: Telemetry,
    /// The store's and the catalogue's; gone with the stage.
    _place: TempDir,
}

/// One call to make.
pub struct Play {
    pub tool: String,
    pub arguments: Map<String, Value>,
    /// A person agreed to it.
    pub confirm: bool,
    /// `None`: all.
    pub scopes: Option<BTreeSet<String>>,
    pub script: Script,
    pub client: StandIn,
}

/// What became of it.
pub struct Played {
    pub outcome: Result<ToolResult, Failure>,
    /// `None`: the guest did not run.
    pub spent: Option<Spent>,
    /// What went against the script.
    pub complaints: Vec<String>,
}

/// An error as a client gets it, and what the log says beside it.
#[derive(Clone, Debug)]
pub struct Failure {
    pub public: PublicError,
    pub detail: Option<String>,
}

impl Stage {
    /// `compiled`: where compiled components are kept; `None` compiles anew. The plugin never rests. Errors: it is refused,
    /// in the words of a bridge that would not serve it.
    pub async fn set(id: &PluginId, wasm: &[u8], grants: Grants, compiled: Option<&Path>) -> anyhow::Result<Stage> {
        let Backdrop { place, telemetry, store, script, runtime } = Backdrop::new(grants.cuo, compiled).await?;
        let limits = crate::config::Limits { failures_in_a_row: 0, ..grants.limits.clone() };
        let plugin = Arc::new(Plugin::load(&runtime, id.clone(), wasm, Grants { limits, ..grants }).await?);
        let catalog = Arc::new(Catalog::default());
        if let Some(rejected) = catalog.replace(vec![plugin.clone()]).pop() {
            return Err(rejected.into());
        }
        let audit = AuditLog::start(store.clone(), None, telemetry.metrics.clone(), None);
        let spent = Arc::new(Mutex::new(HashMap::new()));
        let meter = spent.clone();
        let observer = Arc::new(Observer {
            metrics: telemetry.metrics.clone(),
            tracer: telemetry.tracer.clone(),
            meter: Some(Arc::new(move |trace, spent| {
                lock(&meter).insert(*trace, spent);
            })),
        });
        let settings = TaskSettings { ask_timeout: ASK_TIMEOUT, ..TaskSettings::default() };
        let launcher = TaskLauncher::InProcess;
        let tasks = Tasks::new(store.clone(), catalog.clone(), audit.clone(), observer.clone(), settings, launcher);
        let key = SecretString::from(format!("{}{}", Uuid::new_v4(), Uuid::new_v4()));
        let tokens = || Confirmations::with_key(&key, Clock::system());
        let broker = Broker::new(BrokerParts {
            catalog,
            audit: audit.clone(),
            limits: Limits::none(),
            confirmation: ConfirmationPolicy { tokens: tokens()?, store: store.clone() },
            tasks: tasks.clone(),
            observer,
        });
        let confirmations = tokens()?;
        Ok(Stage { plugin, broker, tasks, store, script, spent, confirmations, audit, telemetry, _place: place })
    }

    pub fn plugin(&self) -> &Arc<Plugin> {
        &self.plugin
    }

    /// Make one call, as a caller of whom nothing is known yet: each call has a tenant of its own. One at a time.
    pub async fn play(&mut self, play: Play) -> Played {
        let owner = TaskOwner { tenant: TenantId(Uuid::new_v4()), subject: "case".into() };
        let caller = Caller::of_task(&owner, play.scopes);
        let trace = Trace::start();
        self.script.start(play.script);
        let stand_in = Arc::new(play.client);
        let client = ClientPort::new(stand_in.clone());
        let mut meta = Map::new();
        if play.confirm {
            meta.insert(CONFIRMATION_KEY.into(), self.confirmation(&caller, &play.tool, &play.arguments).into());
        }
        let call = ToolCall {
            name: play.tool,
            arguments: play.arguments,
            meta,
            task: None,
            context: CallContext {
                trace,
                request_id: None,
                cancel: CancellationToken::new(),
                progress: ProgressSink::none(),
                client: client.clone(),
                host_may_confirm: false,
            },
        };
        let outcome = match self.broker.call_tool(&caller, call).await {
            Ok(Reply::Result(result)) => Ok(result),
            Ok(Reply::Task(row)) => self.follow(&owner, &row.id, &client, &trace).await,
            Err(error) => Err(Failure::of(&error, &trace.id)),
        };
        let mut complaints = self.script.end();
        complaints.extend(stand_in.complaints());
        Played { outcome, spent: lock(&self.spent).remove(&trace.id), complaints }
    }

    fn confirmation(&self, caller: &Caller, tool: &str, arguments: &Map<String, Value>) -> String {
        let entry = self.broker.catalog().find(tool);
        let Some(entry) = entry else { return String::new() };
        let call = Confirming { tenant: caller.tenant(), subject: caller.subject(), tool: &entry.tool.name, arguments };
        self.confirmations.sign(&call).expose_secret().to_owned()
    }

    /// A long-running call: its end counts, not its handle. What it asks meanwhile is asked of the case's client.
    async fn follow(
        &self,
        owner: &TaskOwner,
        id: &TaskId,
        client: &ClientPort,
        trace: &Trace,
    ) -> Result<ToolResult, Failure> {
        let ended = self.tasks.wait(owner, id.as_str(), &CancellationToken::new(), client).await;
        let row = ended.map_err(|error| Failure::of(&error, &trace.id))?;
        match (row.output, row.error) {
            (Some(result), _) => Ok(result),
            (None, Some(public)) => Err(Failure { public, detail: None }),
            (None, None) => Err(Failure::of(&Error::new(Reason::Cancelled, "The task was cancelled."), &trace.id)),
        }
    }

    pub async fn clear(self) {
        self.tasks.stop();
        self.tasks.settle(Duration::from_secs(1)).await;
        if self.plugin.grants().cuo {
            Cuo::settle().await;
        }
        self.audit.settle(Duration::from_secs(1)).await;
        self.store.close().await;
        self.telemetry.shutdown(Duration::from_secs(1)).await;
    }
}

impl Failure {
    pub(super) fn of(error: &Error, trace: &TraceId) -> Failure {
        Failure { public: error.public_view(trace), detail: error.log_detail().map(str::to_owned) }
    }

    /// `class/reason`.
    pub fn name(&self) -> String {
        format!("{}/{}", self.public.reason().class().as_str(), self.public.reason().as_str())
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
