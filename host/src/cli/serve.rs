//! `serve`: one bridge behind one transport, until its clients or the operator end it.

use anyhow::Context;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::pipes;
use crate::app::{self, Bridge, TaskHome};
use crate::config::{AuthArg, SettingsArgs, TransportArg};
use crate::transport::http::{HttpServer, HttpSettings, Origins};
use crate::transport::stdio::{self, StdioSettings};

/// Requests of one stdio client at once.
const MAX_IN_FLIGHT: usize = 64;
/// After the end of input: the client has gone, or is about to kill us.
const STDIO_DRAIN: Duration = Duration::from_millis(500);

pub async fn run(args: SettingsArgs) -> anyhow::Result<ExitCode> {
    let settings = app::settings(args)?;
    let telemetry = app::start_telemetry(&settings)?;
    let transport = settings.args.transport;
    let home = match transport {
        TransportArg::Http => TaskHome::Here,
        TransportArg::Stdio => TaskHome::Detached(app::worker_arguments(&settings)),
    };
    let bridge = Bridge::start(settings, telemetry, home).await?;
    bridge.keep_house().await?;
    bridge.take_charge_of_plugins().await;
    let stop = stop_on_signal();
    match transport {
        TransportArg::Stdio => over_stdio(&bridge, stop).await?,
        TransportArg::Http => over_http(&bridge, stop).await?,
    }
    bridge.stop().await;
    Ok(ExitCode::SUCCESS)
}

async fn over_stdio(bridge: &Bridge, stop: CancellationToken) -> anyhow::Result<()> {
    if std::io::stdin().is_terminal() {
        eprintln!(
            "{0}: waiting for an MCP client on standard input; to try tools by hand, end this (^D) and run `{0} tools list`",
            app::NAME
        );
    }
    let settings = StdioSettings {
        policy: bridge.policy(false),
        max_line_bytes: bridge.settings.args.max_line_bytes,
        max_in_flight: MAX_IN_FLIGHT,
        drain: STDIO_DRAIN,
    };
    let (input, output) = (pipes::input(), pipes::output());
    stdio::serve(bridge.protocol.clone(), bridge.identifier.clone(), settings, input, output, stop)
        .await
        .context("stdio")
}

async fn over_http(bridge: &Bridge, stop: CancellationToken) -> anyhow::Result<()> {
    let args = &bridge.settings.args;
    bridge.identifier.check_http()?;
    let listener =
        TcpListener::bind(args.listen).await.with_context(|| format!("--listen {} cannot be bound", args.listen))?;
    let address = listener.local_addr()?;
    let mut hosts: Vec<String> = args.allowed_host.iter().map(|h| h.to_ascii_lowercase()).collect();
    if !address.ip().is_unspecified() {
        hosts.push(address.ip().to_string());
    }
    hosts.extend(bridge.settings.public_url.iter().filter_map(|url| url.host_str().map(str::to_owned)));
    let (store, shown, counted) =
        (bridge.store.clone(), bridge.telemetry.metrics.clone(), bridge.telemetry.metrics.clone());
    let plugins = bridge.plugins.clone();
    let server = HttpServer {
        protocol: bridge.protocol.clone(),
        identifier: bridge.identifier.clone(),
        settings: HttpSettings {
            policy: bridge.policy(true),
            origins: Origins { cors: Arc::new(args.cors_origin.clone()), hosts: Arc::new(hosts) },
            max_body_bytes: args.max_body_bytes,
            open_initialize: args.open_initialize,
            hold: (args.stream_hold_ms > 0).then(|| Duration::from_millis(args.stream_hold_ms)),
            drain: bridge.settings.drain,
        },
        ready: Arc::new(move || {
            let store = store.clone();
            Box::pin(async move { store.ping().await })
        }),
        health: Arc::new(move || plugins.health()),
        metrics: Arc::new(move || shown.render()),
        count: Arc::new(move |route, status| counted.http_request(route, status)),
        beside: bridge.rest_routes().merge(bridge.metadata_routes(address)),
    };
    announce(bridge, address);
    server.serve(listener, stop).await.context("http")
}

/// For whoever started it by hand. To stderr, where the log goes: scripts read the port from the first line.
fn announce(bridge: &Bridge, address: std::net::SocketAddr) {
    let tools = bridge.catalog.all().len();
    let blocked = bridge.plugins.standings().iter().filter(|standing| standing.blocked.is_some()).count();
    eprintln!("listening on http://{address}/mcp ({tools} tools, {blocked} rejected)");
    if bridge.settings.args.auth == AuthArg::None {
        eprintln!("authentication is off: everybody on this machine is the local user");
    }
}

/// SIGTERM and SIGINT ask for an orderly end; a second one does not wait for it.
pub(super) fn stop_on_signal() -> CancellationToken {
    use tokio::signal::unix::{SignalKind, signal};
    let stop = CancellationToken::new();
    let fired = stop.clone();
    let (Ok(mut terminate), Ok(mut interrupt)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        tracing::error!("signals cannot be watched; the process ends at once when it is told to");
        return stop;
    };
    tokio::spawn(async move {
        for _ in 0..2 {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if fired.is_cancelled() {
                std::process::exit(130);
            }
            fired.cancel();
        }
    });
    stop
}
