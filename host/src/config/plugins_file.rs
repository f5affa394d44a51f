//! `plugins.toml`: what each plugin may reach. Read as a whole; a mistake names its line.

use secrecy::SecretString;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

use super::grants::Grants;
use super::settings::BadSetting;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PluginsFile {
    /// By plugin id, which is the component's file name without `.wasm`.
    pub plugins: BTreeMap<String, Grants>,
}

impl PluginsFile {
    pub fn read(path: &Path) -> Result<PluginsFile, BadSetting> {
        let bad = |what: String| BadSetting::new(format!("{}: {what}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|e| bad(format!("cannot be read: {e}")))?;
        // The parser's message holds the line, the column and the offending text.
        let mut file: PluginsFile = toml::from_str(&text).map_err(|e| bad(e.to_string()))?;
        for (plugin, grants) in &mut file.plugins {
            grants.check().map_err(|e| bad(format!("plugins.{plugin}: {e}")))?;
        }
        Ok(file)
    }

    /// A plugin without an entry gets the defaults: nothing but its own computing.
    pub fn grants(&self, plugin: &str) -> Grants {
        self.plugins.get(plugin).cloned().unwrap_or_default()
    }
}

impl Grants {
    /// Find the secrets, and refuse values that could not work.
    fn check(&mut self) -> Result<(), String> {
        for (name, upstream) in &mut self.upstreams {
            let says = |what: String| format!("upstreams.{name}: {what}");
            let url = url::Url::parse(&upstream.url).map_err(|e| says(format!("url: {e}")))?;
            let bare = matches!(url.scheme(), "http" | "https")
                && url.path() == "/"
                && url.query().is_none()
                && url.username().is_empty();
            if !bare || url.host().is_none() {
                return Err(says("url must be scheme, host and port only, such as https://api.example.com".into()));
            }
            if let Some(credential) = &mut upstream.credential {
                credential.value = Some(secret(&credential.secret).map_err(|e| says(format!("credential: {e}")))?);
            }
        }
        for (guest, directory) in &self.directories {
            if !guest.starts_with('/') {
                return Err(format!("directories: {guest:?} must be an absolute path, as the plugin sees it"));
            }
            if !directory.host_path.is_dir() {
                return Err(format!("directories: {} is not a directory", directory.host_path.display()));
            }
        }
        if let Some(digest) = &self.digest {
            let hex =
                |digits: &str| digits.len() == 64 && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
            if !digest.strip_prefix("sha256:").is_some_and(hex) {
                return Err(format!("digest: {digest:?} is not sha256: and 64 lower-case hex digits"));
            }
        }
        let limits = &self.limits;
        let (max_memory, max_tables) =
            (crate::config::settings::MAX_MEMORY_BYTES, crate::config::settings::MAX_TABLE_ELEMENTS);
        if limits.memory_bytes > max_memory {
            return Err(format!("limits.memory_bytes is at most {max_memory}"));
        }
        if limits.table_elements > max_tables {
            return Err(format!("limits.table_elements is at most {max_tables}"));
        }
        if limits.memory_share_bytes < limits.memory_bytes {
            return Err(
                "limits.memory_share_bytes must be at least limits.memory_bytes, or no call could use its own".into()
            );
        }
        if limits.fuel == 0 || limits.deadline_ms == 0 || limits.output_bytes == 0 || limits.concurrency == 0 {
            return Err("limits.fuel, deadline_ms, output_bytes and concurrency must be greater than 0".into());
        }
        Ok(())
    }
}

/// `env:NAME` or `file:PATH`.
fn secret(place: &str) -> Result<SecretString, String> {
    let value = match place.split_once(':') {
        #[allow(clippy::disallowed_methods)]
        Some(("env", name)) => {
            std::env::var(name).map_err(|_| format!("the environment variable {name} is not set"))?
        }
        Some(("file", path)) => std::fs::read_to_string(path).map_err(|e| format!("{path} cannot be read: {e}"))?,
        _ => return Err("secret must be env:NAME or file:PATH".into()),
    };
    match value.trim() {
        "" => Err(format!("{place} is empty")),
        value => Ok(SecretString::from(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<PluginsFile, BadSetting> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        PluginsFile::read(file.path())
    }

    #[test]
    fn a_mistake_is_named_with_its_line() {
        let error = read("[plugins.weather]\ncuo = true\nupstream = 3\n").unwrap_err().to_string();
        assert!(error.contains("line 3") && error.contains("upstream"), "{error}");
        let error =
            read("[plugins.w.upstreams.api]\nurl = \"https://u@example.com/x\"\npaths = []\n").unwrap_err().to_string();
        assert!(error.contains("scheme, host and port only"), "{error}");
    }

    #[test]
    fn nothing_is_granted_unless_it_is_written() {
        let grants = read("").unwrap().grants("anything");
        assert!(grants.upstreams.is_empty() && !grants.cuo && !grants.audit_append && grants.directories.is_empty());
        assert!(!grants.elicit && !grants.sample && !grants.resource_updates);
    }
}
