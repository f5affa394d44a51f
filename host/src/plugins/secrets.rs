//! The secrets of `plugins.toml` while the bridge runs: each is read again from where it is kept, and becomes what is found
//! there. One that is not found stays what it was, and whoever asks is told.
//!
//! A value is in force for everybody who was granted it at once ([`crate::config::LiveSecret`]): no plugin is linked anew.
//! Nothing here says a value.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::files;
use crate::config::{LiveSecret, PluginsFile, SecretPlace};

/// Why a secret that is in use is not what is kept in its place now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaleSecret {
    pub plugin: String,
    pub upstream: String,
    /// For the operator: the place, what is wrong, and what to do.
    pub why: String,
}

/// Why each place that cannot be read cannot be read.
#[derive(Default)]
pub struct SecretPlaces {
    faults: BTreeMap<String, String>,
}

/// What a look found, in the order of the places.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Looked {
    pub changed: Vec<Place>,
    pub lost: Vec<(Place, String)>,
    /// Read again after it could not be, and as it was.
    pub found: Vec<Place>,
    /// One is still being written.
    pub unfinished: bool,
}

/// Where a secret is kept, and for which upstreams: `file:PATH` and `plugins.P.upstreams.U` of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub place: String,
    pub used_by: Vec<String>,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.place, self.used_by.join(", "))
    }
}

impl SecretPlaces {
    /// Read every place again, but for the environment, which does not change.
    pub fn look(&mut self, file: &PluginsFile) -> Looked {
        let mut places: BTreeMap<&str, (Vec<String>, Vec<&LiveSecret>)> = BTreeMap::new();
        for (plugin, upstream, credential) in file.credentials() {
            let (used_by, values) = places.entry(&credential.secret).or_default();
            used_by.push(format!("plugins.{plugin}.upstreams.{upstream}"));
            values.extend(&credential.value);
        }
        self.faults.retain(|place, _| places.contains_key(place.as_str()));
        let mut looked = Looked::default();
        for (text, (used_by, values)) in places {
            let Ok(place) = SecretPlace::parse(text) else { continue };
            match place {
                SecretPlace::Environment(_) => continue,
                // Half of it may be there.
                SecretPlace::File(path) if files::stamp(Path::new(path)).is_ok_and(|stamp| stamp.is_fresh()) => {
                    looked.unfinished = true;
                    continue;
                }
                SecretPlace::File(_) | SecretPlace::Keyring(_) => {}
            }
            let named = || Place { place: text.to_owned(), used_by: used_by.clone() };
            match place.read() {
                Ok(value) => {
                    let changed = values.iter().filter(|held| held.becomes(value.clone())).count() > 0;
                    let was_lost = self.faults.remove(text).is_some();
                    match (changed, was_lost) {
                        (true, _) => looked.changed.push(named()),
                        (false, true) => looked.found.push(named()),
                        (false, false) => {}
                    }
                }
                Err(no) => {
                    let why = format!("{}. {}", no.what, no.remedy);
                    if self.faults.insert(text.to_owned(), why.clone()).as_ref() != Some(&why) {
                        looked.lost.push((named(), why));
                    }
                }
            }
        }
        looked
    }

    /// By upstream.
    pub fn stale(&self, file: &PluginsFile) -> Vec<StaleSecret> {
        let stale = file.credentials().filter_map(|(plugin, upstream, credential)| {
            let why = self.faults.get(&credential.secret)?;
            Some(StaleSecret {
                plugin: plugin.to_owned(),
                upstream: upstream.to_owned(),
                why: format!("the secret in {} stays as it was: {why}", credential.secret),
            })
        });
        stale.collect()
    }
}

/// Whose change is to be noticed.
pub fn files_of(file: &PluginsFile) -> BTreeSet<PathBuf> {
    let path = |place: &str| match SecretPlace::parse(place) {
        Ok(SecretPlace::File(path)) => Some(PathBuf::from(path)),
        _ => None,
    };
    file.credentials().filter_map(|(_, _, credential)| path(&credential.secret)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Secrets;
    use secrecy::ExposeSecret;
    use std::fs;
    use std::time::Duration;

    struct Kept {
        home: tempfile::TempDir,
        file: PluginsFile,
        places: SecretPlaces,
    }

    impl Kept {
        /// One secret that two plugins use.
        fn new(value: &str) -> Kept {
            let home = tempfile::tempdir().unwrap();
            fs::write(home.path().join("key"), value).unwrap();
            let entry = |plugin: &str| {
                let place = home.path().join("key");
                format!(
                    "[plugins.{plugin}.upstreams.api]\nurl = \"https://example.com\"\npaths = []\n\
                     credential = {{ secret = \"file:{}\" }}\n",
                    place.display()
                )
            };
            let text = entry("a") + &entry("b");
            let file = PluginsFile::parse(Path::new("plugins.toml"), &text, Secrets::Read).unwrap();
            Kept { home, file, places: SecretPlaces::default() }
        }

        /// As when its writer has done for a while.
        fn write(&self, value: &str) {
            let path = self.home.path().join("key");
            fs::write(&path, value).unwrap();
            let file = fs::File::options().write(true).open(path).unwrap();
            file.set_modified(std::time::SystemTime::now() - Duration::from_secs(1)).unwrap();
        }

        fn look(&mut self) -> Looked {
            self.places.look(&self.file)
        }

        fn values(&self) -> Vec<String> {
            let value = |(_, _, credential): (&str, &str, &crate::config::Credential)| {
                credential.value.as_ref().unwrap().current().expose_secret().to_owned()
            };
            self.file.credentials().map(value).collect()
        }
    }

    #[test]
    fn a_new_value_is_in_force_for_all_who_use_it_and_is_said_once_and_without_it() {
        // given
        let mut kept = Kept::new("one");
        let held = kept.file.grants("a");
        // when
        kept.write("two\n");
        let looked = kept.look();
        // then
        assert_eq!(looked.changed[0].used_by, ["plugins.a.upstreams.api", "plugins.b.upstreams.api"]);
        assert!(!format!("{looked:?} {}", looked.changed[0]).contains("two"));
        assert_eq!((kept.values(), kept.look()), (vec!["two".into(), "two".into()], Looked::default()));
        assert_eq!(held, kept.file.grants("a"), "what holds the grants has it, too");
    }

    #[test]
    fn one_that_is_gone_or_empty_stays_what_it_was_until_it_is_back() {
        let mut kept = Kept::new("one");
        for (gone, says) in [(true, "cannot be read"), (false, "the secret is empty")] {
            // when
            match gone {
                true => fs::remove_file(kept.home.path().join("key")).unwrap(),
                false => kept.write(" \n"),
            }
            // then
            let looked = kept.look();
            assert!(looked.changed.is_empty() && looked.lost[0].1.contains(says), "{looked:?}");
            assert_eq!((kept.look(), kept.values()), (Looked::default(), vec!["one".into(), "one".into()]));
            assert_eq!(kept.places.stale(&kept.file).len(), 2);
        }
        kept.write("one");
        assert_eq!(kept.look().found.len(), 1);
        assert!(kept.places.stale(&kept.file).is_empty());
    }

    #[test]
    fn one_that_is_still_being_written_is_looked_at_again() {
        let mut kept = Kept::new("one");
        fs::write(kept.home.path().join("key"), "tw").unwrap();
        assert_eq!(kept.look(), Looked { unfinished: true, ..Looked::default() });
        assert_eq!(kept.values(), ["one", "one"]);
    }
}
