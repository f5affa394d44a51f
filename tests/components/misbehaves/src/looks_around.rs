//! Tools that look for what nobody granted. They report what they found instead of failing, so that a test sees all.

use cyberos_plugin_sdk::prelude::*;
use std::collections::BTreeMap;
use std::net::{TcpListener, TcpStream, ToSocketAddrs, UdpSocket};
use std::{env, fs, io};

#[derive(Serialize, JsonSchema)]
pub struct Environment {
    variables: BTreeMap<String, String>,
    arguments: Vec<String>,
    working_directory: Option<String>,
}

behaviour!(ReadsEnvironment, "reads_environment", "lists environment variables, arguments and working directory.",
READ_ONLY, NoArguments => Environment, |_| Ok(Environment {
    variables: env::vars().collect(),
    arguments: env::args().collect(),
    working_directory: env::current_dir().ok().map(|dir| dir.display().to_string()),
}));

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Files {
    /// A granted directory. The test puts `inside.txt` into it, and `escape`, a symbolic link to something outside.
    directory: Option<String>,
}

/// `ok: <what came back>` or `refused: <kind of error>`, by what was tried.
#[derive(Serialize, JsonSchema)]
pub struct Tried {
    tried: BTreeMap<String, String>,
}

behaviour!(ReadsFiles, "reads_files", "tries files inside, above and beside the directory that it was granted.",
WRITE, Files => Tried, |Files { directory }| {
    let mut tried = BTreeMap::new();
    let mut note = |what: &str, outcome: io::Result<String>| tried.insert(what.into(), said(outcome));
    note("list /", list("/"));
    note("list .", list("."));
    note("read /etc/passwd", fs::read_to_string("/etc/passwd"));
    note("read ../etc/passwd", fs::read_to_string("../etc/passwd"));
    note("read /proc/self/environ", fs::read_to_string("/proc/self/environ"));
    note("write /written", fs::write("/written", "x").map(|()| String::new()));
    if let Some(directory) = directory {
        let within = |path: &str| format!("{directory}/{path}");
        note("list directory", list(&directory));
        note("read inside.txt", fs::read_to_string(within("inside.txt")));
        note("read above", fs::read_to_string(within("../../../../../../../../etc/passwd")));
        note("list above", list(&within("..")));
        note("read escape", fs::read_to_string(within("escape")));
        note("list escape", list(&within("escape")));
        note("write inside", fs::write(within("written"), "x").map(|()| String::new()));
        note("overwrite inside.txt", fs::OpenOptions::new().write(true).open(within("inside.txt")).map(|_| String::new()));
        note("remove inside.txt", fs::remove_file(within("inside.txt")).map(|()| String::new()));
        note("make a folder", fs::create_dir(within("folder")).map(|()| String::new()));
        note("link out", link(&within("link")));
    }
    Ok(Tried { tried })
});

fn list(path: &str) -> io::Result<String> {
    let mut names = vec![];
    for entry in fs::read_dir(path)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names.join(" "))
}

/// A hard link to a file outside would reach it as well as a path does.
fn link(to: &str) -> io::Result<String> {
    fs::hard_link("/etc/passwd", to).map(|()| String::new())
}

fn said(outcome: io::Result<String>) -> String {
    match outcome {
        Ok(text) => format!("ok: {}", text.chars().take(500).collect::<String>()),
        Err(error) => format!("refused: {:?}", error.kind()),
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Port {
    /// Something listens there on loopback, so that a refusal is the sandbox's.
    #[schemars(range(min = 1))]
    port: u16,
}

behaviour!(OpensSocket, "opens_socket", "tries TCP, UDP, listening and name look-up through WASI.", WRITE,
Port => Tried, |Port { port }| {
    let mut tried = BTreeMap::new();
    let mut note = |what: &str, outcome: io::Result<String>| tried.insert(what.into(), said(outcome));
    note("connect tcp", TcpStream::connect(("127.0.0.1", port)).map(|_| String::new()));
    note("connect tcp6", TcpStream::connect(("::1", port)).map(|_| String::new()));
    note("send udp", UdpSocket::bind("0.0.0.0:0").and_then(|s| s.send_to(b"x", ("127.0.0.1", port))).map(|n| n.to_string()));
    note("listen", TcpListener::bind("127.0.0.1:0").map(|_| String::new()));
    note("look up localhost", "localhost:80".to_socket_addrs().map(|found| format!("{:?}", found.collect::<Vec<_>>())));
    note("look up example.com", "example.com:80".to_socket_addrs().map(|found| format!("{:?}", found.collect::<Vec<_>>())));
    Ok(Tried { tried })
});
