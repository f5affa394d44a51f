//! `plugin build`.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use super::super::{out, progress::Bar};
use super::target::bytes;
use crate::app::NAME;
use crate::author::{Built, Progress, Project, Result, Step};
use crate::model;

#[derive(clap::Args)]
pub struct Arguments {
    /// The plugin's directory.
    #[arg(default_value = ".")]
    dir: PathBuf,
}

pub async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let directory = arguments.dir;
    let project = if directory.as_os_str() == "." { String::new() } else { format!(" {}", directory.display()) };
    let built = tokio::task::spawn_blocking(move || -> Result<Built> { Project::open(&directory)?.build(&shown()) });
    match built.await? {
        Ok(built) => {
            let path =
                std::env::current_dir().ok().and_then(|here| Some(built.path.strip_prefix(here).ok()?.to_owned()));
            let path = path.unwrap_or_else(|| built.path.clone());
            let folder = path.parent().map(|folder| folder.display().to_string()).unwrap_or_default();
            out::text(&out::fields(&[
                ("component", path.display().to_string()),
                ("size", bytes(usize::try_from(built.size).unwrap_or(usize::MAX))),
                ("sha256", built.digest),
                ("asks for", if built.asks.is_empty() { "nothing".into() } else { built.asks.lines().join("\n") }),
                ("test it", format!("{NAME} plugin test{project}")),
                ("call it", format!("{NAME} --plugins {folder} tools list")),
            ]))?;
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => Ok(super::refused(&error)),
    }
}

/// A bar on a terminal, a line for each step elsewhere.
pub fn shown() -> Progress {
    if !std::io::stderr().is_terminal() {
        return Progress::new(|step| {
            if let Step::Begins(what) = step {
                eprintln!("{what}");
            }
        });
    }
    let bar = Bar::at_once("building");
    let doing = std::sync::Mutex::new(String::new());
    Progress::new(move |step| {
        let mut doing = doing.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let message = match step {
            Step::Begins(what) => {
                what.clone_into(&mut doing);
                what.to_owned()
            }
            Step::Says(line) => format!("{doing}: {}", out::short(line, 60)),
        };
        bar.show(&model::Progress { progress: 0.0, total: None, message: Some(message) });
    })
}
