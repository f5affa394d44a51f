//! The catalogue kept in memory and re-read when its files change.
//!
//! Watching would cost a descriptor for each of hundreds of folders and still miss network file systems. Instead an
//! access that comes two seconds or more after the last look compares the files' names, sizes and times (about a
//! millisecond for a full checkout); all other accesses cost one atomic load.

use arc_swap::ArcSwapOption;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

use super::catalogue::{Catalogue, Problem};
use super::tree::Tree;

/// How old an answer may be when its files have changed since.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

pub struct CatalogueCache {
    tree: Tree,
    look_again: Duration,
    current: ArcSwapOption<Reading>,
    /// Held by whoever reads; the others answer from what is there.
    reader: Mutex<()>,
}

/// One reading of the tree.
#[derive(Debug)]
pub struct Reading {
    pub catalogue: Catalogue,
    pub problems: Vec<Problem>,
    fingerprint: u64,
    looked: std::sync::Mutex<Instant>,
}

impl CatalogueCache {
    pub fn new(tree: Tree) -> Self {
        CatalogueCache { tree, look_again: LOOK_AGAIN, current: ArcSwapOption::empty(), reader: Mutex::new(()) }
    }

    /// The catalogue, at most two seconds behind its files. Waits for the disk only the first time and after a change.
    pub async fn get(&self) -> Arc<Reading> {
        if let Some(reading) = self.current.load_full()
            && reading.looked.lock().expect("no holder panics").elapsed() < self.look_again
        {
            return reading;
        }
        let _reader = match (self.reader.try_lock(), self.current.load_full()) {
            (Ok(guard), _) => guard,
            // Somebody is looking already; what is here is good enough.
            (Err(_), Some(reading)) => return reading,
            (Err(_), None) => {
                let guard = self.reader.lock().await;
                if let Some(reading) = self.current.load_full() {
                    return reading;
                }
                guard
            }
        };
        let tree = self.tree.clone();
        let before = self.current.load_full();
        let reading = tokio::task::spawn_blocking(move || look(&tree, before)).await.expect("reading does not panic");
        self.current.store(Some(Arc::clone(&reading)));
        reading
    }
}

fn look(tree: &Tree, before: Option<Arc<Reading>>) -> Arc<Reading> {
    let fingerprint = match tree {
        Tree::Disk(root) => fingerprint(root),
        Tree::Starter => 0,
    };
    if let Some(before) = &before
        && before.fingerprint == fingerprint
    {
        *before.looked.lock().expect("no holder panics") = Instant::now();
        return Arc::clone(before);
    }
    let (catalogue, problems) = Catalogue::load(tree);
    for problem in &problems {
        tracing::warn!(path = %problem.path.display(), "catalogue: {}", problem.what);
    }
    // A checkout that is being replaced is empty for a moment; the last good reading serves until it is whole.
    if let Some(before) = before
        && catalogue.workflows().next().is_none()
        && before.catalogue.workflows().next().is_some()
    {
        tracing::warn!("the catalogue has become empty; the last one stays in use");
        *before.looked.lock().expect("no holder panics") = Instant::now();
        return before;
    }
    Arc::new(Reading { catalogue, problems, fingerprint, looked: std::sync::Mutex::new(Instant::now()) })
}

/// Names, sizes and times of everything that [`Catalogue::load`] would read.
fn fingerprint(root: &Path) -> u64 {
    let mut hash = DefaultHasher::new();
    for module in ["modules/cuo", "modules/skill"] {
        for folder in sorted(&root.join(module)) {
            for name in ["README.md", "SKILL.md"] {
                stamp(&folder.join(name), &mut hash);
            }
            for file in sorted(&folder.join("workflows")) {
                stamp(&file, &mut hash);
            }
        }
    }
    hash.finish()
}

fn sorted(dir: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(dir).into_iter().flatten().flatten().map(|e| e.path()).collect();
    paths.sort();
    paths
}

fn stamp(path: &Path, hash: &mut DefaultHasher) {
    if let Ok(meta) = fs::metadata(path) {
        path.hash(hash);
        meta.len().hash(hash);
        meta.modified().ok().hash(hash);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstreams::cuo::sample;

    #[tokio::test]
    async fn an_edited_file_is_seen_and_an_unchanged_tree_is_not_read_again() {
        // given
        let tree = sample::tree();
        let cache =
            CatalogueCache { look_again: Duration::ZERO, ..CatalogueCache::new(Tree::Disk(tree.path().to_owned())) };
        let first = cache.get().await;
        assert!(Arc::ptr_eq(&first, &cache.get().await));
        // when
        sample::write(
            tree.path(),
            "modules/skill/new-author/SKILL.md",
            "---\nname: new-author\ndescription: New.\n---\n",
        );
        // then
        let second = cache.get().await;
        assert!(second.catalogue.skills.contains_key("new-author"));
        assert!(!first.catalogue.skills.contains_key("new-author"));
    }

    #[tokio::test]
    async fn within_two_seconds_the_disk_is_left_alone() {
        let tree = sample::tree();
        let cache = CatalogueCache::new(Tree::Disk(tree.path().to_owned()));
        let first = cache.get().await;
        fs::remove_dir_all(tree.path().join("modules/skill")).unwrap();
        assert!(Arc::ptr_eq(&first, &cache.get().await));
    }

    #[tokio::test]
    async fn a_tree_that_vanishes_for_a_moment_does_not_empty_the_catalogue() {
        let tree = sample::tree();
        let cache =
            CatalogueCache { look_again: Duration::ZERO, ..CatalogueCache::new(Tree::Disk(tree.path().to_owned())) };
        cache.get().await;
        fs::rename(tree.path().join("modules"), tree.path().join("away")).unwrap();
        assert!(cache.get().await.catalogue.workflows().next().is_some());
    }
}
