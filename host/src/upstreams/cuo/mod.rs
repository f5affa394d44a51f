//! The CUO: the catalogue of personas and workflows, the router, and the supervisor that runs workflows.
//!
//! [`Cuo`] is everything behind the import `spawn-cuo`. Listing and routing are answered in process, from memory;
//! execution happens in a child process with a private directory, which ends when the request's future is dropped.
//! Nothing here knows which plugin asked or what it may do. Interface: `wit/host.wit`, `spawn-cuo`.

mod adapter;
mod cache;
pub mod catalogue;
mod child;
mod error;
mod frontmatter;
mod keywords;
mod lines;
mod reading;
pub mod router;
mod rpc;
#[cfg(test)]
mod sample;
pub mod starter;
pub mod supervisor;
mod text;
mod tree;
mod views;

pub use cache::{CatalogueCache, Reading};
pub use error::{CuoError, Failure};
pub use tree::Tree;

use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

use self::child::ChildProcess;
use crate::error::Reason;
use crate::model::{ProgressSink, TraceId};

/// Parameters of one request, as JSON.
const MAX_PARAMS_BYTES: usize = 1 << 20;

/// How the CUO is set up. Plain data; `config` fills it.
#[derive(Clone, Debug)]
pub struct CuoSettings {
    /// A CyberOS checkout (`CYBEROS_ROOT`), the directory that holds `modules/`. `None`: the starter catalogue.
    pub root: Option<PathBuf>,
    /// Where the starter catalogue is unpacked.
    pub state_dir: PathBuf,
    /// Where each execution gets a private directory. `None`: the system's temporary directory.
    pub work_dir: Option<PathBuf>,
    pub command: CuoCommand,
    /// Beside `PATH`, `HOME`, `LANG` and `CYBEROS_ROOT`, which every child gets: what an external supervisor needs, such
    /// as a model's key.
    pub extra_env: Vec<(String, SecretString)>,
}

/// What is started for an execution: a fixed executable and fixed arguments, never a shell.
#[derive(Clone, Debug)]
pub enum CuoCommand {
    /// This binary: `<executable> cuo serve`.
    Builtin { executable: PathBuf },
    /// Another supervisor that speaks the protocol of [`supervisor`].
    JsonRpc { argv: Vec<OsString> },
    /// The `cyberos-cuo` command line, up to its subcommand. It knows no single skills: those the builtin supervisor
    /// runs.
    CyberosCli { argv: Vec<OsString>, executable: PathBuf },
}

/// What surrounds one request. To cancel, drop the request's future.
#[derive(Clone)]
pub struct CuoContext {
    pub trace_id: TraceId,
    pub progress: ProgressSink,
}

pub struct Cuo {
    settings: CuoSettings,
    tree: Tree,
    cache: CatalogueCache,
    /// Where the starter catalogue was unpacked, once somebody needed it on disk.
    unpacked: tokio::sync::OnceCell<PathBuf>,
}

impl Cuo {
    /// Reads nothing yet. Error: a relative root, when there is no current directory.
    pub fn new(settings: CuoSettings) -> std::io::Result<Self> {
        let tree = match &settings.root {
            // Children run elsewhere: a relative root would mean something else to them.
            Some(root) => Tree::Disk(std::path::absolute(root)?),
            None => Tree::Starter,
        };
        Ok(Cuo { settings, cache: CatalogueCache::new(tree.clone()), tree, unpacked: tokio::sync::OnceCell::new() })
    }

    /// Wait until every child that was told to go is gone, about four seconds at most. Call it before the process ends.
    pub async fn settle() {
        child::settle().await;
    }

    /// The directory that holds `modules/`, on disk; `modules/skill` below it is for a read-only preopen.
    ///
    /// With the starter catalogue this unpacks it the first time, which can take a second on a slow disk: call it in the
    /// background at start.
    pub async fn root(&self) -> Result<&Path, CuoError> {
        match &self.tree {
            Tree::Disk(root) => Ok(root),
            Tree::Starter => {
                let state_dir = self.settings.state_dir.clone();
                let unpack = || async move {
                    let state_dir = std::path::absolute(state_dir)?;
                    tokio::task::spawn_blocking(move || starter::ensure(&state_dir))
                        .await
                        .map_err(std::io::Error::other)?
                };
                self.unpacked.get_or_try_init(unpack).await.map(PathBuf::as_path).map_err(no_work_dir)
            }
        }
    }

    /// The current catalogue and what was wrong with its files. Also warms the cache at start.
    pub async fn catalogue(&self) -> Arc<Reading> {
        self.cache.get().await
    }

    /// Answer one request of the import `spawn-cuo`.
    ///
    /// Methods and params: `cuo.list_personas {}`, `cuo.list_workflows {persona}`, `cuo.route {query}`,
    /// `skill.list {filter?}`, `cuo.execute {persona, workflow, inputs?}`, `skill.invoke {skill, inputs?}`. Results are
    /// described in [`supervisor`] and `views`. No timeout of its own: the call's deadline drops it.
    pub async fn request(&self, method: &str, params: Value, context: CuoContext) -> Result<Value, CuoError> {
        if !params.is_object() {
            return Err(CuoError::invalid("Parameters must be an object."));
        }
        let reading = self.cache.get().await;
        if let Some(answer) = views::answer(&reading.catalogue, method, &params) {
            return answer;
        }
        match method {
            "cuo.execute" => {
                let workflow = views::workflow(&reading.catalogue, &params)?;
                let inputs = views::inputs(&params)?;
                if let CuoCommand::CyberosCli { argv, .. } = &self.settings.command {
                    return self.execute_with_cli(argv, workflow, &inputs, &context).await;
                }
                let params = json!({ "persona": workflow.persona, "workflow": workflow.slug, "inputs": inputs });
                self.execute(method, params, &context).await
            }
            "skill.invoke" => {
                let name = views::text(&params, "skill")?;
                if !reading.catalogue.skills.contains_key(name) {
                    return Err(CuoError::not_found("skill", reading.catalogue.skills_like(name)));
                }
                let params = json!({ "skill": name, "inputs": views::inputs(&params)? });
                self.execute(method, params, &context).await
            }
            _ => Err(CuoError::UnknownMethod),
        }
    }

    /// Can the supervisor be started, and does it answer? For `doctor`; with the command line, only `--version` is asked.
    pub async fn ping(&self) -> Result<(), CuoError> {
        let work = self.work_dir()?;
        match &self.settings.command {
            CuoCommand::CyberosCli { argv, .. } => {
                let argv: Vec<OsString> = argv.iter().cloned().chain(["--version".into()]).collect();
                let env = self.environment(work.path(), Some(self.root().await?));
                let mut child = ChildProcess::spawn(&argv, &env, work)?;
                while let Ok(Some(_)) = child.stdout.next().await {}
                match child.finish().await {
                    Some(status) if status.success() => Ok(()),
                    status => Err(CuoError::unavailable(
                        Reason::BadResponse,
                        "The CUO command line does not answer --version.",
                        format!("{status:?}"),
                    )),
                }
            }
            CuoCommand::Builtin { .. } | CuoCommand::JsonRpc { .. } => {
                let child = self.spawn_supervisor(work).await?;
                rpc::call(child, "ping", &json!({}), &ProgressSink::none()).await.map(|_| ())
            }
        }
    }

    async fn execute(&self, method: &str, mut params: Value, context: &CuoContext) -> Result<Value, CuoError> {
        let work = self.work_dir()?;
        params["output_dir"] = path_text(&output_dir(&work)?)?.into();
        params["trace_id"] = context.trace_id.to_string().into();
        if params.to_string().len() > MAX_PARAMS_BYTES {
            return Err(CuoError::invalid(format!("The inputs are over {MAX_PARAMS_BYTES} bytes.")));
        }
        let child = self.spawn_supervisor(work).await?;
        let result = rpc::call(child, method, &params, &context.progress).await?;
        if !result.is_object() {
            let message = "The CUO supervisor answered with something unusable.";
            return Err(CuoError::unavailable(Reason::BadResponse, message, "the result is no object"));
        }
        Ok(result)
    }

    async fn execute_with_cli(
        &self,
        argv: &[OsString],
        workflow: &catalogue::Workflow,
        inputs: &serde_json::Map<String, Value>,
        context: &CuoContext,
    ) -> Result<Value, CuoError> {
        let work = self.work_dir()?;
        let output_dir = output_dir(&work)?;
        let argv: Vec<OsString> =
            argv.iter().cloned().chain(adapter::arguments(workflow, inputs, &output_dir)?).collect();
        let scratch = adapter::scratch_root(work.path(), self.root().await?).map_err(no_work_dir)?;
        let child = ChildProcess::spawn(&argv, &self.environment(work.path(), Some(&scratch)), work)?;
        adapter::follow(child, workflow, &output_dir, &context.progress).await
    }

    async fn spawn_supervisor(&self, work: TempDir) -> Result<ChildProcess, CuoError> {
        let (argv, root) = match (&self.settings.command, &self.tree) {
            (CuoCommand::JsonRpc { argv }, _) => (argv.clone(), Some(self.root().await?)),
            (CuoCommand::Builtin { executable } | CuoCommand::CyberosCli { executable, .. }, tree) => {
                let root = match tree {
                    Tree::Disk(root) => Some(root.as_path()),
                    // Ours has the starter catalogue in itself.
                    Tree::Starter => None,
                };
                (vec![executable.clone().into(), "cuo".into(), "serve".into()], root)
            }
        };
        let env = self.environment(work.path(), root);
        ChildProcess::spawn(&argv, &env, work)
    }

    /// All that a child knows of our environment.
    fn environment(&self, home: &Path, root: Option<&Path>) -> Vec<(OsString, OsString)> {
        let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
        let mut env: Vec<(OsString, OsString)> =
            vec![("PATH".into(), path), ("HOME".into(), home.into()), ("LANG".into(), "C.UTF-8".into())];
        env.extend(root.map(|root| ("CYBEROS_ROOT".into(), root.into())));
        let extra = self.settings.extra_env.iter();
        env.extend(extra.map(|(name, value)| (name.into(), value.expose_secret().into())));
        env
    }

    /// A fresh directory that only this user can enter (0700).
    fn work_dir(&self) -> Result<TempDir, CuoError> {
        let parent = self.settings.work_dir.clone().unwrap_or_else(std::env::temp_dir);
        let create = || {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&parent)?;
            child::private_dir(&std::path::absolute(&parent)?)
        };
        create().map_err(no_work_dir)
    }
}

fn output_dir(work: &TempDir) -> Result<PathBuf, CuoError> {
    let dir = work.path().join("out");
    std::fs::DirBuilder::new().mode(0o700).create(&dir).map_err(no_work_dir)?;
    Ok(dir)
}

fn path_text(path: &Path) -> Result<&str, CuoError> {
    path.to_str().ok_or_else(|| {
        CuoError::unavailable(
            Reason::Unreachable,
            "The CUO supervisor cannot be started.",
            "the work directory is not UTF-8",
        )
    })
}

fn no_work_dir(e: std::io::Error) -> CuoError {
    CuoError::unavailable(Reason::Unreachable, "The CUO supervisor has no place to work in.", e)
}

#[cfg(test)]
mod tests;
