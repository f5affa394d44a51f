//! What the machine gives: its clock, the state directory, key files.

use jiff::Timestamp;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::Finding;
use crate::auth::secret_file;
use crate::config::{Settings, StoreSettings};
use crate::runtime;

/// Long enough to see a clock that is being pulled along, short enough to wait for.
const WATCH: Duration = Duration::from_millis(100);
/// No bridge is older than its first release.
const FIRST_RELEASE: &str = "2025-11-25T00:00:00Z";

pub async fn clock() -> Vec<Finding> {
    let (wall, steady) = (Timestamp::now(), Instant::now());
    tokio::time::sleep(WATCH).await;
    let drift = Timestamp::now().duration_since(wall).as_millis() - steady.elapsed().as_millis() as i128;
    let first: Timestamp = FIRST_RELEASE.parse().expect("it is a time");
    vec![match (wall < first, drift.abs() > 20) {
        (true, _) => Finding::fail(
            "clock",
            format!("it says {wall}, before this program existed"),
            "Set the clock (timedatectl set-ntp true): tokens are checked against it.",
        ),
        (_, true) => Finding::warn(
            "clock",
            format!("it moved {drift} ms against the steady one within {} ms", WATCH.as_millis()),
            "Wait until time synchronisation has settled; tokens and task timeouts go by it.",
        ),
        _ => Finding::ok("clock", format!("{} UTC, steady", wall.strftime("%Y-%m-%d %H:%M:%S"))),
    }]
}

pub fn state_directory(settings: &Settings) -> Vec<Finding> {
    let path = &settings.state_dir;
    if let Err(error) = secret_file::private_dir(path) {
        return vec![Finding::fail("state", error.to_string(), "Mend it, or choose another with --state-dir.")];
    }
    let mode = std::fs::metadata(path).map_or(0o700, |meta| meta.permissions().mode() & 0o777);
    vec![match mode & 0o077 {
        0 => Finding::ok("state", format!("{} is private", path.display())),
        _ => Finding::warn(
            "state",
            format!("{} can be looked into by others (mode {mode:04o})", path.display()),
            format!("Run `chmod 700 {}`.", path.display()),
        ),
    }]
}

/// Files that hold a secret, whether ours or the operator's.
pub fn key_files(settings: &Settings) -> Vec<Finding> {
    let own = ["confirm.key", "issuer/keys.json"].map(|name| settings.state_dir.join(name));
    let mut findings = vec![];
    let mut good: Vec<String> = vec![];
    for path in own {
        match secret_file::read(&path) {
            Ok(Some(_)) => good.push(name_of(&path)),
            Ok(None) => {}
            Err(error) => findings.push(Finding::fail("keys", error.to_string(), "Do what it says, then start again.")),
        }
    }
    let store = match &settings.store {
        StoreSettings::Sqlite(path) => Some(path),
        StoreSettings::Postgres(_) => None,
    };
    let given = [
        ("--confirm-key-file", settings.args.confirm_key_file.as_ref()),
        ("--token-file", settings.args.token_file.as_ref()),
        ("--memory-token-file", settings.args.memory_token_file.as_ref()),
        ("store", store.filter(|path| path.exists())),
    ];
    for (what, path) in given.into_iter().filter_map(|(what, path)| Some((what, path?))) {
        match read_only_by_owner(what, path) {
            Ok(()) => good.push(name_of(path)),
            Err(finding) => findings.push(finding),
        }
    }
    match runtime::check_compiled_cache(&settings.state_dir.join("compiled")) {
        Ok(()) => {}
        Err(error) => findings.push(Finding::warn(
            "cache",
            format!("compiled components cannot be kept: {error}"),
            format!(
                "Run `chmod 700 {0}`, or remove {0}: until then every start compiles the operator's components.",
                settings.state_dir.join("compiled").display()
            ),
        )),
    }
    if findings.is_empty() {
        let names = if good.is_empty() { "none yet; made at the first start".into() } else { good.join(", ") };
        findings.push(Finding::ok("keys", names));
    }
    findings
}

fn read_only_by_owner(what: &str, path: &PathBuf) -> Result<(), Finding> {
    let meta = std::fs::File::open(path).and_then(|file| file.metadata()).map_err(|error| {
        Finding::fail(
            "keys",
            format!("{what}: {} cannot be read: {error}", path.display()),
            "Correct the path or its owner.",
        )
    })?;
    match meta.mode() & 0o077 {
        0 => Ok(()),
        _ => Err(Finding::warn(
            "keys",
            format!("{what}: {} can be read by others (mode {:04o})", path.display(), meta.mode() & 0o777),
            format!("Run `chmod 600 {}`, and replace the secret if others had access.", path.display()),
        )),
    }
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
