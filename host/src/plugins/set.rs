//! The plugins that serve, and the one look at files and grants that brings them up to date.
//!
//! A look judges what is not as it was, one candidate after the other: one that fails holds up nobody, and what compiles
//! does so off the executor. Until it takes charge the set writes no history and no audit row: commands and task workers
//! see what the bridge serves. What a plugin says when it is first seen is kept by whoever sees it.

mod record;
mod shown;

use anyhow::Context;
use arc_swap::ArcSwap;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::admission::{Candidate, Desk};
use super::files::{self, Found};
use super::grants::GrantsFile;
use super::held::{self, Held, News};
use super::history::History;
use super::misnamed::Misnamed;
use super::{Approvals, Blocked, Request, Standing, signatures, watch};
use crate::broker::{AuditLog, Catalog, Checked, Lists};
use crate::config::{Grants, Settings, WatchArg};
use crate::model::PluginId;
use crate::runtime::{Plugin, Rejected, Runtime};
use crate::telemetry::Metrics;
use shown::{Shown, built_in_standing, rejected_standing};

/// What the set is made of.
pub struct SetParts {
    pub runtime: Runtime,
    pub catalog: Arc<Catalog>,
    pub metrics: Arc<Metrics>,
    /// Loaded under grants of their own.
    pub built_in: Vec<Result<Arc<Plugin>, Rejected>>,
}

/// What whoever serves with these plugins writes and tells.
pub struct Charge {
    pub audit: AuditLog,
    /// Told after every look that changed what is listed: how it was, and how it is.
    pub lists_changed: Told,
}

type Told = Box<dyn Fn(&Lists, &Lists) + Send + Sync>;

pub struct PluginSet {
    runtime: Runtime,
    catalog: Arc<Catalog>,
    metrics: Arc<Metrics>,
    built_in: Vec<Arc<Plugin>>,
    built_in_standings: Vec<Standing>,
    watch: WatchArg,
    state: Mutex<State>,
    shown: Arc<ArcSwap<Shown>>,
}

struct State {
    directory: Option<PathBuf>,
    history: Option<History>,
    grants: GrantsFile,
    approvals: Approvals,
    held: BTreeMap<PluginId, Held>,
    misnamed: Misnamed,
    /// Why the directory cannot be read now.
    fault: Option<String>,
    charge: Option<Charge>,
}

enum Judged {
    AsBefore,
    /// Its file is still being written.
    Unfinished,
    Changed,
}

impl PluginSet {
    /// Everything that is present serves when this returns, or its standing says why not.
    pub async fn open(parts: SetParts, settings: &Settings) -> anyhow::Result<Arc<PluginSet>> {
        let SetParts { runtime, catalog, metrics, built_in } = parts;
        let args = &settings.args;
        let required = args.plugins_file.is_some();
        let grants = GrantsFile::open(args.grants_file(), required, settings.plugins.clone(), args.secrets_at_start())?;
        let (mut plugins, mut standings) = (vec![], vec![]);
        for loaded in built_in {
            match loaded {
                Ok(plugin) => plugins.push(plugin),
                Err(rejected) => standings.push(rejected_standing(rejected)),
            }
        }
        standings.extend(catalog.replace(plugins.clone()).into_iter().map(rejected_standing));
        plugins.retain(|plugin| standings.iter().all(|standing| standing.id != plugin.id().as_str()));
        for standing in &standings {
            let blocked = standing.blocked.as_ref().expect("it was rejected");
            held::log_blocked(&standing.id, blocked);
            metrics.plugin_rejected(blocked.word);
        }
        for plugin in &plugins {
            metrics.plugin_loaded(plugin.id().as_str());
            standings.push(built_in_standing(plugin));
        }
        let directory = args.plugins.clone();
        if let Some(directory) = &directory {
            files::scan(directory).with_context(|| format!("--plugins: {} cannot be read", directory.display()))?;
        }
        let set = Arc::new(PluginSet {
            runtime,
            catalog,
            built_in: plugins,
            built_in_standings: standings,
            watch: args.plugins_watch,
            state: Mutex::new(State {
                history: directory.as_deref().map(|directory| History::of(&settings.state_dir, directory)),
                directory,
                grants,
                approvals: Approvals::open(&settings.state_dir.join("plugins")),
                held: BTreeMap::new(),
                misnamed: Misnamed::default(),
                fault: None,
                charge: None,
            }),
            shown: Arc::default(),
            metrics,
        });
        set.announce_tools();
        let shown = set.shown.clone();
        set.metrics.watch_plugins(move || shown.load().count());
        set.look(Instant::now()).await;
        Ok(set)
    }

    /// From now on changes are written down, and looked for as the settings say. False: nothing will change.
    pub async fn take_charge(self: &Arc<Self>, charge: Charge, stop: CancellationToken) -> bool {
        let mut state = self.state.lock().await;
        state.charge = Some(charge);
        if let Err(error) = state.approvals.serve() {
            tracing::error!(%error, file = %state.approvals.path().display(), "what was approved cannot be kept");
        }
        let Some(directory) = state.directory.clone() else { return false };
        let ids: Vec<PluginId> = state.held.keys().cloned().collect();
        for id in ids {
            self.write_down(&mut state, &id).await;
        }
        // What was removed while nobody served.
        let known = state.history.as_ref().map(|history| (history.known(), history));
        let records = known.iter().flat_map(|(ids, history)| ids.iter().map(|id| (id.clone(), history.record(id))));
        let gone: Vec<_> = records.filter(|(id, _)| !state.held.contains_key(id)).collect();
        for (id, record) in gone {
            self.write_down_removal(&mut state, &id, Held::remembering(record), &directory).await;
        }
        self.write_down_misnamed(&mut state).await;
        drop(state);
        if self.watch == WatchArg::Off {
            return false;
        }
        tokio::spawn(watch::run(self.clone(), self.watch, stop));
        true
    }

    /// Every directory entry that decides what there is to serve.
    pub(super) async fn places(&self) -> watch::Places {
        let state = self.state.lock().await;
        let wasm = state.held.values().map(|held| held.path.as_path());
        let approved = state.approvals.path();
        let secrets = state.grants.secret_files();
        let files = state.grants.path().into_iter().chain([approved.as_path()]).chain(wasm);
        let files = files.chain(secrets.iter().map(PathBuf::as_path));
        watch::Places::of(state.directory.as_deref(), files)
    }

    /// Bring everything up to date. `noticed`: when something was said to have changed. True: something is still being
    /// written, look again soon.
    pub(super) async fn look(&self, noticed: Instant) -> bool {
        let mut state = self.state.lock().await;
        let before = self.catalog.lists();
        let secrets_unfinished = self.read_secrets(&mut state);
        self.read_grants(&mut state);
        let unfinished = self.look_at_files(&mut state, noticed).await || secrets_unfinished;
        self.show(&state);
        if let Some(charge) = &state.charge {
            (charge.lists_changed)(&before, &self.catalog.lists());
        }
        unfinished
    }

    /// True: one is still being written.
    fn read_secrets(&self, state: &mut State) -> bool {
        let looked = state.grants.read_secrets_again();
        for place in looked.changed {
            tracing::info!("the secret in {place} is another one now; requests from now on have it");
            self.metrics.secret_reloaded("changed");
        }
        for (place, why) in looked.lost {
            tracing::error!("the secret in {place} stays as it was: {why}");
            self.metrics.secret_reloaded("unreadable");
        }
        for place in looked.found {
            tracing::info!("the secret in {place} can be read again, and is as it was");
        }
        looked.unfinished
    }

    fn read_grants(&self, state: &mut State) {
        match state.grants.read_again() {
            None => {}
            Some(Ok(())) => {
                tracing::info!("plugins.toml was read again");
                self.metrics.grants_reloaded("ok");
            }
            Some(Err(why)) => {
                tracing::error!("the grants stay as they were: {why}");
                self.metrics.grants_reloaded("invalid");
            }
        }
    }

    async fn look_at_files(&self, state: &mut State, noticed: Instant) -> bool {
        let Some(directory) = state.directory.clone() else { return false };
        let found = match blocking({
            let directory = directory.clone();
            move || files::scan(&directory)
        })
        .await
        {
            Ok(found) => found,
            Err(why) => {
                // Not the same as an empty one: a file system may be away for a moment.
                if state.fault.replace(why.to_string()).is_none() {
                    tracing::error!(%why, "the plugins directory cannot be read; what served goes on");
                }
                return false;
            }
        };
        state.fault = None;
        self.name_misnamed(state, &found);
        self.write_down_misnamed(state).await;
        let present: BTreeSet<&PluginId> = found.iter().filter_map(|file| file.id.as_ref().ok()).collect();
        let gone: Vec<PluginId> = state.held.keys().filter(|id| !present.contains(id)).cloned().collect();
        let mut freed = !gone.is_empty();
        for id in &gone {
            self.remove(state, id, &directory).await;
        }
        // Those that have served before come first: a newcomer takes nobody's name, also not at a start.
        let mut files: Vec<(&PluginId, &Path)> =
            found.iter().filter_map(|file| Some((file.id.as_ref().ok()?, file.path.as_path()))).collect();
        let served = |id: &PluginId| match state.held.get(id) {
            Some(held) => held.now.is_some(),
            None => state.history.as_ref().and_then(|h| h.record(id)).is_some_and(|record| record.serving.is_some()),
        };
        files.sort_by_key(|(id, _)| (!served(id), (*id).clone()));
        let mut unfinished = false;
        loop {
            let mut changed = false;
            for (id, path) in &files {
                match self.judge(state, id, path, noticed, freed).await {
                    Judged::AsBefore => {}
                    Judged::Unfinished => unfinished = true,
                    Judged::Changed => changed = true,
                }
            }
            // A change may have freed a name that another one waits for.
            if !changed {
                return unfinished;
            }
            freed = true;
        }
    }

    async fn judge(&self, state: &mut State, id: &PluginId, path: &Path, noticed: Instant, freed: bool) -> Judged {
        let grants = state.grants.of(id.as_str());
        let remembered = || Held::remembering(state.history.as_ref().and_then(|history| history.record(id)));
        let mut held = state.held.remove(id).unwrap_or_else(remembered);
        let before = held.now.as_ref().map(|now| now.digest.clone());
        let judged = self.judge_held(state, id, path, &mut held, grants, freed).await;
        let news = std::mem::take(&mut held.news);
        let (outcome, checked) = match judged {
            None => (Judged::AsBefore, None),
            Some(Err(Unfinished)) => (Judged::Unfinished, None),
            Some(Ok(checked)) => (Judged::Changed, checked),
        };
        held.mark = state.grants.mark(id.as_str());
        let newer = checked.as_ref().is_some_and(|checked| before.as_deref() != Some(checked.plugin().digest()));
        state.held.insert(id.clone(), held);
        if matches!(outcome, Judged::Changed) {
            self.serve(state, checked.as_ref());
            self.show(state);
            // What the log says has happened, has happened.
            news.into_iter().for_each(|news| news.log(id));
            if newer && state.charge.is_some() {
                self.metrics.plugin_swapped(before.is_some(), noticed.elapsed());
            }
            self.write_down(state, id).await;
        }
        outcome
    }

    /// `None`: nothing about it has changed. Else what is to be put into the catalogue, if anything is.
    async fn judge_held(
        &self,
        state: &State,
        id: &PluginId,
        path: &Path,
        held: &mut Held,
        grants: Grants,
        freed: bool,
    ) -> Option<Result<Option<Checked>, Unfinished>> {
        let policy = state.grants.policy();
        let regranted = held.grants.as_ref() != Some(&grants) || held.policy.as_ref() != Some(policy);
        // What would lift the block that it is under. What serves is left alone: its next version's signature may come first.
        let signature = files::stamp(&signatures::signature_path(path)).ok();
        let approvals = files::stamp(&state.approvals.path()).ok();
        let lifted = held.blocked.as_ref().is_some_and(|blocked| match blocked.word {
            "name_taken" => freed,
            "changed" | "asks_more" => held.approvals != approvals,
            word => signatures::WORDS.contains(&word) && held.signature != signature,
        });
        let again = regranted || lifted;
        held.path = path.to_owned();
        let stamp = files::stamp(path).ok();
        if stamp.is_some() && stamp == held.stamp && !again {
            return None;
        }
        if state.charge.is_some() && stamp != held.stamp && stamp.as_ref().is_some_and(files::Stamp::is_fresh) {
            return Some(Err(Unfinished));
        }
        let read = blocking({
            let path = path.to_owned();
            move || files::read(&path)
        })
        .await;
        held.stamp = stamp.filter(|stamp| !stamp.is_blurred());
        held.grants = Some(grants.clone());
        held.policy = Some(policy.clone());
        (held.signature, held.approvals) = (signature, approvals);
        let judged = match read {
            // Removed since it was found: the next look, which that calls for, sees it.
            Err(_) if std::fs::symlink_metadata(path).is_err() => return None,
            Err(blocked) if held.blocked.as_ref() == Some(&blocked) && !again => return None,
            Err(blocked) => {
                held.seen = None;
                held.who = files::owner(path);
                Err(blocked)
            }
            Ok(bytes) => {
                held.who = Some(bytes.who.clone());
                let seen = held.seen.replace(bytes.digest.clone());
                let serves = held.plugin.as_ref().is_some_and(|plugin| plugin.digest() == bytes.digest);
                if seen.as_ref() == Some(&bytes.digest) && !again {
                    return None;
                }
                if serves && !regranted {
                    // The file is again what serves.
                    (held.blocked, held.kept) = (None, false);
                    return Some(Ok(None));
                }
                let (wasm, digest, who) = (bytes.wasm, bytes.digest, Some(bytes.who));
                let (path, signed) = (path.to_owned(), path.to_owned());
                let candidate = Candidate { id: id.clone(), path, wasm, digest, signed, who, kept: false };
                self.admit(state, &candidate, &grants).await.map(|checked| (checked, candidate))
            }
        };
        match judged {
            Ok((checked, candidate)) => {
                held.blocked = None;
                self.take(held, &checked, candidate);
                Some(Ok(Some(checked)))
            }
            Err(blocked) => {
                let new = self.say(held, &blocked);
                held.blocked = Some(blocked);
                // What serves goes on, but never with more than is granted now.
                let serves = held.plugin.is_some();
                if serves && !regranted {
                    return new.then_some(Ok(None));
                }
                let kept = self.fall_back(state, id, held, &grants).await;
                (new || serves || kept.is_some()).then_some(Ok(kept))
            }
        }
    }

    /// The last good version, from the bridge's own copy and under today's grants; else none.
    async fn fall_back(&self, state: &State, id: &PluginId, held: &mut Held, grants: &Grants) -> Option<Checked> {
        held.plugin = None;
        let digest = held.now.as_ref().map(|now| now.digest.clone()).filter(|now| held.seen.as_ref() != Some(now))?;
        let history = state.history.as_ref()?;
        let (wasm, signed) = (history.component(id, &digest)?, history.path_of(id, &digest));
        let who = held.now.as_ref().and_then(|now| now.who.clone());
        let candidate = Candidate { id: id.clone(), path: held.path.clone(), wasm, digest, signed, who, kept: true };
        let mut grants = grants.clone();
        // The pin names a version that waits for its operator's yes; until then it keeps nobody else out.
        let waits = held.blocked.as_ref().is_some_and(|blocked| blocked.word == "asks_more");
        if waits && held.seen.as_deref().is_some_and(|seen| grants.pins(seen) == Some(true)) {
            grants.digest = None;
        }
        match self.admit(state, &candidate, &grants).await {
            Ok(checked) => {
                self.take(held, &checked, candidate);
                Some(checked)
            }
            Err(blocked) => {
                let reason = format!("the version that served last may not serve either: {}", blocked.reason);
                held.news.push(News::Blocked(Blocked { reason, ..blocked }));
                None
            }
        }
    }

    async fn admit(&self, state: &State, candidate: &Candidate, grants: &Grants) -> Result<Checked, Blocked> {
        if self.built_in_standings.iter().any(|standing| standing.id == candidate.id.as_str()) {
            let reason = format!("{} is a built-in plugin's name: rename the file", candidate.id);
            return Err(Blocked { digest: Some(candidate.digest.clone()), ..Blocked::refused("bad_name", reason) });
        }
        let (policy, approvals) = (state.grants.policy(), &state.approvals);
        Desk { runtime: &self.runtime, catalog: &self.catalog, grants, policy, approvals }.admit(candidate).await
    }

    fn take(&self, held: &mut Held, checked: &Checked, candidate: Candidate) {
        let digest = &candidate.digest[..12];
        held.news.push(match (&held.plugin, candidate.kept) {
            (_, true) => News::Odd(format!("the version that served last, {digest}, goes on serving")),
            (Some(old), false) if old.digest() == candidate.digest => {
                News::Good(format!("{digest} serves under its new grants"))
            }
            (Some(old), false) => News::Good(format!("{digest} serves in place of {}", old.version())),
            (None, false) => News::Good(format!("{digest} serves")),
        });
        // It never served: whoever let it in may not know what it would like.
        if held.now.is_none()
            && let Ok(Some(asks)) = Request::read(&candidate.wasm)
        {
            let lacks = asks.beyond(&Request::of(checked.plugin().grants()));
            if !lacks.is_empty() {
                held.news.push(News::Odd(format!("it asks for what is not granted: {}", lacks.summary())));
            }
        }
        self.metrics.plugin_loaded(candidate.id.as_str());
        held.advance(&candidate.digest, candidate.who);
        held.plugin = Some(checked.plugin().clone());
        held.kept = candidate.kept;
    }

    /// False: it was said before.
    fn say(&self, held: &mut Held, blocked: &Blocked) -> bool {
        if held.blocked.as_ref() == Some(blocked) {
            return false;
        }
        held.news.push(News::Blocked(blocked.clone()));
        self.metrics.plugin_rejected(blocked.word);
        true
    }

    async fn remove(&self, state: &mut State, id: &PluginId, directory: &Path) {
        let held = state.held.remove(id).expect("it was held");
        self.serve(state, None);
        self.show(state);
        tracing::info!("plugin {id}: its file is gone, so it serves no more");
        self.write_down_removal(state, id, held, directory).await;
    }

    /// Put what is held into the catalogue, in a fixed order.
    fn serve(&self, state: &State, checked: Option<&Checked>) {
        let held = state.held.values().filter_map(|held| held.plugin.clone());
        let plugins: Vec<Arc<Plugin>> = self.built_in.iter().cloned().chain(held).collect();
        let rejected = match checked {
            Some(checked) => self.catalog.replace_with(plugins, checked),
            None => self.catalog.replace(plugins),
        };
        debug_assert!(rejected.is_empty(), "what is held was checked: {rejected:?}");
        self.announce_tools();
    }

    fn announce_tools(&self) {
        let entries = self.catalog.all();
        self.metrics.know_tools(entries.iter().map(|e| (e.tool.name.as_str(), e.plugin.id().as_str())));
    }

    fn name_misnamed(&self, state: &mut State, found: &[Found]) {
        for (name, blocked) in state.misnamed.see(found) {
            held::log_blocked(&name, &blocked);
            self.metrics.plugin_rejected(blocked.word);
        }
    }
}

/// A file that is still being written.
struct Unfinished;

/// File systems may take their time.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.expect("reading a file does not panic")
}
