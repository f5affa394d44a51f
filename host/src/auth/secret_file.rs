//! Key files that only their owner can read: made once, atomically, and refused when somebody else could read or
//! replace them. It knows nothing of what the keys are for.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::{SecureRandom, SystemRandom};
use secrecy::SecretString;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// No key file of ours comes near this.
const MAX_BYTES: u64 = 64 * 1024;

/// Why a key file cannot be used, in a sentence that says how to mend it. It names paths: it is for the operator
/// (start-up, `doctor`, the log), never for a caller.
#[derive(Debug, thiserror::Error)]
pub enum SecretFileError {
    #[error("{} must be a plain file, not a link or anything else: replace it with the file itself", .0.display())]
    NotAFile(PathBuf),
    #[error("{} must be a directory, not a link or anything else: replace it with the directory itself", .0.display())]
    NotADirectory(PathBuf),
    #[error("{} can be read by others (mode {mode:04o}): run `chmod 600 {}`, and replace the key if others had access", .path.display(), .path.display())]
    ReadableByOthers { path: PathBuf, mode: u32 },
    #[error("{} can be changed by others (mode {mode:04o}): run `chmod 700 {}`", .path.display(), .path.display())]
    ChangeableByOthers { path: PathBuf, mode: u32 },
    #[error("{} belongs to another user (uid {owner}): run the bridge as that user or `chown` it", .path.display())]
    ForeignOwner { path: PathBuf, owner: u32 },
    #[error("{} does not hold a usable key: restore it from a copy, or delete it to have a new one made", .0.display())]
    Unusable(PathBuf),
    #[error("{}: {why}", .path.display())]
    Io { path: PathBuf, why: std::io::Error },
}

impl SecretFileError {
    fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Self + '_ {
        move |why| SecretFileError::Io { path: path.to_owned(), why }
    }
}

/// Create the directory (0700, parents too) or check one that stands: ours, no link, not writable by others.
pub fn private_dir(path: &Path) -> Result<(), SecretFileError> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(SecretFileError::io(path))?;
    let found = std::fs::symlink_metadata(path).map_err(SecretFileError::io(path))?;
    if !found.is_dir() {
        return Err(SecretFileError::NotADirectory(path.to_owned()));
    }
    check_owner(path, found.uid())?;
    // Who may write to the directory may swap the key for one of his own.
    if found.mode() & 0o022 != 0 {
        return Err(SecretFileError::ChangeableByOthers { path: path.to_owned(), mode: found.mode() & 0o7777 });
    }
    Ok(())
}

/// Read a key file. `None` when there is none.
pub fn read(path: &Path) -> Result<Option<Vec<u8>>, SecretFileError> {
    let nofollow = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let opened = OpenOptions::new().read(true).custom_flags(nofollow.bits() as i32).open(path);
    let file = match opened {
        Ok(file) => file,
        Err(why) if why.kind() == ErrorKind::NotFound => return Ok(None),
        Err(why) if why.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            return Err(SecretFileError::NotAFile(path.to_owned()));
        }
        Err(why) => return Err(SecretFileError::Io { path: path.to_owned(), why }),
    };
    // Asked of the open file, not of the path: what was checked is what is read.
    let found = file.metadata().map_err(SecretFileError::io(path))?;
    if !found.is_file() {
        return Err(SecretFileError::NotAFile(path.to_owned()));
    }
    check_owner(path, found.uid())?;
    if found.mode() & 0o077 != 0 {
        return Err(SecretFileError::ReadableByOthers { path: path.to_owned(), mode: found.mode() & 0o7777 });
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(SecretFileError::io(path))?;
    if bytes.is_empty() || bytes.len() as u64 > MAX_BYTES {
        return Err(SecretFileError::Unusable(path.to_owned()));
    }
    Ok(Some(bytes))
}

/// Read the key file, or make it with `make`'s bytes. Processes that start together end up with the same key: the
/// first to put its file in place wins, the others read that one.
pub fn read_or_create(path: &Path, make: impl FnOnce() -> Vec<u8>) -> Result<Vec<u8>, SecretFileError> {
    let directory = parent_of(path);
    private_dir(directory)?;
    if let Some(found) = read(path)? {
        return Ok(found);
    }
    let made = make();
    match write_beside(path, &made, 0o600)?.persist_noclobber(path) {
        Ok(_) => sync_dir(directory)?,
        Err(lost) if lost.error.kind() == ErrorKind::AlreadyExists => {
            return read(path)?.ok_or_else(|| SecretFileError::Unusable(path.to_owned()));
        }
        Err(failed) => return Err(SecretFileError::Io { path: path.to_owned(), why: failed.error }),
    }
    Ok(made)
}

/// Put new bytes in place of the old ones: a reader sees either, never half. `mode` is exact, whatever the umask.
pub fn replace(path: &Path, bytes: &[u8], mode: u32) -> Result<(), SecretFileError> {
    write_beside(path, bytes, mode)?
        .persist(path)
        .map_err(|failed| SecretFileError::Io { path: path.to_owned(), why: failed.error })?;
    sync_dir(parent_of(path))
}

/// Read or make a file with one random 256-bit key, kept as one line of base64url, so that the same line can be given
/// to other replicas as a setting.
pub fn read_or_create_key(path: &Path) -> Result<SecretString, SecretFileError> {
    let bytes = read_or_create(path, || {
        let mut key = [0u8; 32];
        SystemRandom::new().fill(&mut key).expect("the operating system supplies random numbers");
        format!("{}\n", URL_SAFE_NO_PAD.encode(key)).into_bytes()
    })?;
    let text = std::str::from_utf8(&bytes).map_err(|_| SecretFileError::Unusable(path.to_owned()))?.trim();
    if URL_SAFE_NO_PAD.decode(text).map_or(0, |key| key.len()) < 32 {
        return Err(SecretFileError::Unusable(path.to_owned()));
    }
    Ok(SecretString::from(text))
}

fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn check_owner(path: &Path, owner: u32) -> Result<(), SecretFileError> {
    let us = rustix::process::geteuid().as_raw();
    if owner != us && owner != 0 {
        return Err(SecretFileError::ForeignOwner { path: path.to_owned(), owner });
    }
    Ok(())
}

/// A complete, synced file next to `path`, under a name of its own (created with O_EXCL).
fn write_beside(path: &Path, bytes: &[u8], mode: u32) -> Result<tempfile::NamedTempFile, SecretFileError> {
    let io = || SecretFileError::io(path);
    let mut file = tempfile::Builder::new().prefix(".new-").tempfile_in(parent_of(path)).map_err(io())?;
    file.as_file().set_permissions(std::fs::Permissions::from_mode(mode)).map_err(io())?;
    file.write_all(bytes).map_err(io())?;
    file.as_file().sync_all().map_err(io())?;
    Ok(file)
}

fn sync_dir(path: &Path) -> Result<(), SecretFileError> {
    File::open(path).and_then(|directory| directory.sync_all()).map_err(SecretFileError::io(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use secrecy::ExposeSecret;
    use std::os::unix::fs::symlink;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().mode() & 0o777
    }

    fn chmod(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_key_is_made_once_for_its_owner_alone() {
        let state = tempfile::tempdir().unwrap();
        let path = state.path().join("keys/confirm.key");
        let made = read_or_create_key(&path).unwrap();
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        assert_eq!(read_or_create_key(&path).unwrap().expose_secret(), made.expose_secret());
        let other = read_or_create_key(&state.path().join("keys/other.key")).unwrap();
        assert_ne!(other.expose_secret(), made.expose_secret());
        // No temporary file is left behind.
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 2);
    }

    #[test]
    fn many_processes_starting_at_once_agree_on_the_key() {
        let state = tempfile::tempdir().unwrap();
        let path = state.path().join("confirm.key");
        let keys: std::collections::BTreeSet<String> = std::thread::scope(|scope| {
            let starts: Vec<_> = (0..8).map(|_| scope.spawn(|| read_or_create_key(&path).unwrap())).collect();
            starts.into_iter().map(|start| start.join().unwrap().expose_secret().to_owned()).collect()
        });
        assert_eq!(keys.len(), 1);
    }

    #[test]
    fn a_file_that_others_can_read_is_refused_with_the_command_that_mends_it() {
        let state = tempfile::tempdir().unwrap();
        let path = state.path().join("confirm.key");
        read_or_create_key(&path).unwrap();
        for exposed in [0o640, 0o604, 0o660] {
            chmod(&path, exposed);
            let refusal = read_or_create_key(&path).unwrap_err();
            assert!(matches!(refusal, SecretFileError::ReadableByOthers { .. }), "{refusal}");
            assert!(refusal.to_string().contains("chmod 600"), "{refusal}");
        }
    }

    #[test]
    fn a_directory_in_which_others_can_swap_the_key_is_refused() {
        let state = tempfile::tempdir().unwrap();
        chmod(state.path(), 0o777);
        let refusal = read_or_create_key(&state.path().join("confirm.key")).unwrap_err();
        assert!(refusal.to_string().contains("chmod 700"), "{refusal}");
    }

    #[test]
    fn links_and_other_things_are_refused() {
        let state = tempfile::tempdir().unwrap();
        let real = state.path().join("real.key");
        read_or_create_key(&real).unwrap();
        let link = state.path().join("link.key");
        symlink(&real, &link).unwrap();
        assert!(matches!(read_or_create_key(&link), Err(SecretFileError::NotAFile(_))));
        let dangling = state.path().join("dangling.key");
        symlink(state.path().join("nowhere"), &dangling).unwrap();
        assert!(matches!(read_or_create_key(&dangling), Err(SecretFileError::NotAFile(_))));
        std::fs::create_dir(state.path().join("dir.key")).unwrap();
        assert!(matches!(read(&state.path().join("dir.key")), Err(SecretFileError::NotAFile(_))));
        let linked_dir = state.path().join("linked");
        symlink(state.path(), &linked_dir).unwrap();
        assert!(matches!(private_dir(&linked_dir), Err(SecretFileError::NotADirectory(_))));
    }

    #[test]
    fn an_empty_or_short_key_is_no_key() {
        let state = tempfile::tempdir().unwrap();
        let path = state.path().join("confirm.key");
        for content in ["", "short\n", "not base64url, whatever its length may happen to be!\n"] {
            std::fs::write(&path, content).unwrap();
            chmod(&path, 0o600);
            assert!(matches!(read_or_create_key(&path), Err(SecretFileError::Unusable(_))), "{content:?}");
        }
    }
}
