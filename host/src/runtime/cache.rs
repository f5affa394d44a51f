//! Compiled components, kept so that no start compiles what an earlier one compiled.
//!
//! Loading compiled code is as trusted as running it, so a file is loaded only if this host wrote it: the directory is
//! private (0700, ours, no symlink), the name holds the component's digest and the engine's compatibility hash, and a
//! MAC under a private key covers the bytes. What fails any check is compiled again; nothing that an operator or a
//! plugin author supplies is ever loaded as compiled code ([`wasmtime::component::Component::new`] refuses it).

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use std::fs;
use std::hash::{Hash, Hasher};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use wasmtime::Engine;
use wasmtime::component::Component;

/// Hex SHA-256 of a component: its name in the cache, in audit rows and in `tools inspect`.
pub fn digest(wasm: &[u8]) -> String {
    hex::encode(Sha256::digest(wasm))
}

pub struct Cache {
    directory: PathBuf,
    key: [u8; 32],
}

impl Cache {
    /// Open or create. An error means that the directory is not safe to use; the host then compiles at every start.
    pub fn open(directory: &Path) -> io::Result<Cache> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let meta = fs::symlink_metadata(directory)?;
        let ours = meta.uid() == rustix::process::geteuid().as_raw();
        if !meta.is_dir() || !ours || meta.mode() & 0o077 != 0 {
            return Err(io::Error::other("the compiled-code cache must be a directory of our own with mode 0700"));
        }
        Ok(Cache { key: key(&directory.join("key"))?, directory: directory.to_owned() })
    }

    /// The compiled form of `wasm`, if an earlier start left one.
    pub fn get(&self, engine: &Engine, wasm_digest: &str) -> Option<Component> {
        let path = self.path(engine, wasm_digest);
        let sealed = fs::read(path.with_extension("mac")).ok()?;
        let compiled = fs::read(&path).ok()?;
        if self.mac(&path, &compiled).verify_slice(&sealed).is_err() {
            tracing::warn!(digest = wasm_digest, "a cached compiled component failed its check and is compiled again");
            return None;
        }
        // SAFETY: `deserialize_file` asks that the file holds what `serialize` of a compatible engine wrote and that nobody
        // changes it while it is mapped. The MAC, under a key that only this user can read, shows that this host wrote
        // these bytes; the directory is 0700 and ours, checked at open, and files in it are only ever replaced by rename.
        #[allow(unsafe_code)]
        let component = unsafe { Component::deserialize_file(engine, &path) };
        component.ok()
    }

    /// Keep a compiled component. Failing to is no reason to fail a start.
    pub fn put(&self, engine: &Engine, wasm_digest: &str, component: &Component) -> wasmtime::Result<()> {
        let path = self.path(engine, wasm_digest);
        let compiled = component.serialize()?;
        let sealed = self.mac(&path, &compiled).finalize().into_bytes();
        // The code first: a code file without its MAC is ignored, a MAC without its code is harmless.
        self.replace(&path, &compiled)?;
        self.replace(&path.with_extension("mac"), &sealed)?;
        Ok(())
    }

    /// Remove what is kept of this component, whichever engine compiled it.
    pub fn forget(&self, wasm_digest: &str) {
        let Ok(entries) = fs::read_dir(&self.directory) else { return };
        let of_it = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with(&format!("{wasm_digest}-"));
        for entry in entries.flatten().filter(of_it) {
            let _ = fs::remove_file(entry.path());
        }
    }

    fn path(&self, engine: &Engine, wasm_digest: &str) -> PathBuf {
        let mut compatibility = Sha256Hasher(Sha256::new());
        engine.precompile_compatibility_hash().hash(&mut compatibility);
        let compatibility = hex::encode(&compatibility.0.finalize()[..8]);
        self.directory.join(format!("{wasm_digest}-{compatibility}.cwasm"))
    }

    fn mac(&self, path: &Path, compiled: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key).expect("any length of key will do");
        mac.update(path.file_name().map(|n| n.as_encoded_bytes()).unwrap_or_default());
        mac.update(&[0]);
        mac.update(compiled);
        mac
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut file = tempfile::Builder::new().prefix(".new-").tempfile_in(&self.directory)?;
        file.write_all(bytes)?;
        file.as_file().sync_data()?;
        file.persist(path)?;
        Ok(())
    }
}

/// 32 random bytes, made once; two processes that start together agree on the first one's.
fn key(path: &Path) -> io::Result<[u8; 32]> {
    for _ in 0..2 {
        match fs::read(path) {
            Ok(bytes) if bytes.len() == 32 => return Ok(bytes.try_into().expect("32 bytes")),
            Ok(_) => fs::remove_file(path)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let fresh: [u8; 32] = rand::random();
        let new = path.with_extension(format!("new-{}", std::process::id()));
        fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?.write_all(&fresh)?;
        // A hard link fails if somebody else was first, and never shows a half-written key.
        let linked = fs::hard_link(&new, path);
        fs::remove_file(&new)?;
        match linked {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    let bytes = fs::read(path)?;
    bytes.try_into().map_err(|_| io::Error::other("the cache's key file is damaged"))
}

/// `DefaultHasher` may change with the compiler; file names should not.
struct Sha256Hasher(Sha256);
impl Hasher for Sha256Hasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }
    fn finish(&self) -> u64 {
        unreachable!("the whole digest is used")
    }
}
