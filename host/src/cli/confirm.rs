//! `confirm sign`: a person's agreement to exactly one call, as a token for whoever makes the call. What is agreed to
//! goes to stderr, the token alone to stdout.

use clap::Subcommand;
use secrecy::ExposeSecret;
use serde_json::json;
use std::process::ExitCode;

use super::out::{self, OutputArgs};
use super::session::{self, WhoArgs};
use crate::app;
use crate::auth::{CONFIRMATION_SECONDS, Confirming};
use crate::config::SettingsArgs;
use crate::error::{Error, Reason};
use crate::model::TraceId;

#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Subcommand)]
enum Command {
    /// Sign a confirmation for one call with exactly these arguments: it works once, for 60 seconds. Pass it to `tools call
    /// --confirmation`, or as _meta["cyberos/confirmation_token"] of tools/call.
    Sign(Sign),
}

#[derive(clap::Args)]
struct Sign {
    /// The tool that is to be called.
    #[arg(long, value_name = "NAME")]
    tool: String,
    /// The call's arguments, a JSON object: itself, @FILE, or - for standard input.
    #[arg(long, value_name = "JSON|@FILE|-", default_value = "{}")]
    arguments: String,
    #[command(flatten)]
    who: WhoArgs,
}

pub async fn run(args: SettingsArgs, arguments: Arguments) -> anyhow::Result<ExitCode> {
    let output = arguments.output;
    let Command::Sign(sign) = arguments.command;
    let given = match session::json_object(&sign.arguments) {
        Ok(given) => given,
        Err(error) => return Ok(out::refused(&error, &TraceId::random(), output)),
    };
    let bridge = session::bridge(args).await?;
    let entry = bridge.catalog.find(&sign.tool);
    let owner = sign.who.owner(&bridge.settings).await;
    let signer = app::confirmations(&bridge.settings);
    bridge.stop().await;
    // The catalogue's name is what the server binds to, whichever spelling was given here.
    let Some(entry) = entry else {
        let error = Error::new(Reason::ToolNotFound, format!("Unknown tool: {}", sign.tool))
            .hint("`tools list` shows what there is; pass --plugins for tools of your own.");
        return Ok(out::refused(&error, &TraceId::random(), output));
    };
    let owner = owner?;
    let tool = &entry.tool.name;
    if !entry.tool.annotations.needs_confirmation() {
        eprintln!("{}: {tool} needs no confirmation; the token is of no use to it", app::NAME);
    }
    let call = Confirming { tenant: owner.tenant, subject: &owner.subject, tool, arguments: &given };
    let token = signer?.sign(&call);
    eprintln!(
        "Confirming one call within {CONFIRMATION_SECONDS} seconds:\n{}",
        out::fields(&[
            ("tool", tool.to_string()),
            ("caller", format!("{} of tenant {}", owner.subject, owner.tenant)),
            ("arguments", serde_json::to_string_pretty(&given)?),
        ])
    );
    match output.json {
        true => out::json(&json!({ "token": token.expose_secret(), "expires_in_seconds": CONFIRMATION_SECONDS }))?,
        false => out::text(token.expose_secret())?,
    }
    Ok(ExitCode::SUCCESS)
}
