//! `memory serve`: the audit log over its REST contract, for other bridges, from this bridge's store. No MCP, no tools.

use anyhow::Context;
use axum::Router;
use axum::routing::get;
use clap::Subcommand;
use http::StatusCode;
use std::process::ExitCode;
use std::sync::Arc;
use tokio::net::TcpListener;

use super::serve;
use crate::app;
use crate::auth::{Clock, Identifier};
use crate::config::{SettingsArgs, TransportArg};
use crate::transport::audit_rest;
use crate::transport::http::{Origins, guarded};

#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve POST and GET /v1/audit on --listen until SIGTERM. Other bridges reach it with MEMORY_ENDPOINT.
    #[command(
        after_help = "Callers are identified as a bridge over HTTP does it (--auth, --issuer, --dev-issuer). A bridge that\n\
        ships other people's rows needs a token with the scope cyberos:memory:ship."
    )]
    Serve,
}

pub async fn run(mut args: SettingsArgs, arguments: Arguments) -> anyhow::Result<ExitCode> {
    let Command::Serve = arguments.command;
    // What is checked of an HTTP bridge's settings holds here, too.
    args.transport = TransportArg::Http;
    let settings = app::settings(args)?;
    let telemetry = app::start_telemetry(&settings)?;
    let identifier = Arc::new(Identifier::new(&app::auth_settings(&settings)?, Clock::system())?);
    identifier.check_http()?;
    let store = app::open_store(&settings).await?;

    let listen = settings.args.listen;
    let listener = TcpListener::bind(listen).await.with_context(|| format!("--listen {listen} cannot be bound"))?;
    let address = listener.local_addr()?;
    let mut hosts: Vec<String> = settings.args.allowed_host.iter().map(|host| host.to_ascii_lowercase()).collect();
    if !address.ip().is_unspecified() {
        hosts.push(address.ip().to_string());
    }
    let origins = Origins { cors: Arc::new(settings.args.cors_origin.clone()), hosts: Arc::new(hosts) };
    let ready = store.clone();
    let routes = Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route(
            "/readyz",
            get(async move || match ready.ping().await {
                Ok(()) => (StatusCode::OK, "ready\n"),
                Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "store_unavailable\n"),
            }),
        )
        .merge(guarded(audit_rest::router(store.clone(), identifier), origins));

    eprintln!("listening on http://{address}/v1/audit");
    let stop = serve::stop_on_signal();
    let stopping = stop.clone();
    let serving = axum::serve(listener, routes).with_graceful_shutdown(async move { stopping.cancelled().await });
    tokio::select! {
        ended = serving.into_future() => ended.context("http")?,
        // What is under way gets its time, and no more.
        () = async { stop.cancelled().await; tokio::time::sleep(settings.drain).await } => {}
    }
    store.close().await;
    telemetry.shutdown(std::time::Duration::from_secs(2)).await;
    Ok(ExitCode::SUCCESS)
}
