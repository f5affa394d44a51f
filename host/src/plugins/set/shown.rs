//! What others see of the set, without ever waiting for a look: standings, health, numbers.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::held;
use super::super::{BlockedKind, Serving, Standing, Version};
use super::{PluginSet, State};
use crate::model::PluginId;
use crate::runtime::{Plugin, Rejected};

/// What is shown to others, who never wait for a look.
#[derive(Default)]
pub(super) struct Shown {
    standings: Vec<Standing>,
    grants_fault: Option<String>,
    directory_fault: Option<String>,
}

impl PluginSet {
    pub fn standings(&self) -> Vec<Standing> {
        self.shown.load().standings.clone()
    }

    /// Why the grants in force are not those of the file.
    pub fn grants_fault(&self) -> Option<String> {
        self.shown.load().grants_fault.clone()
    }

    /// For whoever may know no more than that: `ok`, or `degraded` with a line for each plugin that waits.
    pub fn health(&self) -> String {
        let shown = self.shown.load();
        let mut lines: Vec<String> = vec![];
        for standing in &shown.standings {
            if let Some(blocked) = &standing.blocked {
                // A name that is no id is whatever somebody called a file.
                let id = PluginId::parse(&standing.id).map_or("(misnamed)".to_owned(), |id| id.to_string());
                lines.push(format!("plugin {id}: {} {}\n", blocked.kind.as_str(), blocked.word));
            }
            if !standing.stale_secrets.is_empty() {
                lines.push(format!("plugin {}: stale secret\n", standing.id));
            }
        }
        if shown.grants_fault.is_some() {
            lines.push("grants: refused invalid\n".into());
        }
        if shown.directory_fault.is_some() {
            lines.push("plugins directory: refused unreadable\n".into());
        }
        if lines.is_empty() { "ok\n".into() } else { format!("degraded\n{}", lines.concat()) }
    }

    pub(super) fn show(&self, state: &State) {
        let held = state.held.iter().map(|(id, held)| held.standing(id));
        let standings = self.built_in_standings.iter().cloned().chain(held).chain(state.misnamed.standings());
        let mut standings: Vec<Standing> = standings.collect();
        for stale in state.grants.stale_secrets() {
            let of = |standing: &&mut Standing| !standing.built_in && standing.id == stale.plugin;
            if let Some(standing) = standings.iter_mut().find(of) {
                standing.stale_secrets.insert(stale.upstream, stale.why);
            }
        }
        self.shown.store(Arc::new(Shown {
            standings,
            grants_fault: state.grants.fault().map(str::to_owned),
            directory_fault: state.fault.clone(),
        }));
    }
}

impl Shown {
    pub(super) fn count(&self) -> [(&'static str, u64); 3] {
        let blocked = |kind| move |s: &&Standing| s.blocked.as_ref().is_some_and(|blocked| blocked.kind == kind);
        let all = || self.standings.iter();
        [
            ("serving", all().filter(|standing| standing.serving.is_some()).count() as u64),
            ("refused", all().filter(blocked(BlockedKind::Refused)).count() as u64),
            ("quarantined", all().filter(blocked(BlockedKind::Quarantined)).count() as u64),
        ]
    }
}

pub(super) fn rejected_standing(rejected: Rejected) -> Standing {
    let id = rejected.plugin.to_string();
    let blocked = Some(rejected.into());
    Standing { id, built_in: true, serving: None, blocked, stale_secrets: BTreeMap::new() }
}

pub(super) fn built_in_standing(plugin: &Plugin) -> Standing {
    let version = Version { digest: plugin.digest().to_owned(), since: jiff::Timestamp::now().to_string(), who: None };
    let serving = Serving { version, previous: None, tools: held::tools(plugin), kept: false };
    let (id, serving) = (plugin.id().to_string(), Some(serving));
    Standing { id, built_in: true, serving, blocked: None, stale_secrets: BTreeMap::new() }
}
