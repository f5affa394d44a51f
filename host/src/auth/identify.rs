//! Who sent this request? The first step of every call, for both transports.
//!
//! Source: design, section 6; RFC 6750 section 2. Sessions never identify anybody: over HTTP the token is in every
//! request, over stdio it is looked at for every request.

use http::{HeaderMap, HeaderValue, header};
use secrecy::{ExposeSecret, SecretString};
use std::fs::Metadata;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::caller::Caller;
use super::challenge::www_authenticate;
use super::claims::invalid;
use super::clock::Clock;
use super::resource::{ProtectedResource, Scopes};
use super::settings::{AuthMode, AuthSettings, SettingError, StdioToken};
use super::token::{MAX_TOKEN_BYTES, Verifier};
use crate::error::{Error, Reason, Result};

/// Identifies the callers of one process.
pub struct Identifier {
    mode: AuthMode,
    verifier: Option<Verifier>,
    stdio: StdioSource,
    /// Known once the listener is.
    resource: OnceLock<(ProtectedResource, Scopes)>,
    forward_token: bool,
}

enum StdioSource {
    Local,
    Value(SecretString),
    File(TokenFile),
}

impl Identifier {
    /// Errors: settings under which nobody could be identified; see [`Verifier::new`].
    pub fn new(settings: &AuthSettings, clock: Clock) -> Result<Self, SettingError> {
        let stdio = match &settings.stdio_token {
            StdioToken::None => StdioSource::Local,
            StdioToken::Value(token) => StdioSource::Value(token.clone()),
            StdioToken::File(path) => StdioSource::File(TokenFile::new(path.clone())),
        };
        let no_issuer = settings.issuers.is_empty() && settings.dev_issuer.is_none();
        // A local stdio bridge needs no issuer. With a token it does: an unchecked token is worse than none.
        let verifier = match (no_issuer, &stdio) {
            (true, StdioSource::Local) => None,
            _ => Some(Verifier::new(settings, clock)?),
        };
        Ok(Identifier {
            mode: settings.mode,
            verifier,
            stdio,
            resource: OnceLock::new(),
            forward_token: settings.forward_token,
        })
    }

    /// Can HTTP callers be identified at all? Asked before the HTTP transport listens.
    pub fn check_http(&self) -> Result<(), SettingError> {
        match (self.mode, &self.verifier) {
            (AuthMode::Bearer, None) => Err(SettingError::new(
                "HTTP callers need access tokens, and no issuer is configured to accept them from",
            )),
            _ => Ok(()),
        }
    }

    /// The caller of one HTTP request. `query` is the raw query of its URI.
    ///
    /// Errors: `TokenMissing` (a transport may still let `initialize` pass), and those of [`Verifier::verify`].
    pub async fn for_http(&self, headers: &HeaderMap, query: Option<&str>) -> Result<Caller> {
        if self.mode == AuthMode::None {
            return Ok(Caller::local());
        }
        // A token in a URI ends up in logs and histories (RFC 6750 section 5.3), so even a good one beside it is refused.
        if query
            .is_some_and(|query| url::form_urlencoded::parse(query.as_bytes()).any(|(key, _)| key == "access_token"))
        {
            return Err(invalid("it was sent in the address; send it in the Authorization header")
                .hint("Send Authorization: Bearer, never access_token in the query, and re-authenticate: that token may have been logged."));
        }
        let mut sent = headers.get_all(header::AUTHORIZATION).iter();
        let token = match (sent.next(), sent.next()) {
            (None, _) => return Err(Error::new(Reason::TokenMissing, "This request needs an access token.")),
            // Which of two counts would depend on who reads them: a proxy might have checked the other one.
            (Some(_), Some(_)) => return Err(invalid("the Authorization header was sent more than once")),
            (Some(one), None) => bearer_token(one)?,
        };
        self.verify(token).await
    }

    /// The caller of one request over stdio: the token's, verified anew, or the local principal.
    pub async fn for_stdio(&self) -> Result<Caller> {
        match &self.stdio {
            StdioSource::Local => Ok(Caller::local()),
            StdioSource::Value(token) => self.verify(token.expose_secret().trim()).await,
            StdioSource::File(file) => self.verify(file.current()?.expose_secret()).await,
        }
    }

    /// From now on tokens for this resource are accepted beside those for the configured audiences, and every challenge
    /// names its metadata. `scopes` is asked at each challenge. Said once, before the HTTP transport listens.
    pub fn protects(&self, resource: ProtectedResource, scopes: Scopes) {
        if let Some(verifier) = &self.verifier {
            verifier.also_for(std::iter::once(&resource.canonical).chain(&resource.aliases).cloned().collect());
        }
        assert!(self.resource.set((resource, scopes)).is_ok(), "a process serves one resource");
    }

    /// The `WWW-Authenticate` value for this error, if it has one; see [`www_authenticate`]. `needed`: the scopes of
    /// the refused request. Where they are not known, because nobody is let in without a token, all scopes are named:
    /// lists show a caller only what it may call, so a client could not step up to what it never saw.
    pub fn challenge(&self, error: &Error, needed: &[&str]) -> Option<HeaderValue> {
        let Some((resource, scopes)) = self.resource.get() else { return www_authenticate(error, None, needed) };
        let all = if needed.is_empty() { scopes() } else { vec![] };
        let scopes: Vec<&str> = needed.iter().copied().chain(all.iter().map(String::as_str)).collect();
        www_authenticate(error, Some(&resource.metadata), &scopes)
    }

    /// For `doctor` and readiness.
    pub fn verifier(&self) -> Option<&Verifier> {
        self.verifier.as_ref()
    }

    async fn verify(&self, token: &str) -> Result<Caller> {
        match &self.verifier {
            Some(verifier) => {
                let caller = verifier.verify(token).await?;
                Ok(if self.forward_token { caller.with_bearer(token) } else { caller })
            }
            None => Err(invalid("this server trusts no issuer")),
        }
    }
}

/// RFC 6750 section 2.1, `"Bearer" 1*SP b64token`; the scheme in any case (RFC 9110 section 11.1).
fn bearer_token(value: &HeaderValue) -> Result<&str> {
    let text = value.to_str().map_err(|_| invalid("the Authorization header is not ASCII"))?;
    let (scheme, rest) = text.split_once(' ').unwrap_or((text, ""));
    if !scheme.eq_ignore_ascii_case("Bearer") {
        return Err(invalid("the Authorization header must use the Bearer scheme"));
    }
    let token = rest.trim_matches(' ');
    if token.is_empty() || token.contains([' ', ',', '\t']) {
        return Err(invalid("the Authorization header must hold one token"));
    }
    Ok(token)
}

/// A token that somebody else keeps fresh.
struct TokenFile {
    path: PathBuf,
    read: Mutex<Option<(Stamp, SecretString)>>,
}

/// Tells one content of a file from another without reading it.
type Stamp = (u64, u64, u64, i64, i64, i64, i64);

impl TokenFile {
    fn new(path: PathBuf) -> Self {
        TokenFile { path, read: Mutex::new(None) }
    }

    /// The token in the file now. One `stat` a call, a few microseconds; the file is read when it changed.
    fn current(&self) -> Result<SecretString> {
        let found = std::fs::metadata(&self.path).map_err(|why| self.unreadable(why))?;
        let mut held = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((stamp, token)) = held.as_ref()
            && *stamp == stamp_of(&found)
        {
            return Ok(token.clone());
        }
        let (stamp, token) = read_token(&self.path).map_err(|why| self.unreadable(why))?;
        if token.expose_secret().is_empty() {
            return Err(self.unreadable(std::io::Error::other("it is empty")));
        }
        *held = Some((stamp, token.clone()));
        Ok(token)
    }

    fn unreadable(&self, why: std::io::Error) -> Error {
        Error::new(Reason::TokenMissing, "The token file of this bridge holds no readable token.")
            .hint("Put a current access token into the file given with --token-file.")
            .detail(format!("{}: {why}", self.path.display()))
    }
}

/// Links are followed and group access is not refused, unlike for our own keys: orchestrators mount tokens that way.
fn read_token(path: &Path) -> std::io::Result<(Stamp, SecretString)> {
    let file = std::fs::File::open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(std::io::Error::other("it is not a file"));
    }
    let mut text = String::new();
    // One byte more than a token may have, so that the verifier refuses it for what it is.
    file.take(MAX_TOKEN_BYTES as u64 + 64).read_to_string(&mut text)?;
    Ok((stamp_of(&found), SecretString::from(text.trim())))
}

fn stamp_of(found: &Metadata) -> Stamp {
    (found.dev(), found.ino(), found.size(), found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec())
}

#[cfg(test)]
#[path = "identify_tests.rs"]
mod tests;
