//! One issuer's public keys: where they come from, how long they are believed, when they are fetched again.
//!
//! Knows no token and no claim. Source: RFC 7517 (JWK Set); design, section 6: kept five minutes at most, one refresh
//! for an unknown `kid`, with a cool-down.
//!
//! - Younger than four minutes: used as is. From then on one background refresh at a time is tried, so that a short
//!   outage of the issuer is never noticed and no request waits.
//! - At five minutes the keys are dropped, whether or not new ones came: a key that its issuer withdrew must not live
//!   longer because the issuer cannot be reached. Callers then get `unreachable` (or `timeout`, `bad_response`).
//! - All fetches of one issuer happen one at a time; whoever waits for one uses its outcome.

use arc_swap::ArcSwapOption;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::io::AsyncReadExt;
use tokio::sync::Mutex;

use super::clock::Clock;
use super::jwk::{self, VerifyingKey};
use super::settings::{KeySource, SettingError};
use crate::error::{Error, Reason, Result};
use crate::upstreams::JwksFetch;

/// The longest that a key set is believed.
pub const MAX_AGE: SignedDuration = SignedDuration::from_secs(300);
/// From this age on it is refreshed in the background.
const REFRESH_AGE: SignedDuration = SignedDuration::from_secs(240);
/// Between two fetches over the network that unknown `kid`s ask for: forged tokens cannot become a fetch storm.
pub const COOL_DOWN: SignedDuration = SignedDuration::from_secs(30);
/// The same for a local file, which costs nobody else anything.
const FILE_COOL_DOWN: SignedDuration = SignedDuration::from_secs(1);
/// After a failed fetch, requests that need keys are refused at once for this long instead of each trying again.
const FAILURE_COOL_DOWN: SignedDuration = SignedDuration::from_secs(5);
const MAX_FILE_BYTES: u64 = 256 * 1024;

pub(super) struct KeySet {
    source: Source,
    clock: Clock,
    current: ArcSwapOption<Snapshot>,
    /// Held during a fetch.
    attempts: Arc<Mutex<Attempts>>,
}

enum Source {
    Url(JwksFetch),
    File(PathBuf),
    Static,
}

#[derive(Default)]
struct Attempts {
    last: Option<Timestamp>,
    last_failure: Option<(Timestamp, Reason)>,
}

/// A key set as it was at one moment.
pub(super) struct Snapshot {
    keys: Vec<Arc<VerifyingKey>>,
    fetched_at: Timestamp,
    /// SHA-256 of the document: tells whether anything changed.
    digest: [u8; 32],
}

/// A key, and how far it may be relied on.
pub(super) struct Found {
    pub key: Arc<VerifyingKey>,
    pub digest: [u8; 32],
    /// `None`: for ever (a static set).
    pub believed_until: Option<Timestamp>,
}

impl KeySet {
    pub(super) fn new(source: KeySource, clock: Clock) -> Result<Arc<Self>, SettingError> {
        let (source, current) = match source {
            KeySource::Url(url) => {
                (Source::Url(JwksFetch::new(url).map_err(|why| SettingError::new(why.to_string()))?), None)
            }
            KeySource::File(path) => (Source::File(path), None),
            KeySource::Static(document) => {
                let bytes = serde_json::to_vec(&document).expect("a JSON value is always JSON");
                let snapshot = Snapshot::parse(&bytes, clock.now()).ok_or_else(|| {
                    SettingError::new("an issuer's key set is not a JWK Set: it needs a `keys` array")
                })?;
                (Source::Static, Some(Arc::new(snapshot)))
            }
        };
        Ok(Arc::new(KeySet { source, clock, current: ArcSwapOption::new(current), attempts: Arc::default() }))
    }

    /// The key that a token header asks for. `kid` may be absent only where the set holds exactly one key.
    ///
    /// Errors: `TokenInvalid` when there is no such key; `Unreachable`, `Timeout`, `BadResponse` when there are no keys.
    pub(super) async fn find(self: &Arc<Self>, kid: Option<&str>, alg: jsonwebtoken::Algorithm) -> Result<Found> {
        let snapshot = self.believed().await?;
        if let Some(key) = snapshot.find(kid, alg) {
            return Ok(self.found(&snapshot, key));
        }
        // Only a name that we have never seen can be a new key. A known one with another algorithm is a confused token.
        if kid.is_none_or(|kid| snapshot.knows(kid)) {
            return Err(no_such_key());
        }
        let snapshot = self.refreshed_since(&snapshot).await?;
        let key = snapshot.find(kid, alg).ok_or_else(no_such_key)?;
        Ok(self.found(&snapshot, key))
    }

    /// The digest of the keys that are held now, believed or not.
    pub(super) fn digest(&self) -> Option<[u8; 32]> {
        self.current.load().as_ref().map(|snapshot| snapshot.digest)
    }

    /// How many usable keys there are, fetching them if need be: for `doctor` and readiness.
    pub(super) async fn count(self: &Arc<Self>) -> Result<usize> {
        Ok(self.believed().await?.keys.len())
    }

    fn found(&self, snapshot: &Snapshot, key: Arc<VerifyingKey>) -> Found {
        let believed_until = (!self.is_static()).then(|| snapshot.fetched_at + MAX_AGE);
        Found { key, digest: snapshot.digest, believed_until }
    }

    fn is_static(&self) -> bool {
        matches!(self.source, Source::Static)
    }

    fn believable(&self) -> Option<Arc<Snapshot>> {
        let snapshot = self.current.load_full()?;
        (self.is_static() || younger_than(MAX_AGE, snapshot.fetched_at, self.clock.now())).then_some(snapshot)
    }

    async fn believed(self: &Arc<Self>) -> Result<Arc<Snapshot>> {
        if let Some(snapshot) = self.believable() {
            if !self.is_static() && !younger_than(REFRESH_AGE, snapshot.fetched_at, self.clock.now()) {
                self.refresh_in_background();
            }
            return Ok(snapshot);
        }
        let mut attempts = self.attempts.lock().await;
        // Somebody else may have fetched them while we waited for our turn.
        if let Some(snapshot) = self.believable() {
            return Ok(snapshot);
        }
        if let Some((at, reason)) = attempts.last_failure
            && younger_than(FAILURE_COOL_DOWN, at, self.clock.now())
        {
            return Err(
                Error::new(reason, "The keys of the token issuer are not available.").detail("failed a moment ago")
            );
        }
        self.fetch(&mut attempts).await
    }

    /// Newer keys than `seen`, or `seen` itself while the cool-down lasts.
    async fn refreshed_since(self: &Arc<Self>, seen: &Arc<Snapshot>) -> Result<Arc<Snapshot>> {
        let cool_down = match self.source {
            Source::Static => return Ok(seen.clone()),
            Source::Url(_) => COOL_DOWN,
            Source::File(_) => FILE_COOL_DOWN,
        };
        let mut attempts = self.attempts.lock().await;
        if let Some(newer) = self.believable().filter(|now| !Arc::ptr_eq(now, seen)) {
            return Ok(newer);
        }
        if attempts.last.is_some_and(|at| younger_than(cool_down, at, self.clock.now())) {
            return Ok(seen.clone());
        }
        self.fetch(&mut attempts).await
    }

    fn refresh_in_background(self: &Arc<Self>) {
        let Ok(mut attempts) = self.attempts.clone().try_lock_owned() else { return };
        if attempts.last.is_some_and(|at| younger_than(FAILURE_COOL_DOWN, at, self.clock.now())) {
            return;
        }
        let this = self.clone();
        tokio::spawn(async move {
            // The keys in hand go on being used until they are five minutes old, so this is not yet a caller's problem.
            if let Err(why) = this.fetch(&mut attempts).await {
                tracing::warn!(error = ?why, "could not refresh an issuer's keys; the ones in hand are used meanwhile");
            }
        });
    }

    /// One fetch, on the books. Only ever called with the lock held.
    async fn fetch(&self, attempts: &mut Attempts) -> Result<Arc<Snapshot>> {
        // Noted before the fetch, so that a caller who goes away in the middle of it has still used up the turn.
        let now = self.clock.now();
        attempts.last = Some(now);
        match self.load(now).await {
            Ok(snapshot) => {
                attempts.last_failure = None;
                let snapshot = Arc::new(snapshot);
                self.current.store(Some(snapshot.clone()));
                Ok(snapshot)
            }
            Err(why) => {
                attempts.last_failure = Some((now, why.reason()));
                Err(why)
            }
        }
    }

    /// `now` is from before the fetch: the document is at least that old.
    async fn load(&self, now: Timestamp) -> Result<Snapshot> {
        let bytes = match &self.source {
            Source::Url(fetch) => fetch.fetch().await?,
            Source::File(path) => {
                let read = async {
                    let mut bytes = Vec::new();
                    tokio::fs::File::open(path).await?.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).await?;
                    Ok::<_, std::io::Error>(bytes)
                };
                read.await.map_err(|why| {
                    Error::new(Reason::Unreachable, "The keys of the token issuer cannot be read.")
                        .detail(format!("{}: {why}", path.display()))
                })?
            }
            Source::Static => return Err(Error::new(Reason::Internal, "A static key set cannot be fetched.")),
        };
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(Error::new(Reason::BadResponse, "The key set of the token issuer is too large."));
        }
        Snapshot::parse(&bytes, now).ok_or_else(|| {
            Error::new(Reason::BadResponse, "The token issuer answered with something that is no key set.")
        })
    }
}

impl Snapshot {
    /// `None` when it is no JWK Set. A key that we cannot use is left out, as RFC 7517 section 5 asks; an empty set is
    /// a set: its issuer has withdrawn all keys.
    fn parse(bytes: &[u8], fetched_at: Timestamp) -> Option<Self> {
        let document: Value = serde_json::from_slice(bytes).ok()?;
        let keys = document.get("keys")?.as_array()?;
        let usable: Vec<_> = keys
            .iter()
            .filter_map(|jwk| match jwk::parse(jwk) {
                Ok(key) => Some(Arc::new(key)),
                Err(why) => {
                    tracing::warn!(why, "left out a key of an issuer's key set");
                    None
                }
            })
            .collect();
        Some(Snapshot { keys: usable, fetched_at, digest: Sha256::digest(bytes).into() })
    }

    fn find(&self, kid: Option<&str>, alg: jsonwebtoken::Algorithm) -> Option<Arc<VerifyingKey>> {
        let key = match (kid, self.keys.as_slice()) {
            (Some(kid), keys) => keys.iter().find(|key| key.kid.as_deref() == Some(kid) && key.alg == alg)?,
            (None, [only]) => only,
            (None, _) => return None,
        };
        (key.alg == alg).then(|| key.clone())
    }

    fn knows(&self, kid: &str) -> bool {
        self.keys.iter().any(|key| key.kid.as_deref() == Some(kid))
    }
}

/// A moment in the future (the clock was set back) is not young: nothing is trusted for longer because of it.
fn younger_than(age: SignedDuration, at: Timestamp, now: Timestamp) -> bool {
    at <= now && now.duration_since(at) < age
}

fn no_such_key() -> Error {
    Error::new(Reason::TokenInvalid, "The access token is not valid: no key of its issuer fits it.")
        .hint("Please re-authenticate: get a new access token from the configured issuer.")
}

#[cfg(test)]
#[path = "jwks_tests.rs"]
mod tests;
