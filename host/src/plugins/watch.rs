//! When to look: the kernel says that a directory entry changed (inotify), or a clock says that it is time.
//!
//! Entries are watched, not files: a rename over a file, an editor's new file and the switched link of a mounted
//! ConfigMap all change the entry that decides what a path means. Nothing is read here, and nothing decided.

use arc_swap::ArcSwap;
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::PluginSet;
use super::files::QUIET;
use crate::config::WatchArg;

/// A copy of many files is one change; one that never ends is looked at all the same.
const LONGEST_WAIT: Duration = Duration::from_millis(500);
/// Between two looks where nobody says that something changed.
const POLL: Duration = Duration::from_secs(1);
/// As the kernel counts them when it follows a path.
const MOST_LINKS: usize = 40;

/// The directory entries, by real path, that decide what there is to serve.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// Every entry of these matters.
    whole: BTreeSet<PathBuf>,
    entries: BTreeSet<PathBuf>,
}

impl Places {
    pub fn of<'a>(directory: Option<&Path>, files: impl Iterator<Item = &'a Path>) -> Places {
        let mut places = Places::default();
        if let Some(directory) = directory {
            // Its own entry, too: it may be a link, or be made anew.
            places.entries.extend(deciding(directory));
            places.whole.extend(fs::canonicalize(directory));
        }
        files.for_each(|file| places.entries.extend(deciding(file)));
        places
    }

    fn directories(&self) -> BTreeSet<&Path> {
        self.entries.iter().filter_map(|entry| entry.parent()).chain(self.whole.iter().map(PathBuf::as_path)).collect()
    }

    fn concern(&self, event: &Event) -> bool {
        use notify::event::{AccessKind, AccessMode};
        match event.kind {
            // Our own reading.
            EventKind::Access(kind) if kind != AccessKind::Close(AccessMode::Write) => return false,
            _ if event.need_rescan() || event.paths.is_empty() => return true,
            _ => {}
        }
        event.paths.iter().any(|path| {
            let inside = path.parent().is_some_and(|parent| self.whole.contains(parent));
            inside || self.entries.contains(path) || self.directories().contains(path.as_path())
        })
    }
}

/// Every entry on the way: each link, and where the last one leads. A path that ends nowhere has the entry that is missing.
fn deciding(path: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let Ok(path) = std::path::absolute(path) else { return found };
    let (mut real, mut links) = (PathBuf::from("/"), 0);
    let mut rest: VecDeque<OsString> = names(&path);
    while let Some(name) = rest.pop_front() {
        if name == ".." {
            real.pop();
            continue;
        }
        let entry = real.join(&name);
        match fs::read_link(&entry) {
            Ok(target) if links < MOST_LINKS => {
                links += 1;
                found.insert(entry);
                if target.is_absolute() {
                    real = PathBuf::from("/");
                }
                names(&target).into_iter().rev().for_each(|name| rest.push_front(name));
            }
            _ => {
                if rest.is_empty() {
                    found.insert(entry.clone());
                }
                real = entry;
            }
        }
    }
    found
}

fn names(path: &Path) -> VecDeque<OsString> {
    let name = |part: Component<'_>| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(name).collect()
}

/// Look whenever something changed, until `stop`.
pub async fn run(set: Arc<PluginSet>, how: WatchArg, stop: CancellationToken) {
    let mut eye = Eye::open(how);
    // What changed between the first look and now is seen by this one.
    let mut noticed = Instant::now();
    loop {
        let mut again = set.look(noticed).await;
        // What is watched now may have changed before it was.
        again |= eye.turn_to(set.places().await);
        tokio::select! {
            changed = eye.notice(again) => noticed = changed,
            () = stop.cancelled() => return,
        }
    }
}

struct Eye {
    /// `None`: the kernel does not tell.
    watcher: Option<RecommendedWatcher>,
    /// What is watched, with what it is: one of the same name that was made anew is another.
    watched: BTreeMap<PathBuf, (u64, u64)>,
    places: Arc<ArcSwap<Places>>,
    changed: Arc<Notify>,
    /// A clock as well: the kernel does not tell of everything.
    polls: bool,
}

impl Eye {
    fn open(how: WatchArg) -> Eye {
        let (places, changed) = (Arc::new(ArcSwap::<Places>::default()), Arc::new(Notify::new()));
        let (concerned, tell) = (places.clone(), changed.clone());
        let told = move |event: notify::Result<Event>| {
            if event.map_or(true, |event| concerned.load().concern(&event)) {
                tell.notify_one();
            }
        };
        let watcher = (how == WatchArg::Auto).then(|| notify::recommended_watcher(told));
        let watcher = watcher.and_then(|made| {
            made.inspect_err(
                |error| tracing::warn!(%error, "plugins are looked for every second: inotify cannot be had"),
            )
            .ok()
        });
        Eye { polls: watcher.is_none(), watcher, watched: BTreeMap::new(), places, changed }
    }

    /// True when something is watched that was not before.
    fn turn_to(&mut self, places: Places) -> bool {
        let wanted: BTreeMap<PathBuf, (u64, u64)> = places
            .directories()
            .into_iter()
            .filter_map(|directory| {
                let meta = fs::metadata(directory).ok()?;
                Some((directory.to_owned(), (meta.dev(), meta.ino())))
            })
            .collect();
        self.places.store(Arc::new(places));
        let Some(watcher) = &mut self.watcher else { return false };
        if wanted == self.watched {
            return false;
        }
        let stale = self.watched.iter().filter(|(path, what)| wanted.get(*path) != Some(*what));
        // One that is gone is not watched any more anyway.
        stale.for_each(|(path, _)| drop(watcher.unwatch(path)));
        let mut added = false;
        let mut failed = None;
        for (path, _) in wanted.iter().filter(|(path, what)| self.watched.get(*path) != Some(*what)) {
            match watcher.watch(path, RecursiveMode::NonRecursive) {
                Ok(()) => added = true,
                Err(error) => failed = Some(error),
            }
        }
        self.watched = wanted;
        if let Some(error) = failed
            && !std::mem::replace(&mut self.polls, true)
        {
            tracing::warn!(%error, "plugins are looked for every second as well: a directory cannot be watched");
        }
        added
    }

    /// When something was noticed, once it has been quiet for a moment.
    async fn notice(&mut self, again: bool) -> Instant {
        let asked = Instant::now();
        match (again, self.polls) {
            (true, _) => tokio::time::sleep(QUIET).await,
            (false, false) => self.changed.notified().await,
            (false, true) => {
                if tokio::time::timeout(POLL, self.changed.notified()).await.is_err() {
                    return asked;
                }
            }
        }
        let noticed = Instant::now();
        while noticed.elapsed() < LONGEST_WAIT && tokio::time::timeout(QUIET, self.changed.notified()).await.is_ok() {}
        noticed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn every_link_on_the_way_decides_what_a_path_means() {
        // given: a mounted ConfigMap
        let home = tempfile::tempdir().unwrap();
        let home = fs::canonicalize(home.path()).unwrap();
        fs::create_dir(home.join("..2026")).unwrap();
        fs::write(home.join("..2026/plugins.toml"), "").unwrap();
        symlink("..2026", home.join("..data")).unwrap();
        symlink("..data/plugins.toml", home.join("plugins.toml")).unwrap();
        // then
        let found = deciding(&home.join("plugins.toml"));
        let expected = ["plugins.toml", "..data", "..2026/plugins.toml"].map(|entry| home.join(entry));
        assert_eq!(found, expected.into());
        // and what is not there yet is waited for
        assert_eq!(deciding(&home.join("none.toml")), [home.join("none.toml")].into());
        // and a link to itself ends
        symlink("loop", home.join("loop")).unwrap();
        assert!(deciding(&home.join("loop/x")).contains(&home.join("loop")));
    }
}
