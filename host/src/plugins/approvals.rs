//! What plugins' tools said, and what they asked for, when an operator agreed to them: kept at the first use, compared with
//! every later version.
//!
//! Serving agrees, and an operator's command does; loading a plugin to look at it or to try it does not.
//!
//! One file, `approved.json`, in a directory of the state directory. Writers lock it and replace it whole; readers need
//! no lock. A file that cannot be read approves nothing: what was agreed to is not known, so nothing new is trusted.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::lock::{Lock, replace};
use super::surface::{Surface, shortened};
use super::{Blocked, Request};
use crate::config::{Approval, Grants, Policy};
use crate::model::{PluginId, Tool};

const FILE: &str = "approved.json";

/// The approvals of one state directory.
pub struct Approvals {
    directory: PathBuf,
    /// What was agreed to by being served, until somebody serves it in earnest. `None`: that is so.
    pending: Mutex<Option<Vec<Agreement>>>,
}

type Agreement = Box<dyn FnOnce(&mut File) + Send>;

/// What a version says, against what was approved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compared {
    /// Nothing of this plugin was approved yet.
    New,
    /// Everything that was approved and is still there says the same.
    Same,
    /// Something says something else. A unified diff, in which what is invisible is shown as its code.
    Changed(String),
}

/// A version that waits for an operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    pub digest: String,
    /// RFC 3339.
    pub since: String,
    /// What its tools say, if that is what it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub says: Option<Surface>,
    /// What it asks for, if it waits because of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asks: Option<Request>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approved {
    /// Of the component that was approved last.
    pub digest: String,
    /// RFC 3339.
    pub at: String,
    pub by: By,
    /// What every tool that ever was approved said last. Tools that were withdrawn stay: they may come back.
    pub says: Surface,
    /// Names of what the approved component offers today.
    #[serde(default)]
    pub offered: Vec<String>,
    /// What the version asks for that an operator agreed to last, granted or not.
    #[serde(default, skip_serializing_if = "Request::is_empty")]
    pub asks: Request,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
    /// The digest of a version that an operator went back to. It served before, so it may again, whatever it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returns: Option<String>,
}

/// Who agreed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// It was the first of its name.
    FirstUse,
    /// `plugins.toml` names its digest.
    Pin,
    /// `plugins approve` or `plugins rollback`.
    Operator,
}

/// A version that wants to be served.
pub struct Applicant<'a> {
    pub id: &'a PluginId,
    /// SHA-256 of the component, in hex.
    pub digest: &'a str,
    pub grants: &'a Grants,
    pub asks: &'a Request,
    /// It has served before, and is taken from the history because the file in the directory may not serve.
    pub kept: bool,
}

impl Approved {
    /// What this version asks for that nobody has agreed to: beyond the version before, and not granted.
    pub fn not_agreed(&self, digest: &str, asks: &Request, grants: &Grants) -> Request {
        // Also what was let in by a host that kept no requests.
        let was_let_in = self.digest == digest || self.returns.as_deref() == Some(digest);
        match was_let_in {
            true => Request::default(),
            false => asks.beyond(&self.asks).beyond(&Request::of(grants)),
        }
    }
}

#[derive(Default, Serialize, Deserialize)]
struct File {
    plugins: BTreeMap<String, Approved>,
}

impl Approvals {
    /// `directory` is made when something is first approved.
    pub fn open(directory: &Path) -> Approvals {
        Approvals { directory: directory.to_owned(), pending: Mutex::new(Some(vec![])) }
    }

    /// From now on serving a version agrees to it, and so it does for what was let in before. A command that looks at
    /// plugins, or tries one, leaves this out: nobody agreed to anything.
    pub fn serve(&self) -> io::Result<()> {
        let Some(pending) = self.pending().take() else { return Ok(()) };
        if pending.is_empty() {
            return Ok(());
        }
        self.change(|file| pending.into_iter().for_each(|agree| agree(file)))
    }

    /// The file that changes when something is approved, for whoever waits for it.
    pub fn path(&self) -> PathBuf {
        self.directory.join(FILE)
    }

    /// Does it ask for more than the version before it, and more than is granted? Records what waits. The first version
    /// serves with what is granted; so does one that served before.
    ///
    /// Errors: `asks_more` (quarantined; the reason holds all that is new), `approvals_unreadable` (refused).
    pub fn consent(&self, policy: &Policy, applicant: &Applicant<'_>) -> Result<(), Blocked> {
        let Applicant { id, digest, grants, asks, kept } = *applicant;
        // A pin says which component this is, and not that it gets by with what is granted: adding an update moves it.
        if policy.approval == Approval::Off || kept {
            return Ok(());
        }
        let unusable = |why| self.unusable(digest, &why);
        let known = self.of(id).map_err(unusable)?;
        let more = known.map(|known| known.not_agreed(digest, asks, grants)).unwrap_or_default();
        if more.is_empty() {
            return Ok(());
        }
        self.wait(id, digest, None, Some(asks)).map_err(unusable)?;
        let reason = format!(
            "it asks for more than the version before, and that is not granted: {}. Grant it with `plugins grant {id} \
             --as-asked`, or let it serve without with `plugins approve {id}`.",
            more.summary()
        );
        Err(Blocked { digest: Some(digest.to_owned()), ..Blocked::quarantined("asks_more", reason) })
    }

    /// Do its tools say what was agreed to? Records what is approved by being first or pinned, and what waits.
    ///
    /// Errors: `changed` (quarantined; the reason holds the diff), `approvals_unreadable` (refused).
    pub fn admit(&self, policy: &Policy, applicant: &Applicant<'_>, says: &Surface) -> Result<(), Blocked> {
        let Applicant { id, digest, grants, asks, kept } = *applicant;
        if policy.approval == Approval::Off {
            return Ok(());
        }
        let pinned = grants.pins(digest) == Some(true);
        let unusable = |why| self.unusable(digest, &why);
        let returns = || Ok(self.of(id)?.and_then(|entry| entry.returns).is_some_and(|known| known == digest));
        let record = |by| self.record(id, digest, by, says, asks).map_err(unusable);
        let diff = match self.judge(id, says).map_err(unusable)? {
            Compared::New if pinned => return record(By::Pin),
            Compared::New => return record(By::FirstUse),
            // The version that the file holds may wait; that one is not forgotten.
            Compared::Same if kept => return Ok(()),
            Compared::Same => return self.keep_up(id, digest, says, asks).map_err(unusable),
            Compared::Changed(_) if pinned => return record(By::Pin),
            Compared::Changed(_) if returns().map_err(unusable)? => return record(By::Operator),
            Compared::Changed(diff) => diff,
        };
        self.wait(id, digest, Some(says), None).map_err(unusable)?;
        let reason = format!(
            "what its tools say has changed since it was approved. Read the change, then approve it with \
             `plugins approve {id}`, or put the approved version back.\n{}",
            shortened(&diff)
        );
        Err(Blocked { digest: Some(digest.to_owned()), ..Blocked::quarantined("changed", reason) })
    }

    fn unusable(&self, digest: &str, why: &io::Error) -> Blocked {
        let reason = format!(
            "what was approved is not known: {}: {why}. Restore the file; without it every plugin is approved anew, as it \
             is.",
            self.path().display()
        );
        Blocked { digest: Some(digest.to_owned()), ..Blocked::refused("approvals_unreadable", reason) }
    }

    /// What a version's tools say, against what was approved. A file that cannot be read is a change.
    pub fn compare(&self, id: &PluginId, tools: &[Tool]) -> Compared {
        self.judge(id, &Surface::of_tools(tools)).unwrap_or_else(|why| {
            Compared::Changed(format!("what was approved is not known: {}: {why}", self.path().display()))
        })
    }

    /// Agree to what waits, if that still is what was `shown`. `false`: it is not.
    pub fn approve_waiting(&self, id: &PluginId, shown: &Waiting) -> io::Result<bool> {
        let mut agreed = false;
        self.change(|file| {
            let Some(entry) = file.plugins.get_mut(id.as_str()) else { return };
            let Some(waiting) = entry.waiting.take_if(|waiting| waiting == shown) else { return };
            // What its tools say is looked at once it may be asked.
            match (waiting.says, waiting.asks) {
                (Some(says), _) => {
                    let asks = entry.asks.clone();
                    *entry = approved(By::Operator, &waiting.digest, &says, &asks, Some(entry));
                }
                (None, Some(asks)) => entry.asks = asks,
                (None, None) => {}
            }
            agreed = true;
        })?;
        Ok(agreed)
    }

    /// Agree to a version that served before and is wanted again, whatever its tools say.
    pub fn agree_to_return(&self, id: &PluginId, digest: &str) -> io::Result<()> {
        // Where nothing was approved, nothing is compared.
        if self.of(id)?.is_none() {
            return Ok(());
        }
        self.change(|file| {
            if let Some(entry) = file.plugins.get_mut(id.as_str()) {
                entry.returns = Some(digest.to_owned());
            }
        })
    }

    /// What is known of one plugin.
    pub fn of(&self, id: &PluginId) -> io::Result<Option<Approved>> {
        Ok(self.read()?.plugins.remove(id.as_str()))
    }

    fn judge(&self, id: &PluginId, says: &Surface) -> io::Result<Compared> {
        Ok(match self.of(id)? {
            None => Compared::New,
            Some(approved) => approved.says.changes_to(says).map_or(Compared::Same, Compared::Changed),
        })
    }

    fn record(&self, id: &PluginId, digest: &str, by: By, says: &Surface, asks: &Request) -> io::Result<()> {
        let (id, digest, says, asks) = (id.to_string(), digest.to_owned(), says.clone(), asks.clone());
        self.agree(Box::new(move |file| {
            let entry = approved(by, &digest, &says, &asks, file.plugins.get(&id));
            file.plugins.insert(id, entry);
        }))
    }

    /// A version that says the same: it is the approved one from now on, with what is new in it.
    fn keep_up(&self, id: &PluginId, digest: &str, says: &Surface, asks: &Request) -> io::Result<()> {
        // The usual start: nothing to write, so nothing is locked.
        let is_current = |entry: &Approved| entry.digest == digest && entry.asks == *asks;
        let known = |entry: &Approved| is_current(entry) && entry.waiting.is_none() && entry.returns.is_none();
        if self.of(id)?.as_ref().is_some_and(known) {
            return Ok(());
        }
        let (id, digest, says, asks) = (id.to_string(), digest.to_owned(), says.clone(), asks.clone());
        self.agree(Box::new(move |file| {
            if let Some(entry) = file.plugins.get(&id) {
                let entry = approved(entry.by, &digest, &says, &asks, Some(entry));
                file.plugins.insert(id, entry);
            }
        }))
    }

    /// What serving a version agrees to.
    fn agree(&self, agreement: Agreement) -> io::Result<()> {
        if let Some(pending) = self.pending().as_mut() {
            pending.push(agreement);
            return Ok(());
        }
        self.change(agreement)
    }

    fn pending(&self) -> MutexGuard<'_, Option<Vec<Agreement>>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self, id: &PluginId, digest: &str, says: Option<&Surface>, asks: Option<&Request>) -> io::Result<()> {
        let same = |waiting: &Waiting| {
            waiting.digest == digest && (waiting.says.as_ref(), waiting.asks.as_ref()) == (says, asks)
        };
        let waits = |entry: &Approved| entry.waiting.as_ref().is_some_and(same);
        if self.of(id)?.as_ref().is_some_and(waits) {
            return Ok(());
        }
        self.change(|file| {
            if let Some(entry) = file.plugins.get_mut(id.as_str()) {
                let (says, asks) = (says.cloned(), asks.cloned());
                let since = Timestamp::now().to_string();
                entry.waiting = Some(Waiting { digest: digest.to_owned(), since, says, asks });
            }
        })
    }

    fn change(&self, change: impl FnOnce(&mut File)) -> io::Result<()> {
        let _lock = Lock::take(&self.directory)?;
        let mut file = self.read()?;
        change(&mut file);
        let text = serde_json::to_string_pretty(&file).expect("what was read or made is JSON");
        replace(&self.path(), text.as_bytes(), 0o600)
    }

    fn read(&self) -> io::Result<File> {
        match std::fs::read(self.path()) {
            Ok(text) => serde_json::from_slice(&text).map_err(|why| io::Error::new(ErrorKind::InvalidData, why)),
            Err(why) if why.kind() == ErrorKind::NotFound => Ok(File::default()),
            Err(why) => Err(why),
        }
    }
}

fn approved(by: By, digest: &str, says: &Surface, asks: &Request, before: Option<&Approved>) -> Approved {
    let kept = before.map(|before| &before.says);
    Approved {
        digest: digest.to_owned(),
        at: Timestamp::now().to_string(),
        by,
        offered: says.0.keys().cloned().collect(),
        says: kept.map_or_else(|| says.clone(), |kept| says.clone().with_rest_of(kept)),
        asks: asks.clone(),
        waiting: None,
        returns: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugins::BlockedKind;
    use serde_json::json;
    use tempfile::TempDir;

    fn says(items: &[(&str, &str)]) -> Surface {
        let said = |(name, text): &(&str, &str)| (format!("tool {name}"), json!({ "description": text }));
        Surface(items.iter().map(said).collect())
    }

    struct Bench(TempDir);

    impl Bench {
        fn new() -> Bench {
            Bench(tempfile::tempdir().unwrap())
        }
        fn approvals(&self) -> Approvals {
            let approvals = self.looking_on();
            approvals.serve().unwrap();
            approvals
        }
        fn waiting(&self) -> Waiting {
            self.looking_on().of(&id()).unwrap().unwrap().waiting.unwrap()
        }
        fn looking_on(&self) -> Approvals {
            Approvals::open(&self.0.path().join("plugins"))
        }
        fn admit(&self, digest: &str, surface: &Surface) -> Result<(), Blocked> {
            self.admit_under(&Policy::default(), &Grants::default(), digest, surface)
        }
        fn admit_under(&self, policy: &Policy, grants: &Grants, digest: &str, says: &Surface) -> Result<(), Blocked> {
            let (id, asks) = (id(), Request::default());
            self.approvals().admit(policy, &Applicant { id: &id, digest, grants, asks: &asks, kept: false }, says)
        }
        /// Both checks, as a host does them.
        fn asks(&self, digest: &str, asks: &Request, grants: &Grants, kept: bool) -> Result<(), Blocked> {
            let (policy, id) = (Policy::default(), id());
            let applicant = Applicant { id: &id, digest, grants, asks, kept };
            self.approvals().consent(&policy, &applicant)?;
            self.approvals().admit(&policy, &applicant, &says(&[("t", "Reads.")]))
        }
    }

    fn id() -> PluginId {
        PluginId::parse("weather").unwrap()
    }

    #[test]
    fn the_first_version_is_trusted_and_a_changed_one_waits() {
        let bench = Bench::new();
        assert_eq!(bench.admit("a", &says(&[("t", "Reads.")])), Ok(()));
        assert_eq!(bench.admit("b", &says(&[("t", "Reads.")])), Ok(()), "the same words in other bytes");
        let blocked = bench.admit("c", &says(&[("t", "Deletes.")])).unwrap_err();
        assert_eq!((blocked.kind, blocked.word), (BlockedKind::Quarantined, "changed"));
        assert!(blocked.reason.contains("-description: Reads.\n+description: Deletes."), "{}", blocked.reason);
        assert!(bench.admit("c", &says(&[("t", "Deletes.")])).is_err(), "waiting does not wear off");
        assert_eq!(bench.admit("b", &says(&[("t", "Reads.")])), Ok(()), "the approved one may come back");
    }

    #[test]
    fn only_who_serves_a_version_agrees_to_it() {
        let bench = Bench::new();
        let (policy, grants, id, asks) = (Policy::default(), Grants::default(), id(), Request::default());
        let applicant = |digest| Applicant { id: &id, digest, grants: &grants, asks: &asks, kept: false };
        // A look at it, and at a later one that says something else.
        let looking_on = bench.looking_on();
        assert_eq!(looking_on.admit(&policy, &applicant("a"), &says(&[("t", "Reads.")])), Ok(()));
        assert!(bench.looking_on().of(&id).unwrap().is_none());
        // Serving it is what counts, also afterwards.
        looking_on.serve().unwrap();
        assert_eq!(bench.looking_on().of(&id).unwrap().unwrap().digest, "a");
        assert_eq!(looking_on.admit(&policy, &applicant("b"), &says(&[("t", "Reads.")])), Ok(()));
        assert_eq!(bench.looking_on().of(&id).unwrap().unwrap().digest, "b");
    }

    #[test]
    fn what_waits_is_served_once_an_operator_agrees_to_exactly_that() {
        let bench = Bench::new();
        bench.admit("a", &says(&[("t", "Reads.")])).unwrap();
        bench.admit("b", &says(&[("t", "Deletes.")])).unwrap_err();
        let approvals = bench.approvals();
        let shown = bench.waiting();
        let another = Waiting { digest: "another".into(), ..shown.clone() };
        let other_words = Waiting { says: None, ..shown.clone() };
        for not_read in [another, other_words] {
            assert!(!approvals.approve_waiting(&id(), &not_read).unwrap(), "not what the operator has read");
        }
        assert!(approvals.approve_waiting(&id(), &shown).unwrap());
        assert_eq!(bench.admit("b", &says(&[("t", "Deletes.")])), Ok(()));
        assert!(bench.admit("a", &says(&[("t", "Reads.")])).is_err(), "now the old words are the change");
        assert!(!approvals.approve_waiting(&PluginId::parse("nobody").unwrap(), &shown).unwrap());
    }

    #[test]
    fn a_tool_cannot_change_by_going_away_and_coming_back() {
        let bench = Bench::new();
        bench.admit("a", &says(&[("t", "Reads."), ("u", "Lists.")])).unwrap();
        assert_eq!(bench.admit("b", &says(&[("u", "Lists.")])), Ok(()));
        assert!(bench.admit("c", &says(&[("t", "Deletes."), ("u", "Lists.")])).is_err());
    }

    #[test]
    fn a_pin_approves_and_no_policy_asks_nothing() {
        let bench = Bench::new();
        bench.admit("a", &says(&[("t", "Reads.")])).unwrap();
        let changed = says(&[("t", "Deletes.")]);
        let off = Policy { approval: Approval::Off, ..Policy::default() };
        assert_eq!(bench.admit_under(&off, &Grants::default(), "b", &changed), Ok(()));
        let pinned = Grants { digest: Some("sha256:b".into()), ..Grants::default() };
        assert_eq!(bench.admit_under(&Policy::default(), &pinned, "b", &changed), Ok(()));
        assert_eq!(bench.approvals().of(&id()).unwrap().unwrap().by, By::Pin);
    }

    #[test]
    fn a_file_that_cannot_be_read_approves_nothing() {
        let bench = Bench::new();
        bench.admit("a", &says(&[("t", "Reads.")])).unwrap();
        std::fs::write(bench.approvals().path(), "{").unwrap();
        let blocked = bench.admit("a", &says(&[("t", "Reads.")])).unwrap_err();
        assert_eq!((blocked.kind, blocked.word), (BlockedKind::Refused, "approvals_unreadable"));
        assert!(matches!(bench.approvals().compare(&id(), &[]), Compared::Changed(_)));
    }

    #[test]
    fn writers_at_the_same_time_lose_nothing() {
        let bench = Bench::new();
        std::thread::scope(|threads| {
            for n in 0..8 {
                let approvals = bench.approvals();
                threads.spawn(move || {
                    let id = PluginId::parse(&format!("plugin-{n}")).unwrap();
                    let says = says(&[("t", "Reads.")]);
                    approvals.record(&id, "a", By::FirstUse, &says, &Request::default()).unwrap();
                });
            }
        });
        assert_eq!(bench.approvals().read().unwrap().plugins.len(), 8);
    }

    fn cuo() -> Grants {
        Grants { cuo: true, ..Grants::default() }
    }

    #[test]
    fn a_version_that_asks_for_more_waits_until_that_is_granted_or_agreed_to() {
        // given: the first one serves whatever it asks for
        let bench = Bench::new();
        let (nothing, asked) = (Grants::default(), Request::of(&cuo()));
        let more = Request::of(&Grants { elicit: true, ..cuo() });
        assert_eq!(bench.asks("a", &asked, &nothing, false), Ok(()));
        // when
        let blocked = bench.asks("b", &more, &nothing, false).unwrap_err();
        // then
        assert_eq!((blocked.kind, blocked.word), (BlockedKind::Quarantined, "asks_more"));
        assert!(blocked.reason.contains("not granted: ask the caller's user. Grant it"), "{}", blocked.reason);
        // and what serves meanwhile does not make it forgotten
        assert_eq!(bench.asks("a", &asked, &nothing, true), Ok(()));
        assert!(bench.asks("b", &more, &nothing, false).is_err(), "waiting does not wear off");
        let granted = Grants { elicit: true, ..Grants::default() };
        assert_eq!(bench.asks("b", &more, &granted, false), Ok(()), "what is new is granted");
        assert_eq!(bench.asks("b", &more, &nothing, false), Ok(()), "and it serves with less when that is taken back");
        // and after one that asks for nothing it waits again, until somebody agrees to exactly that
        assert_eq!(bench.asks("c", &Request::default(), &nothing, false), Ok(()));
        bench.asks("b", &more, &nothing, false).unwrap_err();
        let approvals = bench.approvals();
        let waiting = bench.waiting();
        let other = Waiting { digest: "c".into(), ..waiting.clone() };
        assert!(!approvals.approve_waiting(&id(), &other).unwrap());
        assert!(approvals.approve_waiting(&id(), &waiting).unwrap());
        assert_eq!(bench.asks("b", &more, &nothing, false), Ok(()));
    }

    #[test]
    fn a_version_that_was_let_in_before_requests_were_kept_goes_on() {
        // given: a record without a request
        let bench = Bench::new();
        bench.admit("a", &says(&[("t", "Reads.")])).unwrap();
        // then
        assert_eq!(bench.asks("a", &Request::of(&cuo()), &Grants::default(), false), Ok(()));
        let more = Request::of(&Grants { elicit: true, ..cuo() });
        assert_eq!(bench.asks("b", &more, &Grants::default(), false).unwrap_err().word, "asks_more");
    }

    #[test]
    fn a_pin_does_not_agree_to_what_is_asked_for_and_a_way_back_does() {
        let bench = Bench::new();
        let more = Request::of(&cuo());
        bench.asks("a", &Request::default(), &Grants::default(), false).unwrap();
        let pinned = Grants { digest: Some("sha256:b".into()), ..Grants::default() };
        assert_eq!(bench.asks("b", &more, &pinned, false).unwrap_err().word, "asks_more");
        bench.approvals().agree_to_return(&id(), "b").unwrap();
        assert_eq!(bench.asks("b", &more, &Grants::default(), false), Ok(()));
    }
}
