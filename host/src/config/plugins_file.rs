//! `plugins.toml`: what is demanded of every plugin, and what each one may reach. Read as a whole; every mistake in it is
//! told, each with its line, its column and the way to mend it.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

use super::grants::{Credential, Grants, Limits};
use super::live_secret::LiveSecret;
use super::mistakes::{Mistakes, Places, Wrong};
use super::policy::Policy;
use super::secret_place::SecretPlace;
use super::settings::{BadSetting, MAX_MEMORY_BYTES, MAX_TABLE_ELEMENTS};
use super::small_file::read_small_file;
use super::structure;
use crate::model::PluginId;

/// Thousands of entries. The file is read while others are served.
pub const MAX_PLUGINS_FILE_BYTES: u64 = 4 << 20;

/// What plugins may reach, and what is demanded of them. Nothing is granted unless it is written here.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "plugins.toml")]
pub struct PluginsFile {
    /// What is demanded of every plugin.
    pub policy: Policy,
    /// By plugin id, which is the component's file name without `.wasm`, with underscores read as hyphens.
    pub plugins: BTreeMap<String, Grants>,
}

/// Does reading the file also read the secrets that it names?
#[derive(Clone, Copy)]
pub enum Secrets<'f> {
    /// For serving: a secret that cannot be read is a mistake.
    Read,
    /// The same while this file is in force: a secret that it has from the same place is kept where it cannot be read.
    ReadAgain(&'f PluginsFile),
    /// For looking at what serves: one that cannot be read is left out.
    IfThere,
    /// For looking at the file: whoever looks may be unable to read them, and needs none.
    Named,
}

impl PluginsFile {
    /// For serving. Errors: the file cannot be read, or holds mistakes, all of which are told.
    pub fn read(path: &Path, secrets: Secrets<'_>) -> Result<PluginsFile, BadSetting> {
        let text = read_small_file(path, MAX_PLUGINS_FILE_BYTES)
            .map_err(|e| BadSetting::new(format!("{}: it cannot be read: {e}", path.display())))?;
        Ok(Self::parse(path, &text, secrets)?)
    }

    /// `path` is for the mistakes' text alone.
    pub fn parse(path: &Path, text: &str, secrets: Secrets<'_>) -> Result<PluginsFile, Mistakes> {
        let places = Places::of(path, text)?;
        let (read, mut wrongs) = match toml::from_str::<PluginsFile>(text) {
            Ok(file) => (Some(file), vec![]),
            Err(first) => misfits(text, &first),
        };
        // What could be read of it is held to the rest, so that all mistakes are told at once.
        let file = read.map(|mut file| {
            wrongs.extend(file.settle(secrets));
            file
        });
        match file {
            Some(file) if wrongs.is_empty() => Ok(file),
            _ => Err(places.mistakes(wrongs)),
        }
    }

    /// The JSON Schema of the file (2020-12), for editors and checks.
    pub fn schema() -> Value {
        schemars::schema_for!(PluginsFile).to_value()
    }

    /// A plugin without an entry gets the defaults: nothing but its own computing.
    pub fn grants(&self, plugin: &str) -> Grants {
        self.plugins.get(plugin).cloned().unwrap_or_default()
    }

    /// Every credential with its plugin and its upstream.
    pub fn credentials(&self) -> impl Iterator<Item = (&str, &str, &Credential)> {
        self.plugins.iter().flat_map(|(plugin, grants)| {
            let upstreams = grants.upstreams.iter();
            upstreams.filter_map(move |(name, upstream)| Some((&**plugin, &**name, upstream.credential.as_ref()?)))
        })
    }

    fn credential(&self, plugin: &str, upstream: &str) -> Option<&Credential> {
        self.plugins.get(plugin)?.upstreams.get(upstream)?.credential.as_ref()
    }

    /// This file is in force in place of that one. Calls under way go on with what they were granted, so a new value reaches
    /// them only where it goes to the same service, and in the same way; elsewhere they keep the old one to their end.
    pub fn take_over(&mut self, before: &PluginsFile) {
        for (plugin, grants) in &mut self.plugins {
            for (name, upstream) in &mut grants.upstreams {
                let Some(known) = before.plugins.get(plugin).and_then(|grants| grants.upstreams.get(name)) else {
                    continue;
                };
                if known.url != upstream.url {
                    continue;
                }
                let (Some(credential), Some(known)) = (&mut upstream.credential, &known.credential) else { continue };
                if (&known.header, &known.scheme) != (&credential.header, &credential.scheme) {
                    continue;
                }
                if let (Some(known), Some(value)) = (&known.value, &credential.value) {
                    known.becomes(value.current());
                    credential.value = Some(known.clone());
                }
            }
        }
    }

    /// Find the secrets, and everything that could not work.
    fn settle(&mut self, secrets: Secrets<'_>) -> Vec<Wrong> {
        let mut wrongs: Vec<Wrong> = self.policy.wrongs().into_iter().map(|wrong| wrong.below(&["policy"])).collect();
        for (plugin, grants) in &mut self.plugins {
            if PluginId::parse(plugin).is_none() {
                let what = "it is not a plugin's id, so it would grant nothing to anybody";
                let remedy = "Use a-z, 0-9 and -, at most 63: the component's file name, underscores as hyphens.";
                wrongs.push(Wrong::at(&["plugins", plugin], what, remedy));
            }
            wrongs.extend(grants.settle(plugin, secrets).into_iter().map(|wrong| wrong.below(&["plugins", plugin])));
        }
        wrongs
    }
}

/// What does not fit the types, and the file without it, where that can be read.
fn misfits(text: &str, first: &toml::de::Error) -> (Option<PluginsFile>, Vec<Wrong>) {
    let mut table: toml::Table = toml::from_str(text).unwrap_or_default();
    let value = serde_json::to_value(&table).unwrap_or_default();
    let mut wrongs = structure::wrongs(&PluginsFile::schema(), &value);
    for wrong in &wrongs {
        take_out(&mut table, &wrong.at);
    }
    let rest = table.try_into().ok();
    if wrongs.is_empty() {
        // The schema allows what the types do not: rather serde's words than none.
        wrongs.push(Wrong::at(&[], first.message().trim(), "Mend the value, or take it out."));
        return (None, wrongs);
    }
    (rest, wrongs)
}

/// The field; of an upstream, a directory or a list, all of it: what is left must make sense.
fn take_out(table: &mut toml::Table, at: &[String]) {
    let whole = match at {
        [plugins, _, kind, _, ..] if plugins == "plugins" && (kind == "upstreams" || kind == "directories") => 4,
        _ => at.len(),
    };
    fn remove(table: &mut toml::Table, at: &[String]) {
        let Some((step, rest)) = at.split_first() else { return };
        match table.get_mut(step) {
            Some(toml::Value::Table(inner)) if !rest.is_empty() => remove(inner, rest),
            // The field, or the list that holds the element.
            _ => drop(table.remove(step)),
        }
    }
    remove(table, &at[..whole]);
}

impl Grants {
    fn settle(&mut self, plugin: &str, secrets: Secrets<'_>) -> Vec<Wrong> {
        let mut wrongs = vec![];
        for (name, upstream) in &mut self.upstreams {
            wrongs.extend(upstream.wrongs().into_iter().map(|wrong| wrong.below(&["upstreams", name])));
            let Some(credential) = &mut upstream.credential else { continue };
            let found = SecretPlace::parse(&credential.secret).and_then(|place| match secrets {
                Secrets::Read => place.read().map(Some),
                Secrets::ReadAgain(before) => place.read().map(Some).or_else(|no| {
                    let known = before.credential(plugin, name).filter(|known| known.secret == credential.secret);
                    known.and_then(|known| known.value.as_ref()).map(|value| Some(value.current())).ok_or(no)
                }),
                Secrets::IfThere => Ok(place.read().ok()),
                Secrets::Named => Ok(None),
            });
            match found {
                Ok(value) => credential.value = value.map(LiveSecret::new),
                Err(no) => {
                    let wrong = Wrong::at(&["credential", "secret"], no.what, no.remedy);
                    wrongs.push(wrong.below(&["upstreams", name]));
                }
            }
        }
        for (guest, directory) in &self.directories {
            if !guest.starts_with('/') {
                let what = "it is not an absolute path";
                let remedy = format!("Write the path that the plugin sees, such as \"/{guest}\".");
                wrongs.push(Wrong::at(&["directories", guest], what, remedy));
            }
            if !directory.host_path.is_dir() {
                let what = format!("{} is not a directory", directory.host_path.display());
                let remedy = "Create it, or correct the path.";
                wrongs.push(Wrong::at(&["directories", guest, "host_path"], what, remedy));
            }
        }
        for name in self.environment.keys().filter(|name| name.is_empty() || name.contains(['=', '\0'])) {
            let what = format!("{name:?} is not a variable's name");
            wrongs.push(Wrong::at(&["environment", name], what, "Use letters, digits and underscores."));
        }
        wrongs.extend(self.digest.iter().filter(|pin| !is_digest(pin)).map(|_| {
            let remedy = "Copy it from `plugins inspect`, or write sha256: before what `sha256sum` prints.";
            Wrong::at(&["digest"], "it is not sha256: and 64 hexadecimal digits in lower case", remedy)
        }));
        wrongs.extend(self.limits.wrongs().into_iter().map(|wrong| wrong.below(&["limits"])));
        wrongs
    }
}

fn is_digest(pin: &str) -> bool {
    let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    pin.strip_prefix("sha256:").is_some_and(|digits| digits.len() == 64 && digits.bytes().all(hex))
}

impl Limits {
    fn wrongs(&self) -> Vec<Wrong> {
        let mut wrongs = vec![];
        let bounded = [
            ("memory_bytes", self.memory_bytes, MAX_MEMORY_BYTES),
            ("table_elements", self.table_elements, MAX_TABLE_ELEMENTS),
        ];
        for (name, value, most) in bounded {
            if value > most {
                let what = format!("{value} is more than a place in the sandbox has");
                wrongs.push(Wrong::at(&[name], what, format!("Write at most {most}.")));
            }
        }
        if self.memory_share_bytes < self.memory_bytes && self.memory_bytes <= MAX_MEMORY_BYTES {
            let what = "it is less than memory_bytes, so no call could use its own";
            let remedy = format!("Write at least {}, or lower memory_bytes.", self.memory_bytes);
            wrongs.push(Wrong::at(&["memory_share_bytes"], what, remedy));
        }
        let needed = [
            ("fuel", self.fuel == 0),
            ("deadline_ms", self.deadline_ms == 0),
            ("output_bytes", self.output_bytes == 0),
            ("concurrency", self.concurrency == 0),
        ];
        for (name, _) in needed.into_iter().filter(|(_, none)| *none) {
            let remedy = "Write a number greater than 0, or leave it out for the default.";
            wrongs.push(Wrong::at(&[name], "with 0 no call can run", remedy));
        }
        wrongs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use secrecy::ExposeSecret;

    fn read(text: &str) -> Result<PluginsFile, Mistakes> {
        PluginsFile::parse(Path::new("plugins.toml"), text, Secrets::Read)
    }

    #[test]
    fn nothing_is_granted_unless_it_is_written() {
        let file = read("").unwrap();
        let grants = file.grants("anything");
        assert!(grants.upstreams.is_empty() && !grants.cuo && !grants.audit_append && grants.directories.is_empty());
        assert!(!grants.elicit && !grants.sample && !grants.resource_updates);
        assert!(file.policy.keys.is_empty());
    }

    #[test]
    fn a_new_secret_reaches_calls_under_way_at_the_same_service_alone() {
        // given
        let home = tempfile::tempdir().unwrap();
        let (old_key, new_key) = (home.path().join("old"), home.path().join("new"));
        std::fs::write(&old_key, "old").unwrap();
        std::fs::write(&new_key, "new").unwrap();
        let file = |url: &str, key: &Path, more: &str| {
            let credential = format!("{{ secret = \"file:{}\"{more} }}", key.display());
            let grant =
                format!("[plugins.w.upstreams.api]\nurl = \"{url}\"\npaths = [\"/x\"]\ncredential = {credential}\n");
            read(&grant).unwrap()
        };
        let held = |file: &PluginsFile| file.credential("w", "api").unwrap().value.clone().unwrap().current();
        for (url, more, expected) in [
            ("https://a.example", "", "new"),
            ("https://b.example", "", "old"),
            ("https://a.example", ", header = \"x-key\"", "old"),
        ] {
            let before = file("https://a.example", &old_key, "");
            let mut after = file(url, &new_key, more);
            // when
            after.take_over(&before);
            // then
            assert_eq!(held(&before).expose_secret(), expected, "{url}{more}");
            assert_eq!(held(&after).expose_secret(), "new");
        }
    }

    #[test]
    fn misfits_and_impossible_values_are_told_together_in_the_order_of_the_file() {
        let text = r#"
[policy]
signatures = "always"
[plugins.weather]
upstream = 3
cuo = "yes"
limits = { fuel = -1, deadline_ms = 0 }
[plugins.weather.upstreams.api]
url = "https://u@example.com/x"
paths = ["/v1/n*"]
[plugins.weather.upstreams.no-url]
methods = "GET"
paths = []
[plugins.Bad_Name]
digest = "sha256:12"
"#;
        let found = read(text).unwrap_err();
        let shown: Vec<String> = found.all.iter().map(|m| format!("{}:{}", m.line, m.place)).collect();
        assert_eq!(
            shown,
            [
                "3:policy.signatures",
                "5:plugins.weather.upstream",
                "6:plugins.weather.cuo",
                "7:plugins.weather.limits.fuel",
                "7:plugins.weather.limits.deadline_ms",
                "9:plugins.weather.upstreams.api.url",
                "10:plugins.weather.upstreams.api.paths.0",
                "11:plugins.weather.upstreams.no-url",
                "12:plugins.weather.upstreams.no-url.methods",
                "14:plugins.Bad_Name",
                "15:plugins.Bad_Name.digest",
            ],
            "{found}"
        );
        let text = found.to_string();
        for says in ["Did you mean `upstreams`?", "\"optional\", \"required\"", "true or false", "`url` is missing"] {
            assert!(text.contains(says), "{says}: {text}");
        }
    }

    #[test]
    fn a_file_is_looked_at_without_the_secrets_that_it_names() {
        let text = "[plugins.w.upstreams.api]\nurl = \"https://example.com\"\npaths = []\n\
            credential = { secret = \"env:CYBEROS_TEST_NOT_SET\" }\n";
        assert!(PluginsFile::parse(Path::new("p"), text, Secrets::Named).is_ok());
        let told = read(text).unwrap_err().to_string();
        assert!(told.starts_with("plugins.toml:4:25: plugins.w.upstreams.api.credential.secret: "), "{told}");
        assert!(told.contains("CYBEROS_TEST_NOT_SET is not set"), "{told}");
    }
}
