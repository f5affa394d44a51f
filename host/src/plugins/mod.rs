//! The set of plugins that serve: the built-in ones, and those of the operator's directory, which come, change and go
//! while the bridge runs.
//!
//! One look after the other (`set`) compares files and grants with what serves; a candidate passes every check
//! (`admission`) before anything is put into the catalogue; `watch` says when to look, `history` keeps what served last
//! and before. What is demanded of every candidate is in `signatures` and `approvals`; `edit` changes the file of grants,
//! for commands alone; `request` is what a component says that it asks for. Knows no transport and no wire: who has to hear of a change is told through a callback. Source: design
//! section 4; docs/decisions/0022-hot-swap.md.

mod admission;
pub mod approvals;
pub mod edit;
pub mod files;
mod grants;
mod held;
mod history;
pub mod interface;
mod lock;
mod misnamed;
pub mod provenance;
pub mod request;
mod secrets;
mod sections;
mod set;
pub mod signatures;
pub mod surface;
mod watch;

pub use admission::{Candidate, MAX_COMPONENT_BYTES};
pub use approvals::{Approvals, Compared};
pub use history::{RolledBack, WayBack, way_back};
pub use provenance::Provenance;
pub use request::Request;
pub use set::{Charge, PluginSet, SetParts};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use crate::runtime::{Rejected, Why};

/// What became of one plugin, as the operator sees it.
#[derive(Clone, Debug, Serialize)]
pub struct Standing {
    /// The plugin's id; of a file whose name is none, that name without `.wasm`.
    pub id: String,
    pub built_in: bool,
    /// What answers calls now.
    pub serving: Option<Serving>,
    /// What is in the directory and does not serve.
    pub blocked: Option<Blocked>,
    /// Secrets that are not what is kept in their places now, by upstream, each with what to do.
    pub stale_secrets: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Serving {
    #[serde(flatten)]
    pub version: Version,
    /// The digest of the version before, for `plugins rollback`.
    pub previous: Option<String>,
    pub tools: Vec<String>,
    /// It was taken from the bridge's own copy, because the file in the directory may not serve.
    pub kept: bool,
}

/// One version of a component, and how it came to serve.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// SHA-256 of the component, in hex.
    pub digest: String,
    /// RFC 3339.
    pub since: String,
    pub who: Option<Who>,
}

/// The owner of the file that changed: as close to "who did it" as a file system says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Who {
    /// `None` when the system has no name for the number.
    pub user: Option<String>,
    pub uid: u32,
}

/// Every word for why a candidate may not serve: docs/operators/hot-swap.md explains them.
pub const WORDS: [&str; 20] = [
    "bad_name",
    "unreadable",
    "too_large",
    "wrong_digest",
    "unsigned",
    "bad_signature",
    "unknown_key",
    "bad_request",
    "asks_more",
    "not_a_component",
    "not_runnable",
    "wrong_world",
    "not_offered",
    "not_granted",
    "no_tools",
    "bad_tool",
    "bad_offer",
    "name_taken",
    "changed",
    "approvals_unreadable",
];

/// A candidate that may not serve.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Blocked {
    /// `None` when the file could not be read.
    pub digest: Option<String>,
    pub kind: BlockedKind,
    /// One of [`WORDS`], for log, metrics, health and audit.
    pub word: &'static str,
    /// For the operator: what is wrong, and what to do. It may name paths.
    pub reason: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BlockedKind {
    /// The file has to change.
    Refused,
    /// The operator has to agree; the file as it is may then serve.
    Quarantined,
}

impl BlockedKind {
    pub fn as_str(self) -> &'static str {
        match self {
            BlockedKind::Refused => "refused",
            BlockedKind::Quarantined => "quarantined",
        }
    }
}

impl Blocked {
    pub fn refused(word: &'static str, reason: impl Into<String>) -> Blocked {
        Self::made(BlockedKind::Refused, word, reason.into())
    }

    pub fn quarantined(word: &'static str, reason: impl Into<String>) -> Blocked {
        Self::made(BlockedKind::Quarantined, word, reason.into())
    }

    fn made(kind: BlockedKind, word: &'static str, reason: String) -> Blocked {
        debug_assert!(WORDS.contains(&word), "{word} is not among the words");
        Blocked { digest: None, kind, word, reason }
    }
}

impl From<Rejected> for Blocked {
    fn from(rejected: Rejected) -> Blocked {
        let kind = match rejected.why {
            Why::NotGranted { .. } => BlockedKind::Quarantined,
            _ => BlockedKind::Refused,
        };
        let mut reason = rejected.why.to_string();
        if let Why::NotGranted { interface, .. } = &rejected.why
            && let Some(flags) = granting(interface)
        {
            let id = &rejected.plugin;
            reason += &format!(
                " `cyberos-mcp-bridge plugins grant {id} {flags}` adds it, and `plugins inspect {id}` shows what else it asks for."
            );
        }
        Self::made(kind, rejected.why.word(), reason)
    }
}

/// What `plugins grant NAME` takes for a component that imports this.
fn granting(import: &str) -> Option<&'static str> {
    let interface = import.strip_prefix("cyberos:plugin/")?;
    Some(match interface.split('@').next()? {
        "config" => "--set NAME=VALUE",
        "http-fetch" => "--upstream NAME=https://HOST --path '/PATH/**'",
        "spawn-cuo" => "--import cuo",
        "audit-append" => "--import audit-append",
        "audit-read" => "--import audit-read",
        "elicit" => "--import elicit",
        "sample" => "--import sample",
        "resource-updates" => "--import resource-updates",
        _ => return None,
    })
}
