//! Files of the plugins directory whose names are no plugin's: seen once, said once, written down once, however many they
//! are and however often somebody looks.

use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::files::{self, Found};
use super::held::REFUSED;
use super::{Blocked, Standing};

/// Rows for files that came at once. The rest of them share one.
const MOST_ROWS: usize = 100;

/// By their names, spelled so that they cannot pass for lines of ours.
#[derive(Default)]
pub struct Misnamed {
    files: BTreeMap<String, File>,
    /// The names that were written down last. `None`: not since this process serves.
    written: Option<BTreeSet<String>>,
}

struct File {
    path: PathBuf,
    shown: String,
    blocked: Blocked,
}

impl Misnamed {
    /// There are these now. Out come the new ones, for the log.
    pub fn see(&mut self, found: &[Found]) -> Vec<(String, Blocked)> {
        let file = |found: &Found| {
            let blocked = found.id.clone().err()?;
            let name = found.path.file_name().unwrap_or_default().to_string_lossy();
            let name = name.chars().flat_map(char::escape_debug).collect();
            Some((name, File { path: found.path.clone(), shown: found.shown(), blocked }))
        };
        let now: BTreeMap<String, File> = found.iter().filter_map(file).collect();
        let is_new =
            |(name, file): &(&String, &File)| self.files.get(*name).is_none_or(|before| before.blocked != file.blocked);
        let new = now.iter().filter(is_new).map(|(_, file)| (file.shown.clone(), file.blocked.clone())).collect();
        self.files = now;
        new
    }

    pub fn standings(&self) -> impl Iterator<Item = Standing> + '_ {
        self.files.values().map(|file| Standing {
            id: file.shown.clone(),
            built_in: false,
            serving: None,
            blocked: Some(file.blocked.clone()),
            stale_secrets: BTreeMap::new(),
        })
    }

    /// The names to be written down, when they are others than were written down last.
    pub fn take_unwritten(&mut self) -> Option<BTreeSet<String>> {
        let names: BTreeSet<String> = self.files.keys().cloned().collect();
        if self.written.as_ref() == Some(&names) {
            return None;
        }
        self.written = Some(names.clone());
        Some(names)
    }

    /// The audit rows for those of `names` that nobody has written down before.
    pub fn rows(&self, names: &[String]) -> Vec<(&'static str, Value)> {
        let row = |name: &String| {
            let file = self.files.get(name)?;
            let (who, word) = (files::owner(&file.path), file.blocked.word);
            Some((
                REFUSED,
                json!({ "plugin_id": null, "file": name, "digest": null, "serving_digest": null, "reason": word, "who": who }),
            ))
        };
        let mut rows: Vec<_> = names.iter().take(MOST_ROWS).filter_map(row).collect();
        if let Some(more) = names.len().checked_sub(MOST_ROWS).filter(|more| *more > 0) {
            let body = json!({ "plugin_id": null, "file": null, "more_files": more, "digest": null, "serving_digest": null, "reason": "bad_name", "who": null });
            rows.push((REFUSED, body));
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::time::{Duration, Instant};

    fn found(directory: &Path) -> Vec<Found> {
        files::scan(directory).unwrap()
    }

    #[test]
    fn each_is_new_once_and_to_be_written_once() {
        // given
        let directory = tempfile::tempdir().unwrap();
        for name in ["a-b.wasm", "a_b.wasm", "Big Name.wasm"] {
            std::fs::write(directory.path().join(name), b"").unwrap();
        }
        let mut misnamed = Misnamed::default();
        // when
        let new = misnamed.see(&found(directory.path()));
        let names: Vec<String> = misnamed.take_unwritten().unwrap().into_iter().collect();
        // then
        assert_eq!((new.len(), names.as_slice()), (2, &["Big Name.wasm".to_owned(), "a_b.wasm".to_owned()][..]));
        let rows = misnamed.rows(&names);
        assert_eq!((rows[1].1["file"].as_str(), rows[1].1["reason"].as_str()), (Some("a_b.wasm"), Some("bad_name")));
        assert!(rows[1].1["who"]["uid"].is_number());
        assert!(misnamed.see(&found(directory.path())).is_empty() && misnamed.take_unwritten().is_none());
        // and one that is gone and comes back is new again
        std::fs::remove_file(directory.path().join("a-b.wasm")).unwrap();
        assert!(misnamed.see(&found(directory.path())).is_empty());
        assert_eq!(misnamed.take_unwritten().unwrap().len(), 1);
    }

    #[test]
    fn ten_thousand_are_compared_in_no_time_and_leave_a_hundred_rows() {
        // given
        let directory = tempfile::tempdir().unwrap();
        for n in 0..5_000 {
            std::fs::write(directory.path().join(format!("B {n}.wasm")), b"").unwrap();
            std::fs::write(directory.path().join(format!("b-{n}.wasm")), b"").unwrap();
        }
        let found = found(directory.path());
        let mut misnamed = Misnamed::default();
        // when
        let began = Instant::now();
        files::scan(directory.path()).unwrap();
        misnamed.see(&found);
        misnamed.see(&found);
        // then: by far less than the twelve million comparisons of each with each
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
        let names: Vec<String> = misnamed.take_unwritten().unwrap().into_iter().collect();
        let rows = misnamed.rows(&names);
        assert_eq!((rows.len(), &rows[MOST_ROWS].1["more_files"]), (MOST_ROWS + 1, &json!(4_900)));
    }
}
