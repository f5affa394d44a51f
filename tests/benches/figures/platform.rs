//! The plugin platform: how soon a swapped component serves, what checking and compiling cost by size, what a call costs by
//! language, and what plugins cost while they are idle, by number.

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::client::{flood, post, tool_call};
use crate::components::{self, LANGUAGES};
use crate::plan::Plan;
use crate::process::{self, Conversation};
use crate::report::{Bound, Row};
use crate::statistics::{median, micros, millis, percentile};

const MIB: f64 = (1 << 20) as f64;

pub fn rows(plan: &Plan) -> anyhow::Result<Vec<Row>> {
    let home = tempfile::tempdir()?;
    let mut rows = vec![swap_to_serving(plan, home.path())?];
    let mut plugins = vec![];
    for language in LANGUAGES {
        plugins.push((language, components::of_language(home.path(), language)?));
    }
    rows.extend(check_and_compile(home.path(), &plugins)?);
    rows.extend(call_by_language(plan, home.path(), &plugins)?);
    rows.extend(memory_by_number(plan, home.path())?);
    Ok(rows)
}

/// From an atomic rename to the first answer of the new version. Both versions were compiled before: what compiling
/// costs has rows of its own.
fn swap_to_serving(plan: &Plan, home: &Path) -> anyhow::Result<Row> {
    let plugins = home.join("swapped");
    std::fs::create_dir_all(&plugins)?;
    let versions = [components::built("examples/version_one.wasm")?, components::built("examples/version_two.wasm")?];
    let put = |version: usize| -> anyhow::Result<()> {
        std::fs::write(plugins.join(".next"), &versions[version])?;
        Ok(std::fs::rename(plugins.join(".next"), plugins.join("swaps.wasm"))?)
    };
    put(0)?;
    let words = ["--auth=none", "--log=off", "--plugins", &plugins.display().to_string()];
    let mut client = Conversation::start(&home.join("swap-state"), &words)?;
    client.initialize()?;
    let mut answers = |word: &str| -> anyhow::Result<Duration> {
        let started = Instant::now();
        loop {
            let (reply, _) =
                client.request("tools/call", json!({ "name": "cyberos.test.version", "arguments": {} }))?;
            if reply["structuredContent"].to_string().contains(word) {
                return Ok(started.elapsed());
            }
            ensure!(started.elapsed() < Duration::from_secs(60), "version {word} does not come to serve: {reply}");
        }
    };
    answers("one")?;
    let mut took = vec![];
    for round in 0..plan.starts.max(4) {
        let (version, word) = if round % 2 == 0 { (1, "two") } else { (0, "one") };
        put(version)?;
        let one = answers(word)?;
        // The first two have to be compiled.
        if round >= 2 {
            took.push(one);
        }
    }
    let row = Row::new("swap: rename to first answer, median", Bound::AtMost(1_000.0), median(&millis(&took)), "ms");
    Ok(row.note(format!("slowest {:.1} ms of {}", percentile(&millis(&took), 1.0), took.len())))
}

/// `plugin check` as an author runs it, with nothing compiled before.
fn check_and_compile(home: &Path, plugins: &[(&str, PathBuf)]) -> anyhow::Result<Vec<Row>> {
    let mut rows = vec![];
    for (language, file) in plugins {
        let started = Instant::now();
        let mut command = Command::new(bridge_tests::bridge_binary());
        command.env_clear().env("HOME", home).args(["plugin", "check", "--json"]).arg(file);
        let output = command.output()?;
        let took = started.elapsed().as_secs_f64() * 1e3;
        let report: Value = serde_json::from_slice(&output.stdout)
            .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
        let size = std::fs::metadata(file)?.len() as f64 / MIB;
        let compile = report["compile_ms"].as_f64().context("compile_ms")?;
        rows.push(
            Row::new(format!("plugin check of {size:.2} MiB, {language}"), Bound::None, took, "ms")
                .note(format!("{compile:.0} ms of it compiling")),
        );
    }
    Ok(rows)
}

/// The same tool, serial over HTTP, by the language that it was written in.
fn call_by_language(plan: &Plan, home: &Path, plugins: &[(&str, PathBuf)]) -> anyhow::Result<Vec<Row>> {
    let served = home.join("languages");
    std::fs::create_dir_all(&served)?;
    for (_, file) in plugins {
        std::fs::copy(file, served.join(file.file_name().context("a file")?))?;
    }
    let words = ["--auth=none", "--log=off", "--plugins", &served.display().to_string()];
    let (_bridge, address) = process::over_http(&home.join("languages-state"), &words)?;
    let mut rows = vec![];
    let mut rust = None;
    for (language, _) in plugins {
        let tool = format!("cyberos.bench{language}.greet");
        let request = post("/mcp", None, &tool_call(1, &tool, &json!({ "name": "Ada" })));
        // One caller: a call is under way at any time, and its latency is its cost.
        flood(address, std::slice::from_ref(&request), plan.turn / 4)?;
        let latency = median(&micros(&flood(address, std::slice::from_ref(&request), plan.turn)?.latencies));
        let times = latency / *rust.get_or_insert(latency);
        rows.push(
            Row::new(format!("a call of a {language} component, everything on"), Bound::None, latency, "µs")
                .note(format!("serial over HTTP; {times:.1} times Rust's")),
        );
    }
    Ok(rows)
}

fn memory_by_number(plan: &Plan, home: &Path) -> anyhow::Result<Vec<Row>> {
    let numbers: &[usize] = if plan.quick { &[1, 10] } else { &[1, 10, 100] };
    let mut rows = vec![];
    for &number in numbers {
        let plugins = components::many_echoes(&home.join(number.to_string()), number)?.display().to_string();
        let idle = |words: &[&str]| {
            let mut client = Conversation::start(&home.join("memory-state"), words)?;
            client.initialize()?;
            client.request("tools/list", json!({}))?;
            std::thread::sleep(Duration::from_millis(1_500));
            client.memory()
        };
        // Compiled once and kept; it is the next start that counts.
        idle(&["--plugins", &plugins])?;
        let (resident, anonymous) = idle(&["--plugins", &plugins])?;
        rows.push(
            Row::new(format!("idle memory with {number} plugins beside the eight"), Bound::None, resident / MIB, "MiB")
                .note(format!("{:.1} MiB of it anonymous", anonymous / MIB)),
        );
    }
    Ok(rows)
}
