//! Putting it together: from settings to a bridge that can serve. The only module that knows all the others.

use anyhow::Context;
use secrecy::SecretString;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

use crate::auth::{
    AuthMode, AuthSettings, Clock, Confirmations, Identifier, Issuer, IssuerSettings, KeySource, ProtectedResource,
    StdioToken,
};
use crate::broker::{
    AuditLog, Broker, BrokerParts, Catalog, ConfirmationPolicy, Detach, Limits, Observer, TaskLauncher, TaskSettings,
    Tasks,
};
use crate::config::{
    AuthArg, BadSetting, CuoArg, DirectoryGrant, Grants, LogFormatArg, PagemapScanArg, Settings, SettingsArgs,
    StoreSettings, ToolNamesArg, TransportArg,
};
use crate::plugins::{Charge, PluginSet, SetParts};
use crate::protocol::{ClientSettings, Clients, PeerPolicy, Protocol, ServerInfo, Updates};
use crate::runtime::{Code, Embedded, Plugin, Rejected, Runtime, Services};
use crate::store::{PostgresStore, SqliteStore, Store};
use crate::telemetry::Metrics;
use crate::telemetry::{LogFormat, Telemetry, TelemetrySettings, logs};
use crate::transport::audit_rest;
use crate::transport::http::{Metadata, metadata_routes};
use crate::upstreams::cuo::{Cuo, CuoCommand, CuoSettings, starter};
use crate::upstreams::http::HttpUpstreams;
use crate::upstreams::memory::Memory;

pub const NAME: &str = "cyberos-mcp-bridge";
pub const TITLE: &str = "CyberOS MCP bridge";
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A bridge, ready to be put behind a transport.
pub struct Bridge {
    pub settings: Settings,
    pub store: Arc<dyn Store>,
    pub catalog: Arc<Catalog>,
    pub broker: Arc<Broker>,
    pub tasks: Arc<Tasks>,
    pub protocol: Arc<Protocol>,
    pub identifier: Arc<Identifier>,
    pub audit: AuditLog,
    pub telemetry: Telemetry,
    pub plugins: Arc<PluginSet>,
    stop: CancellationToken,
}

/// Where this process runs its tasks.
pub enum TaskHome {
    /// Here: a server, or a worker.
    Here,
    /// In a process of their own, started with these arguments.
    Detached(Vec<String>),
}

impl Bridge {
    pub async fn start(settings: Settings, telemetry: Telemetry, home: TaskHome) -> anyhow::Result<Bridge> {
        let store = open_store(&settings).await?;
        Self::start_with(settings, telemetry, home, store).await
    }

    /// With a store that is already open.
    pub async fn start_with(
        settings: Settings,
        telemetry: Telemetry,
        home: TaskHome,
        store: Arc<dyn Store>,
    ) -> anyhow::Result<Bridge> {
        let stop = CancellationToken::new();
        let updates = Arc::new(Updates::default());
        let services = services(&settings, store.clone(), telemetry.metrics.clone(), updates.clone(), &stop)?;
        let skills = skills_directory(&settings.args, &settings.state_dir);
        let (cuo, memory) = (services.cuo.clone(), services.memory.clone());
        let scan = settings.args.pagemap_scan == PagemapScanArg::Auto;
        let runtime = Runtime::new(services, Some(&settings.state_dir.join("compiled")), scan)
            .map_err(|e| anyhow::anyhow!("the sandbox cannot start: {e:#}"))?;
        let catalog = Arc::new(Catalog::default());
        let parts = SetParts {
            built_in: built_in(&runtime, &skills).await,
            catalog: catalog.clone(),
            metrics: telemetry.metrics.clone(),
            runtime,
        };
        let plugins = PluginSet::open(parts, &settings).await?;
        // Unpacked and read before anybody asks, but nobody waits for it.
        if let Some(cuo) = cuo {
            tokio::spawn(async move {
                cuo.catalogue().await;
                if let Err(error) = cuo.root().await {
                    tracing::error!(%error, detail = error.detail(), "the skills cannot be put where their tools look for them");
                }
            });
        }
        if memory.is_remote() {
            telemetry.metrics.watch_outbox(outbox_depth(store.clone(), stop.clone()));
        }
        let shipped =
            memory.is_remote().then(|| Arc::new(move || memory.outbox_filled()) as Arc<dyn Fn() + Send + Sync>);
        let audit = match settings.audit {
            true => AuditLog::start(
                store.clone(),
                Some(settings.state_dir.join("spool")),
                telemetry.metrics.clone(),
                shipped,
            ),
            false => AuditLog::off(),
        };
        let observer =
            Arc::new(Observer { metrics: telemetry.metrics.clone(), tracer: telemetry.tracer.clone(), meter: None });
        let task_settings = TaskSettings {
            default_timeout: Duration::from_secs(settings.args.task_timeout_seconds),
            ttl: Duration::from_secs(settings.args.task_ttl_seconds),
            max_open: settings.args.max_open_tasks,
            lease: Duration::from_secs(settings.args.task_lease_seconds),
            ask_timeout: Duration::from_secs(settings.args.ask_timeout_seconds),
        };
        let launcher = match home {
            TaskHome::Here => TaskLauncher::InProcess,
            TaskHome::Detached(arguments) => TaskLauncher::Detached(Detach {
                program: own_path()?,
                arguments,
                environment: settings
                    .args
                    .database_url
                    .iter()
                    .map(|url| ("CYBEROS_DATABASE_URL", SecretString::from(url.as_str())))
                    .collect(),
                log: settings.state_dir.join("task-workers.log"),
            }),
        };
        let tasks =
            Tasks::new(store.clone(), catalog.clone(), audit.clone(), observer.clone(), task_settings, launcher);
        let tokens = confirmations(&settings)?;
        let session_ids = tokens.session_ids(Duration::from_secs(settings.args.session_hours * 3600));
        let broker = Arc::new(Broker::new(BrokerParts {
            catalog: catalog.clone(),
            audit: audit.clone(),
            limits: limits(&settings),
            confirmation: ConfirmationPolicy { tokens, store: store.clone() },
            tasks: tasks.clone(),
            observer,
        }));
        let ask_timeout = Duration::from_secs(settings.args.ask_timeout_seconds);
        let clients = Clients::new(session_ids, broker.clone(), store.clone(), ClientSettings { ask_timeout });
        updates.reach(&clients);
        tokio::spawn(clients.clone().read_letters());
        let protocol = Arc::new(Protocol::new(broker.clone(), clients, server_info()));
        let identifier = Arc::new(Identifier::new(&auth_settings(&settings)?, Clock::system())?);
        Ok(Bridge { settings, store, catalog, broker, tasks, protocol, identifier, audit, telemetry, plugins, stop })
    }

    pub fn policy(&self, over_http: bool) -> PeerPolicy {
        PeerPolicy {
            host_may_confirm: self.settings.host_may_confirm,
            // Over HTTP without tokens everybody is the same local user, and could list what others started.
            may_list_tasks: !over_http || self.settings.args.auth == AuthArg::Bearer,
            underscore_names: match self.settings.args.tool_names {
                ToolNamesArg::Auto => None,
                ToolNamesArg::Dotted => Some(false),
                ToolNamesArg::Underscore => Some(true),
            },
        }
    }

    /// The audit log's REST contract, where the log is ours to serve.
    pub fn rest_routes(&self) -> axum::Router {
        match self.settings.args.memory_endpoint {
            None => audit_rest::router(self.store.clone(), self.identifier.clone()),
            Some(_) => axum::Router::new(),
        }
    }

    /// What OAuth clients have to know of us, when callers need tokens and our address is known. From now on tokens for
    /// that address are accepted and challenges point to the metadata.
    pub fn metadata_routes(&self, listener: std::net::SocketAddr) -> axum::Router {
        if self.settings.args.auth == AuthArg::None {
            return axum::Router::new();
        }
        let resource = match &self.settings.public_url {
            Some(url) => Some(ProtectedResource::public(url)),
            // Clients come by another name, through a proxy that ends TLS or not: ours to guess it is not.
            None if !self.settings.args.allowed_host.is_empty() => None,
            None => ProtectedResource::local(listener, "/mcp"),
        };
        let Some(resource) = resource else {
            tracing::warn!("clients cannot find out where to get a token: set --public-url to the address they use");
            return axum::Router::new();
        };
        let catalog = self.catalog.clone();
        let scopes: crate::auth::Scopes = Arc::new(move || catalog.scopes());
        self.identifier.protects(resource.clone(), scopes.clone());
        let named = self.settings.args.issuer.iter().filter_map(|text| text.split_once('=').map(|(issuer, _)| issuer));
        let reachable = |issuer: &&str| url::Url::parse(issuer).is_ok_and(|u| matches!(u.scheme(), "http" | "https"));
        let issuers = named.filter(reachable).map(str::to_owned).collect();
        metadata_routes(Metadata { resource, name: TITLE, issuers, scopes })
    }

    /// Look for abandoned tasks, now and regularly.
    pub async fn keep_house(&self) -> anyhow::Result<()> {
        self.tasks.recover().await?;
        tokio::spawn(self.tasks.clone().housekeeping());
        Ok(())
    }

    /// This bridge serves its plugins: what became of them is written down, and from now on they are watched. Before the
    /// first client is served. Commands and task workers leave this out: they serve the same versions and write nothing.
    pub async fn take_charge_of_plugins(&self) {
        let clients = self.protocol.clients().clone();
        let charge = Charge {
            audit: self.audit.clone(),
            lists_changed: Box::new(move |before, now| clients.lists_changed(before, now)),
        };
        if self.plugins.take_charge(charge, self.stop.clone()).await {
            self.protocol.announce_changes();
        }
    }

    /// Stop what runs here and write what is still to be written.
    pub async fn stop(self) {
        self.tasks.stop();
        self.stop.cancel();
        self.tasks.settle(Duration::from_secs(2)).await;
        Cuo::settle().await;
        self.audit.settle(Duration::from_secs(2)).await;
        self.store.close().await;
        self.telemetry.shutdown(Duration::from_secs(2)).await;
    }
}

/// Looked up now and then, so that a scrape never waits for the store.
fn outbox_depth(store: Arc<dyn Store>, stop: CancellationToken) -> impl Fn() -> u64 + Send + Sync + 'static {
    let depth = Arc::new(AtomicU64::new(0));
    let shown = depth.clone();
    tokio::spawn(async move {
        loop {
            if let Ok((waiting, _)) = store.outbox_depth().await {
                depth.store(waiting, Ordering::Relaxed);
            }
            tokio::select! {
                () = tokio::time::sleep(Duration::from_secs(10)) => {}
                () = stop.cancelled() => return,
            }
        }
    });
    move || shown.load(Ordering::Relaxed)
}

fn server_info() -> ServerInfo {
    ServerInfo {
        name: NAME,
        title: TITLE,
        version: VERSION,
        instructions: "Tools of CyberOS: ask `cyberos.cuo.route` which persona and workflow fit a request, run it with \
            `cyberos.cuo.execute_workflow` and follow the returned task with tasks/get until it has ended; while it is \
            input_required, tasks/result asks the user. Destructive tools need the user's confirmation. Every call is recorded in the tenant's audit log."
            .into(),
    }
}

/// A stdio bridge serves one caller, who started it.
fn limits(settings: &Settings) -> Limits {
    let args = &settings.args;
    match args.transport {
        TransportArg::Stdio => Limits::none(),
        TransportArg::Http => {
            Limits::new(args.rate_limit_user, args.rate_limit_tenant, args.rate_limit_tool, Instant::now())
        }
    }
}

pub async fn open_store(settings: &Settings) -> anyhow::Result<Arc<dyn Store>> {
    Ok(match &settings.store {
        StoreSettings::Sqlite(path) => Arc::new(SqliteStore::open(path).await.map_err(operator)?),
        StoreSettings::Postgres(url) => {
            Arc::new(PostgresStore::connect(url, settings.args.database_connections).await.map_err(operator)?)
        }
    })
}

/// Our errors keep what the operator needs in a part that callers never see; the operator may.
pub fn operator(error: crate::error::Error) -> anyhow::Error {
    match error.log_detail() {
        Some(detail) => anyhow::anyhow!("{error} {} ({detail})", error.hint_text()),
        None => anyhow::anyhow!("{error} {}", error.hint_text()),
    }
}

pub fn confirmations(settings: &Settings) -> anyhow::Result<Confirmations> {
    Ok(match &settings.args.confirm_key_file {
        Some(path) => {
            let key = std::fs::read_to_string(path)
                .map_err(|e| BadSetting::new(format!("--confirm-key-file: {}: {e}", path.display())))?;
            Confirmations::with_key(&SecretString::from(key), Clock::system())?
        }
        None => Confirmations::open_or_create(&settings.state_dir, Clock::system())?,
    })
}

pub fn auth_settings(settings: &Settings) -> anyhow::Result<AuthSettings> {
    let args = &settings.args;
    Ok(AuthSettings {
        mode: match args.auth {
            AuthArg::Bearer => AuthMode::Bearer,
            AuthArg::None => AuthMode::None,
        },
        issuers: args.issuer.iter().map(|text| issuer(text)).collect::<Result<_, _>>()?,
        audiences: args.audience.clone(),
        dev_issuer: match args.dev_issuer {
            true => Some(Issuer::open_or_create(&settings.state_dir, Clock::system())?.key_source()),
            false => None,
        },
        stdio_token: match (&args.token_file, &settings.token) {
            (Some(path), _) => StdioToken::File(path.clone()),
            (None, Some(token)) => StdioToken::Value(token.clone()),
            (None, None) => StdioToken::None,
        },
        forward_token: args.memory_endpoint.is_some(),
        ..AuthSettings::default()
    })
}

fn issuer(text: &str) -> Result<IssuerSettings, BadSetting> {
    let wrong = || BadSetting::new(format!("--issuer {text:?} must be ISSUER=URL or ISSUER=FILE of a key set (JWKS)"));
    let (issuer, keys) = text.split_once('=').ok_or_else(wrong)?;
    let keys = match url::Url::parse(keys) {
        Ok(url) if matches!(url.scheme(), "http" | "https") => KeySource::Url(url),
        _ => KeySource::File(PathBuf::from(keys)),
    };
    Ok(IssuerSettings { issuer: issuer.to_owned(), keys })
}

/// Where this program is, so that it can start itself again. The kernel knows; where nothing is mounted on /proc, as in an
/// empty container, the name that it was started by must do.
fn own_path() -> anyhow::Result<PathBuf> {
    let named = || std::env::args_os().next().map(PathBuf::from).filter(|name| name.components().count() > 1);
    std::env::current_exe()
        .or_else(|unknown| named().filter(|name| name.is_file()).map_or(Err(unknown), std::path::absolute))
        .context("this program's own path is not known; start it by its full path, or mount /proc")
}

pub fn cuo_settings(settings: &Settings) -> anyhow::Result<CuoSettings> {
    let args = &settings.args;
    let executable = own_path()?;
    let argv: Vec<OsString> = settings.cuo_command.iter().map(Into::into).collect();
    Ok(CuoSettings {
        // `None`: the catalogue in this binary.
        root: match &args.cyberos_root {
            Some(root) if !root.join("modules").is_dir() => {
                let what =
                    format!("--cyberos-root: {} has no folder modules, so it is no CyberOS checkout", root.display());
                return Err(BadSetting::new(what).into());
            }
            root => root.clone(),
        },
        state_dir: settings.state_dir.clone(),
        work_dir: None,
        command: match args.cuo {
            CuoArg::Builtin => CuoCommand::Builtin { executable },
            CuoArg::JsonRpc => CuoCommand::JsonRpc { argv },
            CuoArg::Cli => CuoCommand::CyberosCli { argv, executable },
        },
        extra_env: vec![],
    })
}

fn services(
    settings: &Settings,
    store: Arc<dyn Store>,
    metrics: Arc<Metrics>,
    updates: Arc<Updates>,
    stop: &CancellationToken,
) -> anyhow::Result<Services> {
    let cuo = Cuo::new(cuo_settings(settings)?).context("the CUO catalogue cannot be opened")?;
    let memory = match &settings.args.memory_endpoint {
        None => Memory::embedded(store),
        Some(endpoint) => {
            let token = match &settings.args.memory_token_file {
                None => None,
                Some(path) => Some(SecretString::from(
                    std::fs::read_to_string(path)
                        .map_err(|e| BadSetting::new(format!("--memory-token-file: {}: {e}", path.display())))?
                        .trim(),
                )),
            };
            Memory::remote(endpoint, token, store, stop.clone(), {
                let metrics = metrics.clone();
                Arc::new(move |event| metrics.audit_shipped(event.word()))
            })
            .map_err(|why| BadSetting::new(why.to_string()))?
        }
    };
    Ok(Services { cuo: Some(Arc::new(cuo)), http: HttpUpstreams::new(), memory: Arc::new(memory), updates, metrics })
}

/// The eight first-party components with exactly what each needs.
async fn built_in(runtime: &Runtime, skills: &Path) -> Vec<Result<Arc<Plugin>, Rejected>> {
    let (code, mut loaded) = (Code::unpack(), vec![]);
    for embedded in Embedded::all() {
        loaded.push(runtime.load_embedded(embedded, &code, first_party(embedded.id, skills)).await.map(Arc::new));
    }
    loaded
}

/// Where the skills are, or will be once the catalogue is unpacked.
pub fn skills_directory(args: &SettingsArgs, state_dir: &Path) -> PathBuf {
    args.cyberos_root.clone().unwrap_or_else(|| starter::place(state_dir)).join("modules/skill")
}

/// What a built-in component may reach: exactly what it needs.
pub fn first_party(id: &str, skills: &Path) -> Grants {
    let mut grants = Grants::default();
    match id {
        "memory-read-audit" => grants.audit_read = true,
        "memory-append-audit" => grants.audit_append = true,
        "skill-list-catalog" => {
            let directory = DirectoryGrant { host_path: skills.to_owned(), writable: false };
            grants.directories.insert("/skills".into(), directory);
        }
        _ => grants.cuo = true,
    }
    grants
}

/// What `load` makes of the command line, in one step.
pub fn settings(args: SettingsArgs) -> anyhow::Result<Settings> {
    Ok(Settings::load(args)?)
}

/// Logs first, so that everything after them is seen; then what leaves the process.
pub fn start_telemetry(settings: &Settings) -> anyhow::Result<Telemetry> {
    let telemetry = telemetry_settings(settings);
    logs::install(telemetry.log_format, &telemetry.log_filter)?;
    Ok(Telemetry::start(&telemetry)?)
}

fn telemetry_settings(settings: &Settings) -> TelemetrySettings {
    TelemetrySettings {
        log_filter: settings.args.log.clone(),
        log_format: match settings.args.log_format {
            LogFormatArg::Text => LogFormat::Text,
            LogFormatArg::Json => LogFormat::Json,
        },
        otlp_endpoint: settings.args.otlp_endpoint.clone(),
        ..TelemetrySettings::default()
    }
}

/// How to start this program again as a worker on the same store. Secrets travel in the environment, which the child
/// inherits; the transport does not matter to it.
pub fn worker_arguments(settings: &Settings) -> Vec<String> {
    let args = &settings.args;
    let mut arguments: Vec<String> = vec!["task-worker".into()];
    let mut pass = |flag: &str, value: Option<String>| {
        if let Some(value) = value {
            arguments.push(format!("--{flag}={value}"));
        }
    };
    let path = |path: &Option<PathBuf>| path.as_ref().map(|p| p.display().to_string());
    pass("state-dir", Some(settings.state_dir.display().to_string()));
    pass("cyberos-root", path(&args.cyberos_root));
    pass(
        "cuo",
        Some(match args.cuo {
            CuoArg::Builtin => "builtin".into(),
            CuoArg::JsonRpc => "json-rpc".into(),
            CuoArg::Cli => "cli".into(),
        }),
    );
    pass("cuo-command", args.cuo_command.clone());
    pass("memory-endpoint", args.memory_endpoint.clone());
    pass("memory-token-file", path(&args.memory_token_file));
    pass("plugins", path(&args.plugins));
    pass("plugins-file", path(&args.plugins_file));
    pass("pagemap-scan", (args.pagemap_scan == PagemapScanArg::Off).then(|| "off".into()));
    pass("otlp-endpoint", args.otlp_endpoint.clone());
    pass("ask-timeout-seconds", Some(args.ask_timeout_seconds.to_string()));
    pass("task-lease-seconds", Some(args.task_lease_seconds.to_string()));
    pass("log", Some(args.log.clone()));
    arguments
}
