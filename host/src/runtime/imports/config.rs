//! `cyberos:plugin/config`: what the operator set for this plugin, and nothing else.

use crate::runtime::bindings::cyberos::plugin::config::Host;
use crate::runtime::call::CallState;

impl Host for CallState {
    async fn get(&mut self, name: String) -> wasmtime::Result<Option<String>> {
        self.enter()?;
        Ok(self.grants.config.get(&name).cloned())
    }
}
