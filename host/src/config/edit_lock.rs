//! One writer at a time for `plugins.toml`: whoever changes it by command, from whichever state directory. Readers wait for
//! nobody, because it is replaced in one step.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(10);

/// Held from the reading of the file to its replacement; given back when it is dropped, or its process ends.
pub struct EditLock(#[allow(dead_code)] File);

impl EditLock {
    /// Of the directory in which the file is, or will be: no file is left behind, and who may replace the file may lock. Waits
    /// for whoever holds it, but not for ever: whoever can read the directory can hold it.
    pub fn take(file: &Path) -> io::Result<EditLock> {
        // Where a link leads is where it is replaced.
        let real = std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
        let directory = real.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let opened = File::open(directory)?;
        match lock_soon(&opened, directory) {
            Err(why) if !has_locks(&why) => tracing::debug!(%why, "this file system has no locks for directories"),
            locked => locked?,
        }
        Ok(EditLock(opened))
    }
}

/// Small files are written under these locks, so that a wait of seconds means that somebody holds one who does not write.
pub fn lock_soon(file: &File, directory: &Path) -> io::Result<()> {
    let patience = Instant::now() + PATIENCE;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(why)) => return Err(why),
            Err(TryLockError::WouldBlock) if Instant::now() < patience => std::thread::sleep(Duration::from_millis(10)),
            Err(TryLockError::WouldBlock) => {
                let text = format!(
                    "another process has held the lock of {} for {} s; `fuser` or `lslocks` names it",
                    directory.display(),
                    PATIENCE.as_secs()
                );
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
        }
    }
}

/// Some network file systems have none for directories. Writers compare before they replace, too.
fn has_locks(why: &io::Error) -> bool {
    use rustix::io::Errno;
    let none = [Errno::BADF, Errno::NOLCK, Errno::OPNOTSUPP, Errno::NOSYS];
    !none.iter().any(|errno| why.raw_os_error() == Some(errno.raw_os_error()))
}
