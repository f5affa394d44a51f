//! C: clang with a WASI libc, Debian's or that of a WASI SDK; the module becomes a component in this process.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::super::component;
use super::super::error::Result;
use super::super::progress::Progress;
use super::super::project::Project;
use super::super::tools::{Tools, missing, run};

const INSTALL: &str = "apt-get install clang-16 lld-16 wasi-libc libclang-rt-16-dev-wasm32 (or set WASI_SDK_PATH)";
/// Newest first, then whatever is called clang.
const NEWEST: u32 = 30;
const OLDEST: u32 = 16;

pub fn component(project: &Project, scratch: &Path, progress: &Progress) -> Result<PathBuf> {
    let (tools, settings) = (project.tools(), &project.manifest().c);
    let mut clang = compiler(&tools, project.directory())?;
    progress.begins("compiling with clang");
    let core = scratch.join("core.wasm");
    clang.args(["-Os", "-std=c11", "-Wall", "-mexec-model=reactor", "-Wl,--gc-sections", "-Wl,-s", "-Icyberos"]);
    clang
        .args(&settings.flags)
        .args(&settings.sources)
        .args(["cyberos/tools.c", "cyberos/plugin.c"])
        .arg("-o")
        .arg(&core);
    run(clang, progress)?;
    component::from_core(&core, project, scratch, progress)
}

fn compiler(tools: &Tools, directory: &Path) -> Result<Command> {
    if let Some(sdk) = &tools.wasi_sdk {
        let program = sdk.join("bin/clang");
        if !program.is_file() {
            return Err(missing(&format!("{} (WASI_SDK_PATH)", program.display()), "unpack a WASI SDK there"));
        }
        let mut clang = tools.command(&program, directory);
        clang.arg("--target=wasm32-wasip1");
        return Ok(clang);
    }
    let versioned = |name: &str| (OLDEST..=NEWEST).rev().map(|n| format!("{name}-{n}")).collect::<Vec<_>>();
    let find = |name: &str| {
        let mut names = versioned(name);
        names.push(name.to_owned());
        tools.find(&names.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let program = find("clang").ok_or_else(|| missing("clang 16 or later", INSTALL))?;
    find("wasm-ld").ok_or_else(|| missing("lld's wasm-ld", INSTALL))?;
    if !Path::new("/usr/include/wasm32-wasi").is_dir() {
        return Err(missing("a WASI libc", INSTALL));
    }
    let mut clang = tools.command(&program, directory);
    clang.args(["--target=wasm32-wasi", "--sysroot=/usr"]);
    Ok(clang)
}
