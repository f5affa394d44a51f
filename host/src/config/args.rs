//! Every setting: its flag, its environment variable, its default, and what breaks when it is wrong.
//!
//! `docs/operators/settings.md` is checked against this file by a test.

use clap::{Args, ValueEnum};
use std::net::SocketAddr;
use std::path::PathBuf;

use super::rate_limits::{BucketRate, RateSetting, WindowRate};

#[derive(Clone, Debug, Args)]
pub struct SettingsArgs {
    /// How clients connect. With stdio, standard output carries MCP messages and nothing else.
    #[arg(
        long,
        env = "CYBEROS_TRANSPORT",
        value_enum,
        default_value = "stdio",
        global = true,
        help_heading = "Transport"
    )]
    pub transport: TransportArg,

    /// Address and port for HTTP. Anything but loopback needs tokens (--auth bearer).
    #[arg(long, env = "CYBEROS_LISTEN", default_value = "127.0.0.1:8082", global = true, help_heading = "Transport")]
    pub listen: SocketAddr,

    /// An origin whose pages may call this server from a browser, such as https://example.com; repeat for more, or "*" for
    /// development. None: no CORS headers, and requests that carry an Origin are refused.
    #[arg(long, env = "CYBEROS_CORS_ORIGIN", value_delimiter = ',', global = true, help_heading = "Transport")]
    pub cors_origin: Vec<String>,

    /// A host name that clients reach this server by; repeat for more. Loopback names always work; others are refused.
    #[arg(long, env = "CYBEROS_ALLOWED_HOST", value_delimiter = ',', global = true, help_heading = "Transport")]
    pub allowed_host: Vec<String>,

    /// The address of the MCP endpoint as clients know it, such as https://mcp.example.com/mcp: the resource that OAuth
    /// clients ask tokens for, and an audience that is accepted. Unless set: http://ADDRESS:PORT/mcp when
    /// --listen is loopback and no --allowed-host is given.
    #[arg(long, env = "CYBEROS_PUBLIC_URL", global = true, help_heading = "Transport")]
    pub public_url: Option<String>,

    /// Largest HTTP body, in bytes. Larger ones get status 413.
    #[arg(long, env = "CYBEROS_MAX_BODY_BYTES", default_value_t = 1 << 20, global = true, help_heading = "Transport")]
    pub max_body_bytes: usize,

    /// Longest stdio line, in bytes. Longer ones are skipped and answered with an error.
    #[arg(long, env = "CYBEROS_MAX_LINE_BYTES", default_value_t = 4 << 20, global = true, help_heading = "Transport")]
    pub max_line_bytes: usize,

    /// How long calls that are under way may take after SIGTERM, in seconds.
    #[arg(long, env = "CYBEROS_DRAIN_SECONDS", default_value_t = 10, global = true, help_heading = "Transport")]
    pub drain_seconds: u64,

    /// How long a client may take to answer a question that a tool asks its user or its model, in seconds.
    #[arg(long, env = "CYBEROS_ASK_TIMEOUT_SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=3600), global = true, help_heading = "Transport")]
    pub ask_timeout_seconds: u64,

    /// How long an HTTP session lasts, in hours. Its client starts a new one after that.
    #[arg(long, env = "CYBEROS_SESSION_HOURS", default_value_t = 24, value_parser = clap::value_parser!(u64).range(1..=8760), global = true, help_heading = "Transport")]
    pub session_hours: u64,

    /// How long one connection of an HTTP stream is held before its client is asked to come back and read on, in
    /// milliseconds. 0: as long as the client likes. For proxies that cut long connections.
    #[arg(long, env = "CYBEROS_STREAM_HOLD_MS", default_value_t = 0, global = true, help_heading = "Transport")]
    pub stream_hold_ms: u64,

    /// Tool names with dots, or with underscores for clients that refuse dots. auto: by the name that the client gives of
    /// itself. Both forms are accepted on calls.
    #[arg(
        long,
        env = "CYBEROS_TOOL_NAMES",
        value_enum,
        default_value = "auto",
        global = true,
        help_heading = "Transport"
    )]
    pub tool_names: ToolNamesArg,

    /// How HTTP callers prove who they are. "none" makes every caller the local user with all scopes: loopback only.
    #[arg(long, env = "CYBEROS_AUTH", value_enum, default_value = "bearer", global = true, help_heading = "Identity")]
    pub auth: AuthArg,

    /// A token issuer and where its keys are: ISSUER=URL or ISSUER=FILE of a JWKS; repeat for more. Tokens of others are
    /// refused.
    #[arg(long, env = "CYBEROS_ISSUER", value_delimiter = ',', global = true, help_heading = "Identity")]
    pub issuer: Vec<String>,

    /// An audience that tokens for this server carry; repeat for more. Tokens for others are refused.
    #[arg(
        long,
        env = "CYBEROS_AUDIENCE",
        value_delimiter = ',',
        default_value = "plugin:cyberos",
        global = true,
        help_heading = "Identity"
    )]
    pub audience: Vec<String>,

    /// Accept tokens of this machine's development issuer (`token mint`). Never in production.
    #[arg(long, env = "CYBEROS_DEV_ISSUER", global = true, help_heading = "Identity")]
    pub dev_issuer: bool,

    /// Over HTTP, answer `initialize` without a token, so that a client can find out how to get one.
    #[arg(long, env = "CYBEROS_OPEN_INITIALIZE", default_value_t = true, action = clap::ArgAction::Set, global = true, help_heading = "Identity")]
    pub open_initialize: bool,

    /// Over stdio, a file with the caller's access token; read again when it changes. CYBEROS_TOKEN holds the token itself.
    #[arg(long, env = "CYBEROS_TOKEN_FILE", global = true, help_heading = "Identity")]
    pub token_file: Option<PathBuf>,

    /// Whether the host's own flag (_meta["mcp/sampling/elicit_confirm"]) confirms a destructive call: auto is on for stdio
    /// and off for HTTP.
    #[arg(
        long,
        env = "CYBEROS_HOST_CONFIRMATION",
        value_enum,
        default_value = "auto",
        global = true,
        help_heading = "Identity"
    )]
    pub host_confirmation: ConfirmArg,

    /// A file with the key that signs confirmation tokens and session ids, the same on every replica. Made in the state directory unless set.
    #[arg(long, env = "CYBEROS_CONFIRM_KEY_FILE", global = true, help_heading = "Identity")]
    pub confirm_key_file: Option<PathBuf>,

    /// How often one user may call over HTTP: so many calls at once, then as many in a period, or "off". Counted for each
    /// process; the local user is not limited.
    #[arg(
        long,
        env = "CYBEROS_RATE_LIMIT_USER",
        value_name = "BURST,CALLS/PERIOD",
        default_value = "60,1/s",
        global = true,
        help_heading = "Rate limits"
    )]
    pub rate_limit_user: RateSetting<BucketRate>,

    /// The same for all users of one tenant together, or "off".
    #[arg(
        long,
        env = "CYBEROS_RATE_LIMIT_TENANT",
        value_name = "BURST,CALLS/PERIOD",
        default_value = "300,5/s",
        global = true,
        help_heading = "Rate limits"
    )]
    pub rate_limit_tenant: RateSetting<BucketRate>,

    /// How often one tenant may call one tool: a lasting rate and, after a comma, the burst that may come before it. A rate
    /// alone is a strict sliding window. Or "off".
    #[arg(
        long,
        env = "CYBEROS_RATE_LIMIT_TOOL",
        value_name = "CALLS/PERIOD[,CALLS/PERIOD]",
        default_value = "100/min,200/30s",
        global = true,
        help_heading = "Rate limits"
    )]
    pub rate_limit_tool: RateSetting<WindowRate>,

    /// Where the bridge keeps its own files. Unless set: $XDG_STATE_HOME/cyberos-mcp-bridge, else ~/.local/state/….
    #[arg(long, env = "CYBEROS_STATE_DIR", global = true, help_heading = "Store")]
    pub state_dir: Option<PathBuf>,

    /// Postgres for many tenants and replicas: postgres://user:password@host/database. Unless set, SQLite in the state
    /// directory. Prefer the environment variable: a command line can be read by other users.
    #[arg(long, env = "CYBEROS_DATABASE_URL", hide_env_values = true, global = true, help_heading = "Store")]
    pub database_url: Option<String>,

    /// Most connections to Postgres.
    #[arg(long, env = "CYBEROS_DATABASE_CONNECTIONS", default_value_t = 16, value_parser = clap::value_parser!(u32).range(2..=1000), global = true, help_heading = "Store")]
    pub database_connections: u32,

    /// Whether tool calls leave audit rows. "off" is for measurements only.
    #[arg(
        long,
        env = "CYBEROS_AUDIT",
        value_enum,
        default_value = "on",
        global = true,
        help_heading = "Store",
        hide = true
    )]
    pub audit: OnOff,

    /// A CyberOS checkout whose personas, workflows and skills are served instead of the built-in catalogue.
    #[arg(long, env = "CYBEROS_ROOT", global = true, help_heading = "CyberOS")]
    pub cyberos_root: Option<PathBuf>,

    /// How workflows are run: by this binary's own supervisor, by another one that speaks the same JSON-RPC, or by the
    /// `cyberos-cuo` command line.
    #[arg(long, env = "CYBEROS_CUO", value_enum, default_value = "builtin", global = true, help_heading = "CyberOS")]
    pub cuo: CuoArg,

    /// The program and arguments of an external supervisor, separated by spaces. Needed unless --cuo builtin.
    #[arg(long, env = "CYBEROS_CUO_COMMAND", global = true, help_heading = "CyberOS")]
    pub cuo_command: Option<String>,

    /// Base URL of the memory service; CYBEROS_MEMORY_ENDPOINT is read, too. Unless set, the audit log is kept in the bridge's own store.
    #[arg(long, env = "MEMORY_ENDPOINT", global = true, help_heading = "CyberOS")]
    pub memory_endpoint: Option<String>,

    /// A file with the token that ships audit rows to the memory service.
    #[arg(long, env = "CYBEROS_MEMORY_TOKEN_FILE", global = true, help_heading = "CyberOS")]
    pub memory_token_file: Option<PathBuf>,

    /// How an instance slot is cleaned after a call: auto asks the kernel which pages were touched (Linux 6.7 and later),
    /// off resets all of them, at about three times the cost of a fresh instance. Isolation is the same and tested both ways.
    #[arg(
        long,
        env = "CYBEROS_PAGEMAP_SCAN",
        value_enum,
        default_value = "auto",
        global = true,
        help_heading = "Plugins"
    )]
    pub pagemap_scan: PagemapScanArg,

    /// A directory of further tool components (*.wasm). While the bridge serves, files that change, come or go take effect
    /// without a restart.
    #[arg(long, env = "CYBEROS_PLUGINS", global = true, help_heading = "Plugins")]
    pub plugins: Option<PathBuf>,

    /// What each plugin may reach. Unless set: plugins.toml in the plugins directory, when there is one.
    #[arg(long, env = "CYBEROS_PLUGINS_FILE", global = true, help_heading = "Plugins")]
    pub plugins_file: Option<PathBuf>,

    /// How changes of the plugins directory and of plugins.toml are noticed: auto is told of them by the kernel (inotify)
    /// where it can, poll looks every second (for network file systems, which tell nobody), off loads them once.
    #[arg(
        long,
        env = "CYBEROS_PLUGINS_WATCH",
        value_enum,
        default_value = "auto",
        global = true,
        help_heading = "Plugins"
    )]
    pub plugins_watch: WatchArg,

    /// How long a task may run unless the call says otherwise, in seconds.
    #[arg(long, env = "CYBEROS_TASK_TIMEOUT_SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=3600), global = true, help_heading = "Tasks")]
    pub task_timeout_seconds: u64,

    /// How long a task is kept after its creation, in seconds.
    #[arg(long, env = "CYBEROS_TASK_TTL_SECONDS", default_value_t = 86_400, value_parser = clap::value_parser!(u64).range(1..=604_800), global = true, help_heading = "Tasks")]
    pub task_ttl_seconds: u64,

    /// How long the process that runs a task may be silent before the task counts as abandoned, in seconds.
    #[arg(long, env = "CYBEROS_TASK_LEASE_SECONDS", default_value_t = 6, value_parser = clap::value_parser!(u64).range(2..=300), global = true, help_heading = "Tasks")]
    pub task_lease_seconds: u64,

    /// Most tasks of one tenant at once.
    #[arg(long, env = "CYBEROS_MAX_OPEN_TASKS", default_value_t = 50, global = true, help_heading = "Tasks")]
    pub max_open_tasks: u64,

    /// What is logged to standard error: a level, or a filter such as info,plugin=debug.
    #[arg(long, env = "CYBEROS_LOG", default_value = "info", global = true, help_heading = "Telemetry")]
    pub log: String,

    /// Lines for people, or JSON for machines.
    #[arg(
        long,
        env = "CYBEROS_LOG_FORMAT",
        value_enum,
        default_value = "text",
        global = true,
        help_heading = "Telemetry"
    )]
    pub log_format: LogFormatArg,

    /// Where spans and metrics are sent over OTLP gRPC, such as http://127.0.0.1:4317. Nothing is sent unless set.
    #[arg(long, env = "OTEL_EXPORTER_OTLP_ENDPOINT", global = true, help_heading = "Telemetry")]
    pub otlp_endpoint: Option<String>,

    /// For commands that look at what serves: a secret that cannot be read does not keep them from it.
    #[arg(skip)]
    pub secrets_may_be_away: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TransportArg {
    Stdio,
    Http,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AuthArg {
    Bearer,
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ToolNamesArg {
    Auto,
    Dotted,
    Underscore,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ConfirmArg {
    Auto,
    On,
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnOff {
    On,
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PagemapScanArg {
    Auto,
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WatchArg {
    Auto,
    Poll,
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CuoArg {
    Builtin,
    JsonRpc,
    Cli,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormatArg {
    Text,
    Json,
}
