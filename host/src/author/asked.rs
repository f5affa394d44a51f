//! What a `grants.toml` asks for, as it is granted where a plugin is tried: secrets are not needed there, so they are not
//! read, and directories are looked for beside the file.

use anyhow::{Context, bail};
use secrecy::SecretString;
use std::path::Path;

use crate::config::{Grants, PluginsFile};
use crate::model::PluginId;
use crate::upstreams::http::check_grant;

/// In place of every secret; a case can say that it was sent.
pub const SECRET: &str = "test-secret";

/// Without a file a plugin gets what needs no operator, under whatever names its tools have. Errors: mistakes in the file,
/// with their line, or an entry for another plugin alone.
pub fn grants(path: &Path, id: &PluginId) -> anyhow::Result<Grants> {
    if !path.exists() {
        return Ok(Grants { any_tool_name: true, ..Grants::default() });
    }
    let shown = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("{shown} cannot be read"))?;
    let mut file: PluginsFile = toml::from_str(&text).with_context(|| shown.to_string())?;
    let mut grants = match file.plugins.remove(id.as_str()) {
        Some(grants) => grants,
        None if file.plugins.is_empty() => Grants::default(),
        None => bail!(
            "{shown} has entries for {} and none for {id}, which is the name of the component's file",
            file.plugins.into_keys().collect::<Vec<_>>().join(", "),
        ),
    };
    for (name, upstream) in &mut grants.upstreams {
        check_grant(upstream).map_err(|why| anyhow::anyhow!("{shown}: plugins.{id}.upstreams.{name}: {why}"))?;
        if let Some(credential) = &mut upstream.credential {
            credential.value = Some(SecretString::from(SECRET));
        }
    }
    let beside = path.parent().unwrap_or(Path::new(""));
    for (guest, directory) in &mut grants.directories {
        directory.host_path = beside.join(&directory.host_path);
        if !directory.host_path.is_dir() {
            bail!("{shown}: plugins.{id}.directories.{guest:?}: {} is not a directory", directory.host_path.display());
        }
    }
    Ok(grants)
}
