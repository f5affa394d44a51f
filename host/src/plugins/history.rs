//! What served last and before, kept in the bridge's own directory: the way back after a bad change, and the memory that
//! tells a change from a restart.
//!
//! `STATE_DIR/plugins/ID/` (0700) has the components by digest, and one record for each plugins directory that was
//! served from: bridges of one user share it, and of several that see the same change the first one records it. Knows no
//! component from another: what is taken from here is admitted again like any file.

use anyhow::Context;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::lock::{Lock, replace};
use super::signatures::{MAX_SIGNATURE_BYTES, signature_path};
use super::{Approvals, Version, files};
use crate::config::{Settings, read_small_file};
use crate::model::PluginId;
use crate::runtime::digest;

#[derive(Clone)]
pub struct History {
    /// `STATE_DIR/plugins`.
    root: PathBuf,
    /// Names the record of one plugins directory.
    record: String,
}

/// Where one plugin stands in one directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Record {
    /// What serves, or would if its grants allowed it. `None`: its file was removed.
    pub serving: Option<Version>,
    pub previous: Option<Version>,
    /// What waits in the directory.
    pub blocked: Option<Waiting>,
    /// A digest of its entry in `plugins.toml`.
    pub grants: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    pub digest: Option<String>,
    pub word: String,
}

/// What writing a record down changed.
#[derive(Debug)]
pub struct Written {
    pub before: Record,
    /// The digests of versions that are not kept any more.
    pub forgotten: Vec<String>,
}

impl Record {
    /// Its digests become names of files and are shown in part: what is none is damage.
    fn parse(text: &[u8]) -> Result<Record, String> {
        let record: Record = serde_json::from_slice(text).map_err(|why| why.to_string())?;
        let is_digest =
            |text: &str| text.len() == 64 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        let is_sound = |version: &Option<Version>| version.as_ref().is_none_or(|version| is_digest(&version.digest));
        match is_sound(&record.serving) && is_sound(&record.previous) {
            true => Ok(record),
            false => Err("it names a version that is no digest".into()),
        }
    }
}

impl History {
    /// Nothing is created or changed until something is kept.
    pub fn of(state_dir: &Path, directory: &Path) -> History {
        let real = fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
        let name = hex::encode(&Sha256::digest(real.as_os_str().as_encoded_bytes())[..8]);
        History { root: state_dir.join("plugins"), record: format!("{name}.json") }
    }

    /// `None`: it never served from this directory.
    pub fn record(&self, id: &PluginId) -> Option<Record> {
        let place = self.place(id);
        if place.exists() && !is_ours(&place) {
            tracing::warn!(directory = %place.display(), "it must be a directory of our own with mode 0700, and is not used");
            return None;
        }
        let text = fs::read(place.join(&self.record)).ok()?;
        Record::parse(&text)
            .inspect_err(|why| {
                tracing::warn!(plugin = %id, %why, "the record of what it served cannot be read and is begun anew");
            })
            .ok()
    }

    /// Every plugin with a record of this directory.
    pub fn known(&self) -> Vec<PluginId> {
        let Ok(entries) = fs::read_dir(&self.root) else { return vec![] };
        let ids = entries.flatten().filter(|entry| entry.path().join(&self.record).is_file());
        ids.filter_map(|entry| PluginId::parse(entry.file_name().to_str()?)).collect()
    }

    /// The component with this digest, if it was kept and is still what it was.
    pub fn component(&self, id: &PluginId, wanted: &str) -> Option<Vec<u8>> {
        let wasm = fs::read(self.place(id).join(format!("{wanted}.wasm"))).ok()?;
        if digest(&wasm) != wanted {
            tracing::warn!(plugin = %id, digest = wanted, "a kept version is damaged and is not used");
            return None;
        }
        Some(wasm)
    }

    /// Where that component is, or would be. Its signature stands beside it.
    pub fn path_of(&self, id: &PluginId, digest: &str) -> PathBuf {
        self.place(id).join(format!("{digest}.wasm"))
    }

    /// Keep what serves from this file, unless it is kept or the file has changed since.
    pub fn keep_file(&self, id: &PluginId, wanted: &str, path: &Path) -> io::Result<()> {
        if self.place(id).join(format!("{wanted}.wasm")).exists() {
            return Ok(());
        }
        match files::read(path) {
            Ok(bytes) if bytes.digest == wanted => {
                // It is held against the keys again whenever it is used.
                if let Ok(signature) = read_small_file(&signature_path(path), MAX_SIGNATURE_BYTES) {
                    self.write(id, &signature_path(&self.path_of(id, wanted)), signature.as_bytes())?;
                }
                self.keep(id, wanted, &bytes.wasm)
            }
            Ok(_) => Err(io::Error::other("the file has changed meanwhile")),
            Err(blocked) => Err(io::Error::other(blocked.reason)),
        }
    }

    fn keep(&self, id: &PluginId, name: &str, wasm: &[u8]) -> io::Result<()> {
        let path = self.place(id).join(format!("{name}.wasm"));
        match path.exists() {
            true => Ok(()),
            false => self.write(id, &path, wasm),
        }
    }

    /// Write the record. `None`: it says so already, another bridge or an earlier start has recorded this. Versions that
    /// no record names any more are let go.
    pub fn write_down(&self, id: &PluginId, record: &Record) -> io::Result<Option<Written>> {
        private(&self.root)?;
        let _lock = Lock::take(&self.root)?;
        let before = self.record(id);
        if before.as_ref() == Some(record) {
            return Ok(None);
        }
        let text = serde_json::to_vec(record).expect("a record is JSON");
        self.write(id, &self.place(id).join(&self.record), &text)?;
        Ok(Some(Written { before: before.unwrap_or_default(), forgotten: self.forget_unnamed(id) }))
    }

    /// Write down which files have names that are no plugin's. Out come those that were not written down before, by this or
    /// another bridge.
    pub fn write_down_misnamed(&self, names: &BTreeSet<String>) -> io::Result<Vec<String>> {
        let path = self.root.join(format!("misnamed-{}", self.record));
        if names.is_empty() && !path.exists() {
            return Ok(vec![]);
        }
        private(&self.root)?;
        let _lock = Lock::take(&self.root)?;
        let before = fs::read(&path).ok().and_then(|text| serde_json::from_slice(&text).ok());
        let before: BTreeSet<String> = before.unwrap_or_default();
        if before != *names {
            replace(&path, &serde_json::to_vec(names).expect("names are JSON"), 0o600)?;
        }
        Ok(names.difference(&before).cloned().collect())
    }

    fn forget_unnamed(&self, id: &PluginId) -> Vec<String> {
        let mut forgotten = vec![];
        let paths: Vec<PathBuf> =
            fs::read_dir(self.place(id)).map(|all| all.flatten().map(|e| e.path()).collect()).unwrap_or_default();
        let has = |path: &Path, extension: &str| path.extension().is_some_and(|e| e == extension);
        let records = paths.iter().filter(|path| has(path, "json")).filter_map(|path| fs::read(path).ok());
        let named: Vec<String> = records
            .filter_map(|text| Record::parse(&text).ok())
            .flat_map(|record| [record.serving, record.previous])
            .filter_map(|version| version.map(|version| version.digest))
            .collect();
        for path in paths.iter().filter(|path| has(path, "wasm")) {
            let kept = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            if !named.iter().any(|name| name == kept) {
                let _ = fs::remove_file(path);
                forgotten.push(kept.to_owned());
                let _ = fs::remove_file(signature_path(path));
            }
        }
        forgotten
    }

    fn place(&self, id: &PluginId) -> PathBuf {
        self.root.join(id.as_str())
    }

    fn write(&self, id: &PluginId, path: &Path, bytes: &[u8]) -> io::Result<()> {
        private(&self.root)?;
        private(&self.place(id))?;
        let mut file = tempfile::Builder::new().prefix(".new-").tempfile_in(self.place(id))?;
        file.write_all(bytes)?;
        file.as_file().sync_data()?;
        file.persist(path)?;
        Ok(())
    }
}

fn private(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    match is_ours(directory) {
        true => Ok(()),
        false => Err(io::Error::other(format!("{} must be ours, with mode 0700", directory.display()))),
    }
}

/// What is kept here may come to serve, so nobody else may have put it here.
fn is_ours(directory: &Path) -> bool {
    let ours = |meta: fs::Metadata| meta.is_dir() && meta.uid() == rustix::process::geteuid().as_raw();
    fs::symlink_metadata(directory).is_ok_and(|meta| meta.mode() & 0o077 == 0 && ours(meta))
}

/// A version that can come back, and where to. Nothing is changed before [`WayBack::take`].
pub struct WayBack {
    directory: PathBuf,
    wasm: Vec<u8>,
    signature: Option<Vec<u8>>,
    approvals: Approvals,
    done: RolledBack,
}

/// What [`WayBack::take`] does.
#[derive(Debug, Serialize)]
pub struct RolledBack {
    pub id: PluginId,
    /// What was in the directory. `None`: nothing that can be read.
    pub from: Option<String>,
    pub to: String,
    pub file: PathBuf,
}

/// Which version comes back to the plugins directory.
///
/// When the file there is not what serves (it is refused, quarantined or gone), the version that serves comes back;
/// else the one before it, so that twice is back again.
pub fn way_back(settings: &Settings, name: &str) -> anyhow::Result<WayBack> {
    let directory = settings.args.plugins.as_deref().context("--plugins is not set: there is nothing to roll back")?;
    let id = PluginId::parse(&name.replace('_', "-"))
        .with_context(|| format!("{name:?} is no plugin's id; `plugins list` shows them"))?;
    let history = History::of(&settings.state_dir, directory);
    let record = history.record(&id).with_context(|| {
        format!("plugin {id} has never served from {}; `plugins list` shows those that have", directory.display())
    })?;
    let file = files::place_of(directory, &id).with_context(|| format!("{} cannot be read", directory.display()))?;
    let from = files::read(&file).ok().map(|bytes| bytes.digest);
    let is_there = |version: &&super::Version| from.as_ref() == Some(&version.digest);
    let to = match (&record.serving, &record.previous) {
        (Some(serving), _) if !is_there(&serving) => serving,
        (_, Some(previous)) if !is_there(&previous) => previous,
        _ => anyhow::bail!("there is no version of plugin {id} before the one that serves"),
    };
    let wasm = history
        .component(&id, &to.digest)
        .with_context(|| format!("version {} of plugin {id} is not kept any more", &to.digest[..12]))?;
    Ok(WayBack {
        directory: directory.to_owned(),
        wasm,
        signature: fs::read(signature_path(&history.path_of(&id, &to.digest))).ok(),
        approvals: Approvals::open(&settings.state_dir.join("plugins")),
        done: RolledBack { to: to.digest.clone(), id, from, file },
    })
}

impl WayBack {
    pub fn id(&self) -> &PluginId {
        &self.done.id
    }

    /// The digest of the version that comes back, in hex.
    pub fn to(&self) -> &str {
        &self.done.to
    }

    /// Put that version into the plugins directory, in one step. Whoever watches it serves it then; a bridge that does not
    /// run serves it when it starts.
    pub fn take(self) -> anyhow::Result<RolledBack> {
        let WayBack { directory, wasm, signature, approvals, done } = self;
        // Whoever goes back agrees to what that version says: it served before.
        approvals
            .agree_to_return(&done.id, &done.to)
            .with_context(|| format!("{} cannot be written", approvals.path().display()))?;
        // The signature first: the version that serves is not held against another one's.
        let beside = signature_path(&done.file);
        match signature {
            Some(kept) => put(&directory, &beside, &kept),
            None => fs::remove_file(&beside).or_else(|why| match why.kind() {
                io::ErrorKind::NotFound => Ok(()),
                _ => Err(why),
            }),
        }
        .with_context(|| format!("{} cannot be written", beside.display()))?;
        put(&directory, &done.file, &wasm).with_context(|| format!("{} cannot be written", done.file.display()))?;
        Ok(done)
    }
}

/// By rename, so that nobody ever reads half of it; a link is replaced, not what it leads to.
fn put(directory: &Path, path: &Path, wasm: &[u8]) -> io::Result<()> {
    let mode = fs::metadata(path).map_or(0o644, |meta| meta.permissions().mode() & 0o7777);
    let mut file = tempfile::Builder::new().prefix(".rollback-").tempfile_in(directory)?;
    file.write_all(wasm)?;
    file.as_file().set_permissions(Permissions::from_mode(mode))?;
    file.as_file().sync_data()?;
    file.persist(path)?;
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(wasm: &[u8]) -> Version {
        Version { digest: digest(wasm), since: "2026-01-01T00:00:00Z".into(), who: None }
    }

    #[test]
    fn what_serves_and_what_served_before_is_kept_and_nothing_else() {
        // given
        let home = tempfile::tempdir().unwrap();
        let history = History::of(home.path(), home.path());
        let id = PluginId::parse("notes").unwrap();
        let components: [&[u8]; 3] = [b"one", b"two", b"three"];
        // when
        let mut record = Record::default();
        for wasm in components {
            history.keep(&id, &digest(wasm), wasm).unwrap();
            record = Record { previous: record.serving, serving: Some(version(wasm)), ..Record::default() };
            let forgotten = history.write_down(&id, &record).unwrap().expect("it is new").forgotten;
            assert_eq!(forgotten.len(), usize::from(wasm == b"three"));
        }
        // then
        assert!(history.write_down(&id, &record).unwrap().is_none(), "it is written already");
        assert_eq!(history.known(), std::slice::from_ref(&id));
        assert_eq!(history.component(&id, &digest(b"three")).unwrap(), b"three");
        assert_eq!(history.component(&id, &digest(b"two")).unwrap(), b"two");
        assert!(history.component(&id, &digest(b"one")).is_none());
        // and what was tampered with is not used
        fs::write(home.path().join("plugins/notes").join(format!("{}.wasm", digest(b"two"))), b"evil").unwrap();
        assert!(history.component(&id, &digest(b"two")).is_none());
        // and a record that names what is no digest is none
        let place = home.path().join("plugins/notes").join(&history.record);
        let two = "\u{e9}".repeat(32);
        for text in [
            r#"{"serving":{"digest":"../../x","since":"1","who":null}}"#.to_owned(),
            format!(r#"{{"previous":{{"digest":"{two}","since":"1","who":null}}}}"#),
        ] {
            fs::write(&place, text).unwrap();
            assert!(history.record(&id).is_none());
        }
        // and another directory has a record of its own
        assert!(History::of(home.path(), Path::new("/")).record(&id).is_none());
    }
}
