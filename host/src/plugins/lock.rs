//! One writer at a time for files that several processes change: bridges, their workers, and an operator's commands.

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::Path;

use crate::config::lock_soon;

/// Held until it is dropped, or its process ends.
pub struct Lock(#[allow(dead_code)] File);

impl Lock {
    /// Waits for whoever holds it; nobody should for longer than it takes to write a small file.
    pub fn take(directory: &Path) -> io::Result<Lock> {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        // Plugins have files here by their names, in which there is no dot.
        let path = directory.join(".lock");
        let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path)?;
        lock_soon(&file, directory)?;
        Ok(Lock(file))
    }
}

/// New bytes in place of the old ones: a reader sees either, and never half of them. Owner and mode of a file that is there
/// stay; a new one gets `mode`, and the directory's owner: a command that root runs locks no bridge out.
pub fn replace(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    // The file that a link leads to is replaced, and not the link.
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let (permissions, owner) = match std::fs::metadata(&path) {
        Ok(found) => (found.permissions(), found),
        Err(_) => (std::fs::Permissions::from_mode(mode), std::fs::metadata(directory)?),
    };
    let mut new = tempfile::NamedTempFile::new_in(directory)?;
    new.write_all(bytes)?;
    let made = new.as_file().metadata()?;
    if (made.uid(), made.gid()) != (owner.uid(), owner.gid()) {
        keep_owner(new.as_file(), &owner, permissions.mode())?;
    }
    new.as_file().set_permissions(permissions)?;
    new.as_file().sync_all()?;
    new.persist(&path).map_err(|failed| failed.error)?;
    File::open(directory)?.sync_all()
}

/// Whoever is not root cannot give a file away. That is no harm where everybody may read it.
fn keep_owner(file: &File, owner: &Metadata, mode: u32) -> io::Result<()> {
    match fchown(file, Some(owner.uid()), Some(owner.gid())) {
        Err(why) if why.kind() == io::ErrorKind::PermissionDenied && mode & 0o004 != 0 => Ok(()),
        done => done,
    }
}
