//! What the operator decides about identity, as plain data. Reading it from flags, files and the environment is
//! `config`'s work; checking it is [`super::Verifier::new`]'s.

use secrecy::SecretString;
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;
use url::Url;

/// How HTTP callers are identified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuthMode {
    /// Everybody is the local principal. `config` allows it on loopback listeners only.
    None,
    /// An access token on every request (RFC 6750). The default.
    #[default]
    Bearer,
}

/// How callers are identified and which access tokens are accepted. The default accepts none.
#[derive(Clone, Debug)]
pub struct AuthSettings {
    /// For HTTP; default `Bearer`.
    pub mode: AuthMode,
    /// For stdio; default the local principal.
    pub stdio_token: StdioToken,
    /// Trusted issuers; default none. Each is trusted for every tenant: `tenant_id` and `sub` are taken from its word.
    pub issuers: Vec<IssuerSettings>,
    /// A token must name one of these in `aud`; default none. Compared exactly, but for case of scheme and host and
    /// for one trailing slash in http(s) URIs (RFC 8707).
    pub audiences: Vec<String>,
    /// Clocks may differ by this much, either way; default 30 s, at most 5 min.
    pub skew: Duration,
    /// Keys of the development issuer ([`super::Issuer::key_source`]); default `None`: its tokens are refused.
    /// Anyone who can read the state directory can mint them, so this is not for shared machines.
    pub dev_issuer: Option<KeySource>,
    /// Keep each caller's token for the length of its request, so that the memory service can check it; default no.
    pub forward_token: bool,
}

impl Default for AuthSettings {
    fn default() -> Self {
        AuthSettings {
            mode: AuthMode::Bearer,
            stdio_token: StdioToken::None,
            issuers: Vec::new(),
            audiences: Vec::new(),
            skew: Duration::from_secs(30),
            dev_issuer: None,
            forward_token: false,
        }
    }
}

/// One trusted issuer.
#[derive(Clone, Debug)]
pub struct IssuerSettings {
    /// The exact value of `iss`.
    pub issuer: String,
    pub keys: KeySource,
}

/// Where an issuer's public keys (JWKS, RFC 7517) come from. Never from a token.
#[derive(Clone, Debug)]
pub enum KeySource {
    /// `https`, or `http` on loopback. Kept five minutes at most.
    Url(Url),
    /// Read again after five minutes, and when a token names a key that it did not hold.
    File(PathBuf),
    /// The document itself; it never changes.
    Static(Value),
}

/// Where a stdio bridge takes its caller's token from; the default is the local principal.
#[derive(Clone, Debug, Default)]
pub enum StdioToken {
    /// No token: the single local user, who holds every scope.
    #[default]
    None,
    /// `CYBEROS_TOKEN`, read once by `config`.
    Value(SecretString),
    /// `--token-file`: read again whenever the file changes, so that a refreshed token is picked up.
    File(PathBuf),
}

/// A setting that makes identity impossible or unsafe: one sentence for the operator, who started the process.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct SettingError(pub(super) String);

impl SettingError {
    pub(super) fn new(sentence: impl Into<String>) -> Self {
        SettingError(sentence.into())
    }
}
