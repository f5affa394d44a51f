//! `cyberos:plugin/resource-updates`: a plugin says that a resource changed. Who is told is the sink's business.

use crate::model::is_uri;
use crate::runtime::bindings::cyberos::plugin::resource_updates::Host;
use crate::runtime::call::CallState;

impl Host for CallState {
    async fn updated(&mut self, uri: String) -> wasmtime::Result<()> {
        self.enter()?;
        let may_say = self.grants.resource_updates || self.offers.covers(&uri);
        if !may_say || !is_uri(&uri) {
            self.denied("resource-updates", "not-granted");
        } else if self.client.admit_update() {
            self.services.updates.resource_updated(self.call.caller.tenant(), &self.plugin, &uri);
        } else {
            let (plugin, trace_id) = (self.plugin.as_str(), self.call.trace.id);
            tracing::warn!(plugin, %trace_id, "updates of resources over the limit of a call were dropped");
        }
        Ok(())
    }
}
