//! `cyberos:plugin/log`: into the operator's log, on the call's own budget.

use crate::runtime::bindings::cyberos::plugin::log::{Host, Level};
use crate::runtime::call::CallState;

impl Host for CallState {
    async fn write(&mut self, level: Level, message: String) -> wasmtime::Result<()> {
        self.enter()?;
        if !self.output.charge(message.len()) {
            return Ok(());
        }
        let (plugin, trace_id) = (self.plugin.as_str(), self.call.trace.id);
        match level {
            Level::Debug => tracing::debug!(target: "plugin", plugin, %trace_id, "{message}"),
            Level::Info => tracing::info!(target: "plugin", plugin, %trace_id, "{message}"),
            Level::Warning => tracing::warn!(target: "plugin", plugin, %trace_id, "{message}"),
            Level::Error => tracing::error!(target: "plugin", plugin, %trace_id, "{message}"),
        }
        Ok(())
    }
}
