//! `plugin add SOURCE --to DIR`: what was taken, what it asks for, and how that is granted. It grants nothing.

use anyhow::Context;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::super::plugins::as_asked;
use super::login::LoginArgs;
use crate::app;
use crate::author::add::{Added, Request, add, field};
use crate::author::is_digest;
use crate::author::source::Source;
use crate::cli::out::{self, OutputArgs, shell_word};
use crate::cli::progress::Bar;
use crate::config::SettingsArgs;
use crate::model::PluginId;

#[derive(clap::Args)]
pub struct Arguments {
    /// oci://HOST[:PORT]/REPOSITORY:TAG, the same with @sha256:…, an https:// address, or a file.
    from: String,
    /// The plugins directory; the one of --plugins unless given.
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// What the plugin is called here; the last part of its source unless given.
    #[arg(long, value_parser = plugin_id)]
    name: Option<PluginId>,
    /// Take the component only if this is its digest: sha256: and 64 hex digits.
    #[arg(long, value_parser = digest)]
    digest: Option<String>,
    /// Let a name that stands for one component stand for another from now on.
    #[arg(long)]
    update: bool,
    /// Largest component in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 20)]
    max_bytes: usize,
    #[command(flatten)]
    login: LoginArgs,
}

fn plugin_id(text: &str) -> Result<PluginId, String> {
    PluginId::parse(text).ok_or_else(|| "a-z, 0-9 and -, at most 63 characters".to_owned())
}

fn digest(text: &str) -> Result<String, String> {
    is_digest(text).then(|| text.to_owned()).ok_or_else(|| "it must be sha256: and 64 lower-case hex digits".to_owned())
}

pub async fn run(settings: SettingsArgs, arguments: Arguments, output: OutputArgs) -> anyhow::Result<ExitCode> {
    let from = Source::parse(&arguments.from)?;
    let to = arguments.to.or(settings.plugins).context("say where plugins are kept: --to DIR")?;
    let plugins_file = settings.plugins_file.unwrap_or_else(|| to.join("plugins.toml"));
    let login = match &from {
        Source::Oci(reference) => arguments.login.login(Some(reference.resolve_registry()))?,
        Source::Url(_) | Source::File(_) => arguments.login.login(None)?,
    };
    let bar = Bar::when_reported("fetching");
    let added = add(Request {
        from,
        to: to.clone(),
        plugins_file,
        name: arguments.name,
        digest: arguments.digest,
        update: arguments.update,
        most: arguments.max_bytes,
        login,
        progress: bar.sink(),
    })
    .await
    .map_err(super::said)?;
    drop(bar);
    let commands = commands(&to, &added);
    if output.json {
        let missing: Vec<_> =
            added.missing.iter().map(|(import, grant)| json!({ "import": import, "grant": grant })).collect();
        out::json(&json!({
            "name": added.name,
            "file": added.file,
            "bytes": added.bytes,
            "digest": added.digest,
            "source": added.source,
            "signed": added.signed,
            "before": added.before,
            "imports": added.component.imports,
            "asks": added.asks.as_ref().ok(),
            "asks_not_granted": added.lacks,
            "missing_grants": missing,
            "not_offered": added.component.foreign(),
            "next": commands,
        }))?;
    } else {
        out::text(&page(&added, &commands))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn page(added: &Added, commands: &[String]) -> String {
    let mut fields = vec![
        ("plugin", added.name.to_string()),
        ("file", format!("{} ({} bytes)", added.file.display(), added.bytes)),
        ("digest", added.digest.clone()),
        ("source", added.source.clone()),
    ];
    if let Some(before) = &added.before {
        fields.push(("before", before.clone()));
    }
    fields.push(("signature", if added.signed { "beside it; checked when it is loaded" } else { "none" }.to_owned()));
    let imports = unasked(added).map(|(import, grant)| format!("{import}  needs  {grant}"));
    let mut asks: Vec<String> = added.lacks.lines().into_iter().chain(imports).collect();
    asks.extend(added.asks.as_ref().err().map(|why| format!("not known, so it will not be served: {why}")));
    fields.push(("asks for", if asks.is_empty() { "nothing that is not granted".into() } else { asks.join("\n") }));
    let foreign = added.component.foreign();
    if !foreign.is_empty() {
        fields.push((
            "not offered",
            format!("{}\nThis host has no such interface and will not serve it.", foreign.join("\n")),
        ));
    }
    format!("{}\n\nNothing was granted. Next:\n  {}", out::fields(&fields), commands.join("\n  "))
}

/// Imports that need a grant and are no part of what it says that it asks for.
fn unasked(added: &Added) -> impl Iterator<Item = &(String, &'static str)> {
    let asked = added.asks.as_ref().ok().and_then(Option::as_ref);
    added.missing.iter().filter(move |(_, grant)| !asked.is_some_and(|asked| asked.asks_for(field(grant))))
}

fn commands(to: &Path, added: &Added) -> Vec<String> {
    let bridge = format!("{} --plugins {} plugins", app::NAME, shell_word(&to.display().to_string()));
    let mut commands = vec![format!("{bridge} inspect {}", added.name)];
    if !added.lacks.is_empty() {
        commands.push(as_asked::command(&to.display().to_string(), &added.name, &added.lacks));
    }
    for (_, grant) in unasked(added) {
        // What is in capitals only the operator knows.
        let flags = match field(grant) {
            "upstreams" => "--upstream NAME=URL --path PATTERN".to_owned(),
            "config" => "--set NAME=VALUE".to_owned(),
            switch => format!("--import {}", switch.replace('_', "-")),
        };
        let command = format!("{bridge} grant {} {flags}", added.name);
        if !commands.contains(&command) {
            commands.push(command);
        }
    }
    commands
}
