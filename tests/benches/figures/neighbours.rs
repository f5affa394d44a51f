//! Noisy neighbours: what callers of a good tool notice of guests that spin, fill memory and never answer.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::client::{self, Connection, Load, flood, post, tool_call};
use crate::components::{self, ECHO, echo_text};
use crate::plan::Plan;
use crate::process;
use crate::report::{Bound, Row};
use crate::statistics::{median, millis, percentile};

/// Callers of the good tool.
const CALLERS: usize = 4;
/// A never-answering call is stopped and made again after this.
const DEADLINE_MS: u64 = 1_000;

/// Tools and their arguments, each called by somebody of its own.
type Noise = &'static [(&'static str, &'static str)];

/// That run flat out: compute, fill memory, never answer.
const GUESTS: Noise =
    &[("test.spins_forever", "{}"), ("test.allocates_without_end", "{}"), ("test.sleeps", r#"{"ms":3600000}"#)];

/// That attack in a way each.
const SUITE: Noise = &[
    ("test.spins_forever", "{}"),
    ("test.allocates_without_end", "{}"),
    ("test.recurses_forever", "{}"),
    ("test.panics", "{}"),
    ("test.calls_host_without_end", "{}"),
    ("test.prints_without_end", r#"{"bytes":3000000}"#),
    ("test.returns_malformed_json", r#"{"what":"structured_deep"}"#),
    ("test.random_without_end", r#"{"bytes":1048576}"#),
    ("test.reads_clocks_without_end", "{}"),
    ("test.subscribes_without_end", r#"{"count":5000}"#),
    ("test.floods_progress", "{}"),
    ("test.fails_at_length", r#"{"how":"internal","chars":2000000}"#),
];

/// The first row measures guests that are never given a rest; the others what operators get by default.
pub fn rows(plan: &Plan) -> anyhow::Result<Vec<Row>> {
    let never_resting = format!("deadline_ms = {DEADLINE_MS}, failures_in_a_row = 0");
    let default = format!("deadline_ms = {DEADLINE_MS}");
    Ok(vec![
        row(plan, "others' p99 beside three guests running flat out", &never_resting, GUESTS)?,
        row(plan, "others' p99 beside the same, which rest after failures", &default, GUESTS)?,
        row(plan, "others' p99 beside the hostile suite", &default, SUITE)?,
    ])
}

fn row(plan: &Plan, name: &'static str, limits: &str, guests: Noise) -> anyhow::Result<Row> {
    let home = tempfile::tempdir()?;
    let plugins = components::with_misbehaviour(home.path(), limits)?.display().to_string();
    let words = ["--auth=none", "--log=off", "--plugins", &plugins];
    let (_bridge, address) = process::over_http(&home.path().join("state"), &words)?;
    let requests: Vec<Vec<u8>> = (1..=CALLERS).map(|n| post("/mcp", None, &tool_call(n, ECHO, &echo_text()))).collect();
    flood(address, &requests, plan.turn)?;

    let (mut ratios, mut quiet, mut noisy) = (vec![], vec![], vec![]);
    for _ in 0..plan.rounds {
        let alone = millis(&flood(address, &requests, plan.turn)?.latencies);
        let disturbed = millis(&with_noise(address, guests, || flood(address, &requests, plan.turn))?.latencies);
        ratios.push(percentile(&disturbed, 0.99) / percentile(&alone, 0.99));
        quiet.push(percentile(&alone, 0.99));
        noisy.push(percentile(&disturbed, 0.99));
    }
    let row = Row::new(name, Bound::AtMost(2.0), median(&ratios), "×");
    Ok(row.note(format!("{:.2} ms alone, {:.2} ms beside them; 4 callers", median(&quiet), median(&noisy))))
}

/// One caller each that calls again as soon as it is answered, whatever the answer.
fn with_noise(
    address: SocketAddr,
    guests: Noise,
    measured: impl FnOnce() -> anyhow::Result<Load>,
) -> anyhow::Result<Load> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let noise: Vec<_> = (100..)
            .zip(guests)
            .map(|(id, (tool, arguments))| {
                let arguments = serde_json::from_str(arguments).expect("the arguments above are JSON");
                let request = post("/mcp", None, &tool_call(id, tool, &arguments));
                let over = &over;
                scope.spawn(move || {
                    client::on_this_thread(async {
                        let mut connection = Connection::open(address).await?;
                        while !over.load(Ordering::Relaxed) {
                            connection.exchange(&request).await?;
                        }
                        Ok(())
                    })
                })
            })
            .collect();
        std::thread::sleep(Duration::from_millis(100));
        let load = measured();
        over.store(true, Ordering::Relaxed);
        for one in noise {
            one.join().expect("a caller does not panic")?;
        }
        load
    })
}
