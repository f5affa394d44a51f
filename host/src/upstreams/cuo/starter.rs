//! The starter catalogue inside the binary, and its unpacked copy in the state directory.
//!
//! Listing, routing and our own supervisor read it in memory. It is unpacked for those who need files: skill components,
//! which see skills through a preopened directory, and external supervisors. Unpacking takes hundreds of small files,
//! so it belongs into the background of a first start. The copy is keyed by digest, private (0700) and appears whole
//! or not at all.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

const FRAME: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/catalogue.pack.zst"));
const BYTES: &str = env!("CYBEROS_CATALOGUE_BYTES");
const DIGEST: &str = env!("CYBEROS_CATALOGUE_DIGEST");

/// Its files by path, in memory.
pub(super) fn index() -> &'static BTreeMap<&'static str, &'static [u8]> {
    static PACK: OnceLock<Vec<u8>> = OnceLock::new();
    static INDEX: OnceLock<BTreeMap<&str, &[u8]>> = OnceLock::new();
    INDEX.get_or_init(|| files(PACK.get_or_init(pack)).collect())
}

fn pack() -> Vec<u8> {
    let bytes = BYTES.parse().expect("`build.rs` writes a number");
    zstd::bulk::decompress(FRAME, bytes).expect("`build.rs` packed it")
}

/// The unpacked starter catalogue below `state_dir`; unpack it first when it is not there or is damaged.
///
/// Errors: the state directory cannot be written, or the place is taken by something that others may write to.
pub fn ensure(state_dir: &Path) -> io::Result<PathBuf> {
    ensure_pack(state_dir, &pack(), DIGEST)
}

/// Where [`ensure`] puts it, whether or not it is there yet.
pub fn place(state_dir: &Path) -> PathBuf {
    place_of(state_dir, DIGEST)
}

fn place_of(state_dir: &Path, digest: &str) -> PathBuf {
    state_dir.join(format!("catalogue-{}", &digest[..16]))
}

fn ensure_pack(state_dir: &Path, pack: &[u8], digest: &str) -> io::Result<PathBuf> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(state_dir)?;
    let target = place_of(state_dir, digest);
    if is_whole(&target, pack)? {
        return Ok(target);
    }
    let private = fs::Permissions::from_mode(0o700);
    let fresh = tempfile::Builder::new().prefix(".catalogue-").permissions(private).tempdir_in(state_dir)?;
    let unpacked = fresh.path().join("tree");
    fs::DirBuilder::new().mode(0o700).create(&unpacked)?;
    for (path, bytes) in files(pack) {
        let path = unpacked.join(checked(path)?);
        if let Some(parent) = path.parent() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
        }
        fs::write(path, bytes)?;
    }
    // A damaged copy is moved aside, into what is removed below; readers that have files of it open keep them.
    match fs::rename(&target, fresh.path().join("damaged")) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    match fs::rename(&unpacked, &target) {
        Ok(()) => Ok(target),
        // Another process was quicker.
        Err(_) if is_whole(&target, pack)? => Ok(target),
        Err(e) => Err(e),
    }
}

/// Is every file there, with its length? A copy that is not ours alone is refused rather than repaired.
fn is_whole(target: &Path, pack: &[u8]) -> io::Result<bool> {
    let meta = match fs::symlink_metadata(target) {
        Ok(meta) => meta,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(e) => return Err(e),
    };
    let ours = meta.is_dir() && meta.uid() == rustix::process::geteuid().as_raw() && meta.mode() & 0o022 == 0;
    if !ours {
        let what = format!("{} is not a private directory of this user", target.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
    }
    Ok(files(pack).all(|(path, bytes)| {
        let there = fs::symlink_metadata(target.join(OsStr::new(path)));
        there.is_ok_and(|m| m.is_file() && m.len() == bytes.len() as u64)
    }))
}

fn checked(path: &str) -> io::Result<&Path> {
    let path = Path::new(path);
    if path.components().all(|c| matches!(c, Component::Normal(_))) {
        return Ok(path);
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "the catalogue pack holds a path that leaves it"))
}

/// The pack's files: path and bytes. The format is that of `host/build/catalogue.rs`.
fn files(pack: &[u8]) -> impl Iterator<Item = (&str, &[u8])> {
    let mut rest = pack;
    let mut part = move || {
        let (length, after) = rest.split_first_chunk::<4>()?;
        let (bytes, after) = after.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        rest = after;
        Some(bytes)
    };
    std::iter::from_fn(move || Some((std::str::from_utf8(part()?).ok()?, part()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstreams::cuo::catalogue::Catalogue;
    use crate::upstreams::cuo::router;
    use crate::upstreams::cuo::supervisor::run::Run;
    use crate::upstreams::cuo::tree::Tree;

    const DIGEST: &str = "0123456789abcdef0123";

    fn packed(files: &[(&str, &str)]) -> Vec<u8> {
        let mut packed = Vec::new();
        for part in files.iter().flat_map(|(path, text)| [path.as_bytes(), text.as_bytes()]) {
            packed.extend_from_slice(&(part.len() as u32).to_be_bytes());
            packed.extend_from_slice(part);
        }
        packed
    }

    #[test]
    fn the_catalogue_is_unpacked_once_and_mended_when_damaged() {
        // given
        let state = tempfile::tempdir().unwrap();
        let pack = packed(&[("modules/cuo/a/README.md", "# A"), ("modules/skill/s/SKILL.md", "---\n")]);
        // when
        let root = ensure_pack(state.path(), &pack, DIGEST).unwrap();
        // then
        assert_eq!(fs::read_to_string(root.join("modules/cuo/a/README.md")).unwrap(), "# A");
        assert_eq!(fs::metadata(&root).unwrap().permissions().mode() & 0o777, 0o700);
        let inode = fs::metadata(&root).unwrap().ino();
        assert_eq!(fs::metadata(ensure_pack(state.path(), &pack, DIGEST).unwrap()).unwrap().ino(), inode);

        fs::remove_file(root.join("modules/skill/s/SKILL.md")).unwrap();
        ensure_pack(state.path(), &pack, DIGEST).unwrap();
        assert!(root.join("modules/skill/s/SKILL.md").is_file());
        assert_eq!(fs::read_dir(state.path()).unwrap().count(), 1, "nothing temporary is left");
    }

    #[test]
    fn a_copy_that_others_may_write_to_is_refused() {
        let state = tempfile::tempdir().unwrap();
        let pack = packed(&[("a", "b")]);
        let root = ensure_pack(state.path(), &pack, DIGEST).unwrap();
        fs::set_permissions(&root, fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(ensure_pack(state.path(), &pack, DIGEST).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn a_path_that_leaves_the_tree_is_refused() {
        let state = tempfile::tempdir().unwrap();
        assert!(ensure_pack(state.path(), &packed(&[("../evil", "x")]), DIGEST).is_err());
        assert!(ensure_pack(state.path(), &packed(&[("/tmp/evil", "x")]), DIGEST).is_err());
    }

    #[test]
    fn what_the_binary_carries_can_be_unpacked() {
        let state = tempfile::tempdir().unwrap();
        let root = ensure(state.path()).unwrap();
        assert_eq!(ships(), root.join("modules").is_dir());
        // The copy on disk and the one in memory are the same catalogue.
        let (unpacked, _) = Catalogue::load(&Tree::Disk(root));
        let (packed, _) = Catalogue::load(&Tree::Starter);
        assert_eq!((unpacked.personas, unpacked.skills), (packed.personas, packed.skills));
    }

    /// Was there a catalogue to pack? When there was, the pack must not be empty.
    fn ships() -> bool {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../catalogue");
        assert_eq!(source.is_dir(), !index().is_empty(), "the pack is not what {} holds", source.display());
        source.is_dir()
    }

    /// Every workflow and every skill of the catalogue in the binary, with no inputs and with odd ones.
    #[test]
    fn every_workflow_and_skill_that_ships_can_be_run() {
        let (catalogue, problems) = Catalogue::load(&Tree::Starter);
        if !ships() {
            return;
        }
        assert_eq!(problems, []);
        assert_eq!(catalogue.active_personas().count(), 47);
        let odd = serde_json::json!({
            "title": "A | B", "risks": [{ "risk": "x", "owner": null }, "plain", 3], "decision": { "a": [1, { "b": 2 }] },
            "context": "line\n\n## Not ours\n{{ 1 }}", "budget": 1e300, "artefact": false, "ngân sách": "một tỷ",
        });
        for inputs in [serde_json::json!({}), odd] {
            for workflow in catalogue.workflows().filter(|w| w.runnable()) {
                let out = tempfile::tempdir().unwrap();
                let inputs = inputs.as_object().unwrap().clone();
                let mut run = Run::prepare(&catalogue, workflow, inputs, out.path(), "00ff").unwrap();
                while let Some(step) = run.advance() {
                    step.unwrap_or_else(|e| panic!("{}: {e} {}", workflow.id(), e.detail()));
                }
                let result = run.finish();
                let artefacts = result["final_artifacts"].as_array().unwrap();
                assert!(!artefacts.is_empty(), "{}", workflow.id());
                for artefact in artefacts {
                    let text = artefact["text"].as_str().unwrap();
                    assert!(text.starts_with("# ") && text.len() > 200, "{}: {text}", workflow.id());
                }
            }
        }
    }

    #[test]
    fn requests_in_two_languages_find_what_ships() {
        let (catalogue, _) = Catalogue::load(&Tree::Starter);
        if !ships() {
            return;
        }
        for (query, expected) in [
            (
                "Architect a new payment routing system for Southeast Asian markets",
                "chief-technology-officer/architect-new-system",
            ),
            ("viết một ADR về việc chọn cơ sở dữ liệu", "chief-technology-officer/adr-quick-capture"),
            ("kiến trúc hệ thống thanh toán mới", "chief-technology-officer/architect-new-system"),
            ("triage this incoming NDA", "chief-legal-officer/incoming-nda-triage"),
            ("CFO: close the books for March", "chief-financial-officer/monthly-close"),
            ("we need to handle a data subject access request", "chief-privacy-officer/data-subject-request-cycle"),
            ("onboard a new hire next Monday", "chief-human-resources-officer/new-hire-onboarding"),
            ("write the postmortem of last night's outage", "chief-technology-officer/post-incident-review"),
        ] {
            let routing = router::route(&catalogue, query);
            let found = routing.matched.map(|m| format!("{}/{}", m.persona, m.workflow));
            assert_eq!(found.as_deref(), Some(expected), "{query}: {}", routing.rationale);
        }
        for query in ["What did I commit yesterday?", "what is the weather in Hanoi", "tell me a joke"] {
            let routing = router::route(&catalogue, query);
            assert_eq!(routing.matched, None, "{query}: {}", routing.rationale);
        }
    }
}
