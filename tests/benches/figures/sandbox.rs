//! What the sandbox costs: the echo tool as a component against the same as a native handler in the same server, and two
//! threads against one. Without the audit log, which has a row of its own.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::client::{self, flood, post, serial, tool_call};
use crate::components::{self, ECHO, echo_text};
use crate::cpu;
use crate::in_process::{self, bridge, executor};
use crate::native;
use crate::plan::Plan;
use crate::report::{Bound, Row, figure};
use crate::statistics::{median, micros, percentile};

const CALLERS: usize = 8;

pub fn rows(plan: &Plan) -> anyhow::Result<Vec<Row>> {
    let home = tempfile::tempdir()?;
    let mut rows = against_native(plan, home.path())?;
    rows.push(two_threads(plan, home.path())?);
    Ok(rows)
}

/// One way of answering the same call, and what was measured of it.
struct Side {
    requests: Vec<Vec<u8>>,
    per_second: Vec<f64>,
    /// Processor time of a call, client included, in microseconds.
    cpu: Vec<f64>,
    latencies: Vec<f64>,
}

impl Side {
    fn new(path: &str) -> Side {
        let requests = (1..=CALLERS).map(|n| post(path, None, &tool_call(n, ECHO, &echo_text()))).collect();
        Side { requests, per_second: vec![], cpu: vec![], latencies: vec![] }
    }

    fn flood(&mut self, address: SocketAddr, plan: &Plan) -> anyhow::Result<()> {
        let before = cpu::used("self")?;
        let load = flood(address, &self.requests, plan.turn)?;
        self.cpu.push((cpu::used("self")? - before).as_secs_f64() * 1e6 / load.calls as f64);
        self.per_second.push(load.per_second());
        Ok(())
    }

    fn serial(&mut self, address: SocketAddr, calls: usize) -> anyhow::Result<()> {
        self.latencies.extend(micros(&serial(address, &self.requests[0], calls)?));
        Ok(())
    }
}

fn against_native(plan: &Plan, home: &Path) -> anyhow::Result<Vec<Row>> {
    let plugins = components::with_echo(home)?;
    let executor = executor(std::thread::available_parallelism()?.get())?;
    let state = home.join("state");
    let words = ["--audit=off", "--auth=none", "--transport=http", "--plugins", &plugins.display().to_string()];
    let (_bridge, address) = executor.block_on(async {
        let bridge = bridge(&state, &words, None).await?;
        let entry = bridge.catalog.find(ECHO).expect("the echo component was loaded");
        let address = in_process::serve(&bridge, native::routes(&bridge, entry)).await?;
        anyhow::Ok((bridge, address))
    })?;

    let mut sides = ["/mcp", native::BARE, native::GATED].map(Side::new);
    same_reply(address, &sides[0].requests[0], &sides[1].requests[0])?;
    same_reply(address, &sides[0].requests[0], &sides[2].requests[0])?;
    for side in &mut sides {
        serial(address, &side.requests[0], plan.warm_up)?;
    }
    for _ in 0..plan.rounds {
        for side in &mut sides {
            side.flood(address, plan)?;
        }
    }
    for _ in 0..plan.rounds {
        for side in &mut sides {
            side.serial(address, plan.serial)?;
        }
    }
    let [sandboxed, bare, gated] = &sides;
    let throughput = |what, bound, native: &Side| {
        let ratios: Vec<f64> = sandboxed.per_second.iter().zip(&native.per_second).map(|(s, n)| s / n).collect();
        let (ours, theirs) = (median(&sandboxed.per_second), median(&native.per_second));
        Row::new(what, bound, median(&ratios), "×").note(format!("{ours:.0} and {theirs:.0} calls/s"))
    };
    let processor = |what, native: &Side| {
        let (ours, theirs) = (median(&sandboxed.cpu), median(&native.cpu));
        Row::new(what, Bound::None, theirs / ours, "×")
            .note(format!("{ours:.1} and {theirs:.1} µs a call, client included"))
    };
    let added = |what, bound, native: &Side, share| {
        let (ours, theirs) = (percentile(&sandboxed.latencies, share), percentile(&native.latencies, share));
        Row::new(what, bound, ours - theirs, "µs").note(format!("{} and {} µs", figure(ours), figure(theirs)))
    };
    Ok(vec![
        throughput("echo, sandboxed against native, HTTP, 8 callers", Bound::AtLeast(0.8), bare),
        processor("the same by processor time", bare),
        throughput("the same, native behind the same gates", Bound::None, gated),
        processor("the same, native behind the same gates, by processor time", gated),
        added("echo, serial: added by the sandbox, median", Bound::AtMost(25.0), bare, 0.5),
        added("echo, serial: added by the sandbox, p99", Bound::None, bare, 0.99),
        added("the same, native behind the same gates, median", Bound::None, gated, 0.5),
    ])
}

/// The yardstick is one only as long as both sides do the same.
fn same_reply(address: SocketAddr, one: &[u8], other: &[u8]) -> anyhow::Result<()> {
    client::on_this_thread(async {
        let mut connection = client::Connection::open(address).await?;
        let mut replies = vec![];
        for request in [one, other] {
            replies.push(serde_json::from_slice::<serde_json::Value>(connection.exchange(request).await?.1)?);
        }
        anyhow::ensure!(replies[0] == replies[1], "sandboxed and native replies differ: {replies:?}");
        Ok(())
    })
}

fn two_threads(plan: &Plan, home: &Path) -> anyhow::Result<Row> {
    let plugins = components::with_echo(home)?;
    let mut sides = vec![];
    for threads in [1, 2] {
        let executor = executor(threads)?;
        let state = home.join(format!("threads-{threads}"));
        let words = ["--audit=off", "--plugins", &plugins.display().to_string()];
        let bridge = std::sync::Arc::new(executor.block_on(bridge(&state, &words, None))?);
        sides.push((executor, bridge));
    }
    let time = plan.turn;
    let turn = |side: usize| {
        let (executor, bridge) = &sides[side];
        let started = Instant::now();
        let callers = (0..CALLERS).map(|_| {
            let bridge = bridge.clone();
            executor.spawn(async move {
                let (mut calls, arguments) = (0, echo_text());
                while started.elapsed() < time {
                    in_process::call(&bridge, ECHO, &arguments, CancellationToken::new()).await?;
                    calls += 1;
                }
                Ok::<_, cyberos_plugin_host::error::Error>(calls)
            })
        });
        let callers: Vec<_> = callers.collect();
        let mut calls = 0;
        for caller in callers {
            calls += executor.block_on(caller)?.map_err(|e| anyhow::anyhow!("{e:?}"))?;
        }
        anyhow::Ok(calls as f64 / started.elapsed().as_secs_f64())
    };
    let (mut ratios, mut one, mut two) = (vec![], vec![], vec![]);
    turn(0)?;
    turn(1)?;
    for _ in 0..plan.rounds {
        one.push(turn(0)?);
        two.push(turn(1)?);
        ratios.push(two[two.len() - 1] / one[one.len() - 1]);
    }
    Ok(Row::new("echo on two threads against one, no HTTP", Bound::AtLeast(1.6), median(&ratios), "×").note(format!(
        "{:.0} and {:.0} calls/s",
        median(&two),
        median(&one)
    )))
}
