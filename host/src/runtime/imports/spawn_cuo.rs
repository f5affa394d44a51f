//! `cyberos:plugin/spawn-cuo`: the supervisor, by method and JSON parameters. The executable is the operator's.

use crate::runtime::bindings::cyberos::plugin::spawn_cuo::{CuoError, Host};
use crate::runtime::call::CallState;
use crate::upstreams::cuo::{self, CuoContext};

impl Host for CallState {
    async fn request(&mut self, method: String, params: String) -> wasmtime::Result<Result<String, CuoError>> {
        self.enter()?;
        let Ok(params) = serde_json::from_str(&params) else {
            return Ok(Err(CuoError::InvalidParams("params is not JSON".into())));
        };
        let Some(cuo) = self.services.cuo.clone() else {
            return Ok(Err(CuoError::Unavailable("no supervisor is configured".into())));
        };
        let context = CuoContext { trace_id: self.call.trace.id, progress: self.call.progress.clone() };
        // Dropping this future stops the child and everything that it started.
        let answer = cuo.request(&method, params, context).await;
        Ok(answer.map(|value| value.to_string()).map_err(|error| {
            let text = error.to_string();
            let told = match &error {
                cuo::CuoError::UnknownMethod => return CuoError::UnknownMethod,
                cuo::CuoError::InvalidParams { .. } => CuoError::InvalidParams(text),
                cuo::CuoError::Unavailable { .. } => CuoError::Unavailable(text),
                cuo::CuoError::Failed { .. } => CuoError::Failed(text),
            };
            // The plugin gets the public text; if it passes the failure on, the caller gets this very error, with its hint.
            self.blame(error.into());
            told
        }))
    }
}
