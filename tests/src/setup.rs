//! How a bridge is to be started: the real binary, with a home directory, keys and store of the test's own.

use secrecy::ExposeSecret;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use tempfile::TempDir;
use tokio::process::Command;

use crate::postgres::{Database, Login};
use crate::tokens::{ISSUER, SigningKey, claims, key_set};
use crate::warm;

/// Starts any number of bridges, one after the other or side by side, that share one home and so one store.
#[derive(Clone)]
pub struct Setup {
    pub(crate) home: Arc<Home>,
    pub(crate) transport: Transport,
    pub(crate) key: Arc<SigningKey>,
    pub(crate) bearer: bool,
    pub(crate) database: Option<Arc<Database>>,
    flags: Vec<String>,
    environment: Vec<(String, String)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    Stdio,
    Http,
}

impl Setup {
    pub(crate) fn new(transport: Transport) -> Setup {
        let setup = Setup {
            home: Arc::new(Home(TempDir::with_prefix("bridge-").expect("a temporary directory"))),
            transport,
            key: Arc::new(SigningKey::es256("main")),
            bearer: transport == Transport::Http,
            database: None,
            flags: vec![],
            environment: vec![],
        };
        setup.publish(&key_set(&[&setup.key]));
        setup
    }

    /// Another transport on the same home.
    pub fn over(&self, transport: Transport) -> Setup {
        Setup { transport, bearer: transport == Transport::Http, ..self.clone() }
    }

    pub fn flag(mut self, flag: impl Into<String>) -> Setup {
        self.flags.push(flag.into());
        self
    }

    pub fn env(mut self, name: &str, value: impl Into<String>) -> Setup {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// HTTP without tokens.
    pub fn auth_none(mut self) -> Setup {
        self.bearer = false;
        self.flag("--auth=none")
    }

    /// Nobody is limited, for tests that call more often than people do.
    pub fn unlimited(self) -> Setup {
        ["user", "tenant", "tool"]
            .into_iter()
            .fold(self, |setup, limit| setup.flag(format!("--rate-limit-{limit}=off")))
    }

    /// HTTP with tokens of whichever issuers the flags name, and not of the harness's own.
    pub fn no_issuer(mut self) -> Setup {
        self.bearer = false;
        self
    }

    /// Stdio with the token of this caller instead of the local principal.
    pub fn token_of(self, subject: &str, tenant: &str, scopes: &[&str]) -> Setup {
        let scopes: Vec<String> = scopes.iter().map(|s| (*s).to_owned()).collect();
        let token = self.key.sign(&claims(subject, tenant, &scopes));
        self.token(&token)
    }

    pub fn token(self, token: &str) -> Setup {
        self.trusting_the_issuer().env("CYBEROS_TOKEN", token)
    }

    /// Over HTTP it is trusted anyway.
    pub fn trusting_the_issuer(self) -> Setup {
        let keys = self.keys_file();
        self.flag(format!("--issuer={ISSUER}={}", keys.display()))
    }

    /// Any claims, signed by the issuer that is trusted.
    pub fn sign(&self, claims: &Value) -> String {
        self.key.sign(claims)
    }

    /// A Postgres database of its own instead of SQLite.
    pub async fn postgres(mut self) -> Setup {
        self.database = Some(Arc::new(Database::migrated().await));
        self
    }

    /// On a database that the test made.
    pub fn on(mut self, database: Database) -> Setup {
        self.database = Some(Arc::new(database));
        self
    }

    /// Serve these components of `tests/components` beside the eight, with this `plugins.toml`. A component of a crate's
    /// examples is `examples/<file>`.
    pub fn guests(self, guests: &[&str], grants: &str) -> Setup {
        let built = |guest: &&str| target().join(format!("plugins/wasm32-wasip2/component/{guest}.wasm"));
        self.serve(guests.iter().map(built).collect(), "make guests", grants)
    }

    /// The same for those of `tests/authors/fixtures`, which other languages were written in: `js` and `python`.
    pub fn author_guests(self, guests: &[&str], grants: &str) -> Setup {
        let built = |guest: &&str| target().join(format!("plugins/authors/{guest}.wasm"));
        self.serve(guests.iter().map(built).collect(), "make author-guests", grants)
    }

    fn serve(self, guests: Vec<PathBuf>, made_by: &str, grants: &str) -> Setup {
        let directory = self.home().join("plugins");
        fs::create_dir_all(&directory).expect("a directory for plugins");
        for built in guests {
            assert!(built.is_file(), "{} is not built: run `{made_by}`", built.display());
            let link = directory.join(built.file_name().expect("a file"));
            if !link.exists() {
                symlink(&built, link).expect("a link to the component");
            }
            warm::give(&built, &self.state_dir());
        }
        fs::write(directory.join("plugins.toml"), grants).expect("plugins.toml");
        self.flag(format!("--plugins={}", directory.display()))
    }

    /// Its guests are compiled by the bridge under test, not given to it compiled.
    pub fn cold(self) -> Setup {
        fs::remove_dir_all(self.state_dir().join("compiled")).expect("guests were given");
        self
    }

    /// The guest that misbehaves in every way; its tools are named `test.<behaviour>`.
    pub fn misbehaving_guest(self) -> Setup {
        self.guests(&["guest_misbehaves"], "[plugins.guest-misbehaves]\nany_tool_name = true\n")
    }

    /// Run workflows with this shell script instead of the bridge's own supervisor.
    pub fn supervisor(self, script: &str) -> Setup {
        let path = self.home().join("supervisor.sh");
        fs::write(&path, script).expect("the script");
        self.flag("--cuo=json-rpc").flag(format!("--cuo-command=/bin/sh {}", path.display()))
    }

    /// What the issuer publishes from now on.
    pub fn publish(&self, keys: &Value) {
        fs::write(self.keys_file(), keys.to_string()).expect("the key set");
    }

    pub fn home(&self) -> &Path {
        self.home.0.path()
    }

    pub fn state_dir(&self) -> PathBuf {
        self.home().join("state")
    }

    fn keys_file(&self) -> PathBuf {
        self.home().join("jwks.json")
    }

    /// The command line and environment, complete: nothing is taken from whoever runs the tests.
    pub fn command(&self) -> Command {
        let mut command = Command::new(bridge_binary());
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", self.home());
        command.arg("serve").arg(format!("--state-dir={}", self.state_dir().display()));
        if self.transport == Transport::Http {
            command.arg("--transport=http");
            if !self.flags.iter().any(|flag| flag.starts_with("--listen=")) {
                command.arg("--listen=127.0.0.1:0");
            }
        }
        if self.bearer {
            command.arg(format!("--issuer={ISSUER}={}", self.keys_file().display()));
        }
        if let Some(database) = &self.database {
            command.env("CYBEROS_DATABASE_URL", database.url(Login::Bridge).expose_secret());
            command.arg("--database-connections=6");
        }
        command.args(&self.flags).envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0).kill_on_drop(true);
        command
    }
}

/// `target/`, from where this test runs: `target/debug/deps/behaviour-…`.
pub fn target() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    let target =
        test.ancestors().find(|a| a.join("CACHEDIR.TAG").is_file() || a.file_name() == Some("target".as_ref()));
    target.expect("tests run from a target directory").to_owned()
}

/// The binary under test, which `cargo build` puts two directories above this test's executable.
pub fn bridge_binary() -> PathBuf {
    let test = std::env::current_exe().expect("a running test has a path");
    let path = test.ancestors().nth(2).expect("target/debug/deps/test").join("cyberos-mcp-bridge");
    assert!(path.is_file(), "{} is not there: run `cargo build --bins` first", path.display());
    path
}

/// A directory that takes with it whatever still runs from it: task workers outlive their bridge, as they should, but
/// not their test.
pub(crate) struct Home(pub TempDir);

impl Drop for Home {
    fn drop(&mut self) {
        for pid in processes_of(self.0.path()) {
            if let Some(pid) = rustix::process::Pid::from_raw(pid) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
    }
}

/// Processes that were told of this directory, or work in it.
pub fn processes_of(directory: &Path) -> Vec<i32> {
    let directory = directory.to_str().expect("our own path");
    let entries = fs::read_dir("/proc").map(|all| all.flatten().collect::<Vec<_>>()).unwrap_or_default();
    let own = std::process::id() as i32;
    let pids = entries.iter().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| *pid != own)
        .filter(|pid| {
            let told = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let works_in = fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
            String::from_utf8_lossy(&told).contains(directory) || works_in.starts_with(directory)
        })
        .collect()
}
