//! `cyberos:plugin/call-context`: who calls, and how long the call may take.

use crate::runtime::bindings::cyberos::plugin::call_context::{Context, Host};
use crate::runtime::call::CallState;

impl Host for CallState {
    async fn get(&mut self) -> wasmtime::Result<Context> {
        self.enter()?;
        Ok(Context {
            tenant: self.call.caller.tenant().to_string(),
            subject: self.call.caller.subject_hash16(),
            trace_id: self.call.trace.id.to_string(),
            remaining_ms: self.deadline.left().as_millis() as u64,
            task_id: self.call.task_id.clone(),
        })
    }
}
