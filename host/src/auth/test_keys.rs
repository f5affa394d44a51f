//! Issuers for tests: keys of the three accepted kinds, and tokens that are right until a test spoils them.

use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use serde_json::{Value, json};

use super::clock::TestClock;
use super::issuer::new_ed25519_pkcs8;

pub(super) const ISSUER: &str = "https://issuer.example";
pub(super) const AUDIENCE: &str = "plugin:cyberos";
pub(super) const TENANT: &str = "6f0c7a52-0e0a-4b3d-9a44-0d8a1c6f2e11";
pub(super) const RSA_PUBLIC_PEM: &str = include_str!("testdata/rsa_test_key.pub.pem");

/// A signing key with a name.
pub(super) struct TestKey {
    pub kid: &'static str,
    pub alg: Algorithm,
    pub encoding: EncodingKey,
}

impl TestKey {
    pub(super) fn rs256(kid: &'static str) -> Self {
        // Generating RSA keys takes seconds; this pair is for tests only, see testdata/README.md.
        let encoding = EncodingKey::from_rsa_pem(include_bytes!("testdata/rsa_test_key.pem")).unwrap();
        TestKey { kid, alg: Algorithm::RS256, encoding }
    }

    pub(super) fn es256(kid: &'static str) -> Self {
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).unwrap();
        TestKey { kid, alg: Algorithm::ES256, encoding: EncodingKey::from_ec_der(pkcs8.as_ref()) }
    }

    pub(super) fn eddsa(kid: &'static str) -> Self {
        TestKey { kid, alg: Algorithm::EdDSA, encoding: EncodingKey::from_ed_der(&new_ed25519_pkcs8()) }
    }

    /// The public half as it stands in a key set.
    pub(super) fn jwk(&self) -> Value {
        let mut jwk = serde_json::to_value(Jwk::from_encoding_key(&self.encoding, self.alg).unwrap()).unwrap();
        jwk["kid"] = self.kid.into();
        jwk["use"] = "sig".into();
        jwk
    }

    pub(super) fn header(&self) -> Header {
        let mut header = Header::new(self.alg);
        header.kid = Some(self.kid.into());
        header
    }

    pub(super) fn sign(&self, claims: &Value) -> String {
        self.sign_with(&self.header(), claims)
    }

    pub(super) fn sign_with(&self, header: &Header, claims: &Value) -> String {
        jsonwebtoken::encode(header, claims, &self.encoding).unwrap()
    }
}

pub(super) fn key_set(keys: &[&TestKey]) -> Value {
    json!({ "keys": keys.iter().map(|key| key.jwk()).collect::<Vec<_>>() })
}

/// Claims that are accepted now and for an hour.
pub(super) fn claims(clock: &TestClock) -> Value {
    json!({
        "iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "tenant_id": TENANT, "scope": "cyberos:cuo:list cyberos:cuo:route",
        "iat": clock.seconds(), "exp": clock.seconds() + 3600,
    })
}

/// The same with some claims set, or taken out where the value is null.
pub(super) fn claims_with(clock: &TestClock, changes: Value) -> Value {
    let mut claims = claims(clock);
    for (name, value) in changes.as_object().unwrap() {
        match value {
            Value::Null => claims.as_object_mut().unwrap().remove(name),
            value => claims.as_object_mut().unwrap().insert(name.clone(), value.clone()),
        };
    }
    claims
}
