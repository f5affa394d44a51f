//! Changes to `plugins.toml` by command: comments, order and everything else stay as the operator wrote them.
//!
//! Pure but for [`change`]. Only `cli` uses this: no call, no tool and no transport reaches what grants (a test holds it to
//! that). Whether the result makes sense is `config`'s to say, before anything is written.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::Path;
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike, Value};

use super::lock::replace;
use crate::config::{EditLock, MAX_PLUGINS_FILE_BYTES, Mistakes, PluginsFile, Secrets, read_small_file};
use crate::model::PluginId;

/// Host interfaces that are granted by a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Import {
    Cuo,
    AuditAppend,
    AuditRead,
    Elicit,
    Sample,
    ResourceUpdates,
}

impl Import {
    /// Its name in `plugins.toml`.
    pub fn field(self) -> &'static str {
        match self {
            Import::Cuo => "cuo",
            Import::AuditAppend => "audit_append",
            Import::AuditRead => "audit_read",
            Import::Elicit => "elicit",
            Import::Sample => "sample",
            Import::ResourceUpdates => "resource_updates",
        }
    }
}

/// What to add or set. Lists grow, everything else is replaced.
#[derive(Clone, Debug, Default)]
pub struct Grant {
    pub upstream: Option<GrantUpstream>,
    /// Path that the plugin sees, directory of this machine.
    pub directories: Vec<(String, String)>,
    /// Of these directories.
    pub writable: bool,
    pub imports: Vec<Import>,
    pub config: Vec<(String, String)>,
    pub environment: Vec<(String, String)>,
    pub limits: Vec<(String, i64)>,
    pub digest: Option<String>,
    pub any_tool_name: bool,
}

#[derive(Clone, Debug, Default)]
pub struct GrantUpstream {
    pub name: String,
    /// Needed for one that is new.
    pub url: Option<String>,
    pub methods: Vec<String>,
    pub paths: Vec<String>,
    pub allow_private: bool,
    /// Place of the secret, header, scheme.
    pub credential: Option<(String, Option<String>, Option<String>)>,
    /// `max_request_bytes` and `max_response_bytes`.
    pub limits: Vec<(String, i64)>,
}

/// What to take away. Everything in it must have been granted.
#[derive(Clone, Debug, Default)]
pub struct Revoke {
    /// The whole entry.
    pub everything: bool,
    pub upstream: Option<RevokeUpstream>,
    pub directories: Vec<String>,
    pub imports: Vec<Import>,
    pub config: Vec<String>,
    pub environment: Vec<String>,
    pub limits: Vec<String>,
    pub digest: bool,
    pub any_tool_name: bool,
}

/// The whole upstream, unless parts of it are named.
#[derive(Clone, Debug, Default)]
pub struct RevokeUpstream {
    pub name: String,
    pub methods: Vec<String>,
    pub paths: Vec<String>,
    pub credential: bool,
    pub allow_private: bool,
}

/// Why a change is not made. For the operator.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    #[error("{0}")]
    Impossible(String),
    /// The file as it is, or as it would be.
    #[error(transparent)]
    Mistakes(#[from] Mistakes),
    #[error("{0} has been changed by somebody else meanwhile. Run the command again.")]
    Overtaken(String),
    #[error("{path}: {why}")]
    Io { path: String, why: io::Error },
}

type Result<T, E = EditError> = std::result::Result<T, E>;

fn impossible<T>(what: impl Into<String>) -> Result<T> {
    Err(EditError::Impossible(what.into()))
}

/// The text of the file with these grants.
pub fn grant(path: &Path, text: &str, id: &PluginId, grant: &Grant) -> Result<String> {
    let mut document = document(path, text)?;
    let plugin = child(child(document.as_item_mut(), "plugins")?, id.as_str())?;
    if let Some(upstream) = &grant.upstream {
        grant_upstream(plugin, id, upstream)?;
    }
    for import in &grant.imports {
        set(table(plugin)?, import.field(), true);
    }
    for (guest, host) in &grant.directories {
        let directory = table(child(child(plugin, "directories")?, guest)?)?;
        set(directory, "host_path", host.as_str());
        if grant.writable {
            set(directory, "writable", true);
        }
    }
    for (field, values) in [("config", &grant.config), ("environment", &grant.environment)] {
        for (name, value) in values {
            set(table(inline_child(plugin, field)?)?, name, value.as_str());
        }
    }
    for (name, value) in &grant.limits {
        set(table(child(plugin, "limits")?)?, name, *value);
    }
    if let Some(digest) = &grant.digest {
        set(table(plugin)?, "digest", digest.as_str());
    }
    if grant.any_tool_name {
        set(table(plugin)?, "any_tool_name", true);
    }
    checked(path, text, &document)
}

/// The text of the file in which a plugin that is pinned to another component is pinned to this one. `source` goes: it names
/// where the other came from. `None`: nothing stands in this component's way.
pub fn move_pin(path: &Path, text: &str, id: &PluginId, digest: &str) -> Result<Option<String>> {
    if PluginsFile::parse(path, text, Secrets::Named)?.grants(id.as_str()).pins(digest) != Some(false) {
        return Ok(None);
    }
    let mut document = document(path, text)?;
    let plugin = table(child(child(document.as_item_mut(), "plugins")?, id.as_str())?)?;
    set(plugin, "digest", format!("sha256:{digest}"));
    plugin.remove("source");
    checked(path, text, &document).map(Some)
}

fn grant_upstream(plugin: &mut Item, id: &PluginId, grant: &GrantUpstream) -> Result<()> {
    let name = &grant.name;
    let upstream = table(child(child(plugin, "upstreams")?, name)?)?;
    match &grant.url {
        Some(url) => set(upstream, "url", url.as_str()),
        None if upstream.contains_key("url") => {}
        None => return impossible(format!("{id} has no upstream {name} yet; write --upstream {name}=https://…")),
    }
    if !grant.methods.is_empty() {
        // Without a list it was GET alone, which stays granted.
        let is_new = !upstream.contains_key("paths");
        if !upstream.contains_key("methods") && !is_new {
            add_to(upstream, "methods", &["GET".to_owned()])?;
        }
        add_to(upstream, "methods", &grant.methods)?;
    }
    if !upstream.contains_key("paths") && grant.paths.is_empty() {
        return impossible(format!(
            "an upstream without paths grants nothing; add --path, such as --path '/v1/**' for {name}"
        ));
    }
    add_to(upstream, "paths", &grant.paths)?;
    if grant.allow_private {
        set(upstream, "allow_private", true);
    }
    for (name, bytes) in &grant.limits {
        set(upstream, name, *bytes);
    }
    if let Some((secret, header, scheme)) = &grant.credential {
        let mut credential = InlineTable::new();
        for (field, value) in [("header", header.as_ref()), ("scheme", scheme.as_ref()), ("secret", Some(secret))] {
            if let Some(value) = value {
                credential.insert(field, value.into());
            }
        }
        upstream.remove("credential");
        upstream.insert("credential", Item::Value(credential.into()));
    }
    Ok(())
}

/// The text of the file without these grants. Errors: something was not granted.
pub fn revoke(path: &Path, text: &str, id: &PluginId, revoke: &Revoke) -> Result<String> {
    let mut document = document(path, text)?;
    let plugins = document.get_mut("plugins").and_then(Item::as_table_like_mut);
    let Some(plugins) = plugins.filter(|plugins| plugins.contains_key(id.as_str())) else {
        return impossible(format!("{id} has no entry in {}: nothing is granted to it", path.display()));
    };
    if revoke.everything {
        plugins.remove(id.as_str());
        return checked(path, text, &document);
    }
    let plugin = plugins.get_mut(id.as_str()).expect("it has an entry");
    let plugin = table(plugin)?;
    if let Some(upstream) = &revoke.upstream {
        revoke_upstream(plugin, id, upstream)?;
    }
    for import in &revoke.imports {
        let field = import.field();
        match plugin.get(field).and_then(Item::as_bool) {
            Some(true) => drop(plugin.remove(field)),
            _ => return impossible(format!("{field} is not granted to {id}")),
        }
    }
    let named = [
        ("directories", &revoke.directories),
        ("config", &revoke.config),
        ("environment", &revoke.environment),
        ("limits", &revoke.limits),
    ];
    for (field, names) in named {
        for name in names {
            remove_from(plugin, id, field, name)?;
        }
    }
    for (field, asked) in [("digest", revoke.digest), ("any_tool_name", revoke.any_tool_name)] {
        if asked && plugin.remove(field).is_none() {
            return impossible(format!("{field} is not set for {id}"));
        }
    }
    checked(path, text, &document)
}

fn revoke_upstream(plugin: &mut dyn TableLike, id: &PluginId, revoke: &RevokeUpstream) -> Result<()> {
    let name = &revoke.name;
    if revoke.methods.is_empty() && revoke.paths.is_empty() && !revoke.credential && !revoke.allow_private {
        return remove_from(plugin, id, "upstreams", name);
    }
    let upstream = plugin.get_mut("upstreams").and_then(|all| all.get_mut(name)).and_then(Item::as_table_like_mut);
    let Some(upstream) = upstream else { return impossible(format!("upstream {name} is not granted to {id}")) };
    for (field, values) in [("methods", &revoke.methods), ("paths", &revoke.paths)] {
        for value in values {
            let array = upstream.get_mut(field).and_then(Item::as_array_mut);
            let found = array.and_then(|array| {
                let at = array.iter().position(|one| one.as_str() == Some(value))?;
                array.remove(at);
                Some(())
            });
            if found.is_none() {
                return impossible(format!("{value} is not among the {field} of {name} that are granted to {id}"));
            }
        }
    }
    if revoke.credential && upstream.remove("credential").is_none() {
        return impossible(format!("upstream {name} of {id} has no credential"));
    }
    if revoke.allow_private && upstream.remove("allow_private").is_none() {
        return impossible(format!("upstream {name} of {id} may not reach private addresses anyway"));
    }
    Ok(())
}

/// The text before and after.
pub struct Changed {
    pub before: String,
    pub after: String,
}

/// Put what `edit` makes of the file in its place, in one step. Other commands that change it wait for their turn, so that
/// no change is lost.
pub fn change(path: &Path, edit: impl FnOnce(&str) -> Result<String>) -> Result<Changed> {
    let io = |why| EditError::Io { path: path.display().to_string(), why };
    let _lock = EditLock::take(path).map_err(io)?;
    let before = read(path)?;
    let after = edit(&before)?;
    // An editor takes no turns.
    if read(path)? != before {
        return Err(EditError::Overtaken(path.display().to_string()));
    }
    if after != before {
        replace(path, after.as_bytes(), 0o644).map_err(io)?;
    }
    Ok(Changed { before, after })
}

/// The same, and nothing is written.
pub fn rehearse(path: &Path, edit: impl FnOnce(&str) -> Result<String>) -> Result<Changed> {
    let before = read(path)?;
    let after = edit(&before)?;
    Ok(Changed { before, after })
}

/// The file's text; empty when there is no file yet.
pub fn read(path: &Path) -> Result<String> {
    match read_small_file(path, MAX_PLUGINS_FILE_BYTES) {
        Ok(text) => Ok(text),
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(why) => Err(EditError::Io { path: path.display().to_string(), why }),
    }
}

/// A file with mistakes is not edited: what a change means in it is not known.
fn document(path: &Path, text: &str) -> Result<DocumentMut> {
    PluginsFile::parse(path, text, Secrets::Named)?;
    text.parse().map_err(|why: toml_edit::TomlError| EditError::Impossible(why.to_string()))
}

fn checked(path: &Path, before: &str, document: &DocumentMut) -> Result<String> {
    let text = spelled_as(before, document.to_string());
    PluginsFile::parse(path, &text, Secrets::Named)?;
    Ok(text)
}

/// With the byte order mark and the ends of lines of the text before, which the editing library does not keep.
fn spelled_as(before: &str, mut after: String) -> String {
    let lines = before.matches('\n').count();
    if lines > 0 && before.matches("\r\n").count() == lines {
        after = after.replace("\r\n", "\n").replace('\n', "\r\n");
    }
    if before.starts_with('\u{feff}') && !after.starts_with('\u{feff}') {
        after.insert(0, '\u{feff}');
    }
    after
}

fn table(item: &mut Item) -> Result<&mut dyn TableLike> {
    match item.as_table_like_mut() {
        Some(table) => Ok(table),
        None => impossible("a table is expected in plugins.toml where something else stands"),
    }
}

/// The table of that name, made in the style of the one around it when it is not there.
fn child<'i>(parent: &'i mut Item, name: &str) -> Result<&'i mut Item> {
    let inline = parent.is_inline_table();
    let made = || match inline {
        true => Item::Value(InlineTable::new().into()),
        false => {
            let mut table = Table::new();
            // Its header is written only when it has fields of its own.
            table.set_implicit(true);
            Item::Table(table)
        }
    };
    Ok(table(parent)?.entry(name).or_insert_with(made))
}

/// The same for small tables, which read better on one line.
fn inline_child<'i>(parent: &'i mut Item, name: &str) -> Result<&'i mut Item> {
    Ok(table(parent)?.entry(name).or_insert_with(|| Item::Value(InlineTable::new().into())))
}

/// In place of the old value, with the comment behind it.
fn set(table: &mut dyn TableLike, name: &str, value: impl Into<Value>) {
    let mut value = value.into();
    if let Some(old) = table.get(name).and_then(Item::as_value) {
        *value.decor_mut() = old.decor().clone();
        if let Some(item) = table.get_mut(name) {
            *item = Item::Value(value);
        }
        return;
    }
    table.insert(name, Item::Value(value));
}

fn add_to(table: &mut dyn TableLike, name: &str, values: &[String]) -> Result<()> {
    let list = table.entry(name).or_insert_with(|| Item::Value(Array::new().into()));
    let Some(array) = list.as_array_mut() else { return impossible(format!("{name} is not a list")) };
    for text in values {
        if array.iter().any(|one| one.as_str() == Some(text)) {
            continue;
        }
        // A list with a line for each element stays one.
        let lined = array.iter().last().map(|last| last.decor().clone());
        let lined = lined.filter(|decor| decor.prefix().and_then(|p| p.as_str()).is_some_and(|p| p.contains('\n')));
        match lined {
            Some(decor) => {
                let mut value = Value::from(text.as_str());
                *value.decor_mut() = decor;
                array.push_formatted(value);
            }
            None => array.push(text.as_str()),
        }
    }
    Ok(())
}

fn remove_from(plugin: &mut dyn TableLike, id: &PluginId, field: &str, name: &str) -> Result<()> {
    let granted = plugin.get_mut(field).and_then(Item::as_table_like_mut);
    let Some(granted) = granted else {
        return impossible(format!("{field} {name} is not granted to {id}: it has none"));
    };
    if granted.remove(name).is_none() {
        let has: Vec<String> = granted.iter().map(|(name, _)| name.to_owned()).collect();
        return impossible(format!("{field} {name} is not granted to {id}; it has {}", has.join(", ")));
    }
    if granted.is_empty() {
        plugin.remove(field);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
