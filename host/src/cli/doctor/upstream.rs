//! What the bridge reaches: the CUO's catalogue and supervisor, token issuers, the memory service.

use std::time::Duration;

use super::Finding;
use crate::app;
use crate::auth::{Clock, Identifier, StdioToken};
use crate::config::Settings;
use crate::upstreams::client_for;
use crate::upstreams::cuo::Cuo;
use crate::upstreams::memory::RestSettings;

const PATIENCE: Duration = Duration::from_secs(10);
/// Ill-formed files that are named; the log has them all.
const SHOWN: usize = 3;

pub async fn catalogue(settings: &Settings) -> Vec<Finding> {
    let opened = app::cuo_settings(settings).and_then(|cuo| Ok(Cuo::new(cuo)?));
    let cuo = match opened {
        Ok(cuo) => cuo,
        Err(error) => return vec![Finding::fail("catalogue", format!("{error:#}"), "Correct --cyberos-root.")],
    };
    let reading = cuo.catalogue().await;
    let catalogue = &reading.catalogue;
    let (personas, workflows) = (catalogue.active_personas().count(), catalogue.workflows().count());
    let counts = format!("{personas} personas, {workflows} workflows, {} skills", catalogue.skills.len());
    let mut findings = vec![];
    if workflows == 0 {
        let root = settings.args.cyberos_root.as_ref().map_or("this binary".into(), |root| root.display().to_string());
        let found = format!("{counts} in {root}");
        findings.push(Finding::fail("catalogue", found, "Point --cyberos-root at a checkout, or leave it out."));
    } else if reading.problems.is_empty() {
        findings.push(Finding::ok("catalogue", counts));
    } else {
        let first = reading.problems.iter().take(SHOWN);
        let named: Vec<String> = first.map(|p| format!("{}: {}", p.path.display(), p.what)).collect();
        let found = format!("{counts}; {} files are skipped: {}", reading.problems.len(), named.join("; "));
        findings.push(Finding::warn("catalogue", found, "Correct these files; the rest is served without them."));
    }
    findings.push(match tokio::time::timeout(PATIENCE, cuo.ping()).await {
        Ok(Ok(())) => Finding::ok("supervisor", "it starts and answers"),
        Ok(Err(error)) => Finding::fail(
            "supervisor",
            format!("{error} {}", error.detail()).trim_end(),
            "Check --cuo and --cuo-command; without it no workflow runs.",
        ),
        Err(_) => Finding::fail("supervisor", "it does not answer", "Check --cuo and --cuo-command."),
    });
    findings
}

pub async fn identity(settings: &Settings) -> Vec<Finding> {
    const MEND: &str = "Correct --issuer, --audience or --token-file.";
    let auth = match app::auth_settings(settings) {
        Ok(auth) => auth,
        Err(error) => return vec![Finding::fail("issuers", format!("{error:#}"), MEND)],
    };
    let has_token = !matches!(auth.stdio_token, StdioToken::None);
    let identifier = match Identifier::new(&auth, Clock::system()) {
        Ok(identifier) => identifier,
        Err(error) => return vec![Finding::fail("issuers", error.to_string(), MEND)],
    };
    let mut findings = vec![];
    match identifier.verifier() {
        None => findings.push(Finding::ok("issuers", "none; over stdio the caller is the local user")),
        Some(verifier) => {
            for (issuer, keys) in verifier.check_issuers().await {
                findings.push(match keys {
                    Ok(0) => Finding::fail(
                        "issuers",
                        format!("{issuer} has no usable key"),
                        "Publish RS256, ES256 or EdDSA keys with a kid.",
                    ),
                    Ok(n) => Finding::ok("issuers", format!("{issuer}: {n} usable keys")),
                    Err(error) => {
                        let detail = error.log_detail().map(|d| format!(" ({d})")).unwrap_or_default();
                        Finding::fail(
                            "issuers",
                            format!("{issuer}: {error}{detail}"),
                            "Check the URL or file of its keys; until then its tokens are refused.",
                        )
                    }
                });
            }
        }
    }
    if has_token {
        findings.push(match identifier.for_stdio().await {
            Ok(caller) => Finding::ok("token", format!("{} of tenant {}", caller.subject(), caller.tenant())),
            Err(error) => Finding::fail("token", error.to_string(), error.hint_text()),
        });
    }
    findings
}

pub async fn memory(settings: &Settings) -> Vec<Finding> {
    let Some(endpoint) = &settings.args.memory_endpoint else {
        return vec![Finding::ok("memory", "the audit log is kept in the bridge's own store")];
    };
    const MEND: &str = "Check --memory-endpoint; rows wait in the store until it answers.";
    let mut url = match RestSettings::at(endpoint) {
        Ok(settings) => settings.base,
        Err(why) => return vec![Finding::fail("memory", why.to_string(), MEND)],
    };
    let path = format!("{}/v1/audit", url.path().trim_end_matches('/'));
    url.set_path(&path);
    url.set_query(Some("limit=1"));
    let client = match client_for(&url, Duration::from_secs(5)) {
        Ok(client) => client,
        Err(error) => return vec![Finding::fail("memory", error.to_string(), MEND)],
    };
    vec![match client.get(url).send().await {
        // Nobody's token was sent, so being turned away is the right answer.
        Ok(reply) if reply.status().is_success() || matches!(reply.status().as_u16(), 401 | 403) => {
            Finding::ok("memory", "the memory service answers")
        }
        Ok(reply) => Finding::fail("memory", format!("the memory service answers {}", reply.status()), MEND),
        Err(why) => {
            Finding::fail("memory", format!("the memory service cannot be reached: {}", why.without_url()), MEND)
        }
    }]
}
