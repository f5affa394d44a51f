//! An upstream that echoes the credential must not give it to the plugin: it is blotted out of what comes back.
//!
//! A safety net, not a proof: an upstream that answers with the secret reversed or in part defeats it. What it does
//! catch is the ordinary echo: as sent, inside JSON, percent-encoded, and in base64.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use secrecy::{ExposeSecret, SecretString};
use url::form_urlencoded;

const BLOT: &[u8] = b"***";

/// Shorter texts stand in ordinary words, and are no secrets.
const MIN_BYTES: usize = 4;

/// The spellings to blot out, longest first. Not `Debug`: it holds the secret.
#[derive(Clone)]
pub(super) struct Redaction(Vec<Vec<u8>>);

impl Redaction {
    pub(super) fn none() -> Self {
        Redaction(Vec::new())
    }

    pub(super) fn of(secret: &SecretString) -> Self {
        let plain = secret.expose_secret();
        let mut spellings = vec![plain.as_bytes().to_vec()];
        let json = serde_json::to_string(plain).expect("a string is JSON");
        spellings.push(json.trim_matches('"').as_bytes().to_vec());
        spellings.push(form_urlencoded::byte_serialize(plain.as_bytes()).collect::<String>().into_bytes());
        for engine in [STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD] {
            spellings.push(engine.encode(plain).into_bytes());
        }
        // The secret of the Basic scheme is itself base64 of user and password, which servers like to show decoded.
        if let Ok(pair) = STANDARD.decode(plain)
            && let Some(colon) = pair.iter().position(|byte| *byte == b':')
        {
            spellings.push(pair[colon + 1..].to_vec());
            spellings.push(pair);
        }
        spellings.retain(|spelling| spelling.len() >= MIN_BYTES);
        spellings.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        spellings.dedup();
        Redaction(spellings)
    }

    pub(super) fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    /// The text without the secret, and whether anything was blotted out.
    pub(super) fn apply(&self, text: Vec<u8>) -> (Vec<u8>, bool) {
        let found = |at: usize| self.0.iter().find(|spelling| text[at..].starts_with(spelling));
        let Some(first) = (0..text.len()).find(|at| found(*at).is_some()) else { return (text, false) };
        let mut out = text[..first].to_vec();
        let mut at = first;
        while at < text.len() {
            match found(at) {
                Some(spelling) => {
                    out.extend_from_slice(BLOT);
                    at += spelling.len();
                }
                None => {
                    out.push(text[at]);
                    at += 1;
                }
            }
        }
        (out, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(secret: &str, text: &str) -> String {
        String::from_utf8(Redaction::of(&SecretString::from(secret)).apply(text.into()).0).unwrap()
    }

    #[test]
    fn every_ordinary_spelling_is_blotted_out() {
        assert_eq!(redacted("s3cr\"et/x", r#"Bearer s3cr"et/x"#), "Bearer ***");
        assert_eq!(redacted("s3cr\"et/x", r#"{"auth":"s3cr\"et/x"}"#), r#"{"auth":"***"}"#);
        assert_eq!(redacted("s3cr\"et/x", "k=s3cr%22et%2Fx&y"), "k=***&y");
        assert_eq!(redacted("canary-1", "a canary-1canary-1 b"), "a ****** b");
        assert_eq!(redacted("canary-1", &STANDARD.encode("canary-1")), "***");
        assert_eq!(
            redacted(&STANDARD.encode("bob:hunter22"), "user bob:hunter22, password hunter22"),
            "user ***, password ***"
        );
    }

    #[test]
    fn other_text_is_left_as_it_is() {
        assert_eq!(redacted("canary-1", "canary-2 canary-"), "canary-2 canary-");
        assert_eq!(redacted("abc", "abc"), "abc");
        let bytes = vec![0, 159, 146, 150];
        assert_eq!(Redaction::of(&SecretString::from("canary-1")).apply(bytes.clone()), (bytes, false));
    }
}
