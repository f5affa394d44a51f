//! A core module of C or Go becomes a component: its type is added from the project's `wit/`, and WASI's first interface,
//! which their libraries speak, is translated to the second by an adapter.

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

/// Imports that the module does not use are left out.
pub fn from_core(core: &Path, project: &Project, scratch: &Path, progress: &Progress) -> Result<PathBuf> {
    progress.begins("making it a component");
    let mut module = fs::read(core).map_err(Error::at(core))?;
    if project.language() == Language::Go {
        module = adapter_area::give(&module).map_err(Error::NotAComponent)?;
    }
    let component =
        encode(module, &project.directory().join("wit")).map_err(|e| Error::NotAComponent(format!("{e:#}")))?;
    let path = scratch.join("component.wasm");
    fs::write(&path, component).map_err(Error::at(&path))?;
    Ok(path)
}

fn encode(mut module: Vec<u8>, wit: &Path) -> anyhow::Result<Vec<u8>> {
    let mut contract = Resolve::default();
    let (package, _) = contract.push_dir(wit)?;
    let world = contract.select_world(&[package], Some(WORLD))?;
    embed_component_metadata(&mut module, &contract, world, StringEncoding::UTF8)?;
    ComponentEncoder::default()
        .module(&module)?
        .validate(true)
        .adapter(adapter::WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, adapter::WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER)?
        .encode()
}
