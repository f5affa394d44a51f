//! Where a CyberOS tree is: on disk, or inside this binary.
//!
//! The starter catalogue is read from memory, so that a first start answers without writing a file. Paths are relative
//! to the root, with forward slashes. Knows nothing of what the files mean.

use std::fs;
use std::io::{self, Read};
use std::ops::Bound;
use std::path::{Component, Path, PathBuf};

use super::starter;

/// A file over this is nothing that a catalogue holds.
pub(super) const MAX_FILE_BYTES: u64 = 1 << 20;

#[derive(Clone, Debug, Default, PartialEq)]
pub enum Tree {
    /// The directory that holds `modules/`.
    Disk(PathBuf),
    /// The starter catalogue in the binary.
    #[default]
    Starter,
}

impl Tree {
    /// Names in a folder, in order, so that every reading gives the same catalogue. A name that is not UTF-8 is no id.
    pub(super) fn entries(&self, dir: &str) -> io::Result<Vec<String>> {
        let mut names: Vec<String> = match self {
            Tree::Disk(root) => {
                fs::read_dir(root.join(dir))?.flatten().filter_map(|e| e.file_name().into_string().ok()).collect()
            }
            Tree::Starter => {
                below(dir).into_iter().map(|(rest, _)| rest.split('/').next().unwrap_or_default().to_owned()).collect()
            }
        };
        names.sort();
        names.dedup();
        Ok(names)
    }

    pub(super) fn is_file(&self, path: &str) -> bool {
        match self {
            Tree::Disk(root) => root.join(path).is_file(),
            Tree::Starter => starter::index().contains_key(path),
        }
    }

    pub(super) fn is_dir(&self, path: &str) -> bool {
        match self {
            Tree::Disk(root) => root.join(path).is_dir(),
            Tree::Starter => !below(path).is_empty(),
        }
    }

    /// A whole text file of at most 1 MiB. The error is one sentence without the path.
    pub(super) fn read(&self, path: &str) -> Result<String, String> {
        match self {
            Tree::Disk(root) => read_text(&root.join(path)),
            Tree::Starter => {
                let bytes = starter::index().get(path).ok_or("there is no such file")?;
                std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| "the file is not UTF-8".into())
            }
        }
    }

    /// Like [`Tree::read`], for a path that somebody wrote into a file: below `dir`, nothing hidden, no `..`, and no link
    /// that leads out of it. `None`: there is no such file.
    pub(super) fn read_within(&self, dir: &str, path: &str) -> Result<Option<String>, String> {
        let plain = |c: Component| matches!(c, Component::Normal(part) if !part.as_encoded_bytes().starts_with(b"."));
        if !Path::new(path).components().all(plain) {
            return Err("the path leads outside".into());
        }
        let whole = format!("{dir}/{path}");
        if !self.is_file(&whole) {
            return Ok(None);
        }
        if let Tree::Disk(root) = self {
            let real = |path: PathBuf| path.canonicalize().map_err(|e| format!("the path cannot be followed: {e}"));
            if !real(root.join(&whole))?.starts_with(real(root.join(dir))?) {
                return Err("the path leads outside".into());
            }
        }
        self.read(&whole).map(Some)
    }

    /// For the log.
    pub(super) fn shown(&self, path: &str) -> PathBuf {
        match self {
            Tree::Disk(root) => root.join(path),
            Tree::Starter => Path::new("starter").join(path),
        }
    }
}

/// The starter's files below `dir`: path from there, and bytes.
fn below(dir: &str) -> Vec<(&'static str, &'static [u8])> {
    let prefix = format!("{dir}/");
    let from = starter::index().range::<str, _>((Bound::Included(prefix.as_str()), Bound::Unbounded));
    from.map_while(|(path, bytes)| Some((path.strip_prefix(prefix.as_str())?, *bytes))).collect()
}

/// A whole text file on disk, of at most 1 MiB.
pub(super) fn read_text(path: &Path) -> Result<String, String> {
    let file = fs::File::open(path).map_err(|e| format!("the file cannot be opened: {e}"))?;
    let mut bytes = Vec::with_capacity(8 << 10);
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(|e| format!("the file cannot be read: {e}"))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(format!("the file is over {MAX_FILE_BYTES} bytes"));
    }
    String::from_utf8(bytes).map_err(|_| "the file is not UTF-8".into())
}
