//! The command line as a person and as a script use it, with none of the machine's settings.

use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

use crate::setup::{Setup, bridge_binary};

/// A user with a state directory of his own, or with that of a bridge.
pub struct Shell {
    home: PathBuf,
    _own: Option<TempDir>,
    environment: Vec<(&'static str, String)>,
}

/// What a command printed, and how it ended.
pub struct Ran {
    pub status: i32,
    pub out: String,
    pub err: String,
}

impl Shell {
    #[allow(clippy::new_without_default)]
    pub fn new() -> Shell {
        let own = TempDir::with_prefix("bridge-shell-").expect("a temporary directory");
        Shell { home: own.path().to_owned(), _own: Some(own), environment: vec![] }
    }

    /// On the same state as the bridges of this setup.
    pub fn beside(setup: &Setup) -> Shell {
        Shell { home: setup.home().to_owned(), _own: None, environment: vec![] }
    }

    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Shell {
        self.environment.push((name, value.into()));
        self
    }

    pub fn home(&self) -> &Path {
        &self.home
    }

    pub fn state(&self) -> PathBuf {
        self.home.join("state")
    }

    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.home.join(name);
        std::fs::create_dir_all(path.parent().expect("below home")).expect("a directory");
        std::fs::write(&path, content).expect("a file");
        path.display().to_string()
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(bridge_binary());
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", &self.home);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.arg("--state-dir").arg(self.state()).args(words);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub fn run(&self, words: &[&str]) -> Ran {
        self.command(words).output().expect("it starts").into()
    }

    pub fn run_with_input(&self, words: &[&str], input: &str) -> Ran {
        let mut child = self.command(words).stdin(Stdio::piped()).spawn().expect("it starts");
        child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("it reads");
        child.wait_with_output().expect("it ends").into()
    }

    /// What a command prints when all is well.
    #[track_caller]
    pub fn text(&self, words: &[&str]) -> String {
        let ran = self.run(words);
        assert_eq!(ran.status, 0, "{words:?}: {} {}", ran.out, ran.err);
        ran.out
    }

    /// The same as JSON.
    #[track_caller]
    pub fn json(&self, words: &[&str]) -> Value {
        let ran = self.run(words);
        assert_eq!(ran.status, 0, "{words:?}: {}", ran.err);
        ran.json()
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Ran {
        Ran {
            status: output.status.code().expect("it was not killed"),
            out: String::from_utf8(output.stdout).expect("text"),
            err: String::from_utf8(output.stderr).expect("text"),
        }
    }
}

impl Ran {
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("not JSON ({e}): {} / {}", self.out, self.err))
    }

    #[track_caller]
    pub fn assert_refused(&self, class: &str, reason: &str) {
        assert_eq!(self.status, 2, "{} / {}", self.out, self.err);
        assert_eq!(self.out, "", "a refusal is no data");
        for part in [class, reason, "hint", "trace"] {
            assert!(self.err.contains(part), "{part} is missing in: {}", self.err);
        }
    }
}
