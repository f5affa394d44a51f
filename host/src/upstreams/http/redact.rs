//! An upstream that echoes the credential must not give it to the plugin: it is blotted out of what comes back.
//!
//! A safety net, not a proof: an upstream that answers with the secret reversed or in part defeats it. What it does
//! catch is the ordinary echo: as sent or in one case, inside JSON, HTML or a URL, in hex, and in base64 also as part of
//! a longer text. Bodies are looked at whole, so that it does not matter in which pieces they came.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use secrecy::{ExposeSecret, SecretString};
use url::form_urlencoded;

const BLOT: &[u8] = b"***";

/// Shorter texts stand in ordinary words, and are no secrets.
const MIN_BYTES: usize = 4;

/// The spellings to blot out, longest first. Not `Debug`: it holds the secret.
pub(super) struct Redaction(Vec<Vec<u8>>);

impl Redaction {
    pub(super) fn none() -> Self {
        Redaction(Vec::new())
    }

    pub(super) fn of(secret: &SecretString) -> Self {
        let plain = secret.expose_secret();
        // Names of headers arrive in lower case.
        let mut spellings: Vec<Vec<u8>> = [plain.to_owned(), plain.to_lowercase(), plain.to_uppercase()]
            .into_iter()
            .map(String::into_bytes)
            .collect();
        let json = serde_json::to_string(plain).expect("a string is JSON");
        let json = json[1..json.len() - 1].to_owned();
        spellings.extend([json.replace('/', "\\/").into_bytes(), json.into_bytes()]);
        spellings.push(form_urlencoded::byte_serialize(plain.as_bytes()).collect::<String>().into_bytes());
        for kept in ["-._~", "-._~!'()*", "-._~!$&'()*+,;=:@/"] {
            let upper = percent_encoded(plain, kept);
            spellings.extend([lower_escapes(&upper).into_bytes(), upper.into_bytes()]);
        }
        for (apostrophe, quote) in [("&#39;", "&quot;"), ("&#x27;", "&#34;")] {
            let html = plain.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            spellings.push(html.replace('\'', apostrophe).replace('"', quote).into_bytes());
        }
        spellings.extend([hex::encode(plain).into_bytes(), hex::encode_upper(plain).into_bytes()]);
        for engine in [STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD] {
            spellings.push(engine.encode(plain).into_bytes());
        }
        for engine in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
            spellings.extend(inside_base64(&engine, plain.as_bytes()));
        }
        // The secret of the Basic scheme is itself base64 of user and password, which servers like to show decoded.
        if let Ok(pair) = STANDARD.decode(plain)
            && let Some(colon) = pair.iter().position(|byte| *byte == b':')
        {
            spellings.push(pair[colon + 1..].to_vec());
            spellings.push(pair);
        }
        spellings.retain(|spelling| spelling.len() >= MIN_BYTES);
        Redaction(spellings).and(Redaction::none())
    }

    /// Both blotted out.
    pub(super) fn and(mut self, other: Redaction) -> Self {
        self.0.extend(other.0);
        self.0.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        self.0.dedup();
        self
    }

    /// The text without the secret; bytes that are not UTF-8 are replaced.
    pub(super) fn text(&self, text: Vec<u8>) -> String {
        String::from_utf8_lossy(&self.apply(text).0).into_owned()
    }

    /// The text without the secret, and whether anything was blotted out.
    pub(super) fn apply(&self, text: Vec<u8>) -> (Vec<u8>, bool) {
        // Bodies are large, and hardly any byte begins a spelling.
        let mut begins = [false; 256];
        self.0.iter().for_each(|spelling| begins[usize::from(spelling[0])] = true);
        let found = |at: usize| match begins[usize::from(text[at])] {
            true => self.0.iter().find(|spelling| text[at..].starts_with(spelling)),
            false => None,
        };
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

/// Everything but letters, digits and `kept` as escapes in capitals.
fn percent_encoded(plain: &str, kept: &str) -> String {
    let encode = |byte: u8| match char::from(byte) {
        c if c.is_ascii_alphanumeric() || kept.contains(c) => c.to_string(),
        _ => format!("%{byte:02X}"),
    };
    plain.bytes().map(encode).collect()
}

fn lower_escapes(escaped: &str) -> String {
    let mut out = String::with_capacity(escaped.len());
    let mut left = 0;
    for c in escaped.chars() {
        out.push(if left > 0 { c.to_ascii_lowercase() } else { c });
        left = if c == '%' { 2 } else { usize::saturating_sub(left, 1) };
    }
    out
}

/// The digits of base64 that are the same whatever stands before and after the secret, for each place in a group that
/// it can start at.
fn inside_base64(engine: &impl Engine, secret: &[u8]) -> Vec<Vec<u8>> {
    let digits = |before: usize| {
        let text = [&vec![0; before], secret].concat();
        let all = engine.encode(&text).into_bytes();
        // A digit holds six bits: those that share one with a neighbour are not the secret's alone.
        let (first, last) = ((before * 8).div_ceil(6), text.len() * 8 / 6);
        all.get(first..last).unwrap_or_default().to_vec()
    };
    // Few digits could stand in any text.
    (0..3).map(digits).filter(|digits| digits.len() >= 8).collect()
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
    fn the_spellings_of_other_encoders_are_blotted_out_too() {
        let secret = "S3cr&t'/+canary key";
        for echoed in [
            "s3cr&t'/+canary key",
            "S3CR&T'/+CANARY KEY",
            "S3cr&t'\\/+canary key",
            "S3cr&amp;t&#39;/+canary key",
            "S3cr%26t%27%2F%2Bcanary%20key",
            "S3cr%26t%27%2f%2bcanary%20key",
            "S3cr%26t'%2F%2Bcanary%20key",
            &hex::encode(secret),
            &hex::encode_upper(secret),
        ] {
            assert_eq!(redacted(secret, &format!("<{echoed}>")), "<***>", "{echoed}");
        }
    }

    #[test]
    fn inside_a_longer_text_in_base64_nothing_of_it_can_be_decoded() {
        let secret = "canary-0123456789";
        for before in ["", "x", "xy", "Bearer ", "user:"] {
            for after in ["", "!", "!!"] {
                let text = format!("{before}{secret}{after}");
                for encoded in [STANDARD.encode(&text), URL_SAFE_NO_PAD.encode(&text)] {
                    let shown = redacted(secret, &encoded);
                    assert!(shown.contains("***") && shown.len() < 24, "{text}: {encoded} became {shown}");
                }
            }
        }
    }

    #[test]
    fn of_two_secrets_one_of_which_begins_like_the_other_nothing_is_left() {
        let both = Redaction::of(&"canary".into()).and(Redaction::of(&"canary-2".into()));
        assert_eq!(both.text(b"canary-2 canary canary-3".to_vec()), "*** *** ***-3");
    }

    #[test]
    fn other_text_is_left_as_it_is() {
        assert_eq!(redacted("canary-1", "canary-2 canary-"), "canary-2 canary-");
        assert_eq!(redacted("abc", "abc"), "abc");
        let bytes = vec![0, 159, 146, 150];
        assert_eq!(Redaction::of(&SecretString::from("canary-1")).apply(bytes.clone()), (bytes, false));
    }
}
