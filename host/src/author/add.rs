//! Takes a component into a plugins directory: fetched, checked, pinned, and put there in one rename. Grants nothing.
//!
//! A name that stands for one component does not come to stand for another unless `update` says so: a tag that was moved,
//! or a file that was exchanged, is refused.

use bytes::Bytes;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use url::Url;

use super::digest;
use super::login::Login;
use super::outside::{Component, NotAComponent};
use super::pins::{PinError, Pins, replace};
use super::registry::{Registry, RegistryError};
use super::source::Source;
use crate::config::{EditLock, PluginsFile, Secrets};
use crate::model::{PluginId, ProgressSink};
use crate::plugins;
use crate::upstreams::download::{Ask, DownloadError, download};

/// A detached signature is a few hundred bytes.
const MAX_SIGNATURE: usize = 8 << 10;

pub struct Request {
    pub from: Source,
    /// The plugins directory.
    pub to: PathBuf,
    /// Where the pin goes.
    pub plugins_file: PathBuf,
    pub name: Option<PluginId>,
    /// What the component's digest must be.
    pub digest: Option<String>,
    /// May a name that is taken stand for another component from now on?
    pub update: bool,
    /// Largest component in bytes.
    pub most: usize,
    pub login: Login,
    pub progress: ProgressSink,
}

#[derive(Debug)]
pub struct Added {
    pub name: PluginId,
    pub file: PathBuf,
    pub bytes: usize,
    pub digest: String,
    /// Immutable for a registry.
    pub source: String,
    pub signed: bool,
    /// The digest that the name stood for before, when there was one and it differs.
    pub before: Option<String>,
    pub component: Component,
    /// Imports that its entry in `plugins.toml` does not grant yet, with the line that would.
    pub missing: Vec<(String, &'static str)>,
    /// What it says that it asks for; `None`: it does not say. The error is a clause.
    pub asks: Result<Option<plugins::Request>, String>,
    /// What of that its entry does not grant yet.
    pub lacks: plugins::Request,
}

#[derive(Debug, thiserror::Error)]
pub enum AddError {
    #[error("{0:?} is no plugin name: a-z, 0-9 and -, at most 63 characters; choose one with --name")]
    BadName(String),
    #[error("{}: {why}", .path.display())]
    File { path: PathBuf, why: String },
    #[error("{} is the same plugin under another file name; remove one of the two", .0.display())]
    Twin(PathBuf),
    #[error(transparent)]
    Registry(#[from] RegistryError),
    #[error(transparent)]
    Download(#[from] DownloadError),
    #[error("{from}: {why}")]
    NotAComponent { from: String, why: NotAComponent },
    #[error("{from} has the digest {actual}, not {expected}")]
    DigestMismatch { from: String, expected: String, actual: String },
    #[error(
        "{name} stands for {pinned}, and {from} is {actual} now. If that is a version that you want, pass --update; nothing was changed"
    )]
    Changed { name: PluginId, pinned: String, from: String, actual: String },
    #[error(transparent)]
    Pin(#[from] PinError),
}

struct Fetched {
    wasm: Bytes,
    source: String,
    signature: Option<String>,
}

/// Everything is checked before anything is written.
pub async fn add(request: Request) -> Result<Added, AddError> {
    let named = request.from.name();
    let name = match request.name.clone() {
        Some(name) => name,
        None => {
            let name = named.unwrap_or_default();
            PluginId::parse(&name).ok_or(AddError::BadName(name))?
        }
    };
    let file = request.to.join(format!("{name}.wasm"));
    check_place(&request.to, &name)?;
    Pins::read(&request.plugins_file)?;

    let fetched = fetch(&request).await?;
    let (wasm, source) = (fetched.wasm, fetched.source);
    let actual = digest(&wasm);
    if let Some(expected) = request.digest.as_ref().filter(|expected| **expected != actual) {
        return Err(AddError::DigestMismatch { from: source, expected: expected.clone(), actual });
    }
    let bytes = wasm.clone();
    let read = tokio::task::spawn_blocking(move || Component::read(&bytes)).await;
    let component = read
        .unwrap_or_else(|_| Err(NotAComponent::Broken("it cannot be read".into())))
        .map_err(|why| AddError::NotAComponent { from: source.clone(), why })?;

    let locked = EditLock::take(&request.plugins_file);
    let _lock = locked.map_err(|e| wrong(&request.plugins_file, format!("cannot be locked: {e}")))?;
    let mut pins = Pins::read(&request.plugins_file)?;
    let on_disk = fs::read(&file).ok().map(|old| digest(&old));
    let before = pins.digest(name.as_str()).map(str::to_owned).or(on_disk).filter(|before| *before != actual);
    if let Some(pinned) = before.clone().filter(|_| !request.update) {
        return Err(AddError::Changed { name, pinned, from: source, actual });
    }
    pins.set(name.as_str(), &actual, &source)?;
    // The component last: a bridge that watches the directory then finds its pin and its signature in place.
    pins.write()?;
    place_signature(&signature_path(&file), fetched.signature.as_deref())?;
    replace(&file, &wasm).map_err(|e| wrong(&file, format!("cannot be written: {e}")))?;

    let asks = plugins::Request::read(&wasm).map_err(|why| why.to_string());
    // A file with mistakes grants nothing, and a bridge says what is wrong with it.
    let entries = PluginsFile::parse(&request.plugins_file, &pins.text(), Secrets::Named).unwrap_or_default();
    let granted = plugins::Request::of(&entries.grants(name.as_str()));
    let lacks = asks.as_ref().ok().and_then(Option::as_ref).map(|asks| asks.beyond(&granted)).unwrap_or_default();
    let field = |grant: &str| grant.split([' ', '.', '=']).next().unwrap_or_default().to_owned();
    let missing =
        component.asks().into_iter().filter(|(_, grant)| !pins.grants(name.as_str(), &field(grant))).collect();
    let signed = fetched.signature.is_some();
    Ok(Added { name, file, bytes: wasm.len(), digest: actual, source, signed, before, component, missing, asks, lacks })
}

/// The field of a plugin's entry that a line such as `cuo = true` sets.
pub fn field(grant: &str) -> &str {
    grant.split([' ', '.', '=']).next().unwrap_or_default()
}

/// `NAME.wasm.minisig`, beside the component.
pub(super) fn signature_path(file: &Path) -> PathBuf {
    let mut path = file.as_os_str().to_owned();
    path.push(".minisig");
    PathBuf::from(path)
}

fn wrong(path: &Path, why: impl ToString) -> AddError {
    AddError::File { path: path.to_owned(), why: why.to_string() }
}

/// Files in the directory are plugins by their names, in which `_` reads as `-`.
fn check_place(directory: &Path, name: &PluginId) -> Result<(), AddError> {
    let entries =
        fs::read_dir(directory).map_err(|e| wrong(directory, format!("is no directory to put plugins in: {e}")))?;
    let own = format!("{name}.wasm");
    for path in entries.flatten().map(|entry| entry.path()) {
        let file_name = path.file_name().and_then(|f| f.to_str()).unwrap_or_default();
        if file_name != own && file_name.replace('_', "-") == own {
            return Err(AddError::Twin(path));
        }
    }
    Ok(())
}

async fn fetch(request: &Request) -> Result<Fetched, AddError> {
    match &request.from {
        Source::Oci(reference) => {
            let registry = Registry::connect(reference.clone(), request.login.clone()).await?;
            let pulled = registry.pull(request.most, &request.progress).await?;
            let source = registry.immutable(&pulled.manifest_digest);
            Ok(Fetched {
                wasm: pulled.wasm,
                source,
                signature: pulled.signature.and_then(|text| signature(text.as_bytes())),
            })
        }
        Source::Url(url) => from_url(url, request).await,
        Source::File(path) => from_file(path, request.most),
    }
}

async fn from_url(url: &Url, request: &Request) -> Result<Fetched, AddError> {
    let authorization = request.login.basic_header();
    let ask =
        Ask { url, accept: "application/wasm, */*", authorization, most: request.most, progress: &request.progress };
    let wasm = download(ask).await?.body;
    let mut beside = url.clone();
    beside.set_path(&format!("{}.minisig", url.path()));
    let (authorization, silent) = (request.login.basic_header(), ProgressSink::none());
    let ask = Ask { url: &beside, accept: "*/*", authorization, most: MAX_SIGNATURE, progress: &silent };
    let signature = match download(ask).await {
        Ok(found) => signature(&found.body),
        // No such file, or somebody's page that says so at length.
        Err(DownloadError::Status { .. } | DownloadError::TooLarge { .. } | DownloadError::Redirect { .. }) => None,
        Err(other) => return Err(other.into()),
    };
    // What stands behind the question mark may be a secret of this one download.
    let mut source = url.clone();
    source.set_query(None);
    Ok(Fetched { wasm, source: source.into(), signature })
}

fn from_file(path: &Path, most: usize) -> Result<Fetched, AddError> {
    let path = fs::canonicalize(path).map_err(|e| wrong(path, e))?;
    let file = fs::File::open(&path).map_err(|e| wrong(&path, e))?;
    if !file.metadata().is_ok_and(|meta| meta.is_file()) {
        return Err(wrong(&path, "is no file"));
    }
    let mut wasm = Vec::new();
    file.take(most as u64 + 1).read_to_end(&mut wasm).map_err(|e| wrong(&path, e))?;
    if wasm.len() > most {
        return Err(wrong(&path, format!("is larger than {most} bytes; --max-bytes raises it")));
    }
    let signature = fs::read(signature_path(&path)).ok().and_then(|text| signature(&text));
    let source = Url::from_file_path(&path).map(String::from).unwrap_or_else(|()| path.display().to_string());
    Ok(Fetched { wasm: Bytes::from(wasm), source, signature })
}

/// The text of a minisign signature; whether it is good is decided when the plugin is loaded.
fn signature(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok().filter(|text| text.len() <= MAX_SIGNATURE)?;
    text.starts_with("untrusted comment:").then(|| text.to_owned())
}

/// A signature of what was there before says nothing about what is there now.
fn place_signature(path: &Path, signature: Option<&str>) -> Result<(), AddError> {
    let done = match signature {
        Some(text) => replace(path, text.as_bytes()),
        None => match fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        },
    };
    done.map_err(|e| wrong(path, e))
}
