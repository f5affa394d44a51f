//! One writer at a time for files that several processes change: bridges, their workers, and an operator's commands.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Held until it is dropped, or its process ends.
pub struct Lock(#[allow(dead_code)] File);

impl Lock {
    /// Waits for whoever holds it; nobody does for longer than it takes to write a small file.
    pub fn take(directory: &Path) -> io::Result<Lock> {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let path = directory.join("lock");
        let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path)?;
        file.lock()?;
        Ok(Lock(file))
    }
}

/// New bytes in place of the old ones: a reader sees either, and never half of them. The mode of a file that is there
/// stays; a new one gets `mode`.
pub fn replace(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    // The file that a link leads to is replaced, and not the link.
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let permissions = match std::fs::metadata(&path) {
        Ok(found) => found.permissions(),
        Err(_) => std::fs::Permissions::from_mode(mode),
    };
    let mut new = tempfile::NamedTempFile::new_in(directory)?;
    new.write_all(bytes)?;
    new.as_file().set_permissions(permissions)?;
    new.as_file().sync_all()?;
    new.persist(&path).map_err(|failed| failed.error)?;
    File::open(directory)?.sync_all()
}
