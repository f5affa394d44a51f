//! What is known of one plugin of the directory: what serves, what waits, and what has been written down of it.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::files::Stamp;
use super::history::{Record, Waiting};
use super::{Blocked, BlockedKind, Serving, Standing, Version, Who};
use crate::config::{Grants, Policy};
use crate::model::PluginId;
use crate::runtime::Plugin;

const LOADED: &str = "plugin.loaded";
const SWAPPED: &str = "plugin.swapped";
const REMOVED: &str = "plugin.removed";
pub const REFUSED: &str = "plugin.refused";
const QUARANTINED: &str = "plugin.quarantined";
const GRANTS_CHANGED: &str = "plugin.grants_changed";

#[derive(Default)]
pub struct Held {
    pub path: PathBuf,
    /// What answers calls.
    pub plugin: Option<Arc<Plugin>>,
    /// It came from the history.
    pub kept: bool,
    /// Of what answers calls, or would if its grants allowed it.
    pub now: Option<Version>,
    pub before: Option<Version>,
    pub blocked: Option<Blocked>,
    /// The owner of the file.
    pub who: Option<Who>,
    /// Of the file as it was judged; `None`: it has to be read again.
    pub stamp: Option<Stamp>,
    /// The digest of the file as it was judged.
    pub seen: Option<String>,
    /// The grants under which it was judged.
    pub grants: Option<Grants>,
    /// The policy, the signature and the approvals under which it was judged.
    pub policy: Option<Policy>,
    pub signature: Option<Stamp>,
    pub approvals: Option<Stamp>,
    /// A digest of their entry in the file.
    pub mark: Option<String>,
    /// What was written down last.
    pub recorded: Option<Record>,
    /// For the log, once it is so.
    pub news: Vec<News>,
}

pub enum News {
    Good(String),
    /// The operator should look.
    Odd(String),
    Blocked(Blocked),
}

impl News {
    pub fn log(self, id: &PluginId) {
        match self {
            News::Good(text) => tracing::info!("plugin {id}: {text}"),
            News::Odd(text) => tracing::warn!("plugin {id}: {text}"),
            News::Blocked(blocked) => log_blocked(id.as_str(), &blocked),
        }
    }
}

/// With the words that health, metrics and the audit log have for it.
pub fn log_blocked(name: &str, blocked: &Blocked) {
    let Blocked { kind, word, reason, .. } = blocked;
    match kind {
        BlockedKind::Refused => tracing::error!(state = kind.as_str(), why = word, "plugin {name}: {reason}"),
        BlockedKind::Quarantined => tracing::warn!(state = kind.as_str(), why = word, "plugin {name}: {reason}"),
    }
}

impl Held {
    pub fn remembering(record: Option<Record>) -> Held {
        let Some(record) = record else { return Held::default() };
        Held { now: record.serving.clone(), before: record.previous.clone(), recorded: Some(record), ..Held::default() }
    }

    /// This version serves from now on; one that it follows becomes the version before.
    pub fn advance(&mut self, digest: &str, who: Option<Who>) {
        if self.now.as_ref().is_some_and(|now| now.digest == digest) {
            return;
        }
        let version = Version { digest: digest.to_owned(), since: jiff::Timestamp::now().to_string(), who };
        let before = self.now.replace(version).or_else(|| self.before.take());
        self.before = before.filter(|before| before.digest != digest);
    }

    pub fn record(&self) -> Record {
        let waiting = |blocked: &Blocked| Waiting { digest: blocked.digest.clone(), word: blocked.word.into() };
        Record {
            serving: self.now.clone(),
            previous: self.before.clone(),
            blocked: self.blocked.as_ref().map(waiting),
            grants: self.mark.clone(),
        }
    }

    /// What is written down once its file is gone: it may come back.
    pub fn record_of_removed(&self) -> Record {
        Record { previous: self.now.clone().or_else(|| self.before.clone()), ..Record::default() }
    }

    pub fn standing(&self, id: &PluginId) -> Standing {
        let serving = self.plugin.as_ref().zip(self.now.as_ref()).map(|(plugin, version)| Serving {
            version: version.clone(),
            previous: self.before.as_ref().map(|before| before.digest.clone()),
            tools: tools(plugin),
            kept: self.kept,
        });
        let blocked = self.blocked.clone();
        Standing { id: id.to_string(), built_in: false, serving, blocked, stale_secrets: BTreeMap::new() }
    }
}

pub fn tools(plugin: &Plugin) -> Vec<String> {
    plugin.tools().iter().map(|tool| tool.name.to_string()).collect()
}

/// The audit rows for what is different now. `who`: the owners of the file (or, for a removal, of the directory) and of
/// `plugins.toml`.
pub fn rows(
    id: &PluginId,
    before: &Record,
    now: &Record,
    kind: Option<BlockedKind>,
    who: (Option<&Who>, Option<&Who>),
) -> Vec<(&'static str, Value)> {
    let (file, grants) = who;
    let digest = |version: &Option<Version>| version.as_ref().map(|version| version.digest.clone());
    let (old, new) = (digest(&before.serving), digest(&now.serving));
    let change = |digest: &Option<String>, who: Option<&Who>| json!({ "plugin_id": id, "digest": digest, "previous_digest": old, "who": who });
    let mut rows = vec![];
    match (&old, &new) {
        (None, Some(_)) => rows.push((LOADED, change(&new, file))),
        (Some(one), Some(two)) if one != two => rows.push((SWAPPED, change(&new, file))),
        (Some(_), None) => rows.push((REMOVED, change(&new, file))),
        _ => {}
    }
    if let (Some(waiting), Some(kind)) = (&now.blocked, kind)
        && before.blocked.as_ref() != Some(waiting)
    {
        let mut body = json!({ "plugin_id": id, "digest": waiting.digest, "serving_digest": new, "who": file });
        body["reason"] = waiting.word.as_str().into();
        rows.push((if kind == BlockedKind::Quarantined { QUARANTINED } else { REFUSED }, body));
    }
    if old.is_some() && new.is_some() && before.grants != now.grants {
        let mut body = json!({ "plugin_id": id, "digest": new, "who": grants });
        body["grants_sha256"] = now.grants.clone().into();
        body["previous_grants_sha256"] = before.grants.clone().into();
        rows.push((GRANTS_CHANGED, body));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn going_back_to_a_version_makes_the_one_that_was_left_the_version_before() {
        let mut held = Held::default();
        let digests = |held: &Held| {
            let digest = |version: &Option<Version>| version.as_ref().map(|v| v.digest.clone()).unwrap_or_default();
            (digest(&held.now), digest(&held.before))
        };
        for (next, expected) in [("a", ("a", "")), ("b", ("b", "a")), ("b", ("b", "a")), ("a", ("a", "b"))] {
            held.advance(next, None);
            assert_eq!(digests(&held), (expected.0.to_owned(), expected.1.to_owned()), "{next}");
        }
    }
}
