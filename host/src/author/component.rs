//! A core module of C or Go becomes a component: its type is added from the project's `wit/` and from the files beside
//! packages that import more, and WASI's first interface, which their libraries speak, is translated to the second by an
//! adapter.

use anyhow::Context as _;
use std::fs;
use std::path::{Path, PathBuf};
use wasi_preview1_component_adapter_provider as adapter;
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

use super::adapter_area;
use super::error::{Error, Result};
use super::language::Language;
use super::progress::Progress;
use super::project::Project;

const WORLD: &str = "plugin";

/// What a package of the project imports beside the contract, as a world in one file. It stands with the code that is
/// written after it, so that a project builds with every later version of the bridge; a project may lack it.
const PACKAGES: [&str; 1] = ["wasihttp/wasi.wit"];

/// Imports that the module does not use are left out.
pub fn from_core(core: &Path, project: &Project, scratch: &Path, progress: &Progress) -> Result<PathBuf> {
    progress.begins("making it a component");
    let mut module = fs::read(core).map_err(Error::at(core))?;
    if project.language() == Language::Go {
        module = adapter_area::give(&module).map_err(Error::NotAComponent)?;
    }
    let component = encode(module, project.directory()).map_err(|e| Error::NotAComponent(format!("{e:#}")))?;
    let path = scratch.join("component.wasm");
    fs::write(&path, component).map_err(Error::at(&path))?;
    Ok(path)
}

fn encode(mut module: Vec<u8>, project: &Path) -> anyhow::Result<Vec<u8>> {
    let mut contract = Resolve::default();
    let (package, _) = contract.push_dir(project.join("wit"))?;
    let world = contract.select_world(&[package], Some(WORLD))?;
    embed_component_metadata(&mut module, &contract, world, StringEncoding::UTF8)?;
    for file in PACKAGES.map(|file| project.join(file)).iter().filter(|file| file.is_file()) {
        let mut more = Resolve::default();
        let package = more.push_file(file).with_context(|| file.display().to_string())?;
        let world = more.select_world(&[package], None)?;
        embed_component_metadata(&mut module, &more, world, StringEncoding::UTF8)?;
    }
    ComponentEncoder::default()
        .module(&module)?
        .validate(true)
        .adapter(adapter::WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, adapter::WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER)?
        .encode()
}
