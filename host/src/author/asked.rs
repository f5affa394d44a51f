//! What a `grants.toml` asks for, as it is granted where a plugin is tried: secrets are not needed there, so they are not
//! read, and directories are looked for beside the file.

use anyhow::{Context, bail};
use std::path::Path;

use crate::config::{Grants, LiveSecret, PluginsFile, Secrets};
use crate::model::PluginId;
use crate::plugins::Request;

/// In place of every secret; a case can say that it was sent.
pub const SECRET: &str = "test-secret";

/// Without a file a plugin gets what needs no operator, under whatever names its tools have. Errors: mistakes in the file,
/// with their lines, or an entry for another plugin alone.
pub fn grants(path: &Path, id: &PluginId) -> anyhow::Result<Grants> {
    if !path.exists() {
        return Ok(Grants { any_tool_name: true, ..Grants::default() });
    }
    let text = std::fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))?;
    let mut grants = entry(path, read(path, &text)?, id)?;
    for credential in grants.upstreams.values_mut().filter_map(|upstream| upstream.credential.as_mut()) {
        credential.value = Some(LiveSecret::new(SECRET.into()));
    }
    Ok(grants)
}

/// What the component is to carry. `None`: there is no such file. The directories that it names need not be there, because
/// nothing of them is carried. Errors: as of [`grants`].
pub fn request(path: &Path, id: &PluginId) -> anyhow::Result<Option<Request>> {
    if !path.exists() {
        return Ok(None);
    }
    let text = std::fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))?;
    let anywhere = with_directories(&text, |_| "/".into());
    let file = PluginsFile::parse(path, &anywhere, Secrets::Named)?;
    Ok(Some(Request::of(&entry(path, file, id)?)))
}

/// The plugin's own entry; the defaults where the file has none at all.
fn entry(path: &Path, mut file: PluginsFile, id: &PluginId) -> anyhow::Result<Grants> {
    Ok(match file.plugins.remove(id.as_str()) {
        Some(grants) => grants,
        None if file.plugins.is_empty() => Grants::default(),
        None => bail!(
            "{} has entries for {} and none for {id}, which is the name of the component's file",
            path.display(),
            file.plugins.into_keys().collect::<Vec<_>>().join(", "),
        ),
    })
}

/// As a bridge would read it, but for the secrets. `path` is where the text is from.
pub fn read(path: &Path, text: &str) -> anyhow::Result<PluginsFile> {
    Ok(PluginsFile::parse(path, &from_here(path, text), Secrets::Named)?)
}

/// The same text, with the directories that it names as they are found from the file, and not from wherever a bridge runs.
pub fn from_here(path: &Path, text: &str) -> String {
    let beside = std::path::absolute(path).ok().and_then(|path| Some(path.parent()?.to_owned())).unwrap_or_default();
    with_directories(text, |given| beside.join(given).display().to_string())
}

fn with_directories(text: &str, place_of: impl Fn(&str) -> String) -> String {
    let Ok(mut document) = text.parse::<toml_edit::DocumentMut>() else {
        // Whoever reads it says where it is wrong.
        return text.to_owned();
    };
    let plugins = document.get_mut("plugins").and_then(|plugins| plugins.as_table_like_mut());
    for (_, plugin) in plugins.into_iter().flat_map(|plugins| plugins.iter_mut()) {
        let directories = plugin.get_mut("directories").and_then(|all| all.as_table_like_mut());
        for (_, directory) in directories.into_iter().flat_map(|all| all.iter_mut()) {
            if let Some(place) = directory.get_mut("host_path")
                && let Some(given) = place.as_str().map(&place_of)
            {
                *place = toml_edit::value(given);
            }
        }
    }
    document.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_looked_for_from_the_file() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("data")).unwrap();
        let path = home.path().join("grants.toml");
        let text = "[plugins.a.directories]\n\"/data\" = { host_path = \"data\" }\n";
        std::fs::write(&path, text).unwrap();
        let grants = grants(&path, &PluginId::parse("a").unwrap()).unwrap();
        assert_eq!(grants.directories["/data"].host_path, home.path().join("data"));
    }

    #[test]
    fn a_secret_is_neither_read_nor_needed() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("grants.toml");
        let text = "[plugins.a.upstreams.api]\nurl = \"https://api.example.com\"\npaths = [\"/x\"]\n\
            credential = { secret = \"env:NOBODY_SET_THIS\" }\n";
        std::fs::write(&path, text).unwrap();
        let grants = grants(&path, &PluginId::parse("a").unwrap()).unwrap();
        assert!(grants.upstreams["api"].credential.as_ref().unwrap().value.is_some());
    }
}
