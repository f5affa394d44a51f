//! A token issuer of the tests' own: keys of the three kinds that are accepted, and tokens that are right until a test
//! spoils them.

use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};

pub const ISSUER: &str = "https://issuer.example";
pub const AUDIENCE: &str = "plugin:cyberos";

/// Signs for one algorithm under one key id.
pub struct SigningKey {
    pub kid: &'static str,
    algorithm: Algorithm,
    key: EncodingKey,
}

impl SigningKey {
    /// Generating RSA keys takes seconds, so this one is the pair that the host's unit tests use.
    pub fn rs256(kid: &'static str) -> SigningKey {
        let pem = include_bytes!("../../host/src/auth/testdata/rsa_test_key.pem");
        SigningKey { kid, algorithm: Algorithm::RS256, key: EncodingKey::from_rsa_pem(pem).expect("the test key") }
    }

    pub fn es256(kid: &'static str) -> SigningKey {
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        let key = EncodingKey::from_ec_der(pkcs8.expect("a new key").as_ref());
        SigningKey { kid, algorithm: Algorithm::ES256, key }
    }

    pub fn eddsa(kid: &'static str) -> SigningKey {
        // PKCS #8 version 1 (RFC 8410 section 7), which is what the signer reads: this header, then the seed.
        let mut pkcs8 = hex::decode("302e020100300506032b657004220420").expect("hex");
        pkcs8.extend(ring::rand::generate::<[u8; 32]>(&SystemRandom::new()).expect("random bytes").expose());
        SigningKey { kid, algorithm: Algorithm::EdDSA, key: EncodingKey::from_ed_der(&pkcs8) }
    }

    /// Any claims at all, signed.
    pub fn sign(&self, claims: &Value) -> String {
        self.sign_with(|_| {}, claims)
    }

    /// With a header of the test's own making.
    pub fn sign_with(&self, change: impl FnOnce(&mut Header), claims: &Value) -> String {
        let mut header = Header::new(self.algorithm);
        header.kid = Some(self.kid.into());
        change(&mut header);
        jsonwebtoken::encode(&header, claims, &self.key).expect("claims are JSON")
    }

    /// The public half, as anybody may put it into a header.
    pub fn jwk(&self) -> Jwk {
        Jwk::from_encoding_key(&self.key, self.algorithm).expect("a key with a public half")
    }

    fn public(&self) -> Value {
        let mut jwk = serde_json::to_value(self.jwk()).expect("a key is JSON");
        jwk["kid"] = self.kid.into();
        jwk["use"] = "sig".into();
        jwk
    }
}

/// The public halves, as an issuer publishes them.
pub fn key_set(keys: &[&SigningKey]) -> Value {
    json!({ "keys": keys.iter().map(|key| key.public()).collect::<Vec<_>>() })
}

/// A token that was "signed" with the public half of [`SigningKey::rs256`], which everybody has, as if it were a secret.
pub fn hmac_with_the_public_key(algorithm: Algorithm, kid: &str, claims: &Value) -> String {
    let pem = include_bytes!("../../host/src/auth/testdata/rsa_test_key.pub.pem");
    let mut header = Header::new(algorithm);
    header.kid = Some(kid.into());
    let secret = EncodingKey::from_secret(pem).expect("any bytes are a secret");
    jsonwebtoken::encode(&header, claims, &secret).expect("claims are JSON")
}

pub fn now_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970").as_secs()
}

/// Claims that are accepted now and for an hour.
pub fn claims(subject: &str, tenant: &str, scopes: &[String]) -> Value {
    json!({
        "iss": ISSUER, "aud": AUDIENCE, "sub": subject, "tenant_id": tenant, "scope": scopes.join(" "),
        "iat": now_seconds(), "exp": now_seconds() + 3600,
    })
}
