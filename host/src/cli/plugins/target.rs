//! What these commands work on: a plugin by its name or its file, the file of grants, and what was approved. Read without
//! secrets, and without starting anything.

use anyhow::{Context, anyhow, bail};
use similar::TextDiff;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

use crate::app;
use crate::cli::out;
use crate::config::{self, Grants, PluginsFile, Policy, Secrets, SettingsArgs};
use crate::model::PluginId;
use crate::plugins::edit::{self, EditError};
use crate::plugins::{Approvals, files};
use crate::runtime::Embedded;

/// A component that was found, and what would be held against it.
pub struct Target {
    pub id: PluginId,
    /// `None`: it is part of this binary.
    pub path: Option<PathBuf>,
    pub wasm: Vec<u8>,
    pub grants: Grants,
    pub policy: Policy,
}

impl Target {
    /// By file, which has a slash or the ending .wasm, else by name among the plugins of `--plugins` and the built-in ones.
    pub fn find(settings: &SettingsArgs, name: &str) -> anyhow::Result<Target> {
        let as_file = Path::new(name);
        if name.ends_with(".wasm") || name.contains('/') {
            let file = grants(settings)?;
            let stem = as_file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().replace('_', "-");
            let id = PluginId::parse(&stem)
                .with_context(|| format!("{name} must be named with a-z, 0-9 and -, at most 63 characters"))?;
            return Self::at(id, as_file.to_owned(), &file);
        }
        Self::named(settings, &plugin_id(name)?)
    }

    /// By name alone: no file of the current directory is taken for it.
    pub fn named(settings: &SettingsArgs, wanted: &PluginId) -> anyhow::Result<Target> {
        let file = grants(settings)?;
        let found = match &settings.plugins {
            Some(directory) => {
                files::scan(directory).with_context(|| format!("--plugins: {} cannot be read", directory.display()))?
            }
            None => vec![],
        };
        let found: Vec<(PluginId, PathBuf)> =
            found.into_iter().filter_map(|file| Some((file.id.ok()?, file.path))).collect();
        if let Some((id, path)) = found.iter().find(|(id, _)| id == wanted) {
            return Self::at(id.clone(), path.clone(), &file);
        }
        if let Some(embedded) = Embedded::all().iter().find(|one| one.id == wanted.as_str()) {
            let skills = app::skills_directory(settings, &config::state_dir(settings)?);
            let grants = app::first_party(embedded.id, &skills);
            return Ok(Target { id: wanted.clone(), path: None, wasm: embedded.wasm(), grants, policy: file.policy });
        }
        let known: Vec<&str> =
            found.iter().map(|(id, _)| id.as_str()).chain(Embedded::all().iter().map(|one| one.id)).collect();
        bail!(
            "there is no plugin {wanted}. There are {}. Name a file, or its directory with --plugins.",
            known.join(", ")
        );
    }

    fn at(id: PluginId, path: PathBuf, file: &PluginsFile) -> anyhow::Result<Target> {
        let wasm = files::read(&path).map_err(|blocked| anyhow!(blocked.reason))?.wasm;
        let grants = file.grants(id.as_str());
        Ok(Target { id, path: Some(path), wasm, grants, policy: file.policy.clone() })
    }
}

pub fn plugin_id(name: &str) -> anyhow::Result<PluginId> {
    let spelled = name.replace('_', "-");
    PluginId::parse(&spelled)
        .with_context(|| format!("{name:?} is not a plugin's name: a-z, 0-9 and -, at most 63 characters"))
}

fn grants(settings: &SettingsArgs) -> anyhow::Result<PluginsFile> {
    match settings.grants_file() {
        Some(path) => Ok(PluginsFile::parse(&path, &edit::read(&path)?, Secrets::Named)?),
        None => Ok(PluginsFile::default()),
    }
}

pub fn granted_to(settings: &SettingsArgs, id: &PluginId) -> anyhow::Result<Grants> {
    Ok(grants(settings)?.grants(id.as_str()))
}

/// The file that `grant` and `revoke` change.
pub fn grants_path(settings: &SettingsArgs) -> anyhow::Result<PathBuf> {
    settings.grants_file().context("which plugins.toml? Name it with --plugins-file, or its directory with --plugins")
}

/// Where approvals are kept.
pub fn plugins_state(settings: &SettingsArgs) -> anyhow::Result<PathBuf> {
    Ok(config::state_dir(settings)?.join("plugins"))
}

pub fn approvals(settings: &SettingsArgs) -> anyhow::Result<Approvals> {
    Ok(Approvals::open(&plugins_state(settings)?))
}

/// A person says yes, or there is nobody to ask.
pub fn agrees(question: &str) -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() {
        bail!("nobody is there to ask. Read what is shown above, then run it again with --yes.");
    }
    eprint!("{question} [y/N] ");
    io::stderr().flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Show how the file changes, and change it unless this is a rehearsal.
pub fn put(
    path: &Path,
    dry_run: bool,
    output: out::OutputArgs,
    edit: impl FnOnce(&str) -> Result<String, EditError>,
) -> anyhow::Result<()> {
    let edit::Changed { before, after } = if dry_run { edit::rehearse(path, edit)? } else { edit::change(path, edit)? };
    let name = path.display().to_string();
    let diff = TextDiff::from_lines(&before, &after).unified_diff().header(&name, &name).to_string();
    if output.json {
        let changed = before != after;
        return out::json(
            &serde_json::json!({ "file": name, "changed": changed, "written": changed && !dry_run, "diff": diff }),
        );
    }
    match (diff.is_empty(), dry_run) {
        (true, _) => out::text(&format!("{name} says so already."))?,
        (false, true) => out::text(&format!("{}\nNothing was written (--dry-run).", out::printable(diff.trim_end())))?,
        (false, false) => out::text(&out::printable(&diff))?,
    }
    Ok(())
}
