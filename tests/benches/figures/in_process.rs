//! A bridge in this process, for what only a library can show: a native handler beside it, one thread or two, a call's
//! own steps.

use clap::Parser;
use cyberos_plugin_host::app::{self, Bridge, TaskHome};
use cyberos_plugin_host::auth::Caller;
use cyberos_plugin_host::broker::Reply;
use cyberos_plugin_host::config::SettingsArgs;
use cyberos_plugin_host::error::Result;
use cyberos_plugin_host::model::{CallContext, ClientPort, ProgressSink, ToolCall, Trace};
use cyberos_plugin_host::telemetry::{Telemetry, TelemetrySettings};
use cyberos_plugin_host::transport::http::{HttpServer, HttpSettings, Origins};
use serde_json::{Map, Value};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    settings: SettingsArgs,
}

/// The executor that the bridge's own `main` would build, on `threads` threads.
pub fn executor(threads: usize) -> anyhow::Result<Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?)
}

/// `words` are command-line settings.
pub async fn bridge(state: &Path, words: &[&str], otlp_endpoint: Option<String>) -> anyhow::Result<Bridge> {
    let line = ["bench", "--state-dir"].map(Into::into).into_iter();
    let line = line.chain([state.as_os_str().to_owned()]).chain(words.iter().map(Into::into));
    let settings = app::settings(Line::try_parse_from(line)?.settings)?;
    let telemetry =
        Telemetry::start(&TelemetrySettings { otlp_endpoint, span_queue: 1 << 17, ..TelemetrySettings::default() })?;
    let bridge = Bridge::start(settings, telemetry, TaskHome::Here).await?;
    let standings = bridge.plugins.standings();
    anyhow::ensure!(standings.iter().all(|standing| standing.blocked.is_none()), "{standings:?}");
    Ok(bridge)
}

/// Serve it on a free port of loopback, with `beside` on the same listener.
pub async fn serve(bridge: &Bridge, beside: axum::Router) -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let metrics = bridge.telemetry.metrics.clone();
    let server = HttpServer {
        protocol: bridge.protocol.clone(),
        identifier: bridge.identifier.clone(),
        settings: HttpSettings {
            policy: bridge.policy(true),
            origins: Origins::default(),
            max_body_bytes: bridge.settings.args.max_body_bytes,
            open_initialize: true,
            hold: None,
            drain: bridge.settings.drain,
        },
        health: Arc::new(|| "ok\n".into()),
        ready: Arc::new(|| Box::pin(async { Ok(()) })),
        metrics: Arc::new(String::new),
        count: Arc::new(move |route, status| metrics.http_request(route, status)),
        beside,
    };
    tokio::spawn(server.serve(listener, CancellationToken::new()));
    Ok(address)
}

/// One call through the broker, past every transport.
pub async fn call(bridge: &Bridge, tool: &str, arguments: &Value, cancel: CancellationToken) -> Result<Reply> {
    let call = ToolCall {
        name: tool.to_owned(),
        arguments: arguments.as_object().cloned().unwrap_or_default(),
        meta: Map::new(),
        task: None,
        context: CallContext {
            trace: Trace::start(),
            request_id: Some("1".into()),
            cancel,
            progress: ProgressSink::none(),
            host_may_confirm: true,
            client: ClientPort::none(),
        },
    };
    bridge.broker.call_tool(&Caller::local(), call).await
}
