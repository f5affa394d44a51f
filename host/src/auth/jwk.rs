//! One public key of a key set: which it is, and the one algorithm that it may verify.
//!
//! The algorithm follows from the key's type, never from a token: RSA → RS256, P-256 → ES256, Ed25519 → EdDSA.
//! Source: RFC 7517 section 4, RFC 7518 section 6, RFC 8037 section 2.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use serde_json::Value;

pub(super) struct VerifyingKey {
    pub kid: Option<String>,
    pub alg: Algorithm,
    pub decoding: DecodingKey,
}

#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    key_ops: Option<Vec<String>>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
    d: Option<Value>,
}

/// The key, or why it is left out (for the log; it names no key material).
///
/// Lengths are checked here because the verifying library slices without asking.
pub(super) fn parse(jwk: &Value) -> Result<VerifyingKey, &'static str> {
    let jwk = Jwk::deserialize(jwk).map_err(|_| "it is not a JWK")?;
    if jwk.d.is_some() {
        return Err("it is a private key: whoever can read the key set can sign with it");
    }
    if jwk.usage.as_deref().is_some_and(|usage| usage != "sig") {
        return Err("it is not for signatures");
    }
    if jwk.key_ops.as_ref().is_some_and(|ops| !ops.iter().any(|op| op == "verify")) {
        return Err("it is not for verifying");
    }
    let (alg, names, decoding): (_, &[&str], _) = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
        ("RSA", _) => (Algorithm::RS256, &["RS256"], rsa(&jwk)?),
        ("EC", Some("P-256")) => (Algorithm::ES256, &["ES256"], p256(&jwk)?),
        ("OKP", Some("Ed25519")) => (Algorithm::EdDSA, &["EdDSA", "Ed25519"], ed25519(&jwk)?),
        _ => return Err("its type or curve is not supported (RSA, P-256 and Ed25519 are)"),
    };
    if jwk.alg.as_deref().is_some_and(|named| !names.contains(&named)) {
        return Err("it is for an algorithm that is not accepted (RS256, ES256 and EdDSA are)");
    }
    Ok(VerifyingKey { kid: jwk.kid, alg, decoding })
}

fn rsa(jwk: &Jwk) -> Result<DecodingKey, &'static str> {
    let n = bytes(&jwk.n)?;
    let e = bytes(&jwk.e)?;
    let significant = n.iter().skip_while(|byte| **byte == 0).count();
    if !(256..=1024).contains(&significant) {
        return Err("its modulus is not between 2048 and 8192 bits");
    }
    if e.len() > 8 || e.last().is_none_or(|low| low % 2 == 0) || e == [1] {
        return Err("its exponent is unusable");
    }
    Ok(DecodingKey::from_rsa_raw_components(&n, &e))
}

fn p256(jwk: &Jwk) -> Result<DecodingKey, &'static str> {
    let (x, y) = (bytes(&jwk.x)?, bytes(&jwk.y)?);
    if x.len() != 32 || y.len() != 32 {
        return Err("its coordinates are not 32 bytes each");
    }
    Ok(DecodingKey::from_ec_der(&[&[0x04], x.as_slice(), y.as_slice()].concat()))
}

fn ed25519(jwk: &Jwk) -> Result<DecodingKey, &'static str> {
    let x = bytes(&jwk.x)?;
    if x.len() != 32 {
        return Err("its public key is not 32 bytes");
    }
    Ok(DecodingKey::from_ed_der(&x))
}

fn bytes(member: &Option<String>) -> Result<Vec<u8>, &'static str> {
    let text = member.as_deref().ok_or("a member is missing")?;
    URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).map_err(|_| "a member is not base64url")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keys_that_must_not_verify_are_left_out() {
        let x = URL_SAFE_NO_PAD.encode([7u8; 32]);
        let good = json!({ "kty": "OKP", "crv": "Ed25519", "x": x, "use": "sig", "alg": "EdDSA", "kid": "a" });
        assert!(parse(&good).is_ok());
        let with = |key: &str, value: Value| {
            let mut jwk = good.clone();
            jwk[key] = value;
            parse(&jwk).err()
        };
        assert_eq!(with("use", json!("enc")), Some("it is not for signatures"));
        assert_eq!(with("key_ops", json!(["sign"])), Some("it is not for verifying"));
        assert!(with("d", json!("AAAA")).unwrap().contains("private key"));
        assert!(with("alg", json!("HS256")).unwrap().contains("not accepted"));
        assert!(with("kty", json!("oct")).unwrap().contains("not supported"));
        assert!(with("x", json!("AAAA")).unwrap().contains("32 bytes"));
        let small = URL_SAFE_NO_PAD.encode([0xff; 128]);
        assert!(parse(&json!({ "kty": "RSA", "n": small, "e": "AQAB" })).err().unwrap().contains("2048"));
        let modulus = URL_SAFE_NO_PAD.encode([0xff; 256]);
        for exponent in ["AQ", "Ag", ""] {
            assert!(parse(&json!({ "kty": "RSA", "n": modulus, "e": exponent })).is_err(), "{exponent}");
        }
        assert!(parse(&json!({ "kty": "RSA", "n": modulus, "e": "AQAB" })).is_ok());
        assert!(parse(&json!("text")).is_err());
    }
}
