//! The development issuer: access tokens without an identity provider, for one machine.
//!
//! It owns Ed25519 keys in `<state>/issuer/` (`keys.json`, private, 0600; `jwks.json`, public) and signs what the user
//! of that directory asks for. A server accepts its tokens only when `AuthSettings::dev_issuer` says so.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{Ed25519KeyPair, KeyPair};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use uuid::Uuid;

use super::claims::usable_subject;
use super::clock::Clock;
use super::secret_file::{self, SecretFileError};
use super::settings::{KeySource, SettingError};
use crate::model::TenantId;

/// The `iss` of its tokens.
pub const DEV_ISSUER: &str = "urn:cyberos-mcp-bridge:dev";
/// Longest lifetime of a token, and so how long a retired key must stay known.
pub const MAX_TTL: Duration = Duration::from_secs(24 * 3600);

/// A token to be made.
#[derive(Clone, Debug)]
pub struct MintRequest {
    pub tenant: TenantId,
    /// 1 to 256 printable characters.
    pub subject: String,
    pub scopes: Vec<String>,
    /// One of the server's audiences.
    pub audience: String,
    /// 1 second to [`MAX_TTL`].
    pub ttl: Duration,
}

/// Signs with the newest key. Keys are read when it is opened.
pub struct Issuer {
    directory: PathBuf,
    keys: Keys,
    clock: Clock,
}

/// `keys.json`.
#[derive(Serialize, Deserialize)]
struct Keys {
    current: Key,
    retired: Vec<Retired>,
}

#[derive(Serialize, Deserialize)]
struct Key {
    kid: String,
    /// Public, base64url.
    x: String,
    /// Private, PKCS#8 in base64url.
    #[serde(serialize_with = "expose", deserialize_with = "conceal")]
    pkcs8: SecretString,
}

/// A key that signs no more. Its private half is gone.
#[derive(Serialize, Deserialize)]
struct Retired {
    kid: String,
    x: String,
    /// Unix seconds.
    retired_at: i64,
}

impl Issuer {
    /// Open the issuer in `<state_dir>/issuer/`, making its first key if there is none.
    pub fn open_or_create(state_dir: &Path, clock: Clock) -> Result<Self, SecretFileError> {
        let directory = state_dir.join("issuer");
        secret_file::private_dir(&directory)?;
        let _lock = lock(&directory)?;
        let path = keys_path(&directory);
        let bytes =
            secret_file::read_or_create(&path, || to_json(&Keys { current: Key::generate(), retired: vec![] }))?;
        let issuer = Issuer { keys: parse(&bytes, &path)?, directory, clock };
        issuer.publish()?;
        Ok(issuer)
    }

    /// Sign an access token. Errors: a request that no server would accept.
    pub fn mint(&self, request: &MintRequest) -> Result<SecretString, SettingError> {
        if !usable_subject(&request.subject) {
            return Err(SettingError::new("the subject must have 1 to 256 printable characters"));
        }
        if request.tenant.0.is_nil() {
            return Err(SettingError::new("the tenant must not be the nil UUID"));
        }
        if request.audience.is_empty() {
            return Err(SettingError::new("the audience must name the server that the token is for"));
        }
        if let Some(scope) = request.scopes.iter().find(|scope| !is_scope_token(scope)) {
            return Err(SettingError::new(format!(
                "{scope:?} is not a scope: printable ASCII without spaces or quotes"
            )));
        }
        if request.ttl < Duration::from_secs(1) || request.ttl > MAX_TTL {
            return Err(SettingError::new("the lifetime must be between 1 second and 24 hours"));
        }
        let now = self.clock.now().as_second();
        let claims = json!({
            "iss": DEV_ISSUER,
            "sub": request.subject,
            "aud": request.audience,
            "tenant_id": request.tenant,
            "scope": request.scopes.join(" "),
            "iat": now,
            "exp": now + request.ttl.as_secs() as i64,
            "jti": Uuid::new_v4(),
        });
        let mut header = Header::new(Algorithm::EdDSA);
        header.kid = Some(self.keys.current.kid.clone());
        let token = jsonwebtoken::encode(&header, &claims, &self.keys.current.encoding())
            .expect("a key that was parsed when it was read can sign");
        Ok(SecretString::from(token))
    }

    /// The public keys (RFC 7517): the current one, and retired ones whose tokens may still live.
    pub fn jwks(&self) -> Value {
        let live = self.keys.retired.iter().filter(|key| self.still_needed(key));
        let pairs =
            std::iter::once((&self.keys.current.kid, &self.keys.current.x)).chain(live.map(|key| (&key.kid, &key.x)));
        let keys: Vec<Value> = pairs
            .map(|(kid, x)| json!({ "kty": "OKP", "crv": "Ed25519", "x": x, "kid": kid, "use": "sig", "alg": "EdDSA" }))
            .collect();
        json!({ "keys": keys })
    }

    /// Where a server on this machine finds those keys; it notices rotation.
    pub fn key_source(&self) -> KeySource {
        KeySource::File(self.directory.join("jwks.json"))
    }

    /// Sign with a new key from now on. Tokens of the old one stay good until they expire.
    pub fn rotate(&mut self) -> Result<(), SecretFileError> {
        let _lock = lock(&self.directory)?;
        let path = keys_path(&self.directory);
        // Another process may have rotated since this one looked.
        let bytes = secret_file::read(&path)?.ok_or_else(|| SecretFileError::Unusable(path.clone()))?;
        let Keys { current, mut retired } = parse(&bytes, &path)?;
        retired.retain(|key| self.still_needed(key));
        retired.push(Retired { kid: current.kid, x: current.x, retired_at: self.clock.now().as_second() });
        self.keys = Keys { current: Key::generate(), retired };
        // Published before it can sign: no server ever meets a token whose key it cannot find.
        self.publish()?;
        secret_file::replace(&path, &to_json(&self.keys), 0o600)
    }

    fn still_needed(&self, key: &Retired) -> bool {
        // Five minutes on top: the most skew that a verifier allows.
        key.retired_at + MAX_TTL.as_secs() as i64 + 300 > self.clock.now().as_second()
    }

    fn publish(&self) -> Result<(), SecretFileError> {
        let path = self.directory.join("jwks.json");
        let document = to_json(&self.jwks());
        if std::fs::read(&path).is_ok_and(|published| published == document) {
            return Ok(());
        }
        secret_file::replace(&path, &document, 0o644)
    }
}

impl Key {
    fn generate() -> Self {
        let pkcs8 = new_ed25519_pkcs8();
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(&pkcs8).expect("a key that was just made is well formed");
        let public = pair.public_key().as_ref();
        Key {
            kid: URL_SAFE_NO_PAD.encode(&Sha256::digest(public)[..12]),
            x: URL_SAFE_NO_PAD.encode(public),
            pkcs8: SecretString::from(URL_SAFE_NO_PAD.encode(&pkcs8)),
        }
    }

    fn der(&self) -> Option<Vec<u8>> {
        URL_SAFE_NO_PAD.decode(self.pkcs8.expose_secret()).ok()
    }

    /// Do both halves belong together?
    fn is_sound(&self) -> bool {
        let pair = self.der().and_then(|der| Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der).ok());
        pair.is_some_and(|pair| URL_SAFE_NO_PAD.encode(pair.public_key().as_ref()) == self.x)
    }

    fn encoding(&self) -> EncodingKey {
        EncodingKey::from_ed_der(&self.der().expect("checked by `is_sound` when it was read"))
    }
}

/// A fresh private key in the form of RFC 8410 section 7: PKCS#8 version 1, which every library reads. The one that
/// ring's own generator writes (version 2, with the public key) is refused by the library that signs our tokens.
pub(super) fn new_ed25519_pkcs8() -> Vec<u8> {
    const BEFORE_THE_SEED: [u8; 16] = *b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20";
    let mut seed = [0u8; 32];
    SystemRandom::new().fill(&mut seed).expect("the operating system supplies random numbers");
    [BEFORE_THE_SEED.as_slice(), &seed].concat()
}

fn expose<S: serde::Serializer>(secret: &SecretString, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(secret.expose_secret())
}

fn conceal<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<SecretString, D::Error> {
    String::deserialize(deserializer).map(SecretString::from)
}

fn keys_path(directory: &Path) -> PathBuf {
    directory.join("keys.json")
}

fn parse(bytes: &[u8], path: &Path) -> Result<Keys, SecretFileError> {
    let keys: Option<Keys> = serde_json::from_slice(bytes).ok();
    keys.filter(|keys| keys.current.is_sound()).ok_or_else(|| SecretFileError::Unusable(path.to_owned()))
}

fn to_json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec_pretty(value).expect("structs of strings and numbers are always JSON")
}

/// One process at a time changes the directory; released when the file is closed.
fn lock(directory: &Path) -> Result<File, SecretFileError> {
    let path = directory.join(".lock");
    let opened = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
    let locked = opened.and_then(|file| file.lock().map(|()| file));
    locked.map_err(|why| SecretFileError::Io { path, why })
}

/// RFC 6749 section 3.3.
pub(super) fn is_scope_token(scope: &str) -> bool {
    !scope.is_empty() && scope.bytes().all(|b| matches!(b, 0x21 | 0x23..=0x5b | 0x5d..=0x7e))
}

#[cfg(test)]
mod tests {
    use super::super::clock::TestClock;
    use super::super::settings::AuthSettings;
    use super::super::token::Verifier;
    use super::*;
    use crate::error::Reason;
    use std::os::unix::fs::PermissionsExt;

    fn request(ttl_seconds: u64) -> MintRequest {
        MintRequest {
            tenant: TenantId(Uuid::from_u128(7)),
            subject: "alice".into(),
            scopes: vec!["cyberos:cuo:list".into(), "cyberos:memory:read".into()],
            audience: "plugin:cyberos".into(),
            ttl: Duration::from_secs(ttl_seconds),
        }
    }

    fn verifier(issuer: &Issuer, clock: &TestClock) -> Verifier {
        let settings = AuthSettings {
            audiences: vec!["plugin:cyberos".into()],
            dev_issuer: Some(issuer.key_source()),
            ..AuthSettings::default()
        };
        Verifier::new(&settings, clock.clock()).unwrap()
    }

    #[tokio::test]
    async fn a_minted_token_is_accepted_where_the_settings_say_so() {
        let (clock, state) = (TestClock::start(), tempfile::tempdir().unwrap());
        let issuer = Issuer::open_or_create(state.path(), clock.clock()).unwrap();
        let token = issuer.mint(&request(3600)).unwrap();
        let caller = verifier(&issuer, &clock).verify(token.expose_secret()).await.unwrap();
        assert_eq!((caller.subject(), caller.tenant()), ("alice", TenantId(Uuid::from_u128(7))));
        assert!(caller.has_scope("cyberos:memory:read") && !caller.has_scope("cyberos:memory:write"));

        let elsewhere = AuthSettings {
            issuers: vec![super::super::IssuerSettings {
                issuer: "https://issuer.example".into(),
                keys: KeySource::Static(issuer.jwks()),
            }],
            audiences: vec!["plugin:cyberos".into()],
            ..AuthSettings::default()
        };
        let strict = Verifier::new(&elsewhere, clock.clock()).unwrap();
        assert_eq!(strict.verify(token.expose_secret()).await.unwrap_err().reason(), Reason::TokenInvalid);
    }

    #[tokio::test]
    async fn rotation_keeps_old_tokens_good_until_they_expire() {
        let (clock, state) = (TestClock::start(), tempfile::tempdir().unwrap());
        let mut issuer = Issuer::open_or_create(state.path(), clock.clock()).unwrap();
        let verifier = verifier(&issuer, &clock);
        let old = issuer.mint(&request(24 * 3600)).unwrap();
        assert!(verifier.verify(old.expose_secret()).await.is_ok());
        // when
        clock.advance(10);
        issuer.rotate().unwrap();
        // then: the running server takes both, and a restarted issuer signs with the new key
        let reopened = Issuer::open_or_create(state.path(), clock.clock()).unwrap();
        assert_eq!(reopened.jwks(), issuer.jwks());
        assert_eq!(reopened.jwks()["keys"].as_array().unwrap().len(), 2);
        assert!(verifier.verify(reopened.mint(&request(60)).unwrap().expose_secret()).await.is_ok());
        assert!(verifier.verify(old.expose_secret()).await.is_ok());
        // and the old key goes when none of its tokens can live
        clock.advance(24 * 3600 + 600);
        issuer.rotate().unwrap();
        let kids: Vec<_> = issuer.jwks()["keys"].as_array().unwrap().iter().map(|key| key["kid"].clone()).collect();
        assert_eq!(kids.len(), 2);
        let disk = std::fs::read_to_string(state.path().join("issuer/keys.json")).unwrap();
        assert_eq!(disk.matches("pkcs8").count(), 1, "private halves of retired keys are gone");
    }

    #[test]
    fn private_keys_are_for_their_owner_and_public_keys_hold_no_secret() {
        let (clock, state) = (TestClock::start(), tempfile::tempdir().unwrap());
        let issuer = Issuer::open_or_create(state.path(), clock.clock()).unwrap();
        let keys = state.path().join("issuer/keys.json");
        assert_eq!(std::fs::metadata(&keys).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(issuer.jwks()["keys"][0].get("d").is_none());
        std::fs::set_permissions(&keys, std::fs::Permissions::from_mode(0o644)).unwrap();
        let refusal = Issuer::open_or_create(state.path(), clock.clock()).err().unwrap();
        assert!(refusal.to_string().contains("chmod 600"), "{refusal}");
        std::fs::set_permissions(&keys, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::write(&keys, "{}").unwrap();
        assert!(matches!(Issuer::open_or_create(state.path(), clock.clock()), Err(SecretFileError::Unusable(_))));
    }

    #[test]
    fn requests_that_no_server_would_accept_are_refused() {
        let (clock, state) = (TestClock::start(), tempfile::tempdir().unwrap());
        let issuer = Issuer::open_or_create(state.path(), clock.clock()).unwrap();
        for bad in [
            MintRequest { subject: String::new(), ..request(60) },
            MintRequest { subject: "x".repeat(257), ..request(60) },
            MintRequest { audience: String::new(), ..request(60) },
            MintRequest { scopes: vec!["a b".into()], ..request(60) },
            MintRequest { tenant: TenantId(Uuid::nil()), ..request(60) },
            request(0),
            request(24 * 3600 + 1),
        ] {
            assert!(issuer.mint(&bad).is_err(), "{bad:?}");
        }
    }
}
