//! Where a plugin's word that a resource changed goes. A port: the protocol tells the sessions that subscribed.

use super::{PluginId, TenantId};

pub trait UpdateSink: Send + Sync {
    /// `uri` is a well-formed URI. Unless the operator granted more, it is one that `plugin` offers itself. Only callers
    /// of `tenant` may learn of it, and only those who may read it. Never blocks.
    fn resource_updated(&self, tenant: TenantId, plugin: &PluginId, uri: &str);
}
