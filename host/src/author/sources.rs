//! A project's sources: have they changed? Content counts, so that a build which touches what it reads, or writes beside
//! it, does not start the next one.

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

use super::Project;

/// Directories that builds fill, beside the project's own output and everything that starts with a dot. Cases are no
/// source of the component.
const NOT_SOURCES: [&str; 7] = ["target", "node_modules", "__pycache__", "build", "dist", "venv", "cases"];
/// More files than this are no plugin's; the rest is not looked at.
const MOST_FILES: usize = 20_000;
/// Of larger files, length and time stand for the content.
const MOST_BYTES: u64 = 4 << 20;
/// Editors write, rename and touch; a save is over when nothing happened for so long.
const QUIET: Duration = Duration::from_millis(60);
/// File systems that tell nobody are looked at this often.
const LOOK: Duration = Duration::from_secs(1);

pub struct Sources {
    root: PathBuf,
    output: PathBuf,
    changed: Arc<Notify>,
    /// `None`: this machine does not tell of changes.
    watcher: Option<RecommendedWatcher>,
    watched: BTreeSet<PathBuf>,
}

/// Equal when every source is the same.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fingerprint([u8; 32]);

impl Sources {
    pub fn of(project: &Project) -> Sources {
        let output = project.output().parent().map(Path::to_owned).unwrap_or_default();
        Self::below(project.directory().to_owned(), output)
    }

    fn below(root: PathBuf, output: PathBuf) -> Sources {
        let changed = Arc::new(Notify::new());
        let tell = changed.clone();
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // What only read a file changed nothing.
            if !event.is_ok_and(|event| event.kind.is_access()) {
                tell.notify_one();
            }
        });
        Sources { root, output, changed, watcher: watcher.ok(), watched: BTreeSet::new() }
    }

    /// What the sources hold now. Directories that are new are watched from now on.
    pub fn fingerprint(&mut self) -> Fingerprint {
        let (mut files, mut directories) = (vec![], BTreeSet::new());
        self.list(&self.root, &mut files, &mut directories);
        if let Some(watcher) = &mut self.watcher {
            for new in directories.difference(&self.watched) {
                // Should it fail, the slow look remains.
                let _ = watcher.watch(new, RecursiveMode::NonRecursive);
            }
        }
        self.watched = directories;
        files.sort();
        let mut hash = Sha256::new();
        for file in files {
            hash.update(file.as_os_str().as_encoded_bytes());
            let Ok(about) = fs::metadata(&file) else { continue };
            hash.update(about.len().to_le_bytes());
            match about.len() > MOST_BYTES {
                true => hash.update(format!("{:?}", about.modified().ok())),
                false => hash.update(fs::read(&file).unwrap_or_default()),
            }
        }
        Fingerprint(hash.finalize().into())
    }

    /// Wait until they may have changed, and nothing changes any more.
    pub async fn wait(&self) {
        let told = tokio::time::timeout(LOOK, self.changed.notified()).await.is_ok();
        while told && tokio::time::timeout(QUIET, self.changed.notified()).await.is_ok() {}
    }

    fn list(&self, directory: &Path, files: &mut Vec<PathBuf>, directories: &mut BTreeSet<PathBuf>) {
        directories.insert(directory.to_owned());
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        for entry in entries {
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_string_lossy();
            if files.len() >= MOST_FILES || name.starts_with('.') {
                continue;
            }
            // A link is followed by builds; a link to a directory could lead anywhere, and in a circle.
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => {
                    if !NOT_SOURCES.contains(&name.as_ref()) && path != self.output {
                        self.list(&path, files, directories);
                    }
                }
                Ok(_) => files.push(path),
                Err(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_saved_source_counts_and_what_a_build_writes_does_not() {
        let home = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = home.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("src/lib.rs", "one");
        let mut sources = Sources::below(home.path().to_owned(), home.path().join("out"));
        let first = sources.fingerprint();
        for built in ["target/debug/x", "out/x.wasm", ".git/index", "node_modules/a/b.js", "cases/a.toml"] {
            write(built, "built");
        }
        write("src/lib.rs", "one");
        assert_eq!(sources.fingerprint(), first);
        write("src/lib.rs", "two");
        let second = sources.fingerprint();
        assert_ne!(second, first);
        write("src/deep/new.rs", "");
        assert_ne!(sources.fingerprint(), second);
    }

    #[tokio::test]
    async fn a_save_is_heard_of() {
        let home = tempfile::tempdir().unwrap();
        let mut sources = Sources::below(home.path().to_owned(), home.path().join("out"));
        sources.fingerprint();
        fs::write(home.path().join("tool.js"), "one").unwrap();
        tokio::time::timeout(Duration::from_secs(5), sources.wait()).await.unwrap();
    }
}
