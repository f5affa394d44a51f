//! `plugin publish FILE|DIR oci://HOST[:PORT]/REPOSITORY:TAG`: the immutable reference goes to stdout.

use jiff::Timestamp;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

use super::login::LoginArgs;
use crate::author::publish::{About, publish};
use crate::author::source;
use crate::cli::out::{self, OutputArgs};
use crate::cli::progress::Bar;

#[derive(clap::Args)]
pub struct Arguments {
    /// A component, or a directory with one component in it (in itself, dist, build or target/wasm32-wasip2/release).
    from: PathBuf,
    /// Where to: oci://HOST[:PORT]/REPOSITORY:TAG.
    to: String,
    /// Its name for people; the file's name unless given.
    #[arg(long)]
    title: Option<String>,
    /// Its version; the component's own unless given.
    #[arg(long = "component-version", value_name = "VERSION")]
    version: Option<String>,
    /// Where its source code is.
    #[arg(long = "source", value_name = "URL")]
    source: Option<String>,
    /// The revision of the source that it was built from.
    #[arg(long)]
    revision: Option<String>,
    /// Its licence, as an SPDX expression.
    #[arg(long)]
    licenses: Option<String>,
    /// Who made it.
    #[arg(long)]
    author: Option<String>,
    /// Seconds since 1970 that count as now, so that the same component gets the same digest again.
    #[arg(long, env = "SOURCE_DATE_EPOCH", value_name = "SECONDS", value_parser = moment)]
    created: Option<Timestamp>,
    #[command(flatten)]
    login: LoginArgs,
}

fn moment(text: &str) -> Result<Timestamp, String> {
    let seconds: i64 = text.parse().map_err(|_| "it must be a number of seconds".to_owned())?;
    Timestamp::from_second(seconds).map_err(|e| e.to_string())
}

pub async fn run(arguments: Arguments, output: OutputArgs) -> anyhow::Result<ExitCode> {
    let to = source::reference(&arguments.to)?;
    let login = arguments.login.login(Some(to.resolve_registry()))?;
    let about = About {
        title: arguments.title,
        version: arguments.version,
        source: arguments.source,
        revision: arguments.revision,
        licenses: arguments.licenses,
        author: arguments.author,
        created: arguments.created,
    };
    let bar = Bar::at_once("publishing");
    let published = publish(&arguments.from, to, about, login).await.map_err(super::said)?;
    drop(bar);
    if output.json {
        out::json(&json!({
            "reference": published.reference,
            "digest": published.digest,
            "bytes": published.bytes,
            "file": published.file,
            "signed": published.signed,
        }))?;
    } else {
        let signed = if published.signed { ", with its signature" } else { "" };
        eprintln!(
            "Published {} ({} bytes{signed}). Whoever names this gets exactly these bytes:",
            published.file.display(),
            published.bytes
        );
        out::text(&published.reference)?;
    }
    Ok(ExitCode::SUCCESS)
}
