//! `plugins grant --as-asked`: what a component asks for becomes what it is granted. Whatever its author cannot know, the
//! operator names: where secrets are, which directories, the values of settings. What is granted already stays as it is.

use anyhow::{anyhow, bail};
use sha2::{Digest, Sha256};
use std::process::ExitCode;

use super::target::{self, Target};
use super::{grant, grant::Pair};
use crate::app;
use crate::cli::out::{self, OutputArgs, shell_word};
use crate::config::{Grants, PluginsFile, SecretPlace, Secrets, SettingsArgs};
use crate::model::PluginId;
use crate::plugins::edit::{self, EditError, Grant, GrantUpstream, Revoke, RevokeUpstream};
use crate::plugins::request::{Access, Request, Upstream};
use crate::plugins::signatures;

/// What only the operator knows.
pub struct Answers<'a> {
    /// UPSTREAM=PLACE, or the place alone where one upstream needs a secret.
    pub secrets: &'a [String],
    /// Path that the plugin sees, directory of this machine.
    pub directories: &'a [Pair],
    pub settings: &'a [Pair],
    pub environment: &'a [Pair],
}

/// What is to be written, in the order of writing.
#[derive(Debug, Default)]
struct Changes {
    /// Upstreams that were granted at another address: what they were granted with stays behind.
    replaced: Vec<String>,
    grants: Vec<Grant>,
    /// Places of secrets.
    places: Vec<String>,
}

pub fn run(
    settings: &SettingsArgs,
    id: &PluginId,
    answers: &Answers<'_>,
    (yes, dry_run): (bool, bool),
    output: OutputArgs,
) -> anyhow::Result<ExitCode> {
    let path = target::grants_path(settings)?;
    let target = Target::named(settings, id)?;
    let asks = asks(&target)?;
    let lacks = asks.beyond(&Request::of(&target.grants));
    let changes = changes(id, &asks, &lacks, &target.grants, answers)?;
    stays_within(id, &asks, &lacks, &target.grants)?;
    if !output.json {
        let lines = match lacks.is_empty() {
            true => "nothing that is not granted".into(),
            false => lacks.lines().join("\n"),
        };
        out::text(&format!("{}\n", out::fields(&[("plugin", id.to_string()), ("asks for", lines)])))?;
    }
    if !lacks.is_empty() && !yes && !dry_run && !target::agrees("Grant all of it?")? {
        return Ok(ExitCode::from(out::NO));
    }
    target::put(&path, dry_run, output, |before| {
        // What was shown, and agreed to, was for the grants as they were.
        if PluginsFile::parse(&path, before, Secrets::Named)?.grants(id.as_str()) != target.grants {
            return Err(EditError::Overtaken(path.display().to_string()));
        }
        let mut after = before.to_owned();
        for name in &changes.replaced {
            let upstream = Some(RevokeUpstream { name: name.clone(), ..RevokeUpstream::default() });
            after = edit::revoke(&path, &after, id, &Revoke { upstream, ..Revoke::default() })?;
        }
        for grant in changes.grants.iter().filter(|_| !lacks.is_empty()) {
            after = edit::grant(&path, &after, id, grant)?;
        }
        Ok(after)
    })?;
    changes.places.iter().for_each(|place| grant::note_missing(place));
    Ok(ExitCode::SUCCESS)
}

/// Of a component that may serve: nobody's file has a say in what the plugin of this name is granted.
fn asks(target: &Target) -> anyhow::Result<Request> {
    let id = &target.id;
    let Some(path) = &target.path else { bail!("{id} is part of the bridge, and has what it needs.") };
    let digest = hex::encode(Sha256::digest(&target.wasm));
    let (wasm, grants) = (&target.wasm, &target.grants);
    let component = signatures::Component { id, path: Some(path), wasm, digest: &digest, grants };
    signatures::check(&target.policy, &component).map_err(|blocked| anyhow!(blocked.reason))?;
    match Request::read(wasm)? {
        Some(asks) => Ok(asks),
        None => {
            bail!("{} does not say what it asks for; `plugins inspect {id}` shows what it imports.", path.display())
        }
    }
}

/// Methods and paths of an upstream are granted each with each. Where more is granted than is asked for, adding to one of them
/// would open what nobody asked for.
fn stays_within(id: &PluginId, asks: &Request, lacks: &Request, granted: &Grants) -> anyhow::Result<()> {
    let over = Request::of(granted).beyond(asks);
    for (name, lacking) in lacks.upstreams.iter().filter(|(_, lacking)| lacking.url.is_none()) {
        let Some(over) = over.upstreams.get(name) else { continue };
        if (!lacking.methods.is_empty() && !over.paths.is_empty())
            || (!lacking.paths.is_empty() && !over.methods.is_empty())
        {
            bail!(
                "{id} is granted methods or paths of {name} that it does not ask for, and every method goes with every path: \
                 granting the rest would open more than is asked for. Take back what it need not have (`plugins revoke`), or \
                 grant it by hand (`plugins grant {id} --upstream {name} …`)."
            );
        }
    }
    Ok(())
}

/// From what is asked for and lacking to what is written. Errors name everything that the operator has yet to say.
fn changes(
    id: &PluginId,
    asks: &Request,
    lacks: &Request,
    granted: &Grants,
    answers: &Answers<'_>,
) -> anyhow::Result<Changes> {
    let mut changes = Changes::default();
    let mut open = vec![];
    let mut used = 0;
    for (name, lacking) in &lacks.upstreams {
        let is_new = lacking.url.is_some() || !granted.upstreams.contains_key(name);
        let wanted = if is_new { &asks.upstreams[name] } else { lacking };
        if is_new && granted.upstreams.contains_key(name) {
            changes.replaced.push(name.clone());
        }
        let place = match &wanted.secret {
            None => None,
            Some(secret) => {
                let found = place(name, lacks, answers.secrets);
                used += usize::from(found.is_some());
                let called = secret.name.as_ref().map(|called| format!(" (its author calls it {called})"));
                if found.is_none() {
                    open.push(format!(
                        "where the secret for {name}{} is: {}, file:PATH or keyring:NAME",
                        called.unwrap_or_default(),
                        option("secret", name, "env:NAME"),
                    ));
                }
                found
            }
        };
        if let Some(Err(no)) = place.map(SecretPlace::parse) {
            bail!("--secret: {}. {}", no.what, no.remedy);
        }
        changes.places.extend(place.map(str::to_owned));
        changes.grants.push(Grant { upstream: Some(upstream(name, wanted, place)), ..Grant::default() });
    }
    for (path, access) in &lacks.directories {
        let known = granted.directories.get(path).map(|known| known.host_path.display().to_string());
        let told = answers.directories.iter().find(|(guest, _)| guest == path).map(|(_, host)| host.clone());
        used += usize::from(told.is_some());
        match told.or(known) {
            None => open.push(format!("which directory it sees as {path}: {}", option("directory", path, "DIR"))),
            Some(host) => changes.grants.push(Grant {
                directories: vec![(path.clone(), host)],
                writable: *access == Access::ReadWrite,
                ..Grant::default()
            }),
        }
    }
    let mut rest = Grant {
        imports: lacks.imports.iter().copied().collect(),
        limits: lacks.limits.iter().map(number).collect(),
        any_tool_name: lacks.any_tool_name,
        ..Grant::default()
    };
    for (asked, told, into, what, flag) in [
        (&lacks.config, answers.settings, &mut rest.config, "setting", "set"),
        (&lacks.environment, answers.environment, &mut rest.environment, "variable", "environment"),
    ] {
        for name in asked {
            match told.iter().find(|(told, _)| told == name) {
                None => open.push(format!("the value of the {what} {name}: {}", option(flag, name, "VALUE"))),
                Some(pair) => into.push(pair.clone()),
            }
        }
        used += into.len();
    }
    // First, so that the entry begins with it.
    changes.grants.insert(0, rest);
    if !open.is_empty() {
        bail!("{id} asks for what only you can name, so nothing was granted. Add\n  {}", open.join("\n  "));
    }
    let given = answers.secrets.len() + answers.directories.len() + answers.settings.len() + answers.environment.len();
    if used < given {
        bail!(
            "{id} does not ask for all that you name, or has some of it already; with --as-asked, name what it lacks alone."
        );
    }
    Ok(changes)
}

/// Where the secret for this upstream is, as the operator said.
fn place<'a>(upstream: &str, lacks: &Request, told: &'a [String]) -> Option<&'a str> {
    let named = told.iter().find_map(|text| text.strip_prefix(upstream)?.strip_prefix('='));
    let alone = lacks.upstreams.values().filter(|one| one.secret.is_some()).count() == 1;
    let only = || told.first().map(String::as_str).filter(|text| SecretPlace::parse(text).is_ok());
    named.or_else(|| if alone { only() } else { None })
}

fn upstream(name: &str, wanted: &Upstream, place: Option<&str>) -> GrantUpstream {
    let secret = wanted.secret.as_ref().zip(place);
    let header = |header: &String| Some(header.clone()).filter(|header| header != "authorization");
    GrantUpstream {
        name: name.to_owned(),
        url: wanted.url.clone(),
        methods: wanted.methods.iter().cloned().collect(),
        paths: wanted.paths.iter().cloned().collect(),
        allow_private: wanted.allow_private,
        credential: secret.map(|(secret, place)| (place.to_owned(), header(&secret.header), secret.scheme.clone())),
        limits: wanted.limits.iter().map(number).collect(),
    }
}

fn number((name, value): (&String, &u64)) -> (String, i64) {
    (name.clone(), i64::try_from(*value).expect("a request holds no larger numbers"))
}

/// The command that grants it. What is in capitals only the operator knows.
pub fn command(directory: &str, id: &PluginId, lacks: &Request) -> String {
    let mut words = vec![format!("{} --plugins {} plugins grant {id} --as-asked", app::NAME, shell_word(directory))];
    let secrets = lacks.upstreams.iter().filter(|(_, upstream)| upstream.secret.is_some());
    words.extend(secrets.map(|(name, _)| option("secret", name, "PLACE")));
    words.extend(lacks.directories.keys().map(|path| option("directory", path, "DIR")));
    words.extend(lacks.config.iter().map(|name| option("set", name, "VALUE")));
    words.extend(lacks.environment.iter().map(|name| option("environment", name, "VALUE")));
    words.join(" ")
}

/// A name that begins like an option would be taken for one.
fn option(flag: &str, name: &str, value: &str) -> String {
    let between = if name.starts_with('-') { '=' } else { ' ' };
    format!("--{flag}{between}{}={value}", shell_word(name))
}
