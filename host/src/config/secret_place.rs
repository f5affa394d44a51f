//! Where an operator keeps a secret, and how it is read from there: environment, file, or the kernel's keyring.
//!
//! A grant names the place. The value goes into a type that does not print, and on to the request; into nothing else.

use secrecy::SecretString;
use std::collections::HashMap;
use std::path::Path;

use super::small_file::read_small_file;

/// A bigger one is no credential: it is the wrong file.
const MAX_BYTES: u64 = 64 << 10;

/// `env:NAME`, `file:PATH` or `keyring:NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretPlace<'p> {
    Environment(&'p str),
    File(&'p str),
    Keyring(&'p str),
}

/// What is wrong and what to do. Names places, and never holds what was found there.
#[derive(Debug, PartialEq, Eq)]
pub struct NoSecret {
    pub what: String,
    pub remedy: String,
}

fn none<T>(what: impl Into<String>, remedy: impl Into<String>) -> Result<T, NoSecret> {
    Err(NoSecret { what: what.into(), remedy: remedy.into() })
}

impl<'p> SecretPlace<'p> {
    /// Says nothing about whether there is a secret.
    pub fn parse(place: &'p str) -> Result<Self, NoSecret> {
        match place.split_once(':') {
            Some(("env", name)) if !name.is_empty() && !name.contains('=') => Ok(SecretPlace::Environment(name)),
            Some(("file", path)) if !path.is_empty() => Ok(SecretPlace::File(path)),
            Some(("keyring", name)) if !name.is_empty() => Ok(SecretPlace::Keyring(name)),
            // The text is not repeated: it may be the secret itself.
            _ => none(
                "it is not env:NAME, file:PATH or keyring:NAME",
                "Name the place of the secret; the secret itself does not belong into this file.",
            ),
        }
    }

    /// The secret, without white space around it.
    pub fn read(&self) -> Result<SecretString, NoSecret> {
        let value = match self {
            SecretPlace::Environment(name) => from_environment(name)?,
            SecretPlace::File(path) => from_file(path)?,
            SecretPlace::Keyring(name) => from_keyring(name)?,
        };
        match value.trim() {
            "" => none("the secret is empty", "Put the secret there."),
            value if !value.bytes().all(|byte| byte == b'\t' || (b' '..=b'~').contains(&byte)) => none(
                "the secret holds a character that no header can carry",
                "Put the secret there alone, on one line and in ASCII.",
            ),
            value => Ok(SecretString::from(value)),
        }
    }
}

fn from_environment(name: &str) -> Result<String, NoSecret> {
    match super::settings::read_environment(name) {
        Some(value) => Ok(value),
        None => none(
            format!("the environment variable {name} is not set, or is not UTF-8"),
            "Set it for the bridge, or name another place.",
        ),
    }
}

fn from_file(path: &str) -> Result<String, NoSecret> {
    let size = std::fs::metadata(path).map(|found| found.len());
    if size.as_ref().is_ok_and(|size| *size > MAX_BYTES) {
        return none(format!("{path} has over {MAX_BYTES} bytes"), "Name the file that holds the secret alone.");
    }
    match size.and_then(|_| read_small_file(Path::new(path), MAX_BYTES)) {
        Ok(value) => Ok(value),
        Err(why) => none(format!("{path} cannot be read: {why}"), "Create it, readable for the bridge's user alone."),
    }
}

/// A key of type `user` that the session keyring reaches, by its description.
#[cfg(target_os = "linux")]
fn from_keyring(name: &str) -> Result<String, NoSecret> {
    use keyring_core::Error;
    use keyring_core::api::CredentialStoreApi;

    let found = linux_keyutils_keyring_store::Store::new()
        .and_then(|store| store.build("", "", Some(&HashMap::from([("description", name)]))))
        .and_then(|entry| entry.get_password());
    match found {
        Ok(value) => Ok(value),
        Err(Error::NoEntry) => none(
            format!("no keyring that this process reaches has a key {name}"),
            format!("Add it with `keyctl padd user {name} @u`, as the bridge's user."),
        ),
        // A key that is not text comes back inside the error: it is not shown.
        Err(Error::BadEncoding(_)) => {
            none(format!("the key {name} is not UTF-8"), "Store the secret as text, or name another place.")
        }
        Err(Error::NoStorageAccess(why) | Error::PlatformFailure(why)) => none(
            format!("the kernel's keyring does not answer for {name}: {why}"),
            "Containers often have none: use env:NAME or file:PATH there.",
        ),
        Err(_) => none(format!("the key {name} cannot be read"), "Name another place."),
    }
}

#[cfg(not(target_os = "linux"))]
fn from_keyring(_: &str) -> Result<String, NoSecret> {
    none("keyrings are read on Linux only", "Use env:NAME or file:PATH.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use secrecy::ExposeSecret;

    #[test]
    fn what_may_be_the_secret_itself_is_not_repeated() {
        for pasted in ["hunter2", "vault:hunter2", "env:", "file:", "keyring:", ""] {
            let error = SecretPlace::parse(pasted).unwrap_err();
            assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
        }
    }

    #[test]
    fn a_file_is_read_without_its_last_newline_and_an_empty_one_is_no_secret() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("key");
        let place = format!("file:{}", file.display());
        let read = || SecretPlace::parse(&place).unwrap().read();
        assert!(read().unwrap_err().what.contains("cannot be read"));
        std::fs::write(&file, "hunter2\n").unwrap();
        assert_eq!(read().unwrap().expose_secret(), "hunter2");
        std::fs::write(&file, " \n").unwrap();
        assert_eq!(read().unwrap_err().what, "the secret is empty");
        for value in ["hunter2\nhunter3", "h\u{fc}nter", "hunter\0"] {
            std::fs::write(&file, value).unwrap();
            let no = read().unwrap_err();
            assert!(no.what.contains("no header can carry") && !format!("{no:?}").contains("hunter2"), "{no:?}");
        }
        std::fs::write(&file, vec![b'x'; 70_000]).unwrap();
        assert!(read().unwrap_err().what.contains("bytes"));
        // and a pipe is not waited for
        std::fs::remove_file(&file).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&file).status().unwrap().success());
        assert!(read().unwrap_err().what.contains("not a file"));
    }

    #[test]
    fn a_key_that_is_not_there_is_told_with_the_way_to_add_it() {
        let error = SecretPlace::Keyring("cyberos-test-no-such-key").read().unwrap_err();
        assert!(error.what.contains("cyberos-test-no-such-key"), "{error:?}");
    }
}
