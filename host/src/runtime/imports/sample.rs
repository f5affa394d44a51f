//! `cyberos:plugin/sample`: ask the caller's own model. What a request may hold is `model::sampling`'s to know.

use serde_json::{Value, json};

use crate::model::check_sampling;
use crate::runtime::bindings::cyberos::plugin::sample::{Abilities, Host};
use crate::runtime::bindings::cyberos::plugin::types::ClientError;
use crate::runtime::call::CallState;

/// From the WIT.
const MAX_REQUEST_BYTES: usize = 1 << 20;
const ASKER_KEY: &str = "cyberos/plugin";

impl Host for CallState {
    async fn can(&mut self) -> wasmtime::Result<Abilities> {
        self.enter()?;
        let features = self.call.client.features();
        Ok(Abilities { messages: features.sample, tools: features.sample && features.sample_tools })
    }

    async fn create_message(&mut self, request: String) -> wasmtime::Result<Result<String, ClientError>> {
        self.enter()?;
        let features = self.call.client.features();
        if request.len() > MAX_REQUEST_BYTES {
            return Ok(Err(ClientError::Invalid(format!("the request is over {MAX_REQUEST_BYTES} bytes"))));
        }
        let Ok(Value::Object(request)) = serde_json::from_str(&request) else {
            return Ok(Err(ClientError::Invalid("the request is not a JSON object".into())));
        };
        if !features.sample {
            return Ok(Err(self.unsupported("sampling")));
        }
        let request = match check_sampling(request, features.sample_tools) {
            // The client sees one server; which of its plugins asks is the host's to say.
            Ok(mut request) => {
                request.insert("_meta".into(), json!({ ASKER_KEY: self.plugin.as_str() }));
                request
            }
            Err(why) => return Ok(Err(ClientError::Invalid(why))),
        };
        let client = self.call.client.clone();
        let answer = self.wait_for_client(client.sample(request)).await;
        Ok(answer.map(|answer| Value::Object(answer).to_string()))
    }
}
