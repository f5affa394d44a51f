//! The real binary with everything on: identity, scopes, schemas, sandbox, audit log, metrics.

use cyberos_plugin_host::auth::{Clock, Issuer, MintRequest};
use cyberos_plugin_host::model::TenantId;
use secrecy::ExposeSecret;
use serde_json::json;
use std::path::Path;
use std::time::Duration;

use crate::client::{self, flood, post, serial, tool_call};
use crate::components::{self, ECHO, echo_text};
use crate::plan::Plan;
use crate::process::{self, Conversation};
use crate::report::{Bound, Row};
use crate::statistics::{median, millis, percentile};

pub const AUDIENCE: &str = "plugin:cyberos";
const CALLERS: usize = 8;
/// Counted, and never reached: a limit is part of what a call costs.
const HUGE: [&str; 3] =
    ["--rate-limit-user=1000000,1000000/s", "--rate-limit-tenant=1000000,1000000/s", "--rate-limit-tool=100000/s"];

pub fn rows(plan: &Plan) -> anyhow::Result<Vec<Row>> {
    let home = tempfile::tempdir()?;
    let mut rows = over_stdio(plan, home.path())?;
    rows.extend(over_http(plan, home.path())?);
    rows.push(first_reply_of_a_workflow(plan, home.path())?);
    Ok(rows)
}

fn over_stdio(plan: &Plan, home: &Path) -> anyhow::Result<Vec<Row>> {
    let plugins = components::with_echo(home)?;
    let mut client = Conversation::start(&home.join("stdio"), &["--plugins", &plugins.display().to_string()])?;
    client.initialize()?;
    let line = tool_call(1, ECHO, &echo_text()) + "\n";
    let mut took = vec![];
    for n in 0..plan.warm_up + plan.serial * 2 {
        let (reply, time) = client.exchange(&line)?;
        anyhow::ensure!(reply.contains("\"isError\":false"), "{reply}");
        if n >= plan.warm_up {
            took.push(time);
        }
    }
    let took = millis(&took);
    Ok(vec![
        Row::new("stdio, serial round trip, everything on, median", Bound::AtMost(0.15), median(&took), "ms"),
        Row::new("stdio, serial round trip, everything on, p99", Bound::None, percentile(&took, 0.99), "ms"),
    ])
}

/// A token of the development issuer that the server is told to trust.
pub fn token(state: &Path, tenant: TenantId, subject: String) -> anyhow::Result<String> {
    let issuer = Issuer::open_or_create(state, Clock::system())?;
    let scopes = ["cyberos:cuo:list", "cyberos:cuo:route", "cyberos:memory:read", "cyberos:skill:list"];
    let token = issuer.mint(&MintRequest {
        tenant,
        subject,
        scopes: scopes.map(str::to_owned).to_vec(),
        audience: AUDIENCE.into(),
        ttl: Duration::from_secs(3600),
    })?;
    Ok(token.expose_secret().to_owned())
}

fn over_http(plan: &Plan, home: &Path) -> anyhow::Result<Vec<Row>> {
    let plugins = components::with_echo(home)?.display().to_string();
    let tenant = TenantId(uuid::Uuid::from_u128(0x1111_2222_3333_4444_8555_6666_7777_8888));
    let mut servers = vec![];
    for audit in ["--audit=on", "--audit=off"] {
        let state = home.join(audit);
        std::fs::create_dir_all(&state)?;
        let tokens =
            (0..CALLERS).map(|n| token(&state, tenant, format!("caller-{n}"))).collect::<Result<Vec<_>, _>>()?;
        let (bridge, address) = process::over_http(
            &state,
            &[audit, "--auth=bearer", "--dev-issuer", HUGE[0], HUGE[1], HUGE[2], "--plugins", &plugins],
        )?;
        let request = |(n, token): (usize, &String)| post("/mcp", Some(token), &tool_call(n, ECHO, &echo_text()));
        let requests: Vec<Vec<u8>> = tokens.iter().enumerate().map(request).collect();
        serial(address, &requests[0], plan.warm_up)?;
        servers.push((bridge, address, requests));
    }
    let (mut ratios, mut on, mut off, mut latencies) = (vec![], vec![], vec![], vec![]);
    let used = || anyhow::Ok([servers[0].0.cpu()?, servers[1].0.cpu()?]);
    let (before, mut calls) = (used()?, [0, 0]);
    for _ in 0..plan.rounds {
        let without = flood(servers[1].1, &servers[1].2, plan.turn)?;
        let with = flood(servers[0].1, &servers[0].2, plan.turn)?;
        ratios.push(with.per_second() / without.per_second());
        on.push(with.per_second());
        off.push(without.per_second());
        latencies.extend(millis(&with.latencies));
        calls = [calls[0] + with.calls, calls[1] + without.calls];
    }
    let after = used()?;
    let cpu = |side: usize| (after[side] - before[side]).as_secs_f64() * 1e6 / calls[side] as f64;
    Ok(vec![
        Row::new("HTTP, 8 callers, everything on", Bound::AtLeast(10_000.0), median(&on), "calls/s").note(format!(
            "bearer tokens, audit on; latency {:.2} ms median, {:.2} ms p99",
            median(&latencies),
            percentile(&latencies, 0.99)
        )),
        Row::new("audit on against off, HTTP, 8 callers", Bound::AtLeast(0.7), median(&ratios), "×").note(format!(
            "{:.0} and {:.0} calls/s",
            median(&on),
            median(&off)
        )),
        Row::new("the same by the server's processor time", Bound::None, cpu(1) / cpu(0), "×").note(format!(
            "{:.1} and {:.1} µs a call",
            cpu(0),
            cpu(1)
        )),
    ])
}

fn first_reply_of_a_workflow(plan: &Plan, home: &Path) -> anyhow::Result<Row> {
    let state = home.join("workflows");
    let (_bridge, address) = process::over_http(&state, &["--auth=none", "--max-open-tasks=1000"])?;
    let arguments = json!({
        "persona": "chief-technology-officer",
        "workflow": "adr-quick-capture",
        "inputs": { "title": "Figures", "decision_context": "How long does the first reply take?" },
    });
    let took = client::on_this_thread(async {
        let mut connection = client::Connection::open(address).await?;
        let mut took = vec![];
        for n in 0..plan.starts * 2 {
            let request = post("/mcp", None, &tool_call(n, "cyberos.cuo.execute_workflow", &arguments));
            took.push(connection.call(&request).await?);
        }
        Ok(millis(&took))
    })?;
    Ok(Row::new("execute_workflow, first reply, p95", Bound::AtMost(100.0), percentile(&took, 0.95), "ms")
        .note(format!("{:.2} ms median; {} runs one after another, all running behind it", median(&took), took.len())))
}
