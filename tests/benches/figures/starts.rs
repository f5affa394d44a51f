//! How soon the real binary is of use, and how much memory it holds while it waits.

use anyhow::ensure;
use serde_json::json;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::components;
use crate::eight;
use crate::plan::Plan;
use crate::process::Conversation;
use crate::report::{Bound, Row};
use crate::statistics::{median, millis, percentile};

const MIB: f64 = (1 << 20) as f64;

pub fn rows(plan: &Plan) -> anyhow::Result<Vec<Row>> {
    let home = tempfile::tempdir()?;
    let mut rows = warm(plan, home.path())?;
    rows.extend(first_ever(plan)?);
    rows.extend(idle_memory(home.path())?);
    Ok(rows)
}

/// Loaded plugins are the list's and can be called: nothing is loaded later.
fn until_ready(state: &Path) -> anyhow::Result<(Conversation, Duration, Duration)> {
    let started = Instant::now();
    let mut client = Conversation::start(state, &[])?;
    client.initialize()?;
    let initialized = started.elapsed();
    let (listed, _) = client.request("tools/list", json!({}))?;
    let ready = started.elapsed();
    ensure!(listed["tools"].as_array().is_some_and(|tools| tools.len() == 8), "eight tools: {listed}");
    Ok((client, initialized, ready))
}

fn warm(plan: &Plan, home: &Path) -> anyhow::Result<Vec<Row>> {
    let state = home.join("warm");
    let (mut initialized, mut ready, mut answered) = (vec![], vec![], vec![]);
    for n in 0..=plan.starts {
        let started = Instant::now();
        let (mut client, to_initialize, to_list) = until_ready(&state)?;
        client.request("tools/call", json!({ "name": "cyberos.memory.read_audit", "arguments": {} }))?;
        // The first start is not a warm one.
        if n > 0 {
            initialized.push(to_initialize);
            ready.push(to_list);
            answered.push(started.elapsed());
        }
    }
    let row = Row::new("warm start: eight tools callable, median", Bound::AtMost(30.0), median(&millis(&ready)), "ms");
    Ok(vec![row.note(format!(
        "initialize answered after {:.1} ms, a first call after {:.1} ms; slowest start {:.1} ms",
        median(&millis(&initialized)),
        median(&millis(&answered)),
        percentile(&millis(&ready), 1.0)
    ))])
}

fn first_ever(plan: &Plan) -> anyhow::Result<Vec<Row>> {
    let (mut listed, mut slowest) = (vec![], vec![]);
    let mut worst = ("", 0.0);
    for _ in 0..(plan.starts / 4).max(2) {
        for (tool, arguments) in eight::calls() {
            // Each tool's call is the first that its process answers.
            let state = tempfile::tempdir()?;
            let (mut client, _, ready) = until_ready(state.path())?;
            let (_, took) = eight::call(&mut client, tool, &arguments)?;
            listed.push(ready);
            slowest.push(took);
            let took = took.as_secs_f64() * 1e3;
            if took > worst.1 {
                worst = (tool, took);
            }
        }
    }
    Ok(vec![
        Row::new(
            "first start ever: initialize and tools/list, median",
            Bound::AtMost(50.0),
            median(&millis(&listed)),
            "ms",
        )
        .note(format!("slowest {:.1} ms of {}", percentile(&millis(&listed), 1.0), listed.len())),
        Row::new("first start ever: first call of any tool, slowest", Bound::AtMost(500.0), worst.1, "ms")
            .note(format!("{}; median {:.1} ms", worst.0, median(&millis(&slowest)))),
    ])
}

fn idle_memory(home: &Path) -> anyhow::Result<Vec<Row>> {
    const MORE: usize = 10;
    let more = components::many_echoes(home, MORE)?.display().to_string();
    let idle = |words: &[&str]| {
        let mut client = Conversation::start(&home.join("idle"), words)?;
        client.initialize()?;
        client.request("tools/list", json!({}))?;
        // The catalogue is read in the background.
        std::thread::sleep(Duration::from_millis(1500));
        client.memory()
    };
    // Their code is compiled once and kept; it is the next start that counts.
    idle(&["--plugins", &more])?;
    let (eight, eight_anonymous) = idle(&[])?;
    let (all, all_anonymous) = idle(&["--plugins", &more])?;
    let each = |all: f64, eight: f64| (all - eight) / MORE as f64 / MIB;
    Ok(vec![
        Row::new("idle memory with eight tools, resident", Bound::AtMost(30.0), eight / MIB, "MiB")
            .note(format!("{:.1} MiB of it anonymous, the rest pages of files", eight_anonymous / MIB)),
        Row::new("each further idle plugin, resident", Bound::AtMost(0.2), each(all, eight), "MiB")
            .note(format!("{:.2} MiB of it anonymous; of {MORE}", each(all_anonymous, eight_anonymous))),
    ])
}
