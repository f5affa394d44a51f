//! `store`: the schema of a Postgres store, brought up to date by its owner. A bridge that serves never does this;
//! SQLite stores look after themselves.

use clap::Subcommand;
use secrecy::SecretString;
use serde_json::json;
use std::process::ExitCode;

use super::out::{self, OutputArgs};
use crate::app;
use crate::store::postgres;

#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Subcommand)]
enum Command {
    /// Create the schema, or bring it up to date. Running it again changes nothing.
    #[command(after_help = "Then give the bridge a login of its own that owns nothing:\n\
        \n    CREATE ROLE bridge LOGIN PASSWORD '…'; GRANT cyberos_plugin_host TO bridge;")]
    Migrate {
        /// The database, as the role that owns the schema: postgres://owner:password@host/database. It needs CREATE on the
        /// database and, the first time, CREATEROLE. Prefer the environment variable: a command line can be read by others.
        #[arg(long, env = "CYBEROS_OWNER_URL", hide_env_values = true, value_name = "URL")]
        owner_url: String,
    },
}

pub async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let Command::Migrate { owner_url } = arguments.command;
    let url = SecretString::from(owner_url);
    postgres::migrate(&url).await.map_err(app::operator)?;
    let now = postgres::inspect(&url).await.map_err(app::operator)?;
    match arguments.output.json {
        true => out::json(&json!({ "schema_version": now.schema_version, "server_version": now.server_version }))?,
        false => eprintln!(
            "The schema plugin_host is at version {} (Postgres {}).",
            now.schema_version.unwrap_or(now.wanted_version),
            now.server_version
        ),
    }
    Ok(ExitCode::SUCCESS)
}
