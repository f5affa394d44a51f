//! What happens without a request: from a plugin's word that a resource changed to the sessions that subscribed to it,
//! and from a swap to every client whose lists it changed. Source: MCP 2025-11-25, tools, prompts and resources.

use std::sync::{Arc, OnceLock, Weak};

use super::Clients;
use crate::broker::Lists;
use crate::model::{PluginId, TenantId, UpdateSink};

/// Plugins are loaded before there are clients to tell: until [`Updates::reach`] is called nobody can have subscribed.
#[derive(Default)]
pub struct Updates(OnceLock<Weak<Clients>>);

impl Updates {
    pub fn reach(&self, clients: &Arc<Clients>) {
        let _ = self.0.set(Arc::downgrade(clients));
    }
}

impl UpdateSink for Updates {
    fn resource_updated(&self, tenant: TenantId, _plugin: &PluginId, uri: &str) {
        if let Some(clients) = self.0.get().and_then(Weak::upgrade) {
            let uri = uri.to_owned();
            tokio::spawn(async move { clients.resource_updated(tenant, &uri).await });
        }
    }
}

impl Clients {
    /// Tell everybody who listens here which of their lists are others now. Each replica watches its own plugins and tells
    /// its own clients.
    pub fn lists_changed(&self, before: &Lists, now: &Lists) {
        for listener in self.listeners.all() {
            let changed = now.changed_since(before, &listener.caller);
            let lists = [("tools", changed.tools), ("prompts", changed.prompts), ("resources", changed.resources)];
            for (list, _) in lists.iter().filter(|(_, changed)| *changed) {
                let method = format!("notifications/{list}/list_changed");
                listener.sink.send(serde_json::json!({ "jsonrpc": "2.0", "method": method }));
            }
        }
    }
}
