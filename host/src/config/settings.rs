//! What the settings mean together, checked. A bad one stops the start with a sentence that names it.

use secrecy::SecretString;
use std::path::PathBuf;
use std::time::Duration;
use url::Url;

use super::args::{AuthArg, ConfirmArg, CuoArg, OnOff, SettingsArgs, TransportArg};
use super::plugins_file::{PluginsFile, Secrets};

/// What an instance slot of the sandbox can hold; a plugin's limits stay below.
pub const MAX_MEMORY_BYTES: usize = 256 << 20;
pub const MAX_TABLE_ELEMENTS: usize = 100_000;

/// One sentence that names the setting and says what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BadSetting(String);

impl BadSetting {
    pub fn new(sentence: impl Into<String>) -> Self {
        BadSetting(sentence.into())
    }
}

pub enum StoreSettings {
    Sqlite(PathBuf),
    Postgres(SecretString),
}

pub struct Settings {
    pub args: SettingsArgs,
    pub state_dir: PathBuf,
    pub store: StoreSettings,
    /// `CYBEROS_TOKEN`: the stdio caller's access token.
    pub token: Option<SecretString>,
    pub host_may_confirm: bool,
    /// `--public-url`: http(s), without query and fragment.
    pub public_url: Option<Url>,
    pub plugins: PluginsFile,
    pub audit: bool,
    /// Program and arguments of an external supervisor.
    pub cuo_command: Vec<String>,
    pub drain: Duration,
}

impl Settings {
    pub fn load(mut args: SettingsArgs) -> Result<Settings, BadSetting> {
        // Both spellings are in use among CyberOS's own configuration files.
        args.memory_endpoint = args.memory_endpoint.or_else(|| read_environment("CYBEROS_MEMORY_ENDPOINT"));
        let state_dir = state_dir(&args)?;
        let store = match &args.database_url {
            Some(url) if url.starts_with("postgres://") || url.starts_with("postgresql://") => {
                StoreSettings::Postgres(SecretString::from(url.as_str()))
            }
            Some(_) => return Err(BadSetting::new("--database-url must start with postgres://")),
            None => StoreSettings::Sqlite(state_dir.join("bridge.db")),
        };
        if args.transport == TransportArg::Http && args.auth == AuthArg::None && !args.listen.ip().is_loopback() {
            return Err(BadSetting::new(format!(
                "--auth none makes every caller the local user, so it works on loopback only; {} is not. Use --auth bearer with --issuer.",
                args.listen
            )));
        }
        let cuo_command: Vec<String> =
            args.cuo_command.as_deref().unwrap_or_default().split_whitespace().map(str::to_owned).collect();
        if args.cuo != CuoArg::Builtin && cuo_command.is_empty() {
            return Err(BadSetting::new(
                "--cuo json-rpc and --cuo cli need --cuo-command: the supervisor's program and arguments",
            ));
        }
        if args.transport == TransportArg::Http
            && args.auth == AuthArg::Bearer
            && args.issuer.is_empty()
            && !args.dev_issuer
        {
            return Err(BadSetting::new(
                "--auth bearer needs a token issuer: --issuer ISSUER=JWKS-URL, or --dev-issuer for development, or --auth none on loopback",
            ));
        }
        Ok(Settings {
            token: read_environment("CYBEROS_TOKEN").filter(|t| !t.is_empty()).map(SecretString::from),
            host_may_confirm: match args.host_confirmation {
                ConfirmArg::Auto => args.transport == TransportArg::Stdio,
                ConfirmArg::On => true,
                ConfirmArg::Off => false,
            },
            public_url: args.public_url.as_deref().map(public_url).transpose()?,
            plugins: plugins(&args)?,
            audit: args.audit == OnOff::On,
            drain: Duration::from_secs(args.drain_seconds),
            cuo_command,
            store,
            state_dir,
            args,
        })
    }
}

impl SettingsArgs {
    /// How the grants are read before anything serves.
    pub fn secrets_at_start(&self) -> Secrets<'static> {
        if self.secrets_may_be_away { Secrets::IfThere } else { Secrets::Read }
    }

    /// Where the grants are, or would be: the default place need not be there.
    pub fn grants_file(&self) -> Option<PathBuf> {
        let beside = || self.plugins.as_ref().map(|directory| directory.join("plugins.toml"));
        self.plugins_file.clone().or_else(beside)
    }
}

fn public_url(text: &str) -> Result<Url, BadSetting> {
    let url = Url::parse(text).ok().filter(|url| {
        let plain = url.query().is_none() && url.fragment().is_none() && url.username().is_empty();
        matches!(url.scheme(), "http" | "https") && url.host().is_some() && plain && url.password().is_none()
    });
    url.ok_or_else(|| {
        BadSetting::new(format!(
            "--public-url {text:?} must be an http(s) address without query and fragment, such as https://mcp.example.com/mcp"
        ))
    })
}

/// Where this bridge keeps its files.
pub fn state_dir(args: &SettingsArgs) -> Result<PathBuf, BadSetting> {
    if let Some(directory) = &args.state_dir {
        return std::path::absolute(directory).map_err(|e| BadSetting::new(format!("--state-dir: {e}")));
    }
    let variable = |name: &str| read_environment(name).map(PathBuf::from);
    let base = variable("XDG_STATE_HOME")
        .filter(|p| p.is_absolute())
        .or_else(|| variable("HOME").map(|home| home.join(".local/state")));
    base.map(|base| base.join("cyberos-mcp-bridge")).ok_or_else(|| {
        BadSetting::new("neither --state-dir nor XDG_STATE_HOME nor HOME says where to keep files; pass --state-dir")
    })
}

fn plugins(args: &SettingsArgs) -> Result<PluginsFile, BadSetting> {
    if let Some(directory) = &args.plugins
        && !directory.is_dir()
    {
        return Err(BadSetting::new(format!("--plugins: {} is not a directory", directory.display())));
    }
    match args.grants_file() {
        // One that was named must be there, and whatever else is there under that name must be one: its policy is not
        // passed over because it became a directory or a link to nothing.
        Some(path) if args.plugins_file.is_some() || path.symlink_metadata().is_ok() => {
            PluginsFile::read(&path, args.secrets_at_start())
        }
        _ => Ok(PluginsFile::default()),
    }
}

/// The environment is read here and nowhere else.
#[allow(clippy::disallowed_methods)]
pub fn read_environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
