//! `plugin dev`: a save is built and served while clients stay connected; what does not build leaves the old version serving.

use crate::authors::Author;
use bridge_tests::bridge_binary;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

struct Dev {
    child: Child,
    input: Option<ChildStdin>,
    out: Receiver<String>,
    err: Receiver<String>,
    said: Vec<String>,
}

impl Dev {
    fn start(author: &Author, project: &Path, words: &[&str]) -> Dev {
        let mut command = author.at_home(&bridge_binary());
        command.args(["plugin", "dev"]).arg(project).args(words);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (out, err) = (lines(child.stdout.take().unwrap()), lines(child.stderr.take().unwrap()));
        Dev { input: child.stdin.take(), child, out, err, said: vec![] }
    }

    /// The line in which it says this on stderr, or has said it.
    #[track_caller]
    fn has_said(&mut self, text: &str) -> String {
        match self.said.iter().find(|line| line.contains(text)) {
            Some(line) => line.clone(),
            None => self.says(text),
        }
    }

    /// Wait until it says this on stderr; the line.
    #[track_caller]
    fn says(&mut self, text: &str) -> String {
        let started = Instant::now();
        while started.elapsed() < PATIENCE {
            let Ok(line) = self.err.recv_timeout(PATIENCE) else { break };
            self.said.push(line.clone());
            if line.contains(text) {
                return line;
            }
        }
        panic!("it did not say {text:?}, but {:#?}", self.said);
    }

    fn send(&mut self, message: Value) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    /// Wait for the message that fits.
    #[track_caller]
    fn hears(&self, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            let line = self.out.recv_timeout(PATIENCE).expect("a message in time");
            let message: Value = serde_json::from_str(&line).expect("stdout carries the protocol alone");
            if fits(&message) {
                return message;
            }
        }
    }

    fn greet(&mut self, id: u64) -> Value {
        let call = json!({ "name": "cyberos.demo.dev", "arguments": { "name": "Ada" } });
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": call }));
        self.hears(|message| message["id"] == id)["result"]["structuredContent"]["text"].clone()
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines(from: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (to, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if to.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

/// As an editor saves.
fn save(project: &Path, from: &str, to: &str) {
    let source = project.join("tool.c");
    let text = fs::read_to_string(&source).unwrap();
    assert!(text.contains(from), "{text}");
    let half = project.join(".tool.c.swp");
    fs::write(&half, text.replace(from, to)).unwrap();
    fs::rename(half, source).unwrap();
}

fn project(author: &Author) -> PathBuf {
    author.project("demo-dev", "c")
}

#[test]
fn every_save_is_built_and_swapped_under_a_connected_client() {
    // given
    let author = Author::new();
    let project = project(&author);
    let mut dev = Dev::start(&author, &project, &["--transport=stdio"]);
    dev.says("serving cyberos.demo.dev");
    let client =
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    dev.send(json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client }));
    assert_eq!(dev.hears(|m| m["id"] == 1)["result"]["capabilities"]["tools"]["listChanged"], true);
    dev.send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    assert_eq!(dev.greet(2), "Hello, Ada!");
    // when: the tool and what it says of itself are changed
    save(&project, "Returns a greeting", "Makes a friendly greeting");
    save(&project, "Hello, %s", "Welcome, %s");
    // then
    dev.hears(|message| message["method"] == "notifications/tools/list_changed");
    dev.says("serving cyberos.demo.dev");
    assert_eq!(dev.greet(3), "Welcome, Ada!");
    // when: it does not build
    save(&project, "answer_string(", "answer_nothing(");
    // then: the compiler's own words, and the version before goes on
    dev.says("answer_nothing");
    dev.says("not built; the version before goes on serving");
    assert_eq!(dev.greet(4), "Welcome, Ada!");
    // when: it builds, and no host would serve it
    save(&project, "answer_nothing(", "answer_string(");
    dev.says("the same as before");
    save(&project, ".title = \"Greet\"", ".title = \"\"");
    // then
    let line = dev.says("not served; the version before goes on serving");
    assert!(line.contains("title"), "{line}");
    assert_eq!(dev.greet(5), "Welcome, Ada!");
}

#[test]
fn it_serves_over_loopback_and_grants_only_what_somebody_agreed_to() {
    // given: a plugin that asks for something
    let author = Author::new();
    let project = project(&author);
    let grants = "[plugins.demo-dev.upstreams.api]\nurl = \"https://api.example.com\"\npaths = [\"/v1/**\"]\n";
    fs::write(project.join("grants.toml"), grants).unwrap();
    // when: nobody can be asked
    let refused = author.bridge(&["plugin", "dev", project.to_str().unwrap()]);
    // then
    assert_eq!(refused.status, 2, "{}", refused.err);
    assert!(refused.err.contains("https://api.example.com") && refused.err.contains("--yes"), "{}", refused.err);
    // when
    let mut dev = Dev::start(&author, &project, &["--yes", "--listen=127.0.0.1:0"]);
    // then: over HTTP, without tokens
    let line = dev.has_said("listening on http://127.0.0.1:");
    dev.has_said("serving cyberos.demo.dev");
    let url = line.split_whitespace().find(|word| word.starts_with("http://")).unwrap();
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    bridge_tests::bridge::with_tls();
    let answer = tokio::runtime::Runtime::new().unwrap().block_on(async {
        let client = reqwest::Client::new().post(url).header("accept", "application/json, text/event-stream");
        client
            .header("content-type", "application/json")
            .body(body.to_string())
            .send()
            .await
            .unwrap()
            .text()
            .await
            .unwrap()
    });
    assert!(answer.contains("cyberos.demo.dev"), "{answer}");
}
