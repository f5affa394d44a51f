//! What is in the operator's directory: which files are plugins, whether one changed, and its bytes. Knows nothing of
//! what a component is.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::admission::MAX_COMPONENT_BYTES;
use super::{Blocked, Who};
use crate::model::{PluginId, is_hidden};
use crate::runtime::digest;

/// A file that was changed so short a time ago may still be written, and may change again within its clock's resolution.
pub const QUIET: Duration = Duration::from_millis(50);

/// One `*.wasm` of the directory.
#[derive(Clone, Debug)]
pub struct Found {
    pub path: PathBuf,
    /// `Err`: its name is no plugin's, and why.
    pub id: Result<PluginId, Blocked>,
}

impl Found {
    /// For lists, also of a file whose name is no id.
    pub fn shown(&self) -> String {
        match &self.id {
            Ok(id) => id.to_string(),
            Err(_) => stem(&self.path).chars().filter(|c| !c.is_control() && !is_hidden(*c)).take(63).collect(),
        }
    }
}

/// Tells a changed file from an unchanged one without reading it. Links are followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// A file as it was read.
pub struct Bytes {
    pub wasm: Vec<u8>,
    pub digest: String,
    pub who: Who,
}

/// `*.wasm`, in the order of their names. Of two files for one plugin, the later one is no plugin.
pub fn scan(directory: &Path) -> io::Result<Vec<Found>> {
    let mut paths = vec![];
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if path.extension().is_some_and(|e| e == "wasm") && !hidden {
            paths.push(path);
        }
    }
    paths.sort();
    let mut taken: BTreeMap<PluginId, PathBuf> = BTreeMap::new();
    let found = paths.into_iter().map(|path| {
        let id = id_of(&path).and_then(|id| match taken.get(&id) {
            None => {
                taken.insert(id.clone(), path.clone());
                Ok(id)
            }
            Some(other) => {
                let (one, two) = (name(other), name(&path));
                Err(Blocked::refused("bad_name", format!("{one} and {two} are one plugin, {id}: remove one of them")))
            }
        });
        Found { path, id }
    });
    Ok(found.collect())
}

fn id_of(path: &Path) -> Result<PluginId, Blocked> {
    PluginId::parse(&stem(path).replace('_', "-")).ok_or_else(|| {
        // Its name is whatever somebody called a file: it must not pass for lines of ours.
        let shown: String = path.display().to_string().chars().flat_map(char::escape_debug).collect();
        let reason = format!("{shown} must be named with a-z, 0-9, - and _, at most 63 characters before .wasm");
        Blocked::refused("bad_name", reason)
    })
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The file for this plugin: one that is there, or the place where it would be.
pub fn place_of(directory: &Path, id: &PluginId) -> io::Result<PathBuf> {
    let found = scan(directory)?.into_iter().find(|found| found.id.as_ref().is_ok_and(|one| one == id));
    Ok(found.map_or_else(|| directory.join(format!("{id}.wasm")), |found| found.path))
}

pub fn stamp(path: &Path) -> io::Result<Stamp> {
    fs::metadata(path).map(|meta| Stamp::of(&meta))
}

impl Stamp {
    fn of(meta: &Metadata) -> Stamp {
        Stamp {
            device: meta.dev(),
            inode: meta.ino(),
            bytes: meta.len(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        }
    }

    /// Was the content changed only just now? What is renamed into its place was not.
    pub fn is_fresh(&self) -> bool {
        is_recent(self.modified)
    }

    /// Could another change have left the same stamp?
    pub fn is_blurred(&self) -> bool {
        is_recent(self.modified) || is_recent(self.changed)
    }
}

/// A time to come is a wrong clock's, and says nothing.
fn is_recent((seconds, nanoseconds): (i64, i64)) -> bool {
    let (Ok(seconds), Ok(nanoseconds)) = (u64::try_from(seconds), u32::try_from(nanoseconds)) else { return false };
    let time = SystemTime::UNIX_EPOCH + Duration::new(seconds, nanoseconds);
    SystemTime::now().duration_since(time).is_ok_and(|age| age < QUIET)
}

/// The whole file, or why it cannot be a component.
pub fn read(path: &Path) -> Result<Bytes, Blocked> {
    let unreadable =
        |why: io::Error| Blocked::refused("unreadable", format!("{} cannot be read: {why}", path.display()));
    // A pipe by that name would be waited for.
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file: File = OpenOptions::new().read(true).custom_flags(nonblocking).open(path).map_err(unreadable)?;
    // Asked of the open file: what was checked is what is read.
    let meta = file.metadata().map_err(unreadable)?;
    if !meta.is_file() {
        return Err(Blocked::refused("unreadable", format!("{} is not a file", path.display())));
    }
    let too_large = || {
        let reason = format!("{} is larger than {} MiB", path.display(), MAX_COMPONENT_BYTES >> 20);
        Blocked::refused("too_large", reason)
    };
    if meta.len() > MAX_COMPONENT_BYTES {
        return Err(too_large());
    }
    let mut wasm = Vec::with_capacity(meta.len() as usize);
    file.take(MAX_COMPONENT_BYTES + 1).read_to_end(&mut wasm).map_err(unreadable)?;
    if wasm.len() as u64 > MAX_COMPONENT_BYTES {
        return Err(too_large());
    }
    Ok(Bytes { digest: digest(&wasm), wasm, who: who(meta.uid()) })
}

/// Who owns what this path leads to. `None` when nothing is there.
pub fn owner(path: &Path) -> Option<Who> {
    fs::metadata(path).ok().map(|meta| who(meta.uid()))
}

fn who(uid: u32) -> Who {
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let named = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    };
    Who { user: users.lines().find_map(named), uid }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_no_id_and_a_second_file_for_one_id_are_named() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["a-b.wasm", "a_b.wasm", "Big Name.wasm", "readme.txt", ".hidden.wasm"] {
            fs::write(directory.path().join(name), b"").unwrap();
        }
        let found = scan(directory.path()).unwrap();
        let words: Vec<_> = found.iter().map(|f| (f.shown(), f.id.as_ref().err().map(|b| b.word))).collect();
        let expected =
            [("Big Name", Some("bad_name")), ("a-b", None), ("a_b", Some("bad_name"))].map(|(n, w)| (n.to_owned(), w));
        assert_eq!(words, expected);
        assert!(found[2].id.as_ref().unwrap_err().reason.contains("a-b.wasm and a_b.wasm are one plugin"));
    }

    #[test]
    fn a_files_name_cannot_pass_for_lines_of_the_log_or_of_a_list() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("evil\u{1b}[2J\u{202e}\nplugin good: serves.wasm"), b"").unwrap();
        let found = scan(directory.path()).unwrap().remove(0);
        let reason = found.id.as_ref().unwrap_err().reason.clone();
        assert!(reason.contains("\\u{1b}[2J\\u{202e}\\nplugin good"), "{reason}");
        assert_eq!(found.shown(), "evil[2Jplugin good: serves");
    }

    #[test]
    fn what_is_no_file_is_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe.wasm");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        assert_eq!(read(&pipe).err().unwrap().word, "unreadable");
        assert_eq!(read(&directory.path().join("gone.wasm")).err().unwrap().word, "unreadable");
    }

    #[test]
    fn an_owner_has_the_systems_name() {
        assert_eq!(who(0), Who { user: Some("root".into()), uid: 0 });
        assert_eq!(who(4_000_000_000).user, None);
    }
}
