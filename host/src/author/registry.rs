//! Components in OCI registries: the CNCF's Wasm OCI Artifact layout over the OCI distribution protocol 1.1.
//!
//! `oci-client` logs in and uploads. Downloads go through `upstreams::download`, because the library bounds neither the
//! size of a manifest nor where a redirect leads. Plain http is spoken with loopback addresses only.

use bytes::Bytes;
use http::header::WWW_AUTHENTICATE;
use http::{HeaderMap, HeaderValue, StatusCode};
use oci_client::client::{ClientConfig, ClientProtocol};
use oci_client::errors::{OciDistributionError, OciErrorCode};
use oci_client::manifest::{OCI_IMAGE_MEDIA_TYPE, OciImageManifest};
use oci_client::{Client, Reference, RegistryOperation};
use std::time::Duration;
use url::Url;

use super::login::Login;
use super::{digest, is_digest};
use crate::model::ProgressSink;
use crate::upstreams::download::{Ask, DownloadError, download};
use crate::upstreams::{check_transport, is_loopback, tls};

pub const CONFIG_TYPE: &str = "application/vnd.wasm.config.v0+json";
pub const WASM_TYPE: &str = "application/wasm";
/// The annotation that holds a detached minisign signature of the component.
pub const SIGNATURE: &str = "vnd.cyberos.minisig";
/// What the distribution specification asks every registry to accept at least.
const MAX_MANIFEST: usize = 4 << 20;
const MANIFESTS: &str = "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json, \
    application/vnd.docker.distribution.manifest.v2+json, application/vnd.docker.distribution.manifest.list.v2+json";

/// Why a registry did not take or give a component.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    #[error(transparent)]
    Download(#[from] DownloadError),
    #[error("{host} answers, but not as an OCI registry (status {status} for /v2/)")]
    NotARegistry { host: String, status: u16 },
    #[error("{host} refuses {what}: {hint}")]
    Unauthorized { host: String, what: String, hint: String },
    #[error("{host} has no {what}")]
    NotFound { host: String, what: String },
    #[error("{what} is no WebAssembly component: {found}; expected config {CONFIG_TYPE} and one layer {WASM_TYPE}")]
    NotWasm { what: String, found: String },
    #[error("{what} has the digest {actual}, not {expected}")]
    DigestMismatch { what: String, expected: String, actual: String },
    #[error("{what} has {actual} bytes, not the {expected} that its manifest says")]
    WrongSize { what: String, expected: i64, actual: usize },
    #[error("{what} has {size} bytes, more than the {most} that are taken; --max-bytes raises it")]
    TooLarge { what: String, size: i64, most: usize },
    #[error("{host} sends its visitors to {realm} for a token, which is refused: it is not https")]
    BadRealm { host: String, realm: String },
    #[error("{host}: {why}")]
    Other { host: String, why: String },
}

/// A component as a registry gave it, every byte checked against its digest.
pub struct Pulled {
    pub wasm: Bytes,
    /// The manifest's own digest: with it the reference never means anything else.
    pub manifest_digest: String,
    pub signature: Option<String>,
}

/// One repository of one registry, after it has answered and said how it wants to be asked.
pub struct Registry {
    reference: Reference,
    base: Url,
    login: Login,
    challenge: Challenge,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Challenge {
    None,
    Basic,
    Bearer,
}

impl Registry {
    /// Ask the registry what it is. Sends no credentials.
    pub async fn connect(reference: Reference, login: Login) -> Result<Registry, RegistryError> {
        let host = reference.resolve_registry().to_owned();
        let https = Url::parse(&format!("https://{host}/v2/"))
            .map_err(|e| RegistryError::Other { host: host.clone(), why: e.to_string() })?;
        if !is_loopback(&https) {
            let challenge = probe(&host, &https).await?;
            return Ok(Registry { reference, base: https, login, challenge });
        }
        // Registries on this machine mostly speak plain http; one that does not says so, or answers nothing.
        let http = Url::parse(&format!("http://{host}/v2/")).expect("it differs from a good one in its scheme");
        let plain = match probe(&host, &http).await {
            Ok(challenge) => return Ok(Registry { reference, base: http, login, challenge }),
            Err(refused @ RegistryError::BadRealm { .. }) => return Err(refused),
            Err(plain) => plain,
        };
        match probe(&host, &https).await {
            Ok(challenge) => Ok(Registry { reference, base: https, login, challenge }),
            // 400 is how servers answer plain http when they want TLS.
            Err(_) if matches!(plain, RegistryError::NotARegistry { status, .. } if status != 400) => Err(plain),
            Err(tls) => Err(tls),
        }
    }

    /// `oci://…@sha256:…` for a manifest of this repository.
    pub fn immutable(&self, manifest_digest: &str) -> String {
        format!("oci://{}/{}@{manifest_digest}", self.reference.registry(), self.reference.repository())
    }

    /// The component of the tag or digest. `most`: bytes of the component.
    pub async fn pull(&self, most: usize, progress: &ProgressSink) -> Result<Pulled, RegistryError> {
        let authorization = self.authorization(RegistryOperation::Pull).await?;
        let wanted = self.reference.digest().or(self.reference.tag()).unwrap_or("latest").to_owned();
        let (silent, what) = (ProgressSink::none(), self.reference.whole());
        let fetched = self
            .get(&format!("manifests/{wanted}"), MANIFESTS, MAX_MANIFEST, authorization.clone(), &silent)
            .await
            .map_err(|e| self.explain(e, &what))?;
        let manifest_digest = digest(&fetched.body);
        let said = fetched.headers.get("docker-content-digest").and_then(|v| v.to_str().ok());
        let expected = self.reference.digest().or(said.filter(|d| is_digest(d)));
        check_digest(&what, expected, &manifest_digest)?;
        let manifest = read_manifest(&what, &fetched.body)?;
        let layer = &manifest.layers[0];
        if layer.size > most as i64 {
            return Err(RegistryError::TooLarge { what, size: layer.size, most });
        }
        let blob = self
            .get(&format!("blobs/{}", layer.digest), WASM_TYPE, most, authorization, progress)
            .await
            .map_err(|e| self.explain(e, &format!("{what} (layer {})", layer.digest)))?
            .body;
        check_digest(&format!("the component of {what}"), Some(&layer.digest), &digest(&blob))?;
        if blob.len() as i64 != layer.size {
            return Err(RegistryError::WrongSize { what, expected: layer.size, actual: blob.len() });
        }
        let signature = manifest.annotations.and_then(|mut all| all.remove(SIGNATURE));
        Ok(Pulled { wasm: blob, manifest_digest, signature })
    }

    /// Upload whatever the registry does not have, then the manifest under the tag. Returns the manifest's digest.
    pub async fn push(&self, wasm: Bytes, config: Bytes, manifest: Bytes) -> Result<String, RegistryError> {
        let client = self.client()?;
        let host = self.reference.resolve_registry();
        let what = self.reference.whole();
        client.store_auth_if_needed(host, &self.login.registry_auth()).await;
        client
            .auth(&self.reference, &self.login.registry_auth(), RegistryOperation::Push)
            .await
            .map_err(|e| self.explain_oci(e, &what))?;
        for blob in [wasm, config] {
            let name = digest(&blob);
            if !client.blob_exists(&self.reference, &name).await.unwrap_or(false) {
                client.push_blob(&self.reference, blob, &name).await.map_err(|e| self.explain_oci(e, &what))?;
            }
        }
        let manifest_digest = digest(&manifest);
        let stored = client
            .push_manifest_raw(&self.reference, manifest, HeaderValue::from_static(OCI_IMAGE_MEDIA_TYPE))
            .await
            .map_err(|e| self.explain_oci(e, &what))?;
        // The registry's own word for where the manifest is: usually by digest, and then it must be ours.
        let named = stored.rsplit('/').next().filter(|last| is_digest(last));
        check_digest(&what, named, &manifest_digest)?;
        Ok(manifest_digest)
    }

    async fn get(
        &self,
        path: &str,
        accept: &str,
        most: usize,
        authorization: Option<HeaderValue>,
        progress: &ProgressSink,
    ) -> Result<crate::upstreams::download::Downloaded, DownloadError> {
        let path = format!("/v2/{}/{path}", self.reference.repository());
        let url = self.base.join(&path).expect("names and digests are URL path segments");
        download(Ask { url: &url, accept, authorization, most, progress }).await
    }

    async fn authorization(&self, operation: RegistryOperation) -> Result<Option<HeaderValue>, RegistryError> {
        match self.challenge {
            Challenge::None => Ok(None),
            Challenge::Basic => Ok(self.login.basic_header()),
            Challenge::Bearer => {
                let token = self.client()?.auth(&self.reference, &self.login.registry_auth(), operation).await;
                let token = token.map_err(|e| self.explain_oci(e, &self.reference.whole()))?;
                Ok(token.and_then(|token| {
                    let mut value = HeaderValue::from_str(&format!("Bearer {token}")).ok()?;
                    value.set_sensitive(true);
                    Some(value)
                }))
            }
        }
    }

    fn client(&self) -> Result<Client, RegistryError> {
        tls::install();
        let host = self.reference.resolve_registry().to_owned();
        let protocol = match self.base.scheme() {
            "http" => ClientProtocol::HttpsExcept(vec![host.clone()]),
            _ => ClientProtocol::Https,
        };
        let config = ClientConfig {
            protocol,
            connect_timeout: Some(Duration::from_secs(10)),
            read_timeout: Some(Duration::from_secs(60)),
            user_agent: concat!("cyberos-mcp-bridge/", env!("CARGO_PKG_VERSION")),
            ..ClientConfig::default()
        };
        Client::try_from(config).map_err(|e| RegistryError::Other { host, why: e.to_string() })
    }

    fn unauthorized(&self, what: &str) -> RegistryError {
        let hint = match self.login.is_anonymous() {
            true => {
                "log in with --username and --password-file, or with `docker login`; credential helpers are not run"
            }
            false => "the user name and password are not accepted, or may not do this",
        };
        RegistryError::Unauthorized {
            host: self.reference.resolve_registry().to_owned(),
            what: what.to_owned(),
            hint: hint.to_owned(),
        }
    }

    fn explain(&self, error: DownloadError, what: &str) -> RegistryError {
        let host = || self.reference.resolve_registry().to_owned();
        match error {
            DownloadError::Status { status: StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, .. } => {
                self.unauthorized(what)
            }
            DownloadError::Status { status: StatusCode::NOT_FOUND, .. } => {
                RegistryError::NotFound { host: host(), what: what.to_owned() }
            }
            other => RegistryError::Download(other),
        }
    }

    fn explain_oci(&self, error: OciDistributionError, what: &str) -> RegistryError {
        use OciDistributionError as Oci;
        let host = self.reference.resolve_registry().to_owned();
        let denied = |code: &OciErrorCode| matches!(code, OciErrorCode::Unauthorized | OciErrorCode::Denied);
        match error {
            Oci::UnauthorizedError { .. } | Oci::AuthenticationFailure(_) => self.unauthorized(what),
            Oci::ServerError { code: 401 | 403, .. } => self.unauthorized(what),
            Oci::RegistryError { envelope, .. } if envelope.errors.iter().any(|e| denied(&e.code)) => {
                self.unauthorized(what)
            }
            Oci::RequestError(why) => RegistryError::Download(DownloadError::Unreachable {
                host,
                why: crate::upstreams::download::chain(&why),
            }),
            // The rest is said in the library's words, which hold addresses and status codes, never credentials.
            other => RegistryError::Other { host, why: other.to_string() },
        }
    }
}

/// `GET /v2/`: 200 or 401 is what a registry answers.
async fn probe(host: &str, url: &Url) -> Result<Challenge, RegistryError> {
    let silent = ProgressSink::none();
    let ask = Ask { url, accept: "application/json", authorization: None, most: 64 << 10, progress: &silent };
    match download(ask).await {
        Ok(_) => Ok(Challenge::None),
        Err(DownloadError::Status { status: StatusCode::UNAUTHORIZED, headers, .. }) => challenge(host, url, &headers),
        Err(DownloadError::Status { status, .. }) => {
            Err(RegistryError::NotARegistry { host: host.to_owned(), status: status.as_u16() })
        }
        Err(other) => Err(other.into()),
    }
}

/// RFC 9110, section 11.6.1. The realm is where the password will go, so it must be as safe as the registry itself.
fn challenge(host: &str, registry: &Url, headers: &HeaderMap) -> Result<Challenge, RegistryError> {
    let text = headers.get(WWW_AUTHENTICATE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let scheme = text.split_whitespace().next().unwrap_or_default();
    if scheme.eq_ignore_ascii_case("basic") {
        return Ok(Challenge::Basic);
    }
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Ok(Challenge::None);
    }
    let realm = text.split_once("realm=\"").and_then(|(_, rest)| rest.split('"').next()).unwrap_or_default();
    let good = Url::parse(realm)
        .is_ok_and(|realm| check_transport(&realm).is_ok() && (!is_loopback(&realm) || is_loopback(registry)));
    match good {
        true => Ok(Challenge::Bearer),
        false => Err(RegistryError::BadRealm { host: host.to_owned(), realm: realm.to_owned() }),
    }
}

/// The manifest of one component, and of nothing else.
fn read_manifest(what: &str, body: &[u8]) -> Result<OciImageManifest, RegistryError> {
    let not_wasm = |found: String| RegistryError::NotWasm { what: what.to_owned(), found };
    let value: serde_json::Value =
        serde_json::from_slice(body).map_err(|e| not_wasm(format!("its manifest is no JSON ({e})")))?;
    if value.get("manifests").is_some() {
        return Err(not_wasm("it is an index of several images".into()));
    }
    let manifest: OciImageManifest =
        serde_json::from_value(value).map_err(|e| not_wasm(format!("its manifest is unusable ({e})")))?;
    let layers: Vec<&str> = manifest.layers.iter().map(|layer| layer.media_type.as_str()).collect();
    if manifest.config.media_type != CONFIG_TYPE || layers != [WASM_TYPE] {
        return Err(not_wasm(format!(
            "its config is {} and its layers are [{}]",
            manifest.config.media_type,
            layers.join(", ")
        )));
    }
    if !is_digest(&manifest.layers[0].digest) || manifest.layers[0].size < 0 {
        return Err(not_wasm("its layer has no sha256 digest or no size".into()));
    }
    Ok(manifest)
}

fn check_digest(what: &str, expected: Option<&str>, actual: &str) -> Result<(), RegistryError> {
    match expected.filter(|expected| *expected != actual) {
        None => Ok(()),
        Some(expected) => Err(RegistryError::DigestMismatch {
            what: what.to_owned(),
            expected: expected.to_owned(),
            actual: actual.to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_not_sent_where_a_registry_should_not_send_it() {
        let asked = |registry: &str, value: &str| {
            let headers = HeaderMap::from_iter([(WWW_AUTHENTICATE, HeaderValue::from_str(value).unwrap())]);
            challenge("r", &Url::parse(registry).unwrap(), &headers)
        };
        let far = "https://ghcr.io/v2/";
        assert_eq!(asked(far, "Basic realm=\"x\"").unwrap(), Challenge::Basic);
        assert_eq!(
            asked(far, "Bearer realm=\"https://ghcr.io/token\",service=\"ghcr.io\"").unwrap(),
            Challenge::Bearer
        );
        for realm in ["http://ghcr.io/token", "https://127.0.0.1/token", "https://a:b@ghcr.io/", ""] {
            let refused = asked(far, &format!("Bearer realm=\"{realm}\"")).unwrap_err().to_string();
            assert!(refused.contains("refused"), "{realm}: {refused}");
        }
    }

    #[test]
    fn another_kind_of_artifact_is_refused_with_its_types() {
        let manifest = |config: &str, layer: &str| {
            let blob = |kind: &str| serde_json::json!({ "mediaType": kind, "digest": digest(b""), "size": 0 });
            serde_json::json!({ "schemaVersion": 2, "config": blob(config), "layers": [blob(layer)] }).to_string()
        };
        assert!(read_manifest("x", manifest(CONFIG_TYPE, WASM_TYPE).as_bytes()).is_ok());
        let image = manifest("application/vnd.oci.image.config.v1+json", "application/vnd.oci.image.layer.v1.tar+gzip");
        let refused = read_manifest("x", image.as_bytes()).err().unwrap().to_string();
        assert!(refused.contains("image.config.v1+json") && refused.contains("layer.v1.tar+gzip"), "{refused}");
        let refused = read_manifest("x", br#"{"manifests":[]}"#).err().unwrap().to_string();
        assert!(refused.contains("index of several"), "{refused}");
    }
}
