//! A plugin's project: its `plugin.toml`, where its parts are, and its build.

use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Component, Path, PathBuf};

use super::error::{Error, Result};
use super::language::Language;
use super::progress::Progress;
use super::tools::Tools;
use super::{asked, build};
use crate::config::Toolchains;
use crate::model::PluginId;
use crate::plugins::{Request, request};

pub struct Project {
    directory: PathBuf,
    manifest: Manifest,
    id: PluginId,
    machine: Toolchains,
}

/// A finished component.
#[derive(Clone, Debug)]
pub struct Built {
    pub path: PathBuf,
    /// SHA-256 of the file, 64 hex digits.
    pub digest: String,
    /// Bytes.
    pub size: u64,
    /// What it says that it asks for.
    pub asks: Request,
}

/// `plugin.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    name: String,
    pub lang: Language,
    /// Where the component goes, below the project. `build/NAME.wasm` unless given.
    #[serde(default)]
    output: Option<PathBuf>,
    #[serde(default)]
    pub js: Js,
    #[serde(default)]
    pub python: Python,
    #[serde(default)]
    pub c: C,
    #[serde(default)]
    pub go: Go,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Js {
    pub source: String,
    pub world: String,
    /// Of `stdio`, `clocks`, `random`, `http`.
    pub features: Vec<String>,
}

impl Default for Js {
    fn default() -> Js {
        let features = ["stdio", "clocks", "random"].map(str::to_owned).to_vec();
        Js { source: "tool.js".into(), world: "plugin".into(), features }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Python {
    pub module: String,
    pub world: String,
}

impl Default for Python {
    fn default() -> Python {
        Python { module: "tool".into(), world: "plugin".into() }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct C {
    /// Beside those in `cyberos/`.
    pub sources: Vec<String>,
    /// More arguments for the compiler.
    pub flags: Vec<String>,
}

impl Default for C {
    fn default() -> C {
        C { sources: vec!["tool.c".into()], flags: vec![] }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Go {
    pub package: String,
    /// More arguments for `go build`.
    pub flags: Vec<String>,
}

impl Default for Go {
    fn default() -> Go {
        Go { package: ".".into(), flags: vec![] }
    }
}

impl Project {
    /// The project in this directory. Errors: none there, or a `plugin.toml` that cannot be used, with its line.
    pub fn open(directory: &Path) -> Result<Project> {
        let path = directory.join("plugin.toml");
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(Error::NoProject(directory.to_owned()));
            }
            read => read.map_err(Error::at(&path))?,
        };
        let bad = |what: String| Error::BadFile { path: path.clone(), what };
        let manifest: Manifest = toml::from_str(&text).map_err(|e| bad(e.to_string()))?;
        let id = PluginId::parse(&manifest.name).ok_or_else(|| {
            bad(format!("name: {:?} is not 1 to 63 lower-case letters, digits and hyphens", manifest.name))
        })?;
        if let Some(output) = &manifest.output {
            let inside = output.components().all(|part| matches!(part, Component::Normal(_)));
            if !inside || output.file_name() != Some(format!("{id}.wasm").as_ref()) {
                return Err(bad(format!(
                    "output: must be {id}.wasm in a directory below the project, such as build/{id}.wasm"
                )));
            }
        }
        // Tools are started in the project's directory, so what they are given must not depend on ours.
        let directory = std::path::absolute(directory).map_err(Error::at(directory))?;
        Ok(Project { directory, manifest, id, machine: Toolchains::from_environment() })
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    pub fn id(&self) -> &PluginId {
        &self.id
    }

    pub fn language(&self) -> Language {
        self.manifest.lang
    }

    pub(super) fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    pub(super) fn tools(&self) -> Tools {
        Tools::of(&self.directory, &self.machine)
    }

    /// Where the component is after a build.
    pub fn output(&self) -> PathBuf {
        match &self.manifest.output {
            Some(output) => self.directory.join(output),
            None => self.directory.join("build").join(format!("{}.wasm", self.id)),
        }
    }

    /// Case files for `plugin test`. It need not exist.
    pub fn cases_dir(&self) -> PathBuf {
        self.directory.join("cases")
    }

    pub fn grants_file(&self) -> PathBuf {
        self.directory.join("grants.toml")
    }

    /// Build with the language's own tools. What `grants.toml` asks for becomes part of the component, which appears by a
    /// rename, so that who watches it never sees half of one; beside it goes `plugins.toml`, a copy of the grants that are
    /// asked for, so that the directory can be served.
    ///
    /// It blocks for as long as the tools take.
    pub fn build(&self, progress: &Progress) -> Result<Built> {
        let path = self.output();
        let folder = path.parent().expect("it is below the project").to_owned();
        fs::create_dir_all(&folder).map_err(Error::at(&folder))?;
        let scratch = folder.join(".scratch");
        fs::create_dir_all(&scratch).map_err(Error::at(&scratch))?;
        let asked = self.grants_file();
        // Before minutes of compiling.
        let asks = asked::request(&asked, &self.id).map_err(|why| Error::BadRequest(format!("{why:#}")))?;
        let section = asks.as_ref().map(Request::section).transpose();
        let section =
            section.map_err(|why| Error::BadRequest(format!("{} makes no request: {why}", asked.display())))?;
        let component = build::component(self, &scratch, progress)?;
        let built = fs::read(&component).map_err(Error::at(&component))?;
        let bytes = [request::without(&built), section.unwrap_or_default()].concat();
        let temporary = folder.join(format!(".{}.wasm.new", self.id));
        fs::write(&temporary, &bytes).map_err(Error::at(&temporary))?;
        fs::rename(&temporary, &path).map_err(Error::at(&path))?;
        if asked.exists() {
            fs::copy(&asked, folder.join("plugins.toml")).map_err(Error::at(&asked))?;
        }
        let asks = asks.unwrap_or_default();
        Ok(Built { digest: hex::encode(Sha256::digest(&bytes)), size: bytes.len() as u64, asks, path })
    }
}
