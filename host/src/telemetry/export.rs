//! The worker that carries finished spans to the collector, behind a bounded queue.
//!
//! The SDK's own batch processor keeps the number of dropped spans to itself and blocks at shutdown; this one counts
//! every span that does not arrive, says so at most once a minute, and stops within a budget. While the collector is
//! away, spans wait up to the queue's capacity and go out when it is back.

use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::TelemetrySettings;

/// Spans in one export; the OpenTelemetry default.
const BATCH: usize = 512;
/// How long a span may wait for company.
const LINGER: Duration = Duration::from_secs(1);
const FIRST_BACKOFF: Duration = Duration::from_secs(1);
const LONGEST_BACKOFF: Duration = Duration::from_secs(15);
/// After this long, a batch that is never taken is given up: it may be the batch, not the collector.
const PATIENCE: Duration = Duration::from_secs(120);
const LOG_EVERY: Duration = Duration::from_secs(60);

/// Where spans went; totals since the start.
#[derive(Debug, Default)]
pub struct SpanCounts {
    /// Queued, whatever became of them.
    pub accepted: AtomicU64,
    pub exported: AtomicU64,
    /// Never queued: the queue was full or the worker had stopped.
    pub dropped: AtomicU64,
    /// Queued, and given up after failed exports or at shutdown.
    pub lost: AtomicU64,
}

impl SpanCounts {
    fn missing(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed) + self.lost.load(Ordering::Relaxed)
    }
}

/// The way in: never waits.
#[derive(Clone)]
pub struct Queue {
    sender: Sender<SpanData>,
    pub counts: Arc<SpanCounts>,
}

impl Queue {
    pub fn push(&self, span: SpanData) {
        let fate = match self.sender.try_send(span) {
            Ok(()) => &self.counts.accepted,
            Err(_) => &self.counts.dropped,
        };
        fate.fetch_add(1, Ordering::Relaxed);
    }
}

pub struct Worker {
    stop: CancellationToken,
    task: JoinHandle<()>,
    counts: Arc<SpanCounts>,
}

impl Worker {
    pub fn start(exporter: impl SpanExporter + 'static, settings: &TelemetrySettings) -> (Queue, Worker) {
        let (sender, receiver) = mpsc::channel(settings.span_queue);
        let counts = Arc::new(SpanCounts::default());
        let stop = CancellationToken::new();
        let carrier = Carrier {
            exporter,
            receiver,
            counts: counts.clone(),
            stop: stop.clone(),
            timeout: settings.export_timeout,
            said: None,
            said_missing: 0,
        };
        let queue = Queue { sender, counts: counts.clone() };
        (queue, Worker { stop, task: tokio::spawn(carrier.run()), counts })
    }

    /// Send what is queued, within `budget`.
    pub async fn stop(mut self, budget: Duration) {
        self.stop.cancel();
        if tokio::time::timeout(budget, &mut self.task).await.is_err() {
            self.task.abort();
            let _ = (&mut self.task).await;
            let settled = self.counts.exported.load(Ordering::Relaxed) + self.counts.lost.load(Ordering::Relaxed);
            let left = self.counts.accepted.load(Ordering::Relaxed).saturating_sub(settled);
            self.counts.lost.fetch_add(left, Ordering::Relaxed);
        }
        let missing = self.counts.missing();
        if missing > 0 {
            tracing::warn!(missing, "spans that never reached the OTLP collector since the start");
        }
    }
}

struct Carrier<E> {
    exporter: E,
    receiver: Receiver<SpanData>,
    counts: Arc<SpanCounts>,
    stop: CancellationToken,
    timeout: Duration,
    said: Option<Instant>,
    said_missing: u64,
}

impl<E: SpanExporter> Carrier<E> {
    async fn run(mut self) {
        loop {
            let batch = self.gather().await;
            if batch.is_empty() {
                break;
            }
            self.deliver(batch).await;
        }
        let _ = self.exporter.shutdown();
    }

    /// The next spans to send; none when stopped and the queue is empty.
    async fn gather(&mut self) -> Vec<SpanData> {
        let mut batch = Vec::new();
        let mut full_or_late = std::pin::pin!(None);
        loop {
            let room = BATCH - batch.len();
            let stopping = self.stop.is_cancelled();
            if stopping {
                self.receiver.close();
            }
            tokio::select! {
                biased;
                received = self.receiver.recv_many(&mut batch, room) => {
                    if received == 0 || batch.len() == BATCH {
                        return batch;
                    }
                    if full_or_late.is_none() {
                        full_or_late.set(Some(tokio::time::sleep(LINGER)));
                    }
                }
                () = async { full_or_late.as_mut().as_pin_mut().expect("guarded by is_some").await }, if full_or_late.is_some() => {
                    return batch;
                }
                () = self.stop.cancelled(), if !stopping => {}
            }
        }
    }

    /// Try until the collector takes the batch, or it is time to give up. Stopping allows one last try.
    async fn deliver(&mut self, batch: Vec<SpanData>) {
        let since = Instant::now();
        let size = batch.len() as u64;
        let mut backoff = FIRST_BACKOFF;
        loop {
            let last = self.stop.is_cancelled();
            let failure = match self.export(batch.clone()).await {
                Ok(()) => {
                    self.counts.exported.fetch_add(size, Ordering::Relaxed);
                    self.say_what_is_missing("the OTLP queue was full");
                    return;
                }
                Err(failure) => failure.to_string(),
            };
            if last || since.elapsed() > PATIENCE {
                self.counts.lost.fetch_add(size, Ordering::Relaxed);
                self.say_what_is_missing(&failure);
                return;
            }
            self.say_what_is_missing(&failure);
            tokio::select! {
                () = tokio::time::sleep(backoff) => backoff = (backoff * 2).min(LONGEST_BACKOFF),
                () = self.stop.cancelled() => {}
            }
        }
    }

    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        // The exporter's own timeout starts with its connection; this one counts from the first byte not sent.
        match tokio::time::timeout(self.timeout, self.exporter.export(batch)).await {
            Ok(result) => result,
            Err(_) => Err(opentelemetry_sdk::error::OTelSdkError::Timeout(self.timeout)),
        }
    }

    fn say_what_is_missing(&mut self, why: &str) {
        let missing = self.counts.missing();
        let recently = self.said.is_some_and(|at| at.elapsed() < LOG_EVERY);
        if missing == self.said_missing || recently {
            return;
        }
        tracing::warn!(missing, new = missing - self.said_missing, why, "spans did not reach the OTLP collector");
        self.said = Some(Instant::now());
        self.said_missing = missing;
    }
}
