//! Puts a component into a registry, in the CNCF's Wasm OCI Artifact layout, so that every tool that knows it can take it.
//!
//! Config: `{created, author, architecture, os, layerDigests, component}`. One layer, the component. Annotations: the
//! ones that OCI names, from the component's own metadata and from flags. A signature beside the file rides in an
//! annotation, because the layout allows one layer.

use bytes::Bytes;
use jiff::Timestamp;
use oci_client::Reference;
use oci_client::manifest::OCI_IMAGE_MEDIA_TYPE;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::digest;
use super::login::Login;
use super::outside::{Component, NotAComponent};
use super::registry::{CONFIG_TYPE, Registry, RegistryError, SIGNATURE, WASM_TYPE};

/// A detached signature is a few hundred bytes.
const MAX_SIGNATURE: u64 = 8 << 10;

#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    #[error("{}: {why}", .path.display())]
    File { path: PathBuf, why: String },
    #[error("{}: {why}", .path.display())]
    NotAComponent { path: PathBuf, why: NotAComponent },
    #[error("name a tag to publish under, such as {0}:1.0.0; a digest is what the registry answers with")]
    NoTag(String),
    #[error(transparent)]
    Registry(#[from] RegistryError),
}

/// What is said beside the component. `None` leaves the component's own word.
#[derive(Clone, Debug, Default)]
pub struct About {
    pub title: Option<String>,
    pub version: Option<String>,
    pub source: Option<String>,
    pub revision: Option<String>,
    pub licenses: Option<String>,
    pub author: Option<String>,
    /// Now unless given; the same moment gives the same digest again.
    pub created: Option<Timestamp>,
}

#[derive(Debug)]
pub struct Published {
    pub file: PathBuf,
    /// `oci://…@sha256:…` of the manifest.
    pub reference: String,
    /// Of the component.
    pub digest: String,
    pub bytes: usize,
    pub signed: bool,
}

/// Publish a component file, or the one component in a directory. Never overwrites anything but the tag.
pub async fn publish(from: &Path, to: Reference, about: About, login: Login) -> Result<Published, PublishError> {
    if to.tag().is_none() || to.digest().is_some() {
        return Err(PublishError::NoTag(format!("oci://{}/{}", to.registry(), to.repository())));
    }
    let file = component_in(from)?;
    let unreadable = |why: std::io::Error| PublishError::File { path: file.clone(), why: why.to_string() };
    let wasm = Bytes::from(std::fs::read(&file).map_err(unreadable)?);
    let component = Component::read(&wasm).map_err(|why| PublishError::NotAComponent { path: file.clone(), why })?;
    let signature = signature_beside(&file)?;
    let config = config(&wasm, &component, &about);
    let annotations = annotations(&file, &component, &about, signature.as_deref());
    let manifest = manifest(&wasm, &config, &annotations);
    let registry = Registry::connect(to, login).await?;
    let (digest, bytes) = (digest(&wasm), wasm.len());
    let manifest_digest = registry.push(wasm, config, manifest).await?;
    Ok(Published { file, reference: registry.immutable(&manifest_digest), digest, bytes, signed: signature.is_some() })
}

/// Where builds leave their component, in the order of looking.
const PLACES: [&str; 4] = ["", "dist", "build", "target/wasm32-wasip2/release"];

/// The file itself, or the only component of the first place in the directory that has any.
fn component_in(from: &Path) -> Result<PathBuf, PublishError> {
    if !from.is_dir() {
        return Ok(from.to_owned());
    }
    let wrong = |why: String| PublishError::File { path: from.to_owned(), why };
    for place in PLACES {
        let entries = std::fs::read_dir(from.join(place)).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut found: Vec<PathBuf> =
            entries.filter(|path| path.extension().is_some_and(|e| e == "wasm") && path.is_file()).collect();
        found.sort();
        match found.len() {
            0 => {}
            1 => return Ok(found.remove(0)),
            _ => {
                let names: Vec<String> = found.iter().map(|path| path.display().to_string()).collect();
                return Err(wrong(format!("has several components, name one of them: {}", names.join(", "))));
            }
        }
    }
    Err(wrong("has no component; run `cyberos-mcp-bridge plugin build` in it, or name a .wasm file".into()))
}

fn signature_beside(file: &Path) -> Result<Option<String>, PublishError> {
    let path = super::add::signature_path(file);
    let wrong = |why: String| PublishError::File { path: path.clone(), why };
    match std::fs::metadata(&path) {
        Ok(meta) if meta.len() > MAX_SIGNATURE => Err(wrong(format!("is no signature: it has {} bytes", meta.len()))),
        Ok(_) => std::fs::read_to_string(&path).map(Some).map_err(|e| wrong(e.to_string())),
        Err(_) => Ok(None),
    }
}

fn config(wasm: &Bytes, component: &Component, about: &About) -> Bytes {
    let author = about.author.as_ref().or(component.metadata.get("authors"));
    let mut config = json!({
        "created": about.created.unwrap_or_else(Timestamp::now).strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        "architecture": "wasm",
        "os": "wasip2",
        "layerDigests": [digest(wasm)],
        "component": { "exports": component.exports, "imports": component.imports, "target": null },
    });
    if let Some(author) = author {
        config["author"] = author.as_str().into();
    }
    Bytes::from(config.to_string())
}

fn annotations(file: &Path, component: &Component, about: &About, signature: Option<&str>) -> BTreeMap<String, String> {
    let own = |key: &str| component.metadata.get(key).cloned();
    let stem = || file.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let said = [
        ("org.opencontainers.image.title", about.title.clone().or_else(stem)),
        ("org.opencontainers.image.version", about.version.clone().or_else(|| own("version"))),
        ("org.opencontainers.image.source", about.source.clone().or_else(|| own("source"))),
        ("org.opencontainers.image.revision", about.revision.clone().or_else(|| own("revision"))),
        ("org.opencontainers.image.licenses", about.licenses.clone().or_else(|| own("licenses"))),
        ("org.opencontainers.image.authors", about.author.clone().or_else(|| own("authors"))),
        ("org.opencontainers.image.description", own("description")),
        ("org.opencontainers.image.url", own("homepage")),
        (SIGNATURE, signature.map(str::to_owned)),
    ];
    said.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
}

fn manifest(wasm: &Bytes, config: &Bytes, annotations: &BTreeMap<String, String>) -> Bytes {
    let descriptor =
        |kind: &str, bytes: &Bytes| json!({ "mediaType": kind, "digest": digest(bytes), "size": bytes.len() });
    let manifest: Value = json!({
        "schemaVersion": 2,
        "mediaType": OCI_IMAGE_MEDIA_TYPE,
        "config": descriptor(CONFIG_TYPE, config),
        "layers": [descriptor(WASM_TYPE, wasm)],
        "annotations": annotations,
    });
    Bytes::from(manifest.to_string())
}
