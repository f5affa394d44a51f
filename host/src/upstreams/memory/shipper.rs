//! From the outbox to the memory service: every audit row that is marked for it, in order, once.
//!
//! Runs beside the calls and is never waited for. A row that fails holds back its own tenant only; the store hands out
//! no later row of that tenant while an earlier one waits. Source: design, section 8.

use jiff::{SignedDuration, Timestamp};
use secrecy::SecretString;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::rest::{NewRow, RestMemory};
use super::retry::{Failed, jittered};
use crate::error::Error;
use crate::model::{TenantId, Trace, TraceId};
use crate::store::{OutboxRow, Store};

/// Rows claimed at a time.
const BATCH: u32 = 100;
/// Tenants served at a time.
const TENANTS_AT_ONCE: usize = 8;

#[derive(Clone)]
pub struct ShipperSettings {
    /// The bridge's own token for the service; default none.
    pub service_token: Option<SecretString>,
    /// How often the outbox is looked at when nobody wakes the shipper; default 1 s.
    pub poll: Duration,
    /// How long claimed rows are hidden from other replicas; default 60 s. Longer than an attempt.
    pub hold: Duration,
    /// Waits after the first, second, … failed attempt, the last one repeated; default 1 s to about 18 h, each four
    /// times the one before. With ±20 % on each.
    pub waits: Vec<Duration>,
    /// A row that is older than this and has used up `waits` is given up; default 24 h.
    pub give_up_after: Duration,
    /// Told what became of each attempt; default nobody. Must not block.
    pub on_event: Arc<dyn Fn(ShipEvent) + Send + Sync>,
}

impl Default for ShipperSettings {
    fn default() -> Self {
        ShipperSettings {
            service_token: None,
            poll: Duration::from_secs(1),
            hold: Duration::from_secs(60),
            waits: (0..9).map(|n| Duration::from_secs(4u64.pow(n))).collect(),
            give_up_after: Duration::from_secs(24 * 3600),
            on_event: Arc::new(|_| {}),
        }
    }
}

/// For metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShipEvent {
    Shipped,
    /// Failed, and will be tried again.
    Retried,
    /// Failed for good: the row stays in the store, marked.
    GivenUp,
}

impl ShipEvent {
    /// For a metric's label.
    pub fn word(self) -> &'static str {
        match self {
            ShipEvent::Shipped => "shipped",
            ShipEvent::Retried => "retried",
            ShipEvent::GivenUp => "given_up",
        }
    }
}

/// Ships until it is stopped. One per process; several processes on one store share the work.
pub struct Shipper {
    store: Arc<dyn Store>,
    service: Arc<RestMemory>,
    wake: Arc<Notify>,
    settings: ShipperSettings,
}

impl Shipper {
    pub fn new(store: Arc<dyn Store>, service: Arc<RestMemory>, wake: Arc<Notify>, settings: ShipperSettings) -> Self {
        Shipper { store, service, wake, settings }
    }

    /// Returns soon after `stop`: rows in flight are finished, claimed ones that were not sent go back by themselves.
    pub async fn run(self, stop: CancellationToken) {
        let mut store_failed = false;
        while !stop.is_cancelled() {
            let batch = match self.store.claim_outbox(BATCH, self.settings.hold).await {
                Ok(batch) => {
                    store_failed = false;
                    batch
                }
                Err(error) => {
                    // Once per outage: the store has its own alarms.
                    if !std::mem::replace(&mut store_failed, true) {
                        tracing::warn!(?error, "audit rows cannot be shipped, because the store cannot be read");
                    }
                    Vec::new()
                }
            };
            let full = batch.len() as u32 == BATCH;
            let all_sent = self.ship(batch, &stop).await;
            if full && all_sent {
                continue;
            }
            tokio::select! {
                () = stop.cancelled() => {}
                () = self.wake.notified() => {}
                () = tokio::time::sleep(self.settings.poll) => {}
            }
        }
    }

    /// Tenants beside each other, each tenant's rows one after the other. True when every row went out.
    async fn ship(&self, batch: Vec<OutboxRow>, stop: &CancellationToken) -> bool {
        let claimed = Instant::now();
        let mut tenants: BTreeMap<TenantId, Vec<OutboxRow>> = BTreeMap::new();
        for row in batch {
            tenants.entry(row.row.tenant_id).or_default().push(row);
        }
        let lanes = tenants.into_values().map(|rows| self.ship_tenant(rows, claimed, stop));
        let lanes = futures::stream::iter(lanes);
        let sent: Vec<bool> =
            futures::StreamExt::collect(futures::StreamExt::buffer_unordered(lanes, TENANTS_AT_ONCE)).await;
        sent.into_iter().all(|sent| sent)
    }

    async fn ship_tenant(&self, mut rows: Vec<OutboxRow>, claimed: Instant, stop: &CancellationToken) -> bool {
        rows.sort_by_key(|row| row.row.seq);
        for row in rows {
            // Past half the hold another replica might take over while we still send.
            if stop.is_cancelled() || claimed.elapsed() > self.settings.hold / 2 {
                return false;
            }
            if !self.ship_row(&row).await {
                return false;
            }
        }
        true
    }

    /// False: the rows behind it have to wait.
    async fn ship_row(&self, outgoing: &OutboxRow) -> bool {
        let row = &outgoing.row;
        let traceparent = Trace { id: TraceId::parse(&row.trace_id).unwrap_or_else(TraceId::random), ..Trace::start() };
        let sent = self
            .service
            .append_once(&NewRow {
                kind: &row.kind,
                actor_id: &row.actor_id,
                tenant_id: row.tenant_id,
                body: &row.body,
                idempotency_key: &outgoing.idempotency_key,
                traceparent: &traceparent.traceparent(),
                bearer: self.settings.service_token.as_ref(),
            })
            .await;
        let (event, stored) = match sent {
            Ok(_) => (ShipEvent::Shipped, self.store.ack_outbox(row.tenant_id, row.seq).await),
            Err(failed) => self.put_back(outgoing, failed).await,
        };
        (self.settings.on_event)(event);
        if let Err(error) = stored {
            // The row comes back when its hold ends, and the key keeps the service from storing it twice.
            tracing::warn!(?error, "the store did not take note of an audit row's shipping");
            return false;
        }
        event != ShipEvent::Retried
    }

    async fn put_back(&self, outgoing: &OutboxRow, failed: Failed) -> (ShipEvent, Result<(), Error>) {
        let (tenant, seq) = (outgoing.row.tenant_id, outgoing.row.seq);
        let next = match &failed {
            Failed::Final(_) => None,
            Failed::Retry { after, .. } => self.next_try(outgoing, *after),
        };
        let error = failed.into_error();
        let text = format!("{}: {error}", error.reason().as_str());
        match next {
            Some(_) => tracing::debug!(seq, ?error, attempts = outgoing.attempts, "an audit row is shipped later"),
            None => tracing::error!(
                seq,
                ?error,
                attempts = outgoing.attempts,
                "an audit row was not taken by the memory service and is kept here only"
            ),
        }
        let event = if next.is_some() { ShipEvent::Retried } else { ShipEvent::GivenUp };
        (event, self.store.retry_outbox(tenant, seq, next, &text).await)
    }

    /// `None`: the row is given up.
    fn next_try(&self, outgoing: &OutboxRow, after: Option<Duration>) -> Option<Timestamp> {
        let settings = &self.settings;
        let now = Timestamp::now();
        let failures = (outgoing.attempts as usize).max(1);
        let put: Timestamp = outgoing.row.ts.parse().unwrap_or(now);
        let old =
            now.duration_since(put) >= SignedDuration::try_from(settings.give_up_after).unwrap_or(SignedDuration::MAX);
        // Both: a row that lay in a stopped bridge for two days still gets its tries.
        if failures > settings.waits.len() && old {
            return None;
        }
        let wait = settings.waits.get(failures - 1).or(settings.waits.last()).copied().unwrap_or(settings.poll);
        let wait = jittered(wait.max(after.unwrap_or_default().min(settings.give_up_after)));
        let wait = SignedDuration::try_from(wait).unwrap_or(SignedDuration::ZERO);
        Some(now.checked_add(wait).unwrap_or(now))
    }
}
