//! The memory service: where audit rows of callers are appended and read.
//!
//! Two places keep the same promise: the bridge's own store, and a service that speaks the REST contract
//! (`POST` and `GET /v1/audit`). Who may call was decided before; tenant and actor are taken from the [`Caller`],
//! never from a plugin.

mod embedded;
mod kind;
mod reply;
mod rest;
mod retry;
mod shipper;
#[cfg(test)]
mod tests;

pub use embedded::{Embedded, MAX_PAGE_BYTES};
pub use kind::{check_kind, check_not_reserved};
pub use rest::{NewRow, RestMemory, RestSettings};
pub use shipper::{ShipEvent, Shipper, ShipperSettings};

use secrecy::SecretString;
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::auth::Caller;
use crate::error::Result;
use crate::model::Trace;
use crate::store::{AuditPosition, Store};

/// A row for the caller's own log.
pub struct Append {
    pub caller: Caller,
    /// The caller's own token, for a service that checks it itself. Never a service account's.
    pub bearer: Option<Arc<SecretString>>,
    pub kind: String,
    /// A JSON object.
    pub body: Value,
    pub trace: Trace,
    /// The same append, sent again, must carry the same key.
    pub idempotency_key: String,
}

/// A page of the caller's own log.
pub struct ReadQuery {
    pub caller: Caller,
    pub bearer: Option<Arc<SecretString>>,
    pub actor: Option<String>,
    pub kind: Option<String>,
    /// Rows with a greater sequence number only.
    pub since_seq: Option<i64>,
    /// 1 to 1 000.
    pub limit: u32,
    pub trace: Trace,
}

/// The operator's setting that cannot work; one sentence, for the start of the process.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct MemorySettingError(pub(super) String);

pub enum Memory {
    Embedded(Embedded),
    Remote {
        service: Arc<RestMemory>,
        /// Wakes the shipper, which otherwise looks once a second.
        wake: Arc<Notify>,
    },
}

impl Memory {
    /// In the bridge's own store.
    pub fn embedded(store: Arc<dyn Store>) -> Self {
        Memory::Embedded(Embedded::new(store))
    }

    /// At `endpoint`, such as `https://memory.example.com`; starts the worker that ships the bridge's own audit rows
    /// there from the store's outbox, with `service_token`, until `stop`.
    ///
    /// Called on a Tokio runtime. Errors: an endpoint that is no `http(s)` URL.
    pub fn remote(
        endpoint: &str,
        service_token: Option<SecretString>,
        store: Arc<dyn Store>,
        stop: CancellationToken,
        on_event: Arc<dyn Fn(ShipEvent) + Send + Sync>,
    ) -> Result<Self, MemorySettingError> {
        let service = Arc::new(RestMemory::new(RestSettings::at(endpoint)?)?);
        let wake = Arc::new(Notify::new());
        let shipper = Shipper::new(
            store,
            service.clone(),
            wake.clone(),
            ShipperSettings { service_token, on_event, ..Default::default() },
        );
        tokio::spawn(shipper.run(stop));
        Ok(Memory::Remote { service, wake })
    }

    /// Append one row, durably.
    ///
    /// Errors: `Unreachable`, `Timeout`, `BadResponse`, `RateLimited`, `StoreUnavailable` when it may work later;
    /// `InvalidRequest` when the key was used for another row; `InvalidParams` when the service rejects the row;
    /// `TokenMissing`, `TokenInvalid`, `InsufficientScope` when it rejects the caller.
    pub async fn append(&self, row: Append) -> Result<AuditPosition> {
        match self {
            Memory::Embedded(embedded) => embedded.append(row).await,
            Memory::Remote { service, .. } => service.append(row).await,
        }
    }

    /// A page `{"rows": [...], "next_since_seq": n | null}`, rows of the caller's tenant in order of `seq`. Errors as
    /// for [`Memory::append`].
    pub async fn read(&self, query: ReadQuery) -> Result<Value> {
        match self {
            Memory::Embedded(embedded) => embedded.read(query).await,
            Memory::Remote { service, .. } => service.read(query).await,
        }
    }

    /// Is there a service that public audit rows are shipped to?
    pub fn is_remote(&self) -> bool {
        matches!(self, Memory::Remote { .. })
    }

    /// Rows were put into the outbox. Cheap, never blocks.
    pub fn outbox_filled(&self) {
        if let Memory::Remote { wake, .. } = self {
            wake.notify_one();
        }
    }
}
