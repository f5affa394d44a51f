//! Is this component the one that somebody we trust has signed, or that the operator has named by its digest?
//!
//! A detached signature of minisign stands beside the component, `NAME.wasm.minisig`. One that is there is held against
//! the keys whether or not signatures are required: a signature that does not fit is a reason to stop, not a missing one.
//! Source: the minisign format; prehashed signatures (its default) only.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use minisign::{PublicKey, SignatureBox};
use std::io::{Cursor, ErrorKind};
use std::path::{Path, PathBuf};

use super::Blocked;
use super::provenance::{Provenance, Signed};
use crate::config::{Grants, Policy, Signatures, public_key, read_small_file};
use crate::model::PluginId;

/// A signature has four short lines.
pub const MAX_SIGNATURE_BYTES: u64 = 16 << 10;

/// The bytes that would be served. Checks look at these, never at the file again: what was checked is what is served.
pub struct Component<'a> {
    pub id: &'a PluginId,
    /// The file that the signature stands beside; `None` for a component that is part of this binary.
    pub path: Option<&'a Path>,
    pub wasm: &'a [u8],
    /// SHA-256 of `wasm`, in hex.
    pub digest: &'a str,
    pub grants: &'a Grants,
}

/// The words of refusals that another signature could lift.
pub const WORDS: [&str; 3] = ["unsigned", "bad_signature", "unknown_key"];

/// Where the signature of a component is looked for.
pub fn signature_path(component: &Path) -> PathBuf {
    let mut name = component.as_os_str().to_owned();
    name.push(".minisig");
    PathBuf::from(name)
}

/// Hold the component to its digest pin and to the policy on signatures.
///
/// Errors, all of kind `Refused`: `wrong_digest`, `unsigned`, `bad_signature`, `unknown_key`.
pub fn check(policy: &Policy, candidate: &Component<'_>) -> Result<Provenance, Blocked> {
    let refused = |word: &'static str, reason: String| Blocked {
        digest: Some(candidate.digest.to_owned()),
        ..Blocked::refused(word, reason)
    };
    if candidate.grants.pins(candidate.digest) == Some(false) {
        let (id, found) = (candidate.id, candidate.digest);
        let expected = candidate.grants.digest.as_deref().unwrap_or_default();
        return Err(refused(
            "wrong_digest",
            format!(
                "plugins.toml pins {id} to {expected}, and this component is sha256:{found}. Put the pinned component \
                 there, or pin the new one with `plugins grant {id} --digest sha256:{found}`."
            ),
        ));
    }
    let signed = match candidate.path {
        None => Signed::BuiltIn,
        Some(path) => signature(policy, path, candidate.wasm).map_err(|(word, reason)| refused(word, reason))?,
    };
    Ok(Provenance::of(candidate.digest, candidate.wasm, signed))
}

fn signature(policy: &Policy, component: &Path, wasm: &[u8]) -> Result<Signed, (&'static str, String)> {
    let path = signature_path(component);
    let shown = path.display();
    let text = match read_small_file(&path, MAX_SIGNATURE_BYTES) {
        Ok(text) => text,
        Err(why) if why.kind() == ErrorKind::NotFound => {
            return match policy.signatures {
                Signatures::Optional => Ok(Signed::Unsigned),
                Signatures::Required => Err((
                    "unsigned",
                    format!(
                        "it is not signed: there is no {shown}, and policy.signatures is \"required\". Sign it with \
                         `minisign -S -m {}`, using one of the keys {}.",
                        component.display(),
                        ids(&keys(policy)),
                    ),
                )),
            };
        }
        Err(why) => return Err(("bad_signature", format!("its signature {shown} cannot be read: {why}."))),
    };
    let signature = parse(&text).map_err(|what| {
        ("bad_signature", format!("its signature {shown} is none of minisign's: {what}. Sign the component again."))
    })?;
    let key_id = key_id(signature.keynum());
    let keys = keys(policy);
    if keys.is_empty() {
        return Ok(Signed::Unchecked { key_id });
    }
    let Some(key) = keys.iter().find(|key| key.keynum() == signature.keynum()) else {
        return Err((
            "unknown_key",
            format!(
                "it is signed with the key {key_id}, and policy.keys has {}. Have it signed with one of these, or add \
                 that key once you trust its owner.",
                ids(&keys),
            ),
        ));
    };
    if !signature.is_prehashed() {
        let what = "its signature is of minisign's old form. Sign it again with a minisign of 0.10 or newer";
        return Err(("bad_signature", format!("{what}, or with `minisign -S -H`.")));
    }
    match minisign::verify(key, &signature, Cursor::new(wasm), true, false, false) {
        Ok(()) => Ok(Signed::Verified { key_id, trusted_comment: signature.trusted_comment().unwrap_or_default() }),
        Err(why) => Err((
            "bad_signature",
            format!(
                "its signature {shown} by the key {key_id} does not fit the component: {why}. One of the two was changed \
                 after signing; fetch both again."
            ),
        )),
    }
}

/// The error is a clause. The library takes the last line's length on trust, and would panic on a short one.
fn parse(text: &str) -> Result<SignatureBox, String> {
    let lengths = [(1, "signature", 74), (3, "signature of the comment", 64)];
    for (line, what, bytes) in lengths {
        let found = text.lines().nth(line).and_then(|line| STANDARD.decode(line.trim()).ok());
        if found.is_none_or(|found| found.len() != bytes) {
            return Err(format!("line {} is not a {what}", line + 1));
        }
    }
    SignatureBox::from_string(text).map_err(|why| why.to_string())
}

/// They were checked when the file was read.
fn keys(policy: &Policy) -> Vec<PublicKey> {
    policy.keys.iter().filter_map(|key| public_key(key).ok()).collect()
}

/// As minisign prints it.
pub fn key_id(keynum: &[u8]) -> String {
    keynum.iter().rev().map(|byte| format!("{byte:02X}")).collect()
}

fn ids(keys: &[PublicKey]) -> String {
    let ids: Vec<String> = keys.iter().map(|key| key_id(key.keynum())).collect();
    if ids.is_empty() { "none".into() } else { ids.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugins::BlockedKind;
    use minisign::KeyPair;
    use sha2::{Digest, Sha256};
    use tempfile::TempDir;

    const WASM: &[u8] = b"\0asm not really, and signed all the same";

    struct Bench {
        directory: TempDir,
        keys: KeyPair,
        grants: Grants,
    }

    impl Bench {
        fn new() -> Bench {
            let keys = KeyPair::generate_unencrypted_keypair().unwrap();
            Bench { directory: tempfile::tempdir().unwrap(), keys, grants: Grants::default() }
        }

        fn policy(&self, signatures: Signatures) -> Policy {
            Policy { signatures, keys: vec![self.keys.pk.to_base64()], ..Policy::default() }
        }

        fn component(&self) -> PathBuf {
            self.directory.path().join("weather.wasm")
        }

        fn put(&self, signature: impl AsRef<[u8]>) {
            std::fs::write(signature_path(&self.component()), signature).unwrap();
        }

        fn sign(&self, keys: &KeyPair) -> String {
            let signed = minisign::sign(None, &keys.sk, Cursor::new(WASM), Some("weather 1.2"), None).unwrap();
            signed.into_string()
        }

        fn check(&self, policy: &Policy, wasm: &[u8]) -> Result<Signed, Blocked> {
            let id = PluginId::parse("weather").unwrap();
            let (path, digest) = (self.component(), hex::encode(Sha256::digest(wasm)));
            let candidate = Component { id: &id, path: Some(&path), wasm, digest: &digest, grants: &self.grants };
            check(policy, &candidate).map(|found| found.signature)
        }
    }

    fn word(outcome: Result<Signed, Blocked>) -> (&'static str, String) {
        let blocked = outcome.unwrap_err();
        assert_eq!(blocked.kind, BlockedKind::Refused);
        (blocked.word, blocked.reason)
    }

    #[test]
    fn a_good_signature_names_its_key_and_its_trusted_comment() {
        let bench = Bench::new();
        bench.put(bench.sign(&bench.keys));
        let found = bench.check(&bench.policy(Signatures::Required), WASM).unwrap();
        let key_id = key_id(bench.keys.pk.keynum());
        assert_eq!(found, Signed::Verified { key_id, trusted_comment: "weather 1.2".into() });
    }

    #[test]
    fn a_flipped_byte_is_refused_also_where_signatures_are_optional() {
        let bench = Bench::new();
        bench.put(bench.sign(&bench.keys));
        let mut flipped = WASM.to_vec();
        flipped[9] ^= 1;
        for signatures in [Signatures::Optional, Signatures::Required] {
            let (word, reason) = word(bench.check(&bench.policy(signatures), &flipped));
            assert_eq!(word, "bad_signature");
            assert!(reason.contains(&key_id(bench.keys.pk.keynum())), "{reason}");
        }
    }

    #[test]
    fn a_changed_trusted_comment_is_refused() {
        let bench = Bench::new();
        bench.put(bench.sign(&bench.keys).replace("weather 1.2", "weather 9.9"));
        assert_eq!(word(bench.check(&bench.policy(Signatures::Optional), WASM)).0, "bad_signature");
    }

    #[test]
    fn another_key_is_refused_with_both_ids() {
        let bench = Bench::new();
        let other = KeyPair::generate_unencrypted_keypair().unwrap();
        bench.put(bench.sign(&other));
        let (word, reason) = word(bench.check(&bench.policy(Signatures::Optional), WASM));
        assert_eq!(word, "unknown_key");
        for keys in [&other, &bench.keys] {
            assert!(reason.contains(&key_id(keys.pk.keynum())), "{reason}");
        }
    }

    #[test]
    fn a_missing_signature_is_refused_only_where_they_are_required() {
        let bench = Bench::new();
        assert_eq!(bench.check(&bench.policy(Signatures::Optional), WASM), Ok(Signed::Unsigned));
        let (word, reason) = word(bench.check(&bench.policy(Signatures::Required), WASM));
        assert_eq!(word, "unsigned");
        assert!(reason.contains("weather.wasm.minisig") && reason.contains("minisign -S"), "{reason}");
    }

    #[test]
    fn garbage_in_place_of_a_signature_is_refused_and_never_a_panic() {
        let bench = Bench::new();
        let good = bench.sign(&bench.keys);
        let lines: Vec<&str> = good.lines().collect();
        let with = |line: usize, text: &str| {
            let mut changed = lines.clone();
            changed[line] = text;
            changed.join("\n")
        };
        let cases = ["".into(), "no".into(), with(1, "RW"), with(3, "AAAA"), with(3, ""), with(2, "comment")];
        for case in cases {
            bench.put(&case);
            assert_eq!(word(bench.check(&bench.policy(Signatures::Optional), WASM)).0, "bad_signature", "{case}");
        }
        bench.put([0xff, 0xfe]);
        assert_eq!(word(bench.check(&bench.policy(Signatures::Optional), WASM)).0, "bad_signature");
    }

    #[test]
    fn without_keys_a_signature_is_not_called_good() {
        let bench = Bench::new();
        bench.put(bench.sign(&bench.keys));
        let found = bench.check(&Policy::default(), WASM).unwrap();
        assert!(matches!(found, Signed::Unchecked { .. }), "{found:?}");
    }

    #[test]
    fn another_component_than_the_pinned_one_is_refused_with_both_digests() {
        let mut bench = Bench::new();
        let digest = hex::encode(Sha256::digest(WASM));
        bench.grants.digest = Some(format!("sha256:{digest}"));
        assert!(bench.check(&Policy::default(), WASM).is_ok());
        let (word, reason) = word(bench.check(&Policy::default(), b"other"));
        assert_eq!(word, "wrong_digest");
        assert!(reason.contains(&digest) && reason.contains(&hex::encode(Sha256::digest(b"other"))), "{reason}");
    }
}
