//! The programs that a build runs: found in the project, then on the path; run with their output read, not shown.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::error::{Error, Result};
use super::progress::Progress;
use crate::config::Toolchains;

/// Lines of a failed tool's output that are kept: the first error is usually the one to mend.
const MAX_LINES: usize = 200;

pub struct Tools {
    places: Vec<PathBuf>,
    pub wasi_sdk: Option<PathBuf>,
}

impl Tools {
    /// What the project brought itself comes first.
    pub fn of(project: &Path, machine: &Toolchains) -> Tools {
        let own = [project.join("node_modules/.bin"), project.join(".venv/bin")];
        Tools {
            places: own.into_iter().chain(machine.path.iter().cloned()).collect(),
            wasi_sdk: machine.wasi_sdk.clone(),
        }
    }

    /// The first of these names that is there; within one place, the earlier name.
    pub fn find(&self, names: &[&str]) -> Option<PathBuf> {
        let all = |place: &PathBuf| names.iter().map(|name| place.join(name)).collect::<Vec<_>>();
        self.places.iter().flat_map(all).find(|program| is_executable(program))
    }

    pub fn need(&self, names: &[&str], what: &str, install: &str) -> Result<PathBuf> {
        self.find(names).ok_or_else(|| missing(what, install))
    }

    /// A command in the project's directory, which finds its own helpers where we do.
    pub fn command(&self, program: &Path, directory: &Path) -> Command {
        let mut command = Command::new(program);
        let path = std::env::join_paths(&self.places).unwrap_or_else(|_| OsString::new());
        command.current_dir(directory).env("PATH", path).stdin(Stdio::null());
        command
    }
}

pub fn missing(what: &str, install: &str) -> Error {
    Error::Missing { what: what.into(), install: install.into() }
}

/// Run it to its end. Its standard output comes back; a status other than 0 is an error with what it said.
pub fn run(mut command: Command, progress: &Progress) -> Result<String> {
    let program = PathBuf::from(command.get_program());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(Error::at(&program))?;
    let (out, err) = (child.stdout.take().expect("it is piped"), child.stderr.take().expect("it is piped"));
    let (said, printed) = std::thread::scope(|scope| {
        let reader = scope.spawn(move || follow(err, progress));
        let mut printed = Vec::new();
        let _ = BufReader::new(out).read_to_end(&mut printed);
        (reader.join().unwrap_or_default(), String::from_utf8_lossy(&printed).into_owned())
    });
    let status = child.wait().map_err(Error::at(&program))?;
    if status.success() {
        return Ok(printed);
    }
    // Some tools complain on standard output.
    let said = if said.trim().is_empty() { last(&printed) } else { said };
    let program = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned();
    Err(Error::Failed { program, status: status.to_string(), said: said.trim_end().to_owned() })
}

/// Report each line and keep the first ones.
fn follow(output: impl Read, progress: &Progress) -> String {
    let mut kept = String::new();
    let mut lines = 0;
    let mut reader = BufReader::new(output);
    let mut bytes = Vec::new();
    while reader.read_until(b'\n', &mut bytes).is_ok_and(|read| read > 0) {
        let line = String::from_utf8_lossy(&bytes);
        progress.says(line.trim_end());
        lines += 1;
        if lines <= MAX_LINES {
            kept.push_str(&line);
        }
        bytes.clear();
    }
    kept
}

fn last(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(MAX_LINES)..].join("\n")
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}
