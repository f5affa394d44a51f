//! What plugin authors and those who take their plugins use: publishing a component and adding one.
//!
//! Stands beside `transport`. It serves nothing and grants nothing.

pub mod add;
pub mod component;
pub mod login;
mod pins;
pub mod publish;
pub mod registry;
pub mod source;

/// `sha256:` and 64 hex digits, as OCI writes it.
pub fn digest(bytes: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    format!("sha256:{}", hex::encode(Sha256::digest(bytes)))
}

/// Is this `sha256:` and 64 lower-case hex digits?
pub fn is_digest(text: &str) -> bool {
    let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    text.strip_prefix("sha256:").is_some_and(|digits| digits.len() == 64 && digits.bytes().all(hex))
}
