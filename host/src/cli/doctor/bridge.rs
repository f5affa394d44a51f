//! The store, and the sandbox with every component in it.

use jiff::SignedDuration;
use std::sync::Arc;

use super::Finding;
use crate::app::{self, Bridge, TaskHome};
use crate::config::{Settings, StoreSettings};
use crate::runtime;
use crate::store::{Store, postgres};

/// Token times may differ by 30 s between machines; this is where to look before that is used up.
const SKEW_WARN: SignedDuration = SignedDuration::from_secs(2);
const SKEW_FAIL: SignedDuration = SignedDuration::from_secs(30);

pub async fn store(settings: &Settings) -> (Option<Arc<dyn Store>>, Vec<Finding>) {
    let mut findings = vec![];
    let what = match &settings.store {
        StoreSettings::Sqlite(path) => format!("SQLite at {}", path.display()),
        StoreSettings::Postgres(url) => match postgres::inspect(url).await {
            Err(error) => {
                let found = format!("{error} {}", error.log_detail().map(|d| format!("({d})")).unwrap_or_default());
                return (None, vec![Finding::fail("store", found.trim_end(), error.hint_text())]);
            }
            Ok(database) => {
                findings.push(skew(database.clock_ahead));
                if database.login_is_mighty {
                    let found = format!(
                        "{} is a superuser or has BYPASSRLS; the bridge only steps down from it",
                        database.login
                    );
                    let mend = "Give the bridge a login of its own: CREATE ROLE bridge LOGIN; GRANT cyberos_plugin_host TO bridge.";
                    findings.push(Finding::warn("role", found, mend));
                }
                let version = database.schema_version.map_or("unknown".into(), |version| version.to_string());
                format!("Postgres {}, login {}, schema version {version}", database.server_version, database.login)
            }
        },
    };
    let store = match app::open_store(settings).await {
        Ok(store) => store,
        Err(error) => {
            let mend = match settings.store {
                StoreSettings::Sqlite(_) => "Mend the file's path, owner or free space; or choose another --state-dir.",
                StoreSettings::Postgres(_) => {
                    "Run `store migrate --owner-url …` as the schema's owner and GRANT cyberos_plugin_host to the bridge's login, which must own nothing."
                }
            };
            findings.push(Finding::fail("store", format!("{what}: {error:#}"), mend));
            return (None, findings);
        }
    };
    findings.push(match store.ping().await {
        Ok(()) => Finding::ok("store", format!("{what}, can be written")),
        Err(error) => Finding::fail("store", format!("{what}: {}", app::operator(error.clone())), error.hint_text()),
    });
    if let Ok((waiting, failed)) = store.outbox_depth().await
        && (failed > 0 || waiting > 1000)
    {
        let found = format!("{waiting} audit rows wait for the memory service, {failed} were given up");
        findings.push(Finding::warn("outbox", found, "Check --memory-endpoint and the token that ships rows."));
    }
    (Some(store), findings)
}

fn skew(ahead: SignedDuration) -> Finding {
    let found = format!(
        "{} ms {} the database's",
        ahead.abs().as_millis(),
        if ahead.is_negative() { "behind" } else { "ahead of" }
    );
    let mend = "Have both machines follow the same time source (NTP).";
    match ahead.abs() {
        skew if skew >= SKEW_FAIL => Finding::fail("skew", found, mend),
        skew if skew >= SKEW_WARN => Finding::warn("skew", found, mend),
        _ => Finding::ok("skew", found),
    }
}

/// Loading a component instantiates it, so what is in the catalogue has run.
pub async fn sandbox(settings: Settings, store: Option<Arc<dyn Store>>) -> Vec<Finding> {
    let mut findings = vec![match runtime::has_pagemap_scan() {
        true => Finding::ok("kernel", "it can scan page maps: fresh instances are cheap"),
        false => Finding::warn(
            "kernel",
            "it cannot scan page maps, so a fresh instance costs about three times as much",
            "Linux 6.7 or newer can; in a container, allow the PAGEMAP_SCAN ioctl.",
        ),
    }];
    let Some(store) = store else {
        findings.push(Finding::warn("sandbox", "not looked at: it needs the store", "Mend the store first."));
        return findings;
    };
    let telemetry = match app::start_telemetry(&settings) {
        Ok(telemetry) => telemetry,
        Err(error) => {
            findings.push(Finding::fail("telemetry", format!("{error:#}"), "Correct --log or --otlp-endpoint."));
            return findings;
        }
    };
    match Bridge::start_with(settings, telemetry, TaskHome::Here, store).await {
        Err(error) => findings.push(Finding::fail("sandbox", format!("{error:#}"), "Correct what it names.")),
        Ok(bridge) => {
            for standing in bridge.plugins.standings() {
                let Some(blocked) = standing.blocked else { continue };
                let mend = "Correct its entry in plugins.toml, or rebuild the component.";
                let found = format!("plugin {}: {}", standing.id, blocked.reason);
                findings.push(match standing.serving {
                    Some(serving) => {
                        let version = &serving.version.digest[..12];
                        Finding::warn("plugin", format!("{found} Version {version} goes on serving."), mend)
                    }
                    None => Finding::fail("plugin", found, mend),
                });
            }
            let entries = bridge.catalog.all();
            let mut plugins: Vec<&str> = entries.iter().map(|entry| entry.plugin.id().as_str()).collect();
            plugins.sort_unstable();
            plugins.dedup();
            findings.push(match plugins.len() {
                0 => Finding::fail("sandbox", "no component could be instantiated", "Mend the lines above."),
                n => Finding::ok("sandbox", format!("{n} components instantiated, {} tools", entries.len())),
            });
            bridge.stop().await;
        }
    }
    findings
}
