//! What an access token says, once its signature was checked, and what of it makes a [`Caller`].
//!
//! Knows no key and no cryptography. Source: RFC 7519 section 4.1, RFC 9068, RFC 8707; design, section 6.

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use std::collections::BTreeSet;
use url::Url;
use uuid::Uuid;

use super::caller::Caller;
use crate::error::{Error, Reason, Result};
use crate::model::TenantId;

/// Longest `sub`, in characters: it is a key in the store.
pub(super) const MAX_SUBJECT_CHARS: usize = 256;
/// The last second that we do arithmetic with (year 9999); a later `exp` is a mistake, such as milliseconds.
const LAST_SECOND: f64 = 253_000_000_000.0;

/// The claims that are read; all others are ignored.
#[derive(Deserialize)]
pub(super) struct Claims {
    sub: Option<String>,
    aud: Option<OneOrMany>,
    exp: Option<f64>,
    nbf: Option<f64>,
    tenant_id: Option<String>,
    scope: Option<String>,
    scp: Option<OneOrMany>,
}

/// Read before the signature is checked, only to choose whose keys to check it with.
#[derive(Deserialize)]
pub(super) struct ClaimedIssuer {
    pub iss: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    fn iter(&self) -> std::slice::Iter<'_, String> {
        match self {
            OneOrMany::One(one) => std::slice::from_ref(one).iter(),
            OneOrMany::Many(many) => many.iter(),
        }
    }
}

impl Claims {
    /// Check every claim and make the caller. `is_ours` knows canonical audiences; it is good until the returned time, skew included.
    ///
    /// Errors: `TokenExpired`, `AudMismatch`, `TokenInvalid`.
    pub(super) fn into_caller(
        self,
        is_ours: impl Fn(&String) -> bool,
        skew: SignedDuration,
        now: Timestamp,
    ) -> Result<(Caller, Timestamp)> {
        let expires_at = numeric_date(self.exp.ok_or_else(|| invalid("it has no expiry (exp)"))?)? + skew;
        if now >= expires_at {
            return Err(expired());
        }
        if let Some(nbf) = self.nbf
            && now + skew < numeric_date(nbf)?
        {
            return Err(invalid("it is not valid yet (nbf)"));
        }
        let named = self.aud.as_ref().map(OneOrMany::iter).unwrap_or_default();
        if !named.map(|aud| canonical_audience(aud)).any(|aud| is_ours(&aud)) {
            return Err(Error::new(Reason::AudMismatch, "The access token was issued for another audience."));
        }
        let subject = self.sub.as_deref().ok_or_else(|| invalid("it names no subject (sub)"))?;
        if !usable_subject(subject) {
            return Err(invalid("its subject (sub) is empty, too long or not printable"));
        }
        let tenant = self.tenant_id.as_deref().and_then(parse_tenant);
        let tenant = tenant.ok_or_else(|| invalid("it names no tenant (tenant_id must be a UUID)"))?;
        let caller = Caller::from_token(tenant, subject.to_owned(), self.scopes(), expires_at);
        Ok((caller, expires_at))
    }

    /// The one place that knows how issuers spell scopes: `scope` (RFC 9068), or `scp` as some issuers call it. An
    /// adapter for `scope_grants` (objects with resource and actions) belongs here; until then such tokens carry none.
    fn scopes(&self) -> BTreeSet<String> {
        let listed = match (&self.scope, &self.scp) {
            (Some(scope), _) => std::slice::from_ref(scope).iter(),
            (None, Some(scp)) => scp.iter(),
            (None, None) => return BTreeSet::new(),
        };
        listed.flat_map(|text| text.split(' ')).filter(|scope| !scope.is_empty()).map(str::to_owned).collect()
    }
}

/// 1 to 256 characters, none of them a control character: subjects reach logs and the store.
pub(super) fn usable_subject(subject: &str) -> bool {
    !subject.is_empty() && subject.chars().count() <= MAX_SUBJECT_CHARS && !subject.chars().any(char::is_control)
}

/// Scheme and host in lower case and no trailing slash, for http(s) URIs; everything else as it is (RFC 8707, and the
/// canonical server URI of MCP).
pub(super) fn canonical_audience(audience: &str) -> String {
    match Url::parse(audience) {
        Ok(url) if matches!(url.scheme(), "http" | "https") => {
            let text = String::from(url);
            text.strip_suffix('/').map(str::to_owned).unwrap_or(text)
        }
        _ => audience.to_owned(),
    }
}

/// Hyphenated form only. The nil UUID is what an unset field looks like, not a tenant.
fn parse_tenant(text: &str) -> Option<TenantId> {
    let id = (text.len() == 36).then(|| Uuid::try_parse(text).ok())??;
    (!id.is_nil()).then_some(TenantId(id))
}

/// RFC 7519 section 2: seconds, fractions allowed.
fn numeric_date(seconds: f64) -> Result<Timestamp> {
    if !(0.0..=LAST_SECOND).contains(&seconds) {
        return Err(invalid("one of its times is out of range"));
    }
    Timestamp::from_millisecond((seconds * 1000.0) as i64).map_err(|_| invalid("one of its times is out of range"))
}

/// `why` is a fixed phrase, never something that the token said.
pub(super) fn invalid(why: &'static str) -> Error {
    Error::new(Reason::TokenInvalid, format!("The access token is not valid: {why}."))
        .hint("Please re-authenticate: get a new access token from the configured issuer.")
}

pub(super) fn expired() -> Error {
    Error::new(Reason::TokenExpired, "The access token has expired.")
}
