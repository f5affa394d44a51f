//! What a row's `kind` may be: one rule for plugins and for callers of the REST contract.

/// Longest kind in characters.
pub const MAX_KIND_CHARS: usize = 128;

/// Kinds that only the bridge writes: nobody else may forge the record of a call.
const RESERVED: [&str; 2] = ["mcp.", "plugin."];

/// Is it well-formed? The error says what is wrong.
pub fn check_kind(kind: &str) -> Result<(), String> {
    let good = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'.');
    match (1..=MAX_KIND_CHARS).contains(&kind.len()) && kind.bytes().all(good) {
        true => Ok(()),
        false => Err(format!("kind is not 1 to {MAX_KIND_CHARS} characters of a-z, 0-9, _ and .")),
    }
}

/// May anybody but the bridge write it? The error says why not.
pub fn check_not_reserved(kind: &str) -> Result<(), String> {
    match RESERVED.iter().find(|prefix| kind.starts_with(**prefix)) {
        Some(prefix) => Err(format!("kinds that start with {prefix} are written by the bridge itself")),
        None => Ok(()),
    }
}
