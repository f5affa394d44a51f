//! `plugins revoke`: the opposite of `grant`. What was not granted cannot be revoked: a slip of the pen is told.

use anyhow::bail;
use std::process::ExitCode;

use super::target;
use crate::cli::out::OutputArgs;
use crate::config::SettingsArgs;
use crate::plugins::edit::{self, Import, Revoke, RevokeUpstream};

#[derive(clap::Args)]
pub struct Arguments {
    /// The plugin: its component's file name without `.wasm`.
    name: String,
    /// Everything that it was granted.
    #[arg(long, conflicts_with_all = ["upstream", "directory", "import", "settings", "environment", "limit", "digest", "any_tool_name"])]
    everything: bool,
    /// An HTTP service; all of it, unless parts of it are named.
    #[arg(long, value_name = "NAME")]
    upstream: Option<String>,
    /// These methods of that service alone.
    #[arg(long, value_name = "METHOD", value_delimiter = ',', requires = "upstream")]
    methods: Vec<String>,
    /// This path pattern of that service alone; repeat for more.
    #[arg(long, requires = "upstream")]
    path: Vec<String>,
    /// The credential of that service alone.
    #[arg(long, requires = "upstream")]
    secret: bool,
    /// Private addresses for that service alone.
    #[arg(long, requires = "upstream")]
    allow_private: bool,
    /// A directory, by the path that the plugin sees.
    #[arg(long, value_name = "PATH")]
    directory: Vec<String>,
    /// A host interface.
    #[arg(long, value_enum, value_delimiter = ',')]
    import: Vec<Import>,
    /// A setting.
    #[arg(long = "set", value_name = "NAME")]
    settings: Vec<String>,
    /// An environment variable.
    #[arg(long, value_name = "NAME")]
    environment: Vec<String>,
    /// A limit, which goes back to its default.
    #[arg(long, value_name = "NAME")]
    limit: Vec<String>,
    /// The digest that the component is held to.
    #[arg(long)]
    digest: bool,
    /// Tool names outside cyberos.<module>.<verb>.
    #[arg(long)]
    any_tool_name: bool,
    /// Show the change, and write nothing.
    #[arg(long)]
    dry_run: bool,
}

pub fn run(settings: &SettingsArgs, arguments: &Arguments, output: OutputArgs) -> anyhow::Result<ExitCode> {
    let id = target::plugin_id(&arguments.name)?;
    let path = target::grants_path(settings)?;
    let asked = Revoke {
        everything: arguments.everything,
        upstream: arguments.upstream.clone().map(|name| RevokeUpstream {
            name,
            methods: arguments.methods.clone(),
            paths: arguments.path.clone(),
            credential: arguments.secret,
            allow_private: arguments.allow_private,
        }),
        directories: arguments.directory.clone(),
        imports: arguments.import.clone(),
        config: arguments.settings.clone(),
        environment: arguments.environment.clone(),
        limits: arguments.limit.clone(),
        digest: arguments.digest,
        any_tool_name: arguments.any_tool_name,
    };
    if format!("{asked:?}") == format!("{:?}", Revoke::default()) {
        bail!(
            "revoke what? Name an --upstream, a --directory, an --import, a setting (--set), a --limit, or --everything."
        );
    }
    target::put(&path, arguments.dry_run, output, |text| edit::revoke(&path, text, &id, &asked))?;
    Ok(ExitCode::SUCCESS)
}
