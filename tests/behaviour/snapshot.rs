//! What others read is kept beside the tests; a change shows in a review. `UPDATE_SNAPSHOTS=1` writes it anew.

use serde_json::Value;
use std::fs;
use std::path::Path;

#[track_caller]
pub fn check(name: &Path, value: &Value) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("snapshots").join(name);
    let now = format!("{value:#}\n");
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        return fs::write(&path, now).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    if kept == now {
        return;
    }
    let (kept, now): (Vec<_>, Vec<_>) = (kept.lines().collect(), now.lines().collect());
    let at = kept.iter().zip(&now).position(|(a, b)| a != b).unwrap_or(kept.len().min(now.len()));
    let around = at.saturating_sub(3)..at + 3;
    panic!(
        "{} is not what is sent any more, from line {}.\nkept: {:#?}\nnow: {:#?}\nIf that is meant, run the test with UPDATE_SNAPSHOTS=1.",
        path.display(),
        at + 1,
        kept.get(around.start..around.end.min(kept.len())),
        now.get(around.start..around.end.min(now.len())),
    );
}
