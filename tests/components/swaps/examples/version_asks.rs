//! A version that asks for more than the ones before: an upstream.

mod common;

use cyberos_plugin_sdk::http_fetch::{self, Request};

version!("asks");

struct Fetches;

impl Tool for Fetches {
    const NAME: &'static str = "cyberos.test.fetches";
    const TITLE: &'static str = "Fetch";
    const DESCRIPTION: &'static str = "Test guest: asks an upstream, so that it cannot be loaded without that grant.";
    const ANNOTATIONS: Annotations = READ_ONLY;
    type Arguments = NoArguments;
    type Output = common::Answer;

    fn call(_: NoArguments) -> Result<common::Answer, ToolError> {
        let request = Request {
            upstream: "api".into(),
            method: "GET".into(),
            path: "/".into(),
            headers: vec![],
            body: None,
            timeout_ms: 1_000,
        };
        let answer = http_fetch::fetch(&request).map_or_else(|error| format!("{error:?}"), |r| r.status.to_string());
        Ok(common::Answer { version: answer })
    }
}

export_tools!(Version, Fetches);
