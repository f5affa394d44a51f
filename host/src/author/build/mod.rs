//! From a project to a component, one file per language. Each finds its tools, says what is missing, and runs them.

mod c;
mod go;
mod js;
mod python;
mod rust;

use std::path::{Path, PathBuf};

use super::error::Result;
use super::language::Language;
use super::progress::Progress;
use super::project::Project;

/// Build into `scratch` (or wherever the tool puts it) and say where the component is.
pub fn component(project: &Project, scratch: &Path, progress: &Progress) -> Result<PathBuf> {
    match project.language() {
        Language::Rust => rust::component(project, progress),
        Language::Js => js::component(project, scratch, progress),
        Language::Python => python::component(project, scratch, progress),
        Language::Go => go::component(project, scratch, progress),
        Language::C => c::component(project, scratch, progress),
    }
}
