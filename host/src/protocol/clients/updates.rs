//! From a plugin's word that a resource changed to the sessions that subscribed to it.

use std::sync::{Arc, OnceLock, Weak};

use super::Clients;
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
