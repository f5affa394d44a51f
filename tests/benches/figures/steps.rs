//! Where one call's time goes, step by step, and the fuel that each of the eight tools uses.
//!
//! Steps inside the pipeline are the child spans that the bridge exports of every call, here to a collector in this
//! process; those around it (parse, identify, serialise) are timed by calling them.

use bridge_tests::otlp::Collector;
use cyberos_plugin_host::auth::{AuthSettings, Clock, Identifier, Issuer};
use cyberos_plugin_host::model::TenantId;
use cyberos_plugin_host::protocol::parse;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::client::tool_call;
use crate::components::{self, ECHO, echo_text};
use crate::eight;
use crate::in_process::{self, bridge, executor};
use crate::plan::Plan;
use crate::process::Conversation;
use crate::real;
use crate::report::{Bound, Row, figure};
use crate::statistics::{median, percentile};

/// In the order in which a call passes them.
const STEPS: &[&str] = &[
    "resolve",
    "authorize",
    "rate limit",
    "validate arguments",
    "confirm",
    "open audit row",
    "admit",
    "make store",
    "instantiate",
    "run",
    "drop instance",
    "validate result",
    "close audit row",
];

pub fn rows(plan: &Plan) -> anyhow::Result<Vec<Row>> {
    let home = tempfile::tempdir()?;
    let mut rows = around(plan, home.path())?;
    rows.extend(inside(plan, home.path())?);
    rows.extend(fuel(home.path())?);
    Ok(rows)
}

fn step(name: &str, times: &[f64]) -> Row {
    Row::new(format!("step: {name}, median"), Bound::None, median(times), "µs")
        .note(format!("p99 {}", figure(percentile(times, 0.99))))
}

fn around(plan: &Plan, home: &Path) -> anyhow::Result<Vec<Row>> {
    // One reading of the clock costs about as much as the smallest step: a hundred turns share two.
    const TURNS: u32 = 100;
    fn timed<T>(plan: &Plan, mut work: impl FnMut() -> T) -> Vec<f64> {
        let one = |_| {
            let started = Instant::now();
            for _ in 0..TURNS {
                black_box(work());
            }
            started.elapsed().as_secs_f64() * 1e6 / f64::from(TURNS)
        };
        (0..plan.serial / 10).map(one).collect()
    }

    let message = tool_call(1, ECHO, &echo_text());
    let text = echo_text().to_string();
    let reply = json!({ "jsonrpc": "2.0", "id": 1, "result": {
        "content": [{ "type": "text", "text": text }], "structuredContent": echo_text(), "isError": false } });
    std::fs::create_dir_all(home)?;
    let token = real::token(home, TenantId::LOCAL, "caller".into())?;
    let dev_issuer = Some(Issuer::open_or_create(home, Clock::system())?.key_source());
    let settings = AuthSettings { dev_issuer, audiences: vec![real::AUDIENCE.into()], ..AuthSettings::default() };
    let identifier = Identifier::new(&settings, Clock::system())?;
    let headers = [(axum::http::header::AUTHORIZATION, format!("Bearer {token}").parse()?)].into_iter().collect();
    let executor = tokio::runtime::Builder::new_current_thread().build()?;
    let identify = || executor.block_on(identifier.for_http(&headers, None)).expect("the token is good");
    Ok(vec![
        step("parse", &timed(plan, || parse(message.as_bytes()).expect("it is a message"))),
        step("identify (bearer token, seen before)", &timed(plan, identify)),
        step("serialise", &timed(plan, || reply.to_string())),
    ])
}

fn inside(plan: &Plan, home: &Path) -> anyhow::Result<Vec<Row>> {
    let plugins = components::with_echo(home)?.display().to_string();
    let executor = executor(2)?;
    let spans = executor.block_on(executor.spawn({
        let (state, calls) = (home.join("inside"), plan.serial);
        async move {
            let collector = Collector::start().await;
            let bridge = bridge(&state, &["--plugins", &plugins], Some(collector.endpoint())).await?;
            let arguments = echo_text();
            for _ in 0..calls {
                in_process::call(&bridge, ECHO, &arguments, CancellationToken::new())
                    .await
                    .map_err(|e| anyhow::anyhow!("{e:?}"))?;
            }
            let spans = collector.wait_for_spans(calls * (STEPS.len() + 1)).await;
            bridge.stop().await;
            anyhow::Ok(spans)
        }
    }))??;
    let mut times: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for span in &spans {
        let took = (span.end_time_unix_nano - span.start_time_unix_nano) as f64 / 1e3;
        times.entry(&span.name).or_default().push(took);
    }
    let of = |name: &str| times.get(name).cloned().ok_or_else(|| anyhow::anyhow!("no span of the step {name}"));
    let mut rows = STEPS.iter().map(|name| Ok(step(name, &of(name)?))).collect::<anyhow::Result<Vec<_>>>()?;
    rows.push(step("all of the pipeline", &of(&format!("tools/call {ECHO}"))?));
    Ok(rows)
}

fn fuel(home: &Path) -> anyhow::Result<Vec<Row>> {
    let mut client = Conversation::start(&home.join("fuel"), &[])?;
    client.initialize()?;
    for (tool, arguments) in eight::calls() {
        let (result, _) = eight::call(&mut client, tool, &arguments)?;
        // A long-running tool has used what it uses when its task has ended.
        if let Some(task) = result["structuredContent"].get("task_id") {
            client.request("tasks/result", json!({ "taskId": task }))?;
        }
    }
    let arguments = json!({ "kind": "mcp.tool_call_completed", "limit": 100 });
    let (log, _) = eight::call(&mut client, "cyberos.memory.read_audit", &arguments)?;
    let used: BTreeMap<&str, f64> = log["structuredContent"]["rows"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|row| Some((row["body"]["tool_name"].as_str()?, row["body"]["fuel"].as_f64()?)))
        .collect();
    let row = |(tool, _): (&str, Value)| {
        let used = used.get(tool).ok_or_else(|| anyhow::anyhow!("no audit row of {tool}: {log}"))?;
        Ok(Row::new(format!("fuel: {tool}"), Bound::None, *used, "fuel"))
    };
    eight::calls().into_iter().map(row).collect()
}
