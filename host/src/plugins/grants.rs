//! `plugins.toml` while the bridge runs: read again when it changes; one that is wrong leaves the old one in force. So are
//! the secrets that it names.

use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::Who;
use super::files;
use super::secrets::{Looked, SecretPlaces, StaleSecret, files_of};
use crate::config::{BadSetting, Grants, MAX_PLUGINS_FILE_BYTES, PluginsFile, Policy, Secrets, read_small_file};

pub struct GrantsFile {
    /// `None`: there is no plugins directory.
    path: Option<PathBuf>,
    /// It was named by the operator, so that its absence is a mistake and not an empty file.
    required: bool,
    file: PluginsFile,
    /// As it was when it was last read.
    text: Option<String>,
    /// By plugin: a digest of its entry, for the record of who changed what.
    marks: BTreeMap<String, String>,
    /// Why the file as it is now is not in force.
    fault: Option<String>,
    who: Option<Who>,
    places: SecretPlaces,
}

impl GrantsFile {
    /// `file` is what the settings' loader read, for when there is no `path`. The file may have changed since: what is in
    /// force is of the text that later ones are compared with.
    pub fn open(
        path: Option<PathBuf>,
        required: bool,
        file: PluginsFile,
        secrets: Secrets<'_>,
    ) -> Result<GrantsFile, BadSetting> {
        let text = match &path {
            Some(path) => read(path, required).map_err(BadSetting::new)?,
            None => None,
        };
        let file = match (&path, &text) {
            (Some(path), Some(text)) => PluginsFile::parse(path, text, secrets)?,
            (Some(_), None) => PluginsFile::default(),
            (None, _) => file,
        };
        let who = path.as_deref().and_then(files::owner);
        let marks = marks(text.as_deref().unwrap_or_default());
        Ok(GrantsFile { path, required, file, text, marks, fault: None, who, places: SecretPlaces::default() })
    }

    /// `None` when it is as it was; else whether it is in force.
    pub fn read_again(&mut self) -> Option<Result<(), String>> {
        let path = self.path.clone()?;
        let text = match read(&path, self.required) {
            Ok(text) => text,
            Err(why) => return self.keep(why),
        };
        if text == self.text && self.fault.is_none() {
            return None;
        }
        let file = match &text {
            // What was compared is what is parsed: the file may be another one by now.
            Some(text) => PluginsFile::parse(&path, text, Secrets::ReadAgain(&self.file)),
            None => Ok(PluginsFile::default()),
        };
        match file {
            Err(why) => self.keep(why.to_string()),
            Ok(mut file) => {
                file.take_over(&self.file);
                self.file = file;
                self.marks = marks(text.as_deref().unwrap_or_default());
                self.text = text;
                self.fault = None;
                self.who = files::owner(&path);
                Some(Ok(()))
            }
        }
    }

    /// The old ones stay. Said once for each mistake, not at each look.
    fn keep(&mut self, fault: String) -> Option<Result<(), String>> {
        let new = self.fault.as_ref() != Some(&fault);
        self.fault = Some(fault.clone());
        new.then_some(Err(fault))
    }

    pub fn read_secrets_again(&mut self) -> Looked {
        self.places.look(&self.file)
    }
    pub fn stale_secrets(&self) -> Vec<StaleSecret> {
        self.places.stale(&self.file)
    }
    /// The files that hold secrets.
    pub fn secret_files(&self) -> BTreeSet<PathBuf> {
        files_of(&self.file)
    }
    pub fn of(&self, plugin: &str) -> Grants {
        self.file.grants(plugin)
    }
    pub fn policy(&self) -> &Policy {
        &self.file.policy
    }
    pub fn mark(&self, plugin: &str) -> Option<String> {
        self.marks.get(plugin).cloned()
    }
    pub fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }
    /// Who changed it last.
    pub fn who(&self) -> Option<&Who> {
        self.who.as_ref()
    }
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }
}

/// `None`: there is none, and none is needed.
fn read(path: &Path, required: bool) -> Result<Option<String>, String> {
    match read_small_file(path, MAX_PLUGINS_FILE_BYTES) {
        Ok(text) => Ok(Some(text)),
        Err(why) if why.kind() == ErrorKind::NotFound && !required => Ok(None),
        Err(why) => Err(format!("{} cannot be read: {why}", path.display())),
    }
}

fn marks(text: &str) -> BTreeMap<String, String> {
    let Ok(mut table) = toml::from_str::<toml::Table>(text) else { return BTreeMap::new() };
    let Some(toml::Value::Table(plugins)) = table.remove("plugins") else { return BTreeMap::new() };
    // A digest, because an entry may hold values that are nobody else's business.
    let mark = |entry: toml::Value| hex::encode(Sha256::digest(entry.to_string()));
    plugins.into_iter().map(|(plugin, entry)| (plugin, mark(entry))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_leaves_the_old_grants_in_force_and_is_said_once() {
        // given
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("plugins.toml");
        std::fs::write(&path, "[plugins.notes]\ncuo = true\n").unwrap();
        let mut file = GrantsFile::open(Some(path.clone()), false, PluginsFile::default(), Secrets::Read).unwrap();
        assert!(file.read_again().is_none(), "nothing changed");
        // when
        std::fs::write(&path, "[plugins.notes]\ncuo = 7\n").unwrap();
        let said = file.read_again().unwrap().unwrap_err();
        // then
        assert!(said.contains("plugins.toml:2:7: "), "{said}");
        assert!(file.read_again().is_none());
        assert!(file.of("notes").cuo && file.fault().is_some());
        // and the old text again is as good as a new one
        std::fs::write(&path, "[plugins.notes]\ncuo = true\n").unwrap();
        assert_eq!(file.read_again(), Some(Ok(())));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(file.read_again(), Some(Ok(())), "no file grants nothing");
        assert!(!file.of("notes").cuo);
    }

    #[test]
    fn what_is_in_force_is_what_later_texts_are_compared_with() {
        // given: the file changed between the settings' reading of it and this one's
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("plugins.toml");
        std::fs::write(&path, "").unwrap();
        let early = PluginsFile::read(&path, Secrets::Read).unwrap();
        std::fs::write(&path, "[plugins.notes]\ncuo = true\n").unwrap();
        // when
        let mut file = GrantsFile::open(Some(path), false, early, Secrets::Read).unwrap();
        // then
        assert!(file.read_again().is_none() && file.of("notes").cuo);
    }

    #[test]
    fn what_takes_the_files_place_and_is_none_leaves_the_old_grants_in_force() {
        // given
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("plugins.toml");
        std::fs::write(&path, "[plugins.notes]\ncuo = true\n").unwrap();
        let mut file = GrantsFile::open(Some(path.clone()), false, PluginsFile::default(), Secrets::Read).unwrap();
        std::fs::remove_file(&path).unwrap();
        // when: a link to nothing, and a pipe that nobody writes to
        std::os::unix::fs::symlink("gone", &path).unwrap();
        let nowhere = file.read_again();
        std::fs::remove_file(&path).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let pipe = file.read_again();
        // then
        assert!(nowhere.unwrap().unwrap_err().contains("leads nowhere"));
        assert!(pipe.unwrap().unwrap_err().contains("not a file"));
        assert!(file.of("notes").cuo);
    }

    #[test]
    fn a_lost_secret_does_not_keep_a_change_of_the_file_from_being_in_force() {
        // given
        let directory = tempfile::tempdir().unwrap();
        let (path, secret) = (directory.path().join("plugins.toml"), directory.path().join("secret"));
        let text = |paths: &str, place: &Path| {
            format!(
                "[plugins.a.upstreams.api]\nurl = \"https://example.com\"\npaths = [{paths}]\n\
                 credential = {{ secret = \"file:{}\" }}\n",
                place.display()
            )
        };
        std::fs::write(&secret, "one").unwrap();
        std::fs::write(&path, text("\"/v1/*\"", &secret)).unwrap();
        let mut file = GrantsFile::open(Some(path.clone()), false, PluginsFile::default(), Secrets::Read).unwrap();
        let before = file.of("a");
        // when: it is gone, and something is taken back
        std::fs::remove_file(&secret).unwrap();
        assert_eq!(file.read_secrets_again().lost.len(), 1);
        std::fs::write(&path, text("", &secret)).unwrap();
        // then
        assert_eq!(file.read_again(), Some(Ok(())));
        let value = |grants: &Grants| grants.upstreams["api"].credential.as_ref().unwrap().value.clone().unwrap();
        assert!(file.of("a").upstreams["api"].paths.is_empty());
        assert!(value(&file.of("a")) == value(&before) && file.stale_secrets().len() == 1);
        // and a secret that never was there is a mistake
        std::fs::write(&path, text("", &directory.path().join("other"))).unwrap();
        assert!(file.read_again().unwrap().unwrap_err().contains("other cannot be read"));
        // and one from another place takes the first one's, for whoever holds it
        std::fs::write(directory.path().join("other"), "two").unwrap();
        assert_eq!(file.read_again(), Some(Ok(())));
        assert_eq!(value(&before).all().len(), 2);
        assert!(file.stale_secrets().is_empty());
    }
}
