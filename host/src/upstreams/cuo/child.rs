//! One child process in a process group of its own, that nobody can forget.
//!
//! No shell, no inherited environment, a private directory that goes with it. Whichever way its owner leaves (result,
//! error, dropped future), the whole group gets SIGTERM, and SIGKILL when the leader is gone or after three seconds.
//! The leader is reaped last: until then its id, which names the group, cannot belong to anybody else. A process that
//! opens a session of its own (`setsid`) leaves the group and this guard's reach; ours end with their stdin.

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, test_kill_process_group, waitid};
use std::ffi::OsString;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use super::error::CuoError;
use super::lines::{CappedLines, Line};
use crate::error::Reason;

/// Between SIGTERM and SIGKILL.
pub(super) const GRACE: Duration = Duration::from_secs(3);
/// The longest line that a child may say.
pub(super) const MAX_LINE_BYTES: usize = 1 << 20;
/// All that a child may say on stdout.
pub(super) const MAX_TOTAL_BYTES: u64 = 16 << 20;
const MAX_LOG_LINE_BYTES: usize = 2 << 10;
const MAX_LOG_BYTES: usize = 64 << 10;

/// Groups on their way out. This process must not end before them, or one that ignores SIGTERM would stay for good.
static LEAVING: LazyLock<TaskTracker> = LazyLock::new(TaskTracker::new);

/// Wait until every group that was told to go is gone. Call it last before the process ends.
pub(super) async fn settle() {
    LEAVING.close();
    // Longer than any group is given.
    let _ = tokio::time::timeout(GRACE + Duration::from_secs(1), LEAVING.wait()).await;
    LEAVING.reopen();
}

/// A fresh directory below `parent` that only this user can enter (0700); the default would follow the umask.
pub(super) fn private_dir(parent: &Path) -> io::Result<TempDir> {
    let private = std::fs::Permissions::from_mode(0o700);
    tempfile::Builder::new().prefix("cyberos-cuo-").permissions(private).tempdir_in(parent)
}

pub(super) struct ChildProcess {
    pub stdin: Option<ChildStdin>,
    pub stdout: CappedLines<ChildStdout>,
    group: Option<Group>,
}

impl ChildProcess {
    /// Start `argv` in `work`, with exactly the environment `env`.
    pub fn spawn(argv: &[OsString], env: &[(OsString, OsString)], work: TempDir) -> Result<Self, CuoError> {
        let unreachable = |e: io::Error| {
            CuoError::unavailable(
                Reason::Unreachable,
                "The CUO supervisor cannot be started.",
                format!("{argv:?}: {e}"),
            )
        };
        let (program, arguments) = argv.split_first().ok_or_else(|| unreachable(io::ErrorKind::InvalidInput.into()))?;
        let mut child = Command::new(program)
            .args(arguments)
            .env_clear()
            .envs(env.iter().map(|(name, value)| (name, value)))
            .current_dir(work.path())
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(unreachable)?;
        let id = child
            .id()
            .and_then(|id| Pid::from_raw(id.cast_signed()))
            .expect("a child that was not waited for has an id");
        let stdout = child.stdout.take().expect("stdout is piped");
        let stderr = child.stderr.take().expect("stderr is piped");
        Ok(ChildProcess {
            stdin: child.stdin.take(),
            stdout: CappedLines::new(stdout, MAX_LINE_BYTES),
            group: Some(Group { id, child, stderr: tokio::spawn(log_stderr(stderr)), reaped: false, private: work }),
        })
    }

    /// The private directory; gone when the child is.
    #[cfg(test)]
    pub fn work_dir(&self) -> &Path {
        self.group.as_ref().expect("the group is taken only when the child goes").private.path()
    }

    /// Its stdout to read, beside its group to watch.
    pub fn split(&mut self) -> (&mut CappedLines<ChildStdout>, &Group) {
        (&mut self.stdout, self.group.as_ref().expect("the group is taken only when the child goes"))
    }

    /// Close stdin, let the child end by itself for up to three seconds, then see the whole group out.
    pub async fn finish(mut self) -> Option<ExitStatus> {
        drop(self.stdin.take());
        let mut group = self.group.take().expect("the group is taken only here and on drop");
        let _ = tokio::time::timeout(GRACE, group.exited()).await;
        group.end().await
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        let Some(mut group) = self.group.take() else { return };
        // Without a runtime `Group::drop` kills at once.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            LEAVING.spawn_on(async move { group.end().await }, &runtime);
        }
    }
}

pub(super) struct Group {
    id: Pid,
    child: Child,
    stderr: JoinHandle<()>,
    reaped: bool,
    /// Held so that it is removed last.
    #[cfg_attr(not(test), expect(dead_code, reason = "dropping it is its use"))]
    private: TempDir,
}

impl Group {
    /// Wait until the leader has exited, without reaping it. Safe to drop.
    pub async fn exited(&self) {
        let mut pause = Duration::from_millis(1);
        while !self.has_exited() {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }

    fn has_exited(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        !matches!(waitid(WaitId::Pid(self.id), options), Ok(None))
    }

    /// SIGTERM, grace, SIGKILL for whoever is left, reap.
    async fn end(&mut self) -> Option<ExitStatus> {
        let _ = kill_process_group(self.id, Signal::TERM);
        let _ = tokio::time::timeout(GRACE, self.exited()).await;
        let _ = kill_process_group(self.id, Signal::KILL);
        let status = self.child.wait().await.ok();
        self.reaped = true;
        // Its directory must not be removed under a process that is still dying.
        let until = Instant::now() + Duration::from_millis(200);
        while test_kill_process_group(self.id).is_ok() && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        status
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.stderr.abort();
        if !self.reaped {
            let _ = kill_process_group(self.id, Signal::KILL);
        }
    }
}

/// Read all of stderr, so that the child never blocks on it; log its first 64 KiB. It may hold stack traces and paths:
/// it goes nowhere else.
async fn log_stderr(stderr: ChildStderr) {
    let mut lines = CappedLines::new(stderr, MAX_LOG_LINE_BYTES);
    let mut logged = 0;
    while let Ok(Some(Line::Whole(line) | Line::Cut(line))) = lines.next().await {
        if logged > MAX_LOG_BYTES {
            continue;
        }
        logged += line.len() + 1;
        tracing::info!(target: "cuo.supervisor", "{}", String::from_utf8_lossy(&line).escape_debug());
        if logged > MAX_LOG_BYTES {
            tracing::warn!(target: "cuo.supervisor", "more than {MAX_LOG_BYTES} bytes on stderr; the rest is dropped");
        }
    }
}

#[cfg(test)]
mod tests;
