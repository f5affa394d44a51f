//! Inputs that the fuzzer found, and the seeds that it starts from, one test for each target.

use bridge_tests::fuzzing::{TARGETS, kept_inputs, target};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// More than any of these small inputs may take, in an unoptimised build on a busy machine.
const PATIENCE: Duration = Duration::from_secs(5);

/// Half of what a worker of the bridge has.
const STACK_BYTES: usize = 1 << 20;

fn replay(name: &str) {
    let target = target(name);
    let inputs = kept_inputs(target);
    assert!(!inputs.is_empty(), "{name} has no seeds");
    for path in inputs {
        // The last line says which input it was, should it end the process.
        eprintln!("{}", path.display());
        let bytes = std::fs::read(&path).unwrap();
        let started = Instant::now();
        let run = target.run;
        let ran = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(move || run(&bytes)).unwrap().join();
        assert!(ran.is_ok(), "{} is not survived", path.display());
        assert!(started.elapsed() < PATIENCE, "{} took {:?}", path.display(), started.elapsed());
    }
}

#[test]
fn json_rpc() {
    replay("json_rpc");
}

#[test]
fn schema_compiler() {
    replay("schema_compiler");
}

#[test]
fn http_entry() {
    replay("http_entry");
}

#[test]
fn session_ids() {
    replay("session_ids");
}

#[test]
fn event_ids() {
    replay("event_ids");
}

#[test]
fn plugin_requests() {
    replay("plugin_requests");
}

#[test]
fn every_target_is_replayed() {
    let source = include_str!("fuzzed.rs");
    let replayed: BTreeSet<_> = source.lines().filter_map(|line| line.trim().strip_prefix("replay(\"")).collect();
    let replayed: BTreeSet<_> = replayed.iter().map(|line| line.trim_end_matches("\");")).collect();
    assert_eq!(replayed, TARGETS.iter().map(|target| target.name).collect());
}
