//! What the sandbox costs: the echo tool as a component against the same as a native handler in the same server, and two
//! threads against one. Without the audit log, which has a row of its own.

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

fn against_native(plan: &Plan, home: &Path) -> anyhow::Result<Vec<Row>> {
    let plugins = components::with_echo(home)?;
    let executor = executor(std::thread::available_parallelism()?.get())?;
    let state = home.join("state");
    let words = ["--audit=off", "--auth=none", "--transport=http", "--plugins", &plugins.display().to_string()];
    let (_bridge, address) = executor.block_on(async {
        let bridge = bridge(&state, &words, None).await?;
        let entry = bridge.catalog.find(ECHO).expect("the echo component was loaded");
        let address = in_process::serve(&bridge, native::route(entry)).await?;
        anyhow::Ok((bridge, address))
    })?;

    let requests = |path: &str| -> Vec<Vec<u8>> {
        (1..=CALLERS).map(|n| post(path, None, &tool_call(n, ECHO, &echo_text()))).collect()
    };
    let (sandboxed, native) = (requests("/mcp"), requests(native::PATH));
    same_reply(address, &sandboxed[0], &native[0])?;
    serial(address, &sandboxed[0], plan.warm_up)?;
    serial(address, &native[0], plan.warm_up)?;

    let (mut ratios, mut ours, mut theirs) = (vec![], vec![], vec![]);
    let (mut our_cpu, mut their_cpu) = (vec![], vec![]);
    let measure = |requests: &[Vec<u8>]| {
        let before = cpu::used("self")?;
        let load = flood(address, requests, plan.turn)?;
        let cpu = (cpu::used("self")? - before).as_secs_f64() * 1e6 / load.calls as f64;
        anyhow::Ok((load.per_second(), cpu))
    };
    for _ in 0..plan.rounds {
        let (native, native_cpu) = measure(&native)?;
        let (sandboxed, sandboxed_cpu) = measure(&sandboxed)?;
        ratios.push(sandboxed / native);
        ours.push(sandboxed);
        theirs.push(native);
        our_cpu.push(sandboxed_cpu);
        their_cpu.push(native_cpu);
    }
    let (mut with, mut without) = (vec![], vec![]);
    for _ in 0..plan.rounds {
        without.extend(micros(&serial(address, &native[0], plan.serial)?));
        with.extend(micros(&serial(address, &sandboxed[0], plan.serial)?));
    }
    let serially =
        |share| format!("{} and {} µs", figure(percentile(&with, share)), figure(percentile(&without, share)));
    Ok(vec![
        Row::new("echo, sandboxed against native, HTTP, 8 callers", Bound::AtLeast(0.8), median(&ratios), "×")
            .note(format!("{:.0} and {:.0} calls/s", median(&ours), median(&theirs))),
        Row::new(
            "the same by processor time, client included",
            Bound::None,
            median(&their_cpu) / median(&our_cpu),
            "×",
        )
        .note(format!("{:.1} and {:.1} µs a call", median(&our_cpu), median(&their_cpu))),
        Row::new(
            "echo, serial: added by the sandbox, median",
            Bound::AtMost(25.0),
            median(&with) - median(&without),
            "µs",
        )
        .note(serially(0.5)),
        Row::new(
            "echo, serial: added by the sandbox, p99",
            Bound::None,
            percentile(&with, 0.99) - percentile(&without, 0.99),
            "µs",
        )
        .note(serially(0.99)),
    ])
}

/// The yardstick is one only as long as both sides do the same.
fn same_reply(address: std::net::SocketAddr, one: &[u8], other: &[u8]) -> anyhow::Result<()> {
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
