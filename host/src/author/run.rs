//! Runs cases against a plugin on its [`Stage`], one after the other, and says of each how it went and what it used.

use serde::Serialize;
use serde_json::Value;
use std::path::{Path, PathBuf};

use super::case::Case;
use super::judge;
use super::script::Script;
use super::stage::{Play, Played, Stage};
use super::stand_in::StandIn;
use crate::broker::Spent;

/// How one case went.
#[derive(Debug)]
pub struct Verdict {
    pub name: String,
    pub tool: String,
    pub file: PathBuf,
    /// Empty: it is as expected.
    pub differences: Vec<String>,
    /// What the guest used; `None` when it did not run, which may be as expected.
    pub spent: Option<Spent>,
    pub snapshot: Option<Snapshot>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Snapshot {
    Same,
    /// By `--update`: there was none, or another.
    Written,
}

impl Verdict {
    pub fn passed(&self) -> bool {
        self.differences.is_empty()
    }
}

/// `snapshots`: the directory of `NAME.json`. `update`: write what differs there, instead of failing.
pub async fn run(stage: &mut Stage, case: &Case, snapshots: &Path, update: bool) -> Verdict {
    let mut verdict = Verdict {
        name: case.name.clone(),
        tool: case.tool.clone(),
        file: case.file.clone(),
        differences: vec![],
        spent: None,
        snapshot: None,
    };
    let script = match Script::of(&case.upstream, &stage.plugin().grants().upstreams) {
        Ok(script) => script,
        Err(why) => {
            verdict.differences.push(why);
            return verdict;
        }
    };
    let play = Play {
        tool: case.tool.clone(),
        arguments: case.arguments.clone(),
        confirm: case.confirm,
        scopes: case.scopes.clone(),
        script,
        client: StandIn::of(&case.answer),
    };
    let played = stage.play(play).await;
    verdict.spent = played.spent;
    let kept = match case.expect.snapshot {
        true => snapshot(case, &played, snapshots, update, &mut verdict),
        false => None,
    };
    verdict.differences.extend(judge::differences(&case.expect, &case.limits, &played, kept.as_ref()));
    verdict
}

/// What to compare with; `None` when there is nothing to compare with, which was said then.
fn snapshot(case: &Case, played: &Played, snapshots: &Path, update: bool, verdict: &mut Verdict) -> Option<Value> {
    let path = snapshots.join(format!("{}.json", case.name));
    let kept = std::fs::read_to_string(&path).ok();
    let known = kept.as_ref().and_then(|text| serde_json::from_str::<Value>(text).ok());
    let found = judge::snapshot(played);
    if known.as_ref().is_some_and(|known| judge::same(known, &found)) {
        verdict.snapshot = Some(Snapshot::Same);
        return known;
    }
    if update {
        let text = format!("{}\n", serde_json::to_string_pretty(&found).expect("a value is JSON"));
        match std::fs::create_dir_all(snapshots).and_then(|()| std::fs::write(&path, text)) {
            Ok(()) => verdict.snapshot = Some(Snapshot::Written),
            Err(why) => verdict.differences.push(format!("{} cannot be written: {why}", path.display())),
        }
        return None;
    }
    if known.is_none() {
        let what = if kept.is_some() { "is not JSON" } else { "is not there yet" };
        verdict.differences.push(format!("its snapshot {} {what}; run with --update", path.display()));
    }
    known
}
