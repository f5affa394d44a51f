//! `http-fetch`, with whatever the test asks for.

use cyberos_plugin_sdk::http_fetch::{self, FetchError, Header, Request};
use cyberos_plugin_sdk::prelude::*;
use std::collections::BTreeMap;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fetch {
    upstream: String,
    #[serde(default = "get")]
    method: String,
    path: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    body: Option<String>,
    /// Sends a body of this many bytes instead.
    body_bytes: Option<usize>,
    #[serde(default = "five_seconds")]
    timeout_ms: u32,
}

/// What came back, or why nothing did.
#[derive(Serialize, JsonSchema)]
pub struct Fetched {
    status: Option<u16>,
    /// In order, as the host passed them on.
    headers: Vec<(String, String)>,
    /// As text; bytes that are no UTF-8 are replaced.
    body: Option<String>,
    body_bytes: Option<usize>,
    /// The error's name in the WIT, such as `not-granted`.
    error: Option<String>,
    /// What the error says, where it says something.
    says: Option<String>,
}

fn fetch(fetch: Fetch) -> Fetched {
    let body = fetch.body_bytes.map(|n| vec![b'x'; n]).or(fetch.body.map(String::into_bytes));
    let headers = fetch.headers.into_iter().map(|(name, value)| Header { name, value }).collect();
    let Fetch { upstream, method, path, timeout_ms, .. } = fetch;
    match http_fetch::fetch(&Request { upstream, method, path, headers, body, timeout_ms }) {
        Ok(response) => Fetched {
            status: Some(response.status),
            headers: response.headers.into_iter().map(|h| (h.name, h.value)).collect(),
            body_bytes: Some(response.body.len()),
            body: Some(String::from_utf8_lossy(&response.body).into_owned()),
            error: None,
            says: None,
        },
        Err(error) => {
            let (name, says) = match error {
                FetchError::NotGranted(text) => ("not-granted", Some(text)),
                FetchError::InvalidRequest(text) => ("invalid-request", Some(text)),
                FetchError::AddressRefused => ("address-refused", None),
                FetchError::Timeout => ("timeout", None),
                FetchError::TooLarge => ("too-large", None),
                FetchError::Unreachable => ("unreachable", None),
            };
            Fetched { status: None, headers: vec![], body: None, body_bytes: None, error: Some(name.into()), says }
        }
    }
}

pub struct Fetches;

impl Tool for Fetches {
    const NAME: &'static str = "test.fetches";
    const TITLE: &'static str = "fetches";
    const DESCRIPTION: &'static str = "Test guest: sends one request through http-fetch and returns what came of it.";
    const ANNOTATIONS: Annotations = Annotations { open_world: true, ..WRITE };
    type Arguments = Fetch;
    type Output = Fetched;

    fn call(arguments: Fetch) -> Result<Fetched, ToolError> {
        Ok(fetch(arguments))
    }
}

pub struct BlocksInHostCall;

impl Tool for BlocksInHostCall {
    const NAME: &'static str = "test.blocks_in_host_call";
    const TITLE: &'static str = "blocks_in_host_call";
    const DESCRIPTION: &'static str = "Test guest: waits thirty seconds for the upstream that is called slow.";
    const ANNOTATIONS: Annotations = READ_ONLY;
    type Arguments = NoArguments;
    type Output = Fetched;

    fn call(_: NoArguments) -> Result<Fetched, ToolError> {
        Ok(fetch(Fetch {
            upstream: "slow".into(),
            method: get(),
            path: "/".into(),
            headers: BTreeMap::new(),
            body: None,
            body_bytes: None,
            timeout_ms: 30_000,
        }))
    }
}

fn get() -> String {
    "GET".into()
}
fn five_seconds() -> u32 {
    5_000
}
