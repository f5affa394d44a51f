//! `cyberos:plugin/log`: into the operator's log and to the client, both on the call's own budget.

use serde_json::Value;

use crate::model::{LogLevel, is_hidden};
use crate::runtime::bindings::cyberos::plugin::log::{Host, Level};
use crate::runtime::call::CallState;

/// From the WIT.
const MAX_LOGGER_CHARS: usize = 64;

impl Host for CallState {
    async fn write(&mut self, level: Level, message: String) -> wasmtime::Result<()> {
        self.enter()?;
        if !self.output.charge(message.len()) {
            return Ok(());
        }
        self.tell_operator(level, &message);
        let logger = self.plugin.to_string();
        self.tell_client(level.into(), &logger, message.into());
        Ok(())
    }

    async fn event(&mut self, level: Level, logger: Option<String>, data: String) -> wasmtime::Result<()> {
        self.enter()?;
        if !self.output.charge(data.len()) {
            return Ok(());
        }
        self.tell_operator(level, &data);
        // Under the plugin's own name, so that none speaks as another.
        let logger = match logger {
            Some(part) => {
                let part = part.chars().filter(|c| !(c.is_control() || is_hidden(*c))).take(MAX_LOGGER_CHARS);
                format!("{}/{}", self.plugin, part.collect::<String>())
            }
            None => self.plugin.to_string(),
        };
        let data = serde_json::from_str(&data).unwrap_or(Value::String(data));
        self.tell_client(level.into(), &logger, data);
        Ok(())
    }
}

impl CallState {
    fn tell_operator(&self, level: Level, message: &str) {
        let (plugin, trace_id) = (self.plugin.as_str(), self.call.trace.id);
        match level {
            Level::Debug => tracing::debug!(target: "plugin", plugin, %trace_id, "{message}"),
            Level::Info | Level::Notice => tracing::info!(target: "plugin", plugin, %trace_id, "{message}"),
            Level::Warning => tracing::warn!(target: "plugin", plugin, %trace_id, "{message}"),
            Level::Error | Level::Critical | Level::Alert | Level::Emergency => {
                tracing::error!(target: "plugin", plugin, %trace_id, "{message}");
            }
        }
    }
}

impl From<Level> for LogLevel {
    fn from(level: Level) -> LogLevel {
        match level {
            Level::Debug => LogLevel::Debug,
            Level::Info => LogLevel::Info,
            Level::Notice => LogLevel::Notice,
            Level::Warning => LogLevel::Warning,
            Level::Error => LogLevel::Error,
            Level::Critical => LogLevel::Critical,
            Level::Alert => LogLevel::Alert,
            Level::Emergency => LogLevel::Emergency,
        }
    }
}
