//! What a plugin asks its operator for: what its author wrote into `grants.toml`, without anything that is the operator's
//! to decide.
//!
//! It names services, paths and secrets, and holds no value of a setting or a variable, no place of a secret and no directory of
//! the author's machine. The same form describes what was granted, so that the two can be compared (`beyond`). It grants
//! nothing by itself. Source: docs/decisions/0030-requests-travel.md.

mod beyond;
mod section;
mod words;

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

use super::edit::Import;
use crate::config::{Grants, Limits, SecretPlace, UpstreamGrant};

pub use section::{BadRequest, MAX_SECTION_BYTES, SECTION, without};

/// Empty: it asks for nothing but its own computing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Request {
    /// By the name that the plugin uses.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub upstreams: BTreeMap<String, Upstream>,
    /// Host interfaces that are granted by a switch.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub imports: BTreeSet<Import>,
    /// By the absolute path that the plugin sees.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub directories: BTreeMap<String, Access>,
    /// Names of variables.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub environment: BTreeSet<String>,
    /// Names of settings.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub config: BTreeSet<String>,
    /// By their names in `plugins.toml`; those alone that are over the default.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, u64>,
    /// Names outside `cyberos.<module>.<verb>`.
    #[serde(skip_serializing_if = "is_false")]
    pub any_tool_name: bool,
}

/// One HTTP service. In a difference, what is the same is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Upstream {
    /// Scheme, host and port, in ASCII. `None` in a difference alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub methods: BTreeSet<String>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub paths: BTreeSet<String>,
    #[serde(skip_serializing_if = "is_false")]
    pub allow_private: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<Secret>,
    /// `max_request_bytes` and `max_response_bytes`, over the default.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, u64>,
}

/// A credential that the host is to add. What it is and where it is, only the operator knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Secret {
    /// What its author calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub header: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheme: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    Read,
    ReadWrite,
}

/// Bytes of a body, where nothing else is granted.
const DEFAULT_BODY_BYTES: u64 = 1 << 20;

impl Request {
    /// What these grants hold, as it is asked for.
    pub fn of(grants: &Grants) -> Request {
        let switches = [
            (Import::Cuo, grants.cuo),
            (Import::AuditAppend, grants.audit_append),
            (Import::AuditRead, grants.audit_read),
            (Import::Elicit, grants.elicit),
            (Import::Sample, grants.sample),
            (Import::ResourceUpdates, grants.resource_updates),
        ];
        let access = |writable| if writable { Access::ReadWrite } else { Access::Read };
        let usual = limits(&Limits::default());
        let over = limits(&grants.limits).into_iter().zip(usual).filter(|(asked, usual)| asked.1 > usual.1);
        Request {
            upstreams: grants.upstreams.iter().map(|(name, one)| (name.clone(), Upstream::of(one))).collect(),
            imports: switches.into_iter().filter(|(_, on)| *on).map(|(import, _)| import).collect(),
            directories: grants.directories.iter().map(|(path, one)| (path.clone(), access(one.writable))).collect(),
            environment: grants.environment.keys().cloned().collect(),
            config: grants.config.keys().cloned().collect(),
            limits: over.map(|((name, value), _)| (name.to_owned(), value)).collect(),
            any_tool_name: grants.any_tool_name,
        }
    }

    /// Does it ask for anything under this field of `plugins.toml`?
    pub fn asks_for(&self, field: &str) -> bool {
        match field {
            "upstreams" => !self.upstreams.is_empty(),
            "directories" => !self.directories.is_empty(),
            "environment" => !self.environment.is_empty(),
            "config" => !self.config.is_empty(),
            switch => self.imports.iter().any(|import| import.field() == switch),
        }
    }
}

impl Upstream {
    fn of(grant: &UpstreamGrant) -> Upstream {
        let sizes = [("max_request_bytes", grant.max_request_bytes), ("max_response_bytes", grant.max_response_bytes)];
        let secret = grant.credential.as_ref().map(|credential| Secret {
            name: secret_name(&credential.secret).filter(|name| section::is_word(name)).map(str::to_owned),
            header: credential.header.to_ascii_lowercase(),
            scheme: credential.scheme.clone(),
        });
        Upstream {
            url: Some(origin(grant).unwrap_or_else(|| grant.url.clone())),
            methods: grant.methods.iter().cloned().collect(),
            paths: grant.paths.iter().cloned().collect(),
            allow_private: grant.allow_private,
            secret,
            limits: sizes
                .into_iter()
                .map(|(name, bytes)| (name.to_owned(), bytes as u64))
                .filter(|(_, bytes)| *bytes > DEFAULT_BODY_BYTES)
                .collect(),
        }
    }
}

/// The one spelling of a service's address, in ASCII: letters that look alike do not.
fn origin(grant: &UpstreamGrant) -> Option<String> {
    grant.origin().ok().map(|url| url.origin().ascii_serialization())
}

/// Of a place, what tells a person which secret is meant, and nothing of the machine that it is on.
fn secret_name(place: &str) -> Option<&str> {
    match SecretPlace::parse(place).ok()? {
        SecretPlace::Environment(name) | SecretPlace::Keyring(name) => Some(name),
        SecretPlace::File(path) => path.rsplit('/').next(),
    }
}

/// By name, a larger number allowing more. When it rests is not a plugin's to ask.
fn limits(limits: &Limits) -> [(&'static str, u64); 10] {
    [
        ("fuel", limits.fuel),
        ("deadline_ms", limits.deadline_ms),
        ("memory_bytes", limits.memory_bytes as u64),
        ("table_elements", limits.table_elements as u64),
        ("output_bytes", limits.output_bytes as u64),
        ("host_calls", u64::from(limits.host_calls)),
        ("host_call_bytes", limits.host_call_bytes as u64),
        ("log_bytes", limits.log_bytes as u64),
        ("concurrency", limits.concurrency as u64),
        ("memory_share_bytes", limits.memory_share_bytes as u64),
    ]
}

fn is_false(value: &bool) -> bool {
    !value
}

#[cfg(test)]
pub(super) fn sample(toml: &str) -> Request {
    let file: crate::config::PluginsFile = toml::from_str(&format!("[plugins.w]\n{toml}")).unwrap();
    Request::of(&file.grants("w"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_the_operators_to_decide_is_not_in_it() {
        // given: values, places and directories that are nobody else's business
        let asked = sample(
            r#"
config = { units = "canary-setting" }
environment = { TZ = "canary-variable" }
digest = "sha256:canary"
source = "canary-source"
limits = { fuel = 5_000_000_000, output_bytes = 1000 }
[plugins.w.upstreams.api]
url = "https://api.example.com:443"
paths = ["/v1/*"]
credential = { scheme = "Bearer", secret = "file:/home/canary/weather.key" }
[plugins.w.directories."/data"]
host_path = "/srv/canary"
"#,
        );
        // when
        let text = serde_json::to_string(&asked).unwrap();
        // then
        assert!(!text.contains("canary"), "{text}");
        let api = &asked.upstreams["api"];
        assert_eq!(api.url.as_deref(), Some("https://api.example.com"), "in one spelling");
        assert_eq!(api.secret.as_ref().unwrap().name.as_deref(), Some("weather.key"));
        assert_eq!(asked.limits, BTreeMap::from([("fuel".into(), 5_000_000_000)]), "what is over the default");
        assert!(asked.asks_for("config") && asked.asks_for("directories") && !asked.asks_for("cuo"));
    }
}
