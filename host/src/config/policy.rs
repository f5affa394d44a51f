//! What an operator demands of every plugin before it is served: signatures, and approval of what tools say.
//!
//! Plain data. `plugins::signatures` and `plugins::approvals` enforce it.

use schemars::JsonSchema;
use serde::Deserialize;

use super::mistakes::Wrong;

/// Held against every component of the plugins' directory. The eight built-in components are part of the binary.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Policy {
    /// Must a component be signed? A signature that is there and does not fit is refused either way.
    pub signatures: Signatures,
    /// Public keys of minisign, each the second line of a `.pub` file, starting with `RW`. A signature by any of them
    /// will do.
    pub keys: Vec<String>,
    /// May a later version change what an approved tool says of itself?
    pub approval: Approval,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Signatures {
    /// Unsigned components are served.
    #[default]
    Optional,
    /// Only components signed by one of the keys are served.
    Required,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Approval {
    /// What a tool says when it is first served is kept; a version that says something else waits for approval.
    #[default]
    Pinned,
    /// Whatever a new version says is served.
    Off,
}

impl Policy {
    pub fn wrongs(&self) -> Vec<Wrong> {
        let mut wrongs = vec![];
        if self.signatures == Signatures::Required && self.keys.is_empty() {
            let what = "signatures are required, and there are no keys that could have made them";
            wrongs.push(Wrong::at(&["signatures"], what, "Add `keys = [\"RW…\"]`, the second line of the .pub file."));
        }
        for (at, key) in self.keys.iter().enumerate() {
            if let Err(what) = public_key(key) {
                let remedy = "Copy the second line of the .pub file that `minisign -G` wrote.";
                wrongs.push(Wrong::at(&["keys", &at.to_string()], what, remedy));
            }
        }
        wrongs
    }
}

/// The key, or a clause that says why it is none.
pub fn public_key(text: &str) -> Result<minisign::PublicKey, String> {
    let key = minisign::PublicKey::from_base64(text.trim()).map_err(|_| "it is not a public key of minisign")?;
    match key.to_bytes().starts_with(b"Ed") {
        true => Ok(key),
        false => Err("it is a key of an unknown algorithm".into()),
    }
}
