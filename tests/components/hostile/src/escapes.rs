//! Ways out of a granted directory, and out of the sandbox. They report what they found instead of failing.

use cyberos_plugin_sdk::prelude::*;
use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_int};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Directory {
    /// A granted directory, in which the test put `inside.txt` and the links `to-file`, `to-directory`, `to-nothing`, `up`
    /// and `self`, all of which lead out.
    directory: String,
    /// The host's own path of something outside, and of a directory outside.
    file: String,
    outside: String,
}

/// `ok: <what came back>` or `refused: <kind of error>`, by what was tried.
#[derive(Serialize, JsonSchema)]
pub struct Tried {
    tried: BTreeMap<String, String>,
}

behaviour!(EscapesFrom, "escapes_from", "tries every way out of the directory that it was granted.", WRITE,
Directory => Tried, |Directory { directory, file, outside }| {
    let mut tried = BTreeMap::new();
    let mut note = |what: &str, outcome: io::Result<String>| tried.insert(what.into(), said(outcome));
    let within = |path: &str| format!("{directory}/{path}");
    note("absolute path", fs::read_to_string(&file));
    note("absolute path within", fs::read_to_string(within(&file)));
    for link in ["to-file", "to-directory/secret.txt", "up/outside/secret.txt", "self/environ", "self/root/etc/passwd"] {
        note(&format!("read {link}"), fs::read_to_string(within(link)));
    }
    for path in ["../outside/secret.txt", "./.././outside/secret.txt", "folder/../../outside/secret.txt", "../../../../../etc/passwd"] {
        note(&format!("read {path}"), fs::read_to_string(within(path)));
    }
    for path in ["to-file", "to-nothing", "to-directory/new", "../new", "up/new"] {
        note(&format!("create {path}"), write(OpenOptions::new().write(true).create(true).open(within(path))));
        note(&format!("truncate {path}"), write(OpenOptions::new().write(true).truncate(true).open(within(path))));
        note(&format!("append {path}"), write(OpenOptions::new().append(true).open(within(path))));
    }
    note("hard link to outside", fs::hard_link(&file, within("hard")).and_then(|()| fs::read_to_string(within("hard"))));
    note("hard link through a link", fs::hard_link(within("to-directory/secret.txt"), within("hard")).map(|()| String::new()));
    note("rename out", fs::rename(within("inside.txt"), within("../moved.txt")).map(|()| String::new()));
    note("rename through a link", fs::rename(within("inside.txt"), within("to-directory/moved.txt")).map(|()| String::new()));
    note("remove through a link", fs::remove_file(within("to-directory/secret.txt")).map(|()| String::new()));
    note("own absolute link", symlink(&file, &within("mine")).and_then(|()| fs::read_to_string(within("mine"))));
    note("own relative link", symlink("../outside", &within("mine2")).and_then(|()| fs::read_to_string(within("mine2/secret.txt"))));
    note("link to a link", symlink("up", &within("mine3")).and_then(|()| fs::read_to_string(within("mine3/outside/secret.txt"))));
    note("list outside", fs::read_dir(within("to-directory")).map(|entries| format!("{} entries", entries.count())));
    note("list the host's directory", fs::read_dir(&outside).map(|entries| format!("{} entries", entries.count())));
    note("name with a zero", fs::read_to_string(within("inside.txt\0/../..")));
    // For a grant that only reads.
    note("create inside", write(OpenOptions::new().write(true).create_new(true).open(within("made"))));
    note("truncate inside", write(OpenOptions::new().write(true).truncate(true).open(within("inside.txt"))));
    note("lengthen inside", File::open(within("inside.txt")).and_then(|open| open.set_len(1 << 40)).map(|()| String::new()));
    Ok(Tried { tried })
});

fn write(opened: io::Result<File>) -> io::Result<String> {
    io::Write::write_all(&mut opened?, b"written by a guest").map(|()| String::new())
}

fn said(outcome: io::Result<String>) -> String {
    match outcome {
        Ok(text) => format!("ok: {}", text.chars().take(100).collect::<String>()),
        Err(error) => format!("refused: {:?}", error.kind()),
    }
}

/// The standard library has it for WASI on nightly alone.
fn symlink(to: &str, at: &str) -> io::Result<()> {
    unsafe extern "C" {
        fn symlink(to: *const c_char, at: *const c_char) -> c_int;
    }
    let (to, at) = (CString::new(to)?, CString::new(at)?);
    // SAFETY: both are strings that end in zero and live until it returns.
    match unsafe { symlink(to.as_ptr(), at.as_ptr()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

behaviour!(ForksAndSpawns, "forks_and_spawns", "tries to start threads and processes, again and again.", READ_ONLY,
NoArguments => Tried, |_| {
    let mut tried = BTreeMap::new();
    for n in 0..1_000 {
        let thread = std::thread::Builder::new().spawn(|| loop {}).map(|_| String::new());
        let process = std::process::Command::new("/bin/sh").arg("-c").arg("cat").spawn().map(|_| String::new());
        for (what, outcome) in [("thread", thread), ("process", process)] {
            if n == 0 || outcome.is_ok() {
                tried.insert(format!("{what} {n}"), said(outcome));
            }
        }
    }
    let mut none = [0];
    tried.insert("standard input".into(), format!("{:?}", io::stdin().read(&mut none).unwrap_or(0)));
    Ok(Tried { tried })
});
