//! `plugin dev`: the bridge with one plugin that is being written. Every save is built and swapped in; while it does not
//! build, the version before goes on serving.
//!
//! It serves a directory of its own, into which a finished component is renamed: the rest is the hot swap that every bridge
//! has. All lines for the author go to stderr, because over stdio the protocol has stdout.

use anyhow::{Context, bail};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::app::NAME;
use crate::author::asked::{self, from_here};
use crate::author::{self, Built, Progress, Project, Sources};
use crate::cli::out::printable;
use crate::cli::{serve, tools};
use crate::config::{SettingsArgs, TransportArg};
use crate::plugins::PluginSet;

#[derive(clap::Args)]
#[command(
    after_help = "It takes the settings of `serve`; unless they say otherwise it serves over HTTP on loopback, without tokens,\n\
    from a store of its own that is gone when it ends."
)]
pub struct Arguments {
    /// The plugin's directory.
    #[arg(default_value = ".")]
    dir: PathBuf,
    /// Grant what grants.toml asks for without a question, also when it changes.
    #[arg(long, short)]
    yes: bool,
}

/// How long a version may take from its rename until it serves or is refused: large ones compile for long.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(20);

/// What is being written, and where it is served from.
struct Workshop {
    project: Arc<Project>,
    served: PathBuf,
    /// The text of grants.toml that is granted.
    granted: String,
    yes: bool,
    /// Of the component that was put there last.
    digest: Option<String>,
}

pub async fn run(mut settings: SettingsArgs, arguments: Arguments) -> anyhow::Result<ExitCode> {
    if settings.plugins.is_some() || settings.plugins_file.is_some() {
        bail!("plugin dev serves a directory of its own: leave --plugins and --plugins-file out");
    }
    let project = Arc::new(Project::open(&arguments.dir)?);
    let place = TempDir::with_prefix("plugin-dev-").context("no temporary directory can be made")?;
    let served = place.path().join("plugins");
    std::fs::create_dir(&served)?;
    let mut workshop =
        Workshop { project: project.clone(), served, granted: String::new(), yes: arguments.yes, digest: None };
    let asked = workshop.asked()?;
    if !workshop.may_grant(&asked, settings.transport)? {
        eprintln!("{NAME}: nothing was granted, so nothing is served");
        return Ok(ExitCode::from(super::out::REFUSED));
    }
    workshop.grant(asked)?;
    let mut sources = Sources::of(&project);
    let seen = sources.fingerprint();
    workshop.round(None).await?;
    settings.plugins = Some(workshop.served.clone());
    settings.state_dir = settings.state_dir.or_else(|| Some(place.path().join("state")));
    serve::run_with(settings, move |plugins, stop| {
        tokio::spawn(workshop.work(sources, seen, plugins, stop));
    })
    .await
}

impl Workshop {
    /// Until the bridge ends.
    async fn work(
        mut self,
        mut sources: Sources,
        mut seen: author::Fingerprint,
        plugins: Arc<PluginSet>,
        stop: CancellationToken,
    ) {
        // Should the first version have been refused, that is said once the bridge is there to say it.
        if let Some(digest) = self.digest.clone() {
            self.say_what_became(&plugins, &digest, "built").await;
        }
        loop {
            tokio::select! {
                () = sources.wait() => {}
                () = stop.cancelled() => return,
            }
            let now = sources.fingerprint();
            if now == seen {
                continue;
            }
            seen = now;
            if let Err(error) = self.round(Some(&plugins)).await {
                eprintln!("{NAME}: {error:#}");
            }
        }
    }

    /// Build, and put what came of it where it is served. Errors: it could not be put there.
    async fn round(&mut self, plugins: Option<&Arc<PluginSet>>) -> anyhow::Result<()> {
        if plugins.is_some() {
            self.grants_again();
        }
        let (project, started) = (self.project.clone(), Instant::now());
        // A new plugin.toml counts, too.
        let directory = project.directory().to_owned();
        let built = tokio::task::spawn_blocking(move || -> author::Result<Built> {
            Project::open(&directory)?.build(&Progress::silent())
        });
        let built = match built.await? {
            Ok(built) => built,
            Err(error) => {
                eprintln!("{}", printable(&error.to_string()));
                let serves =
                    if self.digest.is_some() { "the version before goes on serving" } else { "nothing serves yet" };
                eprintln!("not built; {serves}");
                return Ok(());
            }
        };
        let took = format!("built in {:.1} s", started.elapsed().as_secs_f64());
        if self.digest.as_ref() == Some(&built.digest) {
            eprintln!("{took}, the same as before");
            return Ok(());
        }
        self.put(&built)?;
        self.digest = Some(built.digest.clone());
        match plugins {
            Some(plugins) => self.say_what_became(plugins, &built.digest, &took).await,
            None => eprintln!("{took}"),
        }
        Ok(())
    }

    /// By a rename: nobody sees half of it.
    fn put(&self, built: &Built) -> anyhow::Result<()> {
        let name = format!("{}.wasm", self.project.id());
        let half = self.served.join(format!(".{name}.new"));
        std::fs::copy(&built.path, &half).with_context(|| format!("{} cannot be served", built.path.display()))?;
        std::fs::rename(&half, self.served.join(name)).context("the component cannot be served")
    }

    /// Wait until the bridge has made up its mind.
    async fn say_what_became(&self, plugins: &PluginSet, digest: &str, took: &str) {
        let id = self.project.id().as_str();
        let started = Instant::now();
        while started.elapsed() < PATIENCE {
            let standings = plugins.standings();
            if let Some(standing) = standings.iter().find(|standing| standing.id == id) {
                if let Some(serving) = standing.serving.as_ref().filter(|serving| serving.version.digest == digest) {
                    return eprintln!("{took}, serving {} ({})", serving.tools.join(", "), &digest[..12]);
                }
                let blocked = standing.blocked.as_ref();
                if let Some(blocked) = blocked.filter(|blocked| blocked.digest.as_deref() == Some(digest)) {
                    let before = if standing.serving.is_some() { "; the version before goes on serving" } else { "" };
                    return eprintln!("{took}, not served{before}: {}", printable(&blocked.reason));
                }
            }
            tokio::time::sleep(LOOK).await;
        }
        eprintln!("{took}, and not served after {} s; the log says why", PATIENCE.as_secs());
    }

    fn asked(&self) -> anyhow::Result<String> {
        let path = self.project.grants_file();
        match std::fs::read_to_string(&path) {
            Err(why) if why.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
            read => read.with_context(|| format!("{} cannot be read", path.display())),
        }
    }

    /// Shown first, and granted when the author says so.
    fn may_grant(&self, text: &str, transport: TransportArg) -> anyhow::Result<bool> {
        let file = asked::read(&self.project.grants_file(), text)?;
        let wanted = tools::label::asked(&file.grants(self.project.id().as_str()));
        if wanted.is_empty() {
            return Ok(true);
        }
        eprintln!("{} is granted what its grants.toml asks for:", self.project.id());
        wanted.iter().for_each(|line| eprintln!("  {}", printable(line).replace('\n', "\n  ")));
        if self.yes {
            return Ok(true);
        }
        if transport == TransportArg::Stdio || !std::io::stdin().is_terminal() {
            bail!("nobody can be asked whether that may be granted: pass --yes");
        }
        eprint!("Go ahead? [y/N] ");
        let _ = std::io::stderr().flush();
        let mut answer = String::new();
        std::io::stdin().read_line(&mut answer)?;
        Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
    }

    fn grant(&mut self, asked: String) -> anyhow::Result<()> {
        let text = served_grants(&self.project.grants_file(), &asked)?;
        let half = self.served.join(".plugins.toml.new");
        std::fs::write(&half, text)?;
        std::fs::rename(&half, self.served.join("plugins.toml"))?;
        self.granted = asked;
        Ok(())
    }

    /// Whoever agreed to the grants agreed to these, not to whatever a later save asks for.
    fn grants_again(&mut self) {
        let asked = match self.asked() {
            Ok(asked) => asked,
            Err(error) => return eprintln!("{NAME}: {error:#}"),
        };
        if asked == self.granted {
            return;
        }
        if !self.yes {
            return eprintln!("grants.toml has changed: start again to grant that, or with --yes");
        }
        let granted = self.may_grant(&asked, TransportArg::Http).and_then(|_| self.grant(asked));
        if let Err(error) = granted {
            eprintln!("{NAME}: {error:#}");
        }
    }
}

/// The author's grants as a bridge is given them. What changes with every save needs nobody's approval, and no save has the
/// digest that a release was pinned to.
fn served_grants(path: &Path, asked: &str) -> anyhow::Result<String> {
    let mut document: toml_edit::DocumentMut = from_here(path, asked).parse().context("grants.toml")?;
    let plugins = document.get_mut("plugins").and_then(|plugins| plugins.as_table_like_mut());
    for (_, plugin) in plugins.into_iter().flat_map(|plugins| plugins.iter_mut()) {
        if let Some(plugin) = plugin.as_table_like_mut() {
            plugin.remove("digest");
        }
    }
    document.remove("policy");
    Ok(format!("{document}\n[policy]\napproval = \"off\"\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Approval, PluginsFile, Signatures};

    #[test]
    fn no_save_waits_for_approval_and_none_is_pinned() {
        let asked = "[policy]\nsignatures = \"required\"\n[plugins.a]\nany_tool_name = true\ndigest = \"sha256:00\"\n";
        let served = served_grants(Path::new("/home/ada/a/grants.toml"), asked).unwrap();
        let file: PluginsFile = toml::from_str(&served).unwrap();
        assert_eq!((file.policy.approval, file.policy.signatures), (Approval::Off, Signatures::Optional));
        assert!(file.grants("a").any_tool_name && file.grants("a").digest.is_none());
    }
}
