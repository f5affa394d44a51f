//! What the operator lets a plugin do: deny by default, one entry per plugin in `plugins.toml`.
//!
//! Plain data. Reading the file is `config`'s job; enforcing it is `runtime`'s and `upstreams`'.

use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

use super::live_secret::LiveSecret;

/// Everything that one plugin may reach, and how much of it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Grants {
    /// Upstreams by the name that the plugin uses. Import: `cyberos:plugin/http-fetch`.
    pub upstreams: BTreeMap<String, UpstreamGrant>,
    /// The CUO supervisor. Import: `cyberos:plugin/spawn-cuo`.
    pub cuo: bool,
    /// Append to the caller's audit log. Import: `cyberos:plugin/audit-append`.
    pub audit_append: bool,
    /// Read the caller's audit log. Import: `cyberos:plugin/audit-read`.
    pub audit_read: bool,
    /// Ask the caller's user. Import: `cyberos:plugin/elicit`.
    pub elicit: bool,
    /// Ask the caller's model. Import: `cyberos:plugin/sample`.
    pub sample: bool,
    /// Say of any resource that it changed, also of one that another plugin offers. Import:
    /// `cyberos:plugin/resource-updates`, which a plugin with resources has for its own.
    pub resource_updates: bool,
    /// Directories, by the absolute path that the plugin sees.
    pub directories: BTreeMap<String, DirectoryGrant>,
    /// Environment variables that the plugin sees.
    pub environment: BTreeMap<String, String>,
    /// Values for `cyberos:plugin/config`.
    pub config: BTreeMap<String, String>,
    /// Tools and prompts may have names outside `cyberos.<module>.<verb>`.
    pub any_tool_name: bool,
    /// The one component that is served under this name: `sha256:` and 64 hexadecimal digits. It also approves what
    /// that component's tools say.
    pub digest: Option<String>,
    /// Where the component came from, such as `oci://registry.example.com/weather:1.2`. For people; nothing is fetched.
    pub source: Option<String>,
    /// How much a call may use.
    pub limits: Limits,
}

impl Grants {
    /// Is this the component (SHA-256, in hex) that `digest` names? `None` when it names none.
    pub fn pins(&self, digest: &str) -> Option<bool> {
        let pin = self.digest.as_deref()?;
        Some(pin.strip_prefix("sha256:").unwrap_or(pin) == digest)
    }

    /// May a component with these grants import this interface of `cyberos:plugin`? `None` when there is none of that
    /// name. `offers_resources`: it exports `resources`.
    pub fn allow_import(&self, interface: &str, offers_resources: bool) -> Option<bool> {
        Some(match interface {
            "types" | "call-context" | "progress" | "log" => true,
            "config" => !self.config.is_empty(),
            "http-fetch" => !self.upstreams.is_empty(),
            "spawn-cuo" => self.cuo,
            "audit-append" => self.audit_append,
            "audit-read" => self.audit_read,
            "elicit" => self.elicit,
            "sample" => self.sample,
            "resource-updates" => self.resource_updates || offers_resources,
            _ => return None,
        })
    }
}

/// One HTTP service that a plugin may ask.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UpstreamGrant {
    /// Scheme, host and port, such as `https://api.example.com`. No path, no user.
    pub url: String,
    /// `GET` alone unless given.
    #[serde(default = "get_only")]
    pub methods: Vec<String>,
    /// Path patterns: `*` stands for one segment, a trailing `/**` for any rest. Nothing is granted by an empty list.
    pub paths: Vec<String>,
    /// Allow loopback and private addresses (never link-local or metadata ones).
    #[serde(default)]
    pub allow_private: bool,
    /// Largest response body in bytes.
    #[serde(default = "one_mib")]
    pub max_response_bytes: usize,
    /// Largest request body in bytes.
    #[serde(default = "one_mib")]
    pub max_request_bytes: usize,
    /// Added by the host; the plugin never sees it.
    #[serde(default)]
    pub credential: Option<Credential>,
}

/// A header that the host adds to each request.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Credential {
    /// `authorization` unless given.
    #[serde(default = "authorization")]
    pub header: String,
    /// Put before the secret with a space, such as `Bearer`.
    #[serde(default)]
    pub scheme: Option<String>,
    /// Where the secret is: `env:NAME`, `file:PATH` or `keyring:NAME`. Read at start, and again as it changes.
    pub secret: String,
    /// The secret itself, once read. It does not print.
    #[serde(skip)]
    pub value: Option<LiveSecret>,
}

/// A directory that a plugin sees.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DirectoryGrant {
    /// An existing directory.
    pub host_path: PathBuf,
    /// May the plugin change what is in it?
    #[serde(default)]
    pub writable: bool,
}

/// How much a call may use. Every limit is always on.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Units of fuel for one call, about one per executed instruction.
    pub fuel: u64,
    /// Milliseconds for one call that is not a task.
    pub deadline_ms: u64,
    /// Bytes of linear memory.
    pub memory_bytes: usize,
    /// Elements over all tables.
    pub table_elements: usize,
    /// Bytes of a result.
    pub output_bytes: usize,
    /// Calls to host functions.
    pub host_calls: u32,
    /// Bytes passed to or from one host function.
    pub host_call_bytes: usize,
    /// Bytes of log and standard output that are kept.
    pub log_bytes: usize,
    /// Calls at once.
    pub concurrency: usize,
    /// Bytes of linear memory over all calls at once.
    pub memory_share_bytes: usize,
    /// Calls of one tenant that may fail one after another, by a trap or a limit, before the plugin rests. 0: it never does.
    pub failures_in_a_row: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            fuel: 2_000_000_000,
            deadline_ms: 30_000,
            memory_bytes: 64 << 20,
            table_elements: 100_000,
            output_bytes: 1 << 20,
            host_calls: 10_000,
            host_call_bytes: 4 << 20,
            log_bytes: 64 << 10,
            concurrency: 32,
            memory_share_bytes: 512 << 20,
            failures_in_a_row: 10,
        }
    }
}

fn get_only() -> Vec<String> {
    vec!["GET".into()]
}
fn one_mib() -> usize {
    1 << 20
}
fn authorization() -> String {
    "authorization".into()
}
