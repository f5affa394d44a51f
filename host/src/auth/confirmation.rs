//! Signed confirmation tokens: a person agreed to exactly this call.
//!
//! A token is bound to tenant, subject, tool and SHA-256 of the canonical arguments, and is valid for 60 seconds. That
//! it works only once is recorded by the store (`Store::use_once`), which the broker asks with the [`Nonce`]; this
//! file only signs and checks. Source: design, section 6, "Confirmation".
//!
//! Form: `cfm1.<payload>.<mac>`, both base64url; the MAC is HMAC-SHA256 over everything before its dot. The payload
//! holds hashes only, so a token that leaks into a log says nothing about the call.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use ring::hmac;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::path::Path;
use uuid::Uuid;

use super::clock::Clock;
use super::secret_file::{self, SecretFileError};
use super::session_id::SessionIds;
use super::settings::SettingError;
use crate::error::{Error, Reason, Result};
use crate::model::{TenantId, ToolName, arguments_sha256};

/// How long a person's agreement stands.
pub const LIFETIME_SECONDS: i64 = 60;
const PREFIX: &str = "cfm1";
/// A token has a little over 300 bytes.
const MAX_BYTES: usize = 1024;
/// The file in the state directory that holds the key, unless a setting does.
pub const KEY_FILE: &str = "confirm.key";

/// The call that a person is asked about.
pub struct Confirming<'a> {
    pub tenant: TenantId,
    pub subject: &'a str,
    pub tool: &'a ToolName,
    pub arguments: &'a Map<String, Value>,
}

/// What the store remembers so that a token works once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nonce {
    /// Unique per token.
    pub jti: String,
    /// After this the token is refused anyway, and the store may forget it.
    pub expires_at: Timestamp,
}

/// Signs and checks confirmation tokens with one key, which all replicas of a server share.
pub struct Confirmations {
    key: hmac::Key,
    clock: Clock,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Payload {
    jti: Uuid,
    /// Unix seconds.
    exp: i64,
    /// SHA-256 over tenant and subject, hex.
    who: String,
    /// SHA-256 over the tool's canonical name, hex.
    tool: String,
    /// SHA-256 over the canonical arguments, hex.
    args: String,
}

impl Confirmations {
    /// With a key from the settings: at least 32 characters, the same on every replica.
    pub fn with_key(key: &SecretString, clock: Clock) -> Result<Self, SettingError> {
        let key = key.expose_secret().trim();
        if key.len() < 32 {
            return Err(SettingError::new(
                "the confirmation key must have at least 32 characters; `openssl rand -base64 32` makes one",
            ));
        }
        Ok(Confirmations { key: hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes()), clock })
    }

    /// With the key kept in `<state_dir>/confirm.key`, made at the first start.
    pub fn open_or_create(state_dir: &Path, clock: Clock) -> Result<Self, SecretFileError> {
        let path = state_dir.join(KEY_FILE);
        let key = secret_file::read_or_create_key(&path)?;
        Self::with_key(&key, clock).map_err(|_| SecretFileError::Unusable(path))
    }

    /// Session ids under a key of their own that is derived from this one.
    pub fn session_ids(&self, lifetime: std::time::Duration) -> SessionIds {
        SessionIds::derived_from(&self.key, self.clock.clone(), lifetime.as_secs() as i64)
    }

    /// A token for exactly this call, valid for [`LIFETIME_SECONDS`].
    pub fn sign(&self, call: &Confirming<'_>) -> SecretString {
        let expected = call.fingerprints();
        let payload = Payload {
            jti: Uuid::new_v4(),
            exp: self.clock.now().as_second() + LIFETIME_SECONDS,
            who: expected.who,
            tool: expected.tool,
            args: expected.args,
        };
        let json = serde_json::to_vec(&payload).expect("a struct of strings and numbers is always JSON");
        let signed = format!("{PREFIX}.{}", URL_SAFE_NO_PAD.encode(json));
        let mac = hmac::sign(&self.key, signed.as_bytes());
        SecretString::from(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(mac)))
    }

    /// Was this token signed by us, for this call, within the last minute? The caller must still ask the store that it
    /// was not used before. Errors: `ConfirmationInvalid`.
    pub fn verify(&self, token: &str, call: &Confirming<'_>) -> Result<Nonce> {
        let payload = self.open(token).ok_or_else(|| invalid("The confirmation token is malformed."))?;
        if self.clock.now().as_second() >= payload.exp {
            return Err(invalid("The confirmation token has expired."));
        }
        let expected = call.fingerprints();
        if payload.who != expected.who {
            return Err(invalid("The confirmation token was made for another caller."));
        }
        if payload.tool != expected.tool {
            return Err(invalid("The confirmation token was made for another tool."));
        }
        if payload.args != expected.args {
            return Err(invalid("The confirmation token was made for other arguments."));
        }
        let expires_at =
            Timestamp::from_second(payload.exp).map_err(|_| invalid("The confirmation token is malformed."))?;
        Ok(Nonce { jti: payload.jti.to_string(), expires_at })
    }

    /// The payload, if its MAC is ours. Nothing in it is read before that.
    fn open(&self, token: &str) -> Option<Payload> {
        if token.len() > MAX_BYTES {
            return None;
        }
        let (signed, mac) = token.rsplit_once('.')?;
        let mac = URL_SAFE_NO_PAD.decode(mac).ok()?;
        // Constant time (ring).
        hmac::verify(&self.key, signed.as_bytes(), &mac).ok()?;
        let payload = signed.strip_prefix(PREFIX)?.strip_prefix('.')?;
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).ok()?).ok()
    }
}

struct Fingerprints {
    who: String,
    tool: String,
    args: String,
}

impl Confirming<'_> {
    fn fingerprints(&self) -> Fingerprints {
        // The tenant has a fixed length, so no two pairs run together to the same bytes.
        let mut who = Sha256::new();
        who.update(self.tenant.0.as_bytes());
        who.update(self.subject.as_bytes());
        Fingerprints {
            who: hex::encode(who.finalize()),
            tool: hex::encode(Sha256::digest(self.tool.as_str().as_bytes())),
            args: hex::encode(arguments_sha256(self.arguments)),
        }
    }
}

fn invalid(public: &str) -> Error {
    Error::new(Reason::ConfirmationInvalid, public)
}

#[cfg(test)]
mod tests {
    use super::super::clock::TestClock;
    use super::*;
    use serde_json::json;

    struct Call {
        tenant: TenantId,
        subject: String,
        tool: ToolName,
        arguments: Map<String, Value>,
    }

    impl Call {
        fn alice_appends(body: Value) -> Self {
            Call {
                tenant: TenantId(Uuid::from_u128(1)),
                subject: "alice".into(),
                tool: ToolName::parse("cyberos.memory.append_audit").unwrap(),
                arguments: json!({ "kind": "note", "body": body }).as_object().unwrap().clone(),
            }
        }
        fn confirming(&self) -> Confirming<'_> {
            Confirming { tenant: self.tenant, subject: &self.subject, tool: &self.tool, arguments: &self.arguments }
        }
    }

    fn confirmations(clock: &TestClock) -> Confirmations {
        Confirmations::with_key(&SecretString::from("k".repeat(32)), clock.clock()).unwrap()
    }

    #[track_caller]
    fn assert_refused(outcome: Result<Nonce>, word: &str) {
        let refusal = outcome.unwrap_err();
        assert_eq!(refusal.reason(), Reason::ConfirmationInvalid);
        assert!(refusal.to_string().contains(word), "{refusal}");
    }

    #[test]
    fn a_token_confirms_the_call_that_it_was_signed_for() {
        let clock = TestClock::start();
        let confirmations = confirmations(&clock);
        let token = confirmations.sign(&Call::alice_appends(json!({"a": 1, "b": 2})).confirming());
        // The same arguments, spelt in another order.
        let nonce = confirmations
            .verify(token.expose_secret(), &Call::alice_appends(json!({"b": 2, "a": 1})).confirming())
            .unwrap();
        assert_eq!(nonce.expires_at.as_second(), clock.seconds() + 60);
        let another = confirmations.sign(&Call::alice_appends(json!({"a": 1, "b": 2})).confirming());
        let other_nonce =
            confirmations.verify(another.expose_secret(), &Call::alice_appends(json!({"a": 1, "b": 2})).confirming());
        assert_ne!(other_nonce.unwrap().jti, nonce.jti);
    }

    #[test]
    fn a_token_for_another_call_is_refused_with_the_reason() {
        let confirmations = confirmations(&TestClock::start());
        let signed = Call::alice_appends(json!("hello"));
        let token = confirmations.sign(&signed.confirming());
        let verify = |call: &Call| confirmations.verify(token.expose_secret(), &call.confirming());
        assert_refused(verify(&Call::alice_appends(json!("hello!"))), "other arguments");
        assert_refused(
            verify(&Call { subject: "mallory".into(), ..Call::alice_appends(json!("hello")) }),
            "another caller",
        );
        let elsewhere = TenantId(Uuid::from_u128(2));
        assert_refused(verify(&Call { tenant: elsewhere, ..Call::alice_appends(json!("hello")) }), "another caller");
        let tool = ToolName::parse("cyberos.memory.read_audit").unwrap();
        assert_refused(verify(&Call { tool, ..Call::alice_appends(json!("hello")) }), "another tool");
        assert!(verify(&signed).is_ok());
    }

    #[test]
    fn a_token_lives_for_sixty_seconds() {
        let clock = TestClock::start();
        let confirmations = confirmations(&clock);
        let call = Call::alice_appends(json!("hello"));
        let token = confirmations.sign(&call.confirming());
        clock.advance(59);
        assert!(confirmations.verify(token.expose_secret(), &call.confirming()).is_ok());
        clock.advance(1);
        assert_refused(confirmations.verify(token.expose_secret(), &call.confirming()), "expired");
    }

    #[test]
    fn forged_and_broken_tokens_are_malformed() {
        let clock = TestClock::start();
        let ours = confirmations(&clock);
        let call = Call::alice_appends(json!("hello"));
        let token = ours.sign(&call.confirming()).expose_secret().to_owned();
        let foreign_key = Confirmations::with_key(&SecretString::from("x".repeat(32)), clock.clock()).unwrap();
        let (signed, mac) = token.rsplit_once('.').unwrap();
        let (_, payload) = signed.split_once('.').unwrap();
        let later =
            String::from_utf8(URL_SAFE_NO_PAD.decode(payload).unwrap()).unwrap().replace("\"exp\":1", "\"exp\":2");
        for forged in [
            String::new(),
            "cfm1".into(),
            "cfm1..".into(),
            signed.to_owned(),
            format!("{signed}."),
            format!("{signed}.{}", &mac[..20]),
            format!("cfm1.{}.{mac}", URL_SAFE_NO_PAD.encode(later)),
            format!("cfm2.{payload}.{mac}"),
            format!("{token}{}", "A".repeat(2000)),
            foreign_key.sign(&call.confirming()).expose_secret().to_owned(),
        ] {
            assert_refused(ours.verify(&forged, &call.confirming()), "malformed");
        }
    }

    #[test]
    fn replicas_that_share_the_key_accept_each_others_tokens() {
        let clock = TestClock::start();
        let state = tempfile::tempdir().unwrap();
        let first = Confirmations::open_or_create(state.path(), clock.clock()).unwrap();
        let second = Confirmations::open_or_create(state.path(), clock.clock()).unwrap();
        let key = std::fs::read_to_string(state.path().join(KEY_FILE)).unwrap();
        let third = Confirmations::with_key(&SecretString::from(key), clock.clock()).unwrap();
        let call = Call::alice_appends(json!("hello"));
        let token = first.sign(&call.confirming());
        assert!(second.verify(token.expose_secret(), &call.confirming()).is_ok());
        assert!(third.verify(token.expose_secret(), &call.confirming()).is_ok());
        assert!(Confirmations::with_key(&SecretString::from("short"), clock.clock()).is_err());
    }
}
