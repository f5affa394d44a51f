//! `plugins.toml`, edited: which component a plugin's name stands for, and where it came from. Everything else in the
//! file, comments included, stays as it was.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::{fs, io};
use toml_edit::{DocumentMut, Item, Table, TableLike, value};

#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", .path.display())]
pub struct PinError {
    pub path: PathBuf,
    pub why: String,
}

/// The file as it was read. Nothing is written before [`Pins::write`].
pub(super) struct Pins {
    path: PathBuf,
    document: DocumentMut,
}

impl Pins {
    /// A file that is not there is an empty one.
    pub(super) fn read(path: &Path) -> Result<Pins, PinError> {
        let bad = |why: String| PinError { path: path.to_owned(), why };
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(bad(format!("cannot be read: {error}"))),
        };
        let document = text.parse().map_err(|error: toml_edit::TomlError| bad(error.to_string()))?;
        // A link stays a link: its target is replaced.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        Ok(Pins { path, document })
    }

    pub(super) fn digest(&self, plugin: &str) -> Option<&str> {
        self.entry(plugin)?.get("digest")?.as_str()
    }

    /// Is there anything under this field of the plugin's entry?
    pub(super) fn grants(&self, plugin: &str, field: &str) -> bool {
        let Some(item) = self.entry(plugin).and_then(|entry| entry.get(field)) else { return false };
        match item.as_bool() {
            Some(yes) => yes,
            None => item.as_table_like().is_none_or(|table| !table.is_empty()),
        }
    }

    fn entry(&self, plugin: &str) -> Option<&dyn TableLike> {
        self.document.get("plugins")?.as_table_like()?.get(plugin)?.as_table_like()
    }

    pub(super) fn set(&mut self, plugin: &str, digest: &str, source: &str) -> Result<(), PinError> {
        let path = self.path.clone();
        let no_table = |what: String| PinError { path: path.clone(), why: format!("{what} is no table") };
        let plugins = self.document.entry("plugins").or_insert_with(|| {
            let mut table = Table::new();
            // `[plugins.weather]` and no `[plugins]` above it.
            table.set_implicit(true);
            Item::Table(table)
        });
        let plugins = plugins.as_table_like_mut().ok_or_else(|| no_table("plugins".into()))?;
        let inline = plugins.get(plugin).is_none() && plugins.iter().any(|(_, item)| item.is_inline_table());
        let fresh = || if inline { value(toml_edit::InlineTable::new()) } else { Item::Table(Table::new()) };
        let entry = plugins.entry(plugin).or_insert_with(fresh);
        let entry = entry.as_table_like_mut().ok_or_else(|| no_table(format!("plugins.{plugin}")))?;
        set_text(entry, "digest", digest);
        set_text(entry, "source", source);
        Ok(())
    }

    pub(super) fn text(&self) -> String {
        self.document.to_string()
    }

    pub(super) fn write(&self) -> Result<(), PinError> {
        replace(&self.path, self.document.to_string().as_bytes())
            .map_err(|error| PinError { path: self.path.clone(), why: format!("cannot be written: {error}") })
    }
}

/// A comment behind the old value stays behind the new one.
fn set_text(entry: &mut dyn TableLike, key: &str, text: &str) {
    match entry.get_mut(key).and_then(Item::as_value_mut) {
        Some(old) => {
            let decor = old.decor().clone();
            *old = text.into();
            *old.decor_mut() = decor;
        }
        None => {
            entry.insert(key, value(text));
        }
    }
}

/// The file has either its old content or the whole new one, whatever happens. Its mode stays; a new file is 0644 less the
/// umask, because the bridge may run as somebody else.
pub(super) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mode = fs::metadata(path).map(|meta| meta.permissions()).ok();
    let new = tempfile::Builder::new()
        .prefix(".")
        .suffix(".part")
        .permissions(fs::Permissions::from_mode(0o644))
        .tempfile_in(directory)?;
    if let Some(mode) = mode {
        new.as_file().set_permissions(mode)?;
    }
    new.as_file().write_all(content)?;
    new.as_file().sync_all()?;
    new.persist(path).map_err(|error| error.error)?;
    fs::File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pinned(before: &str) -> String {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), before).unwrap();
        let mut pins = Pins::read(file.path()).unwrap();
        pins.set("weather", "sha256:new", "oci://r/weather@sha256:m").unwrap();
        pins.write().unwrap();
        let after = fs::read_to_string(file.path()).unwrap();
        let read: toml::Table = after.parse().unwrap();
        assert_eq!(read["plugins"]["weather"]["digest"].as_str(), Some("sha256:new"), "{after}");
        after
    }

    #[test]
    fn a_pin_keeps_comments_and_everything_else() {
        assert_eq!(pinned(""), "[plugins.weather]\ndigest = \"sha256:new\"\nsource = \"oci://r/weather@sha256:m\"\n");
        let before = "# ours\n[plugins.weather] # since May\ncuo = true\ndigest = \"sha256:old\" # checked by Ann\n\n\
            [plugins.weather.upstreams.api] # the forecast\nurl = \"https://x\"\npaths = []\n";
        let after = pinned(before);
        for comment in
            ["# ours", "# since May", "# checked by Ann", "# the forecast", "cuo = true\n", "url = \"https://x\""]
        {
            assert!(after.contains(comment), "{comment} is gone:\n{after}");
        }
        assert!(!after.contains("sha256:old"));
        pinned("plugins = { weather = { cuo = true }, b = {} }\n");
        pinned("plugins = { b = { cuo = true } }\n");
    }

    #[test]
    fn what_is_granted_is_seen() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "[plugins.a]\ncuo = true\nelicit = false\nupstreams = {}\n").unwrap();
        let pins = Pins::read(file.path()).unwrap();
        assert!(pins.grants("a", "cuo"));
        for (plugin, field) in [("a", "elicit"), ("a", "upstreams"), ("a", "sample"), ("b", "cuo")] {
            assert!(!pins.grants(plugin, field), "{plugin} {field}");
        }
    }
}
