//! The real binary, over stdio and over HTTP, with a state directory of its own and none of the machine's settings.

use anyhow::{Context, bail, ensure};
use bridge_tests::bridge_binary;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use crate::cpu;

/// Ends with its owner.
pub struct Bridge {
    child: Child,
}

impl Drop for Bridge {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(state: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(bridge_binary());
    command.env_clear().env("HOME", state).arg("--state-dir").arg(state).args(words);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// A server on a free port of loopback, once it listens.
pub fn over_http(state: &Path, words: &[&str]) -> anyhow::Result<(Bridge, SocketAddr)> {
    let http = ["serve", "--transport", "http", "--listen", "127.0.0.1:0"];
    let mut command = command(state, &[&http, words].concat());
    let mut bridge = Bridge { child: command.stderr(Stdio::piped()).spawn()? };
    let mut log = BufReader::new(bridge.child.stderr.take().context("stderr is piped")?);
    let mut said = String::new();
    let address = loop {
        let from = said.len();
        ensure!(log.read_line(&mut said)? > 0, "the bridge did not start: {said}");
        if let Some(rest) = said[from..].split_once("http://") {
            break rest.1.split('/').next().unwrap_or_default().parse()?;
        }
    };
    // A full pipe would stop the server.
    std::thread::spawn(move || log.read_to_end(&mut vec![]));
    Ok((bridge, address))
}

impl Bridge {
    pub fn cpu(&self) -> anyhow::Result<Duration> {
        cpu::used(&self.child.id().to_string())
    }
}

/// A client of the bridge over stdio.
pub struct Conversation {
    bridge: Bridge,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    line: String,
    next_id: u64,
}

impl Conversation {
    pub fn start(state: &Path, words: &[&str]) -> anyhow::Result<Conversation> {
        let mut bridge = Bridge { child: command(state, words).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()? };
        let input = bridge.child.stdin.take().context("stdin is piped")?;
        let output = BufReader::new(bridge.child.stdout.take().context("stdout is piped")?);
        Ok(Conversation { bridge, input, output, line: String::new(), next_id: 1 })
    }

    /// Send one line and read the next one. Only one request is under way at any time.
    pub fn exchange(&mut self, line: &str) -> anyhow::Result<(&str, Duration)> {
        let started = Instant::now();
        self.input.write_all(line.as_bytes())?;
        self.line.clear();
        ensure!(self.output.read_line(&mut self.line)? > 0, "the bridge ended the conversation");
        Ok((&self.line, started.elapsed()))
    }

    pub fn request(&mut self, method: &str, params: Value) -> anyhow::Result<(Value, Duration)> {
        let id = self.next_id;
        self.next_id += 1;
        let line = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string() + "\n";
        let (reply, took) = self.exchange(&line)?;
        let mut reply: Value = serde_json::from_str(reply)?;
        match reply.get("error") {
            Some(error) => bail!("{method} was refused: {error}"),
            None => Ok((reply["result"].take(), took)),
        }
    }

    pub fn initialize(&mut self) -> anyhow::Result<Duration> {
        let client = json!({ "name": "figures", "version": "1" });
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
        self.request("initialize", params).map(|(_, took)| took)
    }

    /// Memory of the process, in bytes: resident, and of that anonymous. The rest is pages of files, the program's own
    /// above all: the kernel maps what it happens to have, and takes it back when it needs the room.
    pub fn memory(&self) -> anyhow::Result<(f64, f64)> {
        let path = format!("/proc/{}/smaps_rollup", self.bridge.child.id());
        let text = std::fs::read_to_string(&path).with_context(|| path)?;
        let of = |name: &str| -> anyhow::Result<f64> {
            let line = text.lines().find_map(|line| line.strip_prefix(name)).context("a figure of memory")?;
            Ok(line.trim().trim_end_matches(" kB").parse::<f64>()? * 1024.0)
        };
        Ok((of("Rss:")?, of("Anonymous:")?))
    }
}
