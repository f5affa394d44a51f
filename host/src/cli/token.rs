//! `token`: access tokens of the development issuer, whose keys live in the state directory. The one place besides
//! `confirm` that prints a secret: it alone goes to stdout.

use clap::Subcommand;
use jiff::{SignedDuration, Timestamp};
use secrecy::ExposeSecret;
use serde_json::json;
use std::process::ExitCode;
use std::time::Duration;
use uuid::Uuid;

use super::out::{self, OutputArgs};
use super::session;
use crate::app;
use crate::auth::{Clock, DEV_ISSUER, Issuer, MintRequest};
use crate::config::SettingsArgs;
use crate::model::TenantId;

#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Subcommand)]
enum Command {
    /// Sign an access token for development. Servers accept it when they run with --dev-issuer on the same state directory.
    Mint(Mint),
    /// The issuer's public keys (JWKS), for a server elsewhere: --issuer urn:cyberos-mcp-bridge:dev=FILE.
    Jwks,
    /// Sign with a new key from now on. Tokens of the old one stay good until they expire.
    Rotate,
}

/// The token's audience is the first --audience, plugin:cyberos unless set.
#[derive(clap::Args)]
struct Mint {
    /// The tenant that the bearer acts for.
    #[arg(long, value_name = "UUID")]
    tenant: Uuid,
    /// Who the bearer is (`sub`).
    #[arg(long)]
    subject: String,
    /// A scope that the bearer holds, such as cyberos:cuo:list; repeat for more. None: the token can list nothing.
    #[arg(long, value_delimiter = ',', conflicts_with = "all_scopes")]
    scope: Vec<String>,
    /// Every scope that some tool of this bridge needs.
    #[arg(long)]
    all_scopes: bool,
    /// How long it is valid: seconds, or 15m, 1h; at most 24h.
    #[arg(long, default_value = "1h", value_parser = ttl)]
    ttl: Duration,
}

pub async fn run(args: SettingsArgs, arguments: Arguments) -> anyhow::Result<ExitCode> {
    match arguments.command {
        Command::Mint(mint) => run_mint(args, mint, arguments.output).await?,
        Command::Jwks => out::json(&issuer(args)?.jwks())?,
        Command::Rotate => {
            let mut issuer = issuer(args)?;
            issuer.rotate()?;
            let jwks = issuer.jwks();
            let kid = jwks["keys"][0]["kid"].as_str().unwrap_or_default();
            match arguments.output.json {
                true => out::json(&json!({ "kid": kid }))?,
                false => {
                    eprintln!("Tokens are signed with key {kid} from now on; old ones stay good until they expire.")
                }
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn issuer(args: SettingsArgs) -> anyhow::Result<Issuer> {
    Ok(Issuer::open_or_create(&app::settings(args)?.state_dir, Clock::system())?)
}

async fn run_mint(args: SettingsArgs, mint: Mint, output: OutputArgs) -> anyhow::Result<()> {
    let mut scopes = mint.scope;
    if mint.all_scopes {
        let bridge = session::bridge(args.clone()).await?;
        scopes = bridge.catalog.scopes();
        bridge.stop().await;
    }
    let audience = args.audience.first().cloned().unwrap_or_default();
    let accepted_here = args.dev_issuer;
    let request = MintRequest { tenant: TenantId(mint.tenant), subject: mint.subject, scopes, audience, ttl: mint.ttl };
    let token = issuer(args)?.mint(&request)?;
    let expires = Timestamp::now() + SignedDuration::from_secs(mint.ttl.as_secs() as i64);
    if output.json {
        return out::json(&json!({
            "token": token.expose_secret(),
            "issuer": DEV_ISSUER,
            "tenant": request.tenant,
            "subject": request.subject,
            "scopes": request.scopes,
            "audience": request.audience,
            "expires_at": expires.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        }));
    }
    out::text(token.expose_secret())?;
    let held = if request.scopes.is_empty() { "no scope".to_owned() } else { request.scopes.join(" ") };
    eprintln!(
        "for {} of tenant {}, until {}, with {held}",
        request.subject,
        request.tenant,
        expires.strftime("%H:%M:%S UTC")
    );
    if !accepted_here {
        eprintln!("A server accepts it only with --dev-issuer, on the same --state-dir.");
    }
    Ok(())
}

fn ttl(text: &str) -> Result<Duration, String> {
    let parsed = match text.parse::<u64>() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => text.parse::<SignedDuration>().ok().and_then(|d| Duration::try_from(d).ok()),
    };
    parsed.ok_or_else(|| "write seconds, or a duration such as 15m or 1h".into())
}
