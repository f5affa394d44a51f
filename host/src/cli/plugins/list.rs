//! `plugins list`: where every plugin stands, from the files and the history that a bridge with these settings has.

use serde_json::{Value, json};
use std::process::ExitCode;

use crate::cli::out::{self, OutputArgs};
use crate::cli::session;
use crate::config::SettingsArgs;
use crate::plugins::{Standing, Who};

pub async fn run(mut settings: SettingsArgs, output: OutputArgs) -> anyhow::Result<ExitCode> {
    // Whoever looks for what is wrong is not kept from it by a secret that is away.
    settings.secrets_may_be_away = true;
    let bridge = session::bridge(settings).await?;
    let standings = bridge.plugins.standings();
    if output.json {
        out::json(&standings.iter().map(summary).collect::<Vec<_>>())?;
    } else {
        let rows = standings.iter().map(|standing| {
            let serving = standing.serving.as_ref();
            let of = |text: Option<String>| text.unwrap_or_else(|| "-".into());
            [
                standing.id.clone(),
                state(standing).into(),
                of(serving.map(|s| short(&s.version.digest))),
                of(serving.and_then(|s| s.previous.as_deref()).map(short)),
                of(serving.map(|s| s.tools.len().to_string())),
                if standing.built_in { "built in".into() } else { of(serving.map(|s| seconds(&s.version.since))) },
                of(serving.and_then(|s| s.version.who.as_ref()).map(name)),
            ]
        });
        out::text(&out::table(["plugin", "state", "serves", "before", "tools", "since", "who"], rows))?;
        for standing in &standings {
            if let Some(blocked) = &standing.blocked {
                let digest = blocked.digest.as_deref().map(|d| format!(" {}", short(d))).unwrap_or_default();
                let (kind, word) = (blocked.kind.as_str(), blocked.word);
                out::text(&out::printable(&format!(
                    "\n{}{digest} is {kind} ({word}): {}",
                    standing.id, blocked.reason
                )))?;
            }
            for (upstream, why) in &standing.stale_secrets {
                out::text(&out::printable(&format!("\n{}, upstream {upstream}: {why}", standing.id)))?;
            }
        }
    }
    bridge.stop().await;
    Ok(ExitCode::SUCCESS)
}

/// `serving`, also with a version that waits; `kept`: what serves is the bridge's own copy, because the file may not.
fn state(standing: &Standing) -> &'static str {
    match (&standing.serving, &standing.blocked) {
        (Some(serving), _) if serving.kept => "kept",
        (Some(_), _) => "serving",
        (None, Some(blocked)) => blocked.kind.as_str(),
        (None, None) => "none",
    }
}

fn summary(standing: &Standing) -> Value {
    let serving = standing.serving.as_ref();
    json!({
        "id": standing.id,
        "built_in": standing.built_in,
        "state": state(standing),
        "digest": serving.map(|s| &s.version.digest),
        "previous": serving.and_then(|s| s.previous.as_ref()),
        "tools": serving.map(|s| &s.tools[..]).unwrap_or_default(),
        "since": serving.map(|s| &s.version.since),
        "who": serving.and_then(|s| s.version.who.as_ref()),
        "blocked": standing.blocked,
        "stale_secrets": standing.stale_secrets,
    })
}

fn short(digest: &str) -> String {
    digest.chars().take(12).collect()
}

/// RFC 3339 without fractions, as `audit tail` shows times.
fn seconds(time: &str) -> String {
    time.split('.').next().unwrap_or(time).trim_end_matches('Z').to_owned()
}

fn name(who: &Who) -> String {
    who.user.clone().unwrap_or_else(|| format!("uid {}", who.uid))
}
