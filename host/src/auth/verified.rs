//! Tokens whose signature was checked a moment ago, because checking one costs up to 0.3 ms and a client sends the same
//! token with every call.
//!
//! The source documents say that identity must not be cached between requests. That rule means: nobody is who he was a
//! request ago merely because he was; every request presents its token. It does here: the key is the SHA-256 of the
//! whole presented token, and what is remembered is only that *these bytes* carry a good signature. What can change
//! between two requests is looked at on each of them: expiry, and whether the issuer's keys are still the same.

use jiff::{SignedDuration, Timestamp};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::caller::Caller;

/// Bounds memory at about a megabyte. Only verified tokens get in, so strangers cannot push others out.
const MAX_TOKENS: usize = 1024;
/// After this the signature is checked again.
pub(super) const REMEMBERED: SignedDuration = SignedDuration::from_secs(60);

pub(super) type TokenDigest = [u8; 32];

#[derive(Clone)]
pub(super) struct Verified {
    pub caller: Caller,
    pub issuer: std::sync::Arc<str>,
    /// The key set that verified it.
    pub keys: [u8; 32],
    /// The token's own end, skew included.
    pub expires_at: Timestamp,
    pub verified_at: Timestamp,
    /// When the verification itself is no longer believed.
    pub believed_until: Timestamp,
}

#[derive(Default)]
pub(super) struct VerifiedTokens(Mutex<HashMap<TokenDigest, Verified>>);

impl VerifiedTokens {
    /// What is remembered of this token, unless it is too old. Expiry is for the caller of this to check.
    pub(super) fn get(&self, token: &TokenDigest, now: Timestamp) -> Option<Verified> {
        let mut tokens = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = tokens.get(token)?;
        // A clock that was set back must not make anything last longer.
        if now < found.verified_at || now >= found.believed_until {
            tokens.remove(token);
            return None;
        }
        Some(found.clone())
    }

    pub(super) fn forget(&self, token: &TokenDigest) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(token);
    }

    pub(super) fn remember(&self, token: TokenDigest, verified: Verified) {
        let mut tokens = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if tokens.len() >= MAX_TOKENS && !tokens.contains_key(&token) {
            let now = verified.verified_at;
            tokens.retain(|_, held| now < held.believed_until);
            if tokens.len() >= MAX_TOKENS
                && let Some(oldest) = tokens.iter().min_by_key(|(_, held)| held.believed_until).map(|(key, _)| *key)
            {
                tokens.remove(&oldest);
            }
        }
        tokens.insert(token, verified);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_and_the_oldest_goes_first() {
        let tokens = VerifiedTokens::default();
        let start = Timestamp::from_second(1_893_456_000).unwrap();
        let digest = |n: u64| {
            let mut digest = [0u8; 32];
            digest[..8].copy_from_slice(&n.to_be_bytes());
            digest
        };
        for n in 0..2000u64 {
            let verified_at = start + SignedDuration::from_millis(n as i64);
            tokens.remember(
                digest(n),
                Verified {
                    caller: Caller::local(),
                    issuer: "issuer".into(),
                    keys: [0; 32],
                    expires_at: start + SignedDuration::from_hours(1),
                    verified_at,
                    believed_until: verified_at + REMEMBERED,
                },
            );
        }
        assert_eq!(tokens.len(), MAX_TOKENS);
        let now = start + SignedDuration::from_secs(2);
        assert!(tokens.get(&digest(0), now).is_none() && tokens.get(&digest(1999), now).is_some());
        assert!(tokens.get(&digest(1999), now + REMEMBERED).is_none());
        assert!(tokens.get(&digest(1998), start - REMEMBERED).is_none(), "the clock was set back");
    }
}
