//! An access token in, a [`Caller`] out; nothing else in the host reads tokens.
//!
//! Source: RFC 7519, RFC 8725 (JWT best practice), RFC 9068; design, section 6. What a token says about how it should
//! be verified is not believed: its issuer chooses among configured issuers, its `kid` among that issuer's own keys,
//! its `alg` must be the one that the key's type prescribes, and embedded or linked keys are refused.
//!
//! Errors name neither the token's bytes nor its claims, not even to the log.

use jiff::SignedDuration;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, Header, Validation};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use super::caller::Caller;
use super::claims::{ClaimedIssuer, Claims, canonical_audience, expired, invalid};
use super::clock::Clock;
use super::issuer::DEV_ISSUER;
use super::jwks::KeySet;
use super::settings::{AuthSettings, IssuerSettings, SettingError};
use super::verified::{REMEMBERED, Verified, VerifiedTokens};
use crate::error::Result;

/// Longest token that is looked at. Tokens with many claims have about 2 KiB.
pub const MAX_TOKEN_BYTES: usize = 8 * 1024;
const MAX_SKEW_SECONDS: u64 = 300;

/// Verifies access tokens against the configured issuers and audiences.
pub struct Verifier {
    issuers: HashMap<Arc<str>, Arc<KeySet>>,
    audiences: Vec<String>,
    /// Our own canonical URI and its aliases, once they are known.
    own_audiences: OnceLock<Vec<String>>,
    skew: SignedDuration,
    clock: Clock,
    verified: VerifiedTokens,
}

impl Verifier {
    /// Fetches nothing yet. Errors: no issuer, no audience, an issuer twice, an unusable key source, too much skew.
    pub fn new(settings: &AuthSettings, clock: Clock) -> Result<Self, SettingError> {
        let mut issuers = HashMap::new();
        if settings.issuers.iter().any(|named| named.issuer == DEV_ISSUER) {
            return Err(SettingError::new(format!(
                "the development issuer ({DEV_ISSUER}) cannot be listed as an issuer; allow it by its own setting"
            )));
        }
        let dev =
            settings.dev_issuer.iter().map(|keys| IssuerSettings { issuer: DEV_ISSUER.into(), keys: keys.clone() });
        for IssuerSettings { issuer, keys } in settings.issuers.iter().cloned().chain(dev) {
            if issuer.is_empty() {
                return Err(SettingError::new("an issuer has an empty name; it must be the exact `iss` of its tokens"));
            }
            let keys =
                KeySet::new(keys, clock.clone()).map_err(|why| SettingError::new(format!("issuer {issuer}: {why}")))?;
            if issuers.insert(Arc::from(issuer.as_str()), keys).is_some() {
                return Err(SettingError::new(format!("issuer {issuer} is listed twice")));
            }
        }
        if issuers.is_empty() {
            return Err(SettingError::new("no token issuer is configured, so no access token could ever be accepted"));
        }
        if settings.audiences.iter().all(String::is_empty) {
            return Err(SettingError::new("no audience is configured, so no access token could ever be accepted"));
        }
        if settings.skew.as_secs() > MAX_SKEW_SECONDS {
            return Err(SettingError::new(format!("the clock skew must be at most {MAX_SKEW_SECONDS} seconds")));
        }
        let audiences = settings.audiences.iter().filter(|a| !a.is_empty()).map(|a| canonical_audience(a)).collect();
        let skew = SignedDuration::try_from(settings.skew).expect("at most 300 seconds");
        Ok(Verifier {
            issuers,
            audiences,
            own_audiences: OnceLock::new(),
            skew,
            clock,
            verified: VerifiedTokens::default(),
        })
    }

    /// Tokens for these canonical URIs are accepted, too. The first word counts.
    pub(super) fn also_for(&self, audiences: Vec<String>) {
        let _ = self.own_audiences.set(audiences);
    }

    /// Who sent this token?
    ///
    /// Errors: `TokenInvalid`, `TokenExpired`, `AudMismatch`; `Unreachable`, `Timeout` or `BadResponse` when the
    /// issuer's keys are not to be had.
    pub async fn verify(&self, token: &str) -> Result<Caller> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(invalid("it is larger than 8 KiB"));
        }
        let digest = Sha256::digest(token.as_bytes()).into();
        let now = self.clock.now();
        if let Some(known) = self.verified.get(&digest, now) {
            if now >= known.expires_at {
                self.verified.forget(&digest);
                return Err(expired());
            }
            if self.issuers.get(&known.issuer).and_then(|keys| keys.digest()) == Some(known.keys) {
                return Ok(known.caller);
            }
            self.verified.forget(&digest);
        }

        let header = read_header(token)?;
        let claimed: ClaimedIssuer =
            jsonwebtoken::dangerous::insecure_decode_claims(token).map_err(|_| invalid("it is malformed"))?;
        let (issuer, keys) = self
            .issuers
            .get_key_value(claimed.iss.as_str())
            .ok_or_else(|| invalid("its issuer is not one that this server trusts"))?;
        let found = keys.find(header.kid.as_deref(), header.alg).await?;
        let claims = jsonwebtoken::decode::<Claims>(token, &found.key.decoding, &signature_only(found.key.alg))
            .map_err(|why| match why.kind() {
                ErrorKind::Json(_) | ErrorKind::Utf8(_) => invalid("one of its claims has the wrong type"),
                _ => invalid("its signature does not verify"),
            })?
            .claims;
        // The keys may have taken a while to come.
        let now = self.clock.now();
        let (caller, expires_at) = claims.into_caller(|aud| self.is_ours(aud), self.skew, now)?;
        let remembered_until = now + REMEMBERED;
        self.verified.remember(
            digest,
            Verified {
                caller: caller.clone(),
                issuer: issuer.clone(),
                keys: found.digest,
                expires_at,
                verified_at: now,
                believed_until: found.believed_until.map_or(remembered_until, |end| end.min(remembered_until)),
            },
        );
        Ok(caller)
    }

    fn is_ours(&self, audience: &String) -> bool {
        self.audiences.contains(audience) || self.own_audiences.get().is_some_and(|own| own.contains(audience))
    }

    /// Every issuer with the number of its usable keys, or why there are none: for `doctor` and readiness.
    pub async fn check_issuers(&self) -> Vec<(String, Result<usize>)> {
        let mut checked = Vec::new();
        for (issuer, keys) in &self.issuers {
            checked.push((issuer.to_string(), keys.count().await));
        }
        checked.sort_by(|(a, _), (b, _)| a.cmp(b));
        checked
    }

    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.verified.len()
    }
}

/// The header of a token that may go on to have its signature checked.
fn read_header(token: &str) -> Result<Header> {
    // `none` and names that the library does not know fail here already.
    let header = jsonwebtoken::decode_header(token)
        .map_err(|_| invalid("it is malformed, or signed in a way that is not accepted"))?;
    if !matches!(header.alg, Algorithm::RS256 | Algorithm::ES256 | Algorithm::EdDSA) {
        return Err(invalid("it is signed in a way that is not accepted (RS256, ES256 and EdDSA are)"));
    }
    // A token must not bring, or point to, the key that verifies it (RFC 8725 section 3.10).
    if header.jwk.is_some() || header.jku.is_some() || header.x5u.is_some() {
        return Err(invalid("it brings its own key"));
    }
    // We understand no extension, so none can be critical (RFC 7515 section 4.1.11).
    if header.crit.is_some() || header.extras.inner().contains_key("b64") {
        return Err(invalid("it needs extensions that are not supported"));
    }
    // Other kinds of signed token (proofs of possession, logout tokens) say so in `typ` (RFC 8725 section 3.11).
    let accepted =
        |typ: &String| ["JWT", "at+jwt", "application/at+jwt"].iter().any(|kind| kind.eq_ignore_ascii_case(typ));
    if !header.typ.as_ref().is_none_or(accepted) {
        return Err(invalid("it is another kind of token"));
    }
    Ok(header)
}

/// Have the library check the signature and nothing else: claims are judged in one place, [`Claims`], by our clock.
fn signature_only(alg: Algorithm) -> Validation {
    let mut validation = Validation::new(alg);
    validation.required_spec_claims.clear();
    validation.validate_exp = false;
    validation.validate_nbf = false;
    validation.validate_aud = false;
    validation
}

#[cfg(test)]
#[path = "token_tests.rs"]
mod tests;
