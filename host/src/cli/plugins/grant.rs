//! `plugins grant`: from flags, or from what the component asks for, to an entry in plugins.toml. The edit is
//! `plugins::edit`'s, what it may say is `config`'s.

use anyhow::bail;
use std::process::ExitCode;

use super::as_asked::{self, Answers};
use super::target;
use crate::cli::out::OutputArgs;
use crate::config::{SecretPlace, SettingsArgs};
use crate::plugins::edit::{self, Grant, GrantUpstream, Import};

#[derive(clap::Args)]
pub struct Arguments {
    /// The plugin: its component's file name without `.wasm`.
    name: String,
    /// An HTTP service: the name that the plugin uses, and its address unless it is granted already.
    #[arg(long, value_name = "NAME[=URL]", group = "service")]
    upstream: Option<String>,
    /// All that the component asks for, after showing it. What only you know is named beside it: where the secrets are
    /// (--secret NAME=PLACE), which directories (--directory), the values of settings (--set, --environment).
    #[arg(
        long,
        group = "service",
        conflicts_with_all = [
            "methods", "path", "allow_private", "header", "scheme", "writable", "import", "limit", "digest", "any_tool_name"
        ]
    )]
    as_asked: bool,
    /// Do not ask before granting what the component asks for.
    #[arg(long, short, requires = "as_asked")]
    yes: bool,
    /// Methods of that service; a new one gets GET alone.
    #[arg(long, value_name = "METHOD", value_delimiter = ',', requires = "upstream")]
    methods: Vec<String>,
    /// A path pattern of that service, such as '/v1/*' or '/v1/**'; repeat for more.
    #[arg(long, requires = "upstream")]
    path: Vec<String>,
    /// That service may have a loopback or private address.
    #[arg(long, requires = "upstream")]
    allow_private: bool,
    /// The credential that the host adds for that service: where it is, never what it is. With --as-asked: the service's
    /// name and = before it, once for each service.
    #[arg(long, value_name = "env:NAME|file:PATH|keyring:NAME", requires = "service")]
    secret: Vec<String>,
    /// The header that carries it; `authorization` unless given.
    #[arg(long, requires = "secret")]
    header: Option<String>,
    /// Put before it with a space, such as Bearer.
    #[arg(long, requires = "secret")]
    scheme: Option<String>,
    /// A directory: the path that the plugin sees, and the one of this machine.
    #[arg(long, value_name = "PATH=DIR", value_parser = pair)]
    directory: Vec<(String, String)>,
    /// The plugin may change what is in it.
    #[arg(long, requires = "directory")]
    writable: bool,
    /// A host interface.
    #[arg(long, value_enum, value_delimiter = ',')]
    import: Vec<Import>,
    /// A setting for the plugin.
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = pair)]
    settings: Vec<(String, String)>,
    /// An environment variable that the plugin sees. Not for secrets: the plugin reads it.
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    environment: Vec<(String, String)>,
    /// A limit, such as fuel=5000000000.
    #[arg(long, value_name = "NAME=NUMBER", value_parser = limit)]
    limit: Vec<(String, i64)>,
    /// Serve exactly this component under the name.
    #[arg(long, value_name = "sha256:HEX")]
    digest: Option<String>,
    /// Allow tool names outside cyberos.<module>.<verb>.
    #[arg(long)]
    any_tool_name: bool,
    /// Show the change, and write nothing.
    #[arg(long)]
    dry_run: bool,
}

pub fn run(settings: &SettingsArgs, arguments: &Arguments, output: OutputArgs) -> anyhow::Result<ExitCode> {
    let id = target::plugin_id(&arguments.name)?;
    let path = target::grants_path(settings)?;
    if arguments.as_asked {
        let answers = Answers {
            secrets: &arguments.secret,
            directories: &arguments.directory,
            settings: &arguments.settings,
            environment: &arguments.environment,
        };
        return as_asked::run(settings, &id, &answers, (arguments.yes, arguments.dry_run), output);
    }
    let asked = asked(arguments)?;
    target::put(&path, arguments.dry_run, output, |text| edit::grant(&path, text, &id, &asked))?;
    arguments.secret.iter().for_each(|place| note_missing(place));
    Ok(ExitCode::SUCCESS)
}

/// The bridge may see what this shell does not: a hint, no refusal.
pub(super) fn note_missing(place: &str) {
    if let Err(no) = SecretPlace::parse(place).and_then(|place| place.read()) {
        eprintln!(
            "note: {place}: {}. Until the bridge finds the secret it does not start, and one that runs takes none of the file over.",
            no.what
        );
    }
}

fn asked(arguments: &Arguments) -> anyhow::Result<Grant> {
    let upstream = arguments.upstream.as_ref().map(|text| {
        let (name, url) = text.split_once('=').map_or((text.as_str(), None), |(name, url)| (name, Some(url)));
        let parts = (arguments.header.clone(), arguments.scheme.clone());
        GrantUpstream {
            name: name.to_owned(),
            url: url.map(str::to_owned),
            methods: arguments.methods.clone(),
            paths: arguments.path.clone(),
            allow_private: arguments.allow_private,
            credential: arguments.secret.first().cloned().map(|secret| (secret, parts.0, parts.1)),
            limits: vec![],
        }
    });
    if arguments.secret.len() > 1 {
        bail!("--secret: an upstream has one.");
    }
    if let Some(place) = arguments.secret.first()
        && let Err(no) = SecretPlace::parse(place)
    {
        bail!("--secret: {}. {}", no.what, no.remedy);
    }
    let asked = Grant {
        upstream,
        directories: arguments.directory.clone(),
        writable: arguments.writable,
        imports: arguments.import.clone(),
        config: arguments.settings.clone(),
        environment: arguments.environment.clone(),
        limits: arguments.limit.clone(),
        digest: arguments.digest.clone(),
        any_tool_name: arguments.any_tool_name,
    };
    if format!("{asked:?}") == format!("{:?}", Grant::default()) {
        bail!(
            "grant what? All that it asks for (--as-asked), an --upstream, a --directory, an --import, a setting (--set), a \
             variable (--environment), a --limit, a --digest or --any-tool-name."
        );
    }
    Ok(asked)
}

/// Name and value.
pub(super) type Pair = (String, String);

pub(super) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write it as NAME=VALUE".into()),
    }
}

fn limit(text: &str) -> Result<(String, i64), String> {
    let (name, value) = pair(text)?;
    let number = value.replace('_', "").parse().map_err(|_| format!("{value:?} is not a whole number"))?;
    Ok((name, number))
}
