//! Where a task runs: here, or in a process of its own that outlives this one.

use secrecy::{ExposeSecret, SecretString};
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::error::{Error, Reason, Result};
use crate::store::TaskRow;

/// Where a task runs.
pub enum TaskLauncher {
    /// In this process: for servers, which outlive their clients.
    InProcess,
    /// In a process of its own, which outlives this one: for stdio, where the client's departure ends us.
    Detached(Detach),
}

/// How to start this program again for one task. The task's id is appended.
pub struct Detach {
    pub program: PathBuf,
    pub arguments: Vec<String>,
    /// Secrets that were given as flags; a command line can be read by other users, an environment cannot.
    pub environment: Vec<(&'static str, SecretString)>,
    /// Where workers log.
    pub log: PathBuf,
}

impl Detach {
    /// Start the worker in a session of its own, so that neither our end nor a signal to our group reaches it.
    pub(super) fn spawn(&self, task: &TaskRow) -> Result<()> {
        let failed = |error: std::io::Error| {
            Error::new(Reason::Internal, "The task could not be started.")
                .detail(format!("{}: {error}", self.program.display()))
        };
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .arg("--tenant")
            .arg(task.owner.tenant.to_string())
            .arg(task.id.as_str())
            // Who called is in the row. The rest of the environment may be granted to plugins by name.
            .env_remove("CYBEROS_TOKEN")
            .envs(self.environment.iter().map(|(name, value)| (name, value.expose_secret())))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(OpenOptions::new().append(true).create(true).mode(0o600).open(&self.log).map_err(failed)?)
            .process_group(0);
        let mut child = command.spawn().map_err(failed)?;
        // Reap it if it ends before we do.
        std::thread::spawn(move || child.wait());
        Ok(())
    }
}
