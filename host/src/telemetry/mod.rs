//! What operators see of the bridge: logs on stderr, metrics for Prometheus and OTLP, one span per tool call.
//!
//! Nothing here fails or slows a call: recording is a few atomic operations, and whatever leaves the process does so
//! from a worker of its own behind a bounded queue. Reads no environment; `config` fills [`TelemetrySettings`].
//! Source: design.md section 8; OpenTelemetry semantic conventions for MCP.

pub mod logs;
pub mod metrics;
pub mod outcome;
pub mod spans;

mod export;
#[cfg(test)]
mod tests;

use opentelemetry::KeyValue;
use opentelemetry_otlp::{MetricExporter, RetryPolicy, SpanExporter, WithExportConfig, WithTonicConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider};
use opentelemetry_sdk::resource::TelemetryResourceDetector;
use std::sync::Arc;
use std::time::Duration;

pub use export::SpanCounts;
pub use logs::LogFormat;
pub use metrics::{CallRecord, Metrics, OfferRecord};
pub use outcome::Outcome;
pub use spans::{CallSpan, Tracer};

/// How the bridge reports on itself. Plain data; every field has a default that is safe in production.
#[derive(Clone, Debug)]
pub struct TelemetrySettings {
    /// How a log line looks. Default: text.
    pub log_format: LogFormat,
    /// Which log lines are written, in the syntax of `RUST_LOG`: `info`, `warn,cyberos_plugin_host=debug`.
    /// Default: `info`.
    pub log_filter: String,
    /// The OTLP gRPC collector, `http://host:4317`. Without one, nothing leaves the process. Default: none.
    /// The OTLP exporter itself adds the headers of `OTEL_EXPORTER_OTLP_HEADERS`.
    pub otlp_endpoint: Option<String>,
    /// `service.name` of everything exported. Default: `cyberos-mcp-bridge`.
    pub service_name: String,
    /// More resource attributes, such as `deployment.environment.name`. Default: none.
    pub resource_attributes: Vec<(String, String)>,
    /// How long one export may take before it counts as failed. Default: 10 s.
    pub export_timeout: Duration,
    /// How often metrics are pushed over OTLP. Default: 60 s.
    pub metrics_interval: Duration,
    /// The share of traces that start here and are exported, 0.0 to 1.0. A caller's own sampling decision in
    /// `traceparent` is always kept. Default: 1.0.
    pub sample_ratio: f64,
    /// How many finished spans may wait for the collector; more are dropped and counted. Default: 8192.
    pub span_queue: usize,
}

impl Default for TelemetrySettings {
    fn default() -> Self {
        TelemetrySettings {
            log_format: LogFormat::Text,
            log_filter: "info".into(),
            otlp_endpoint: None,
            service_name: "cyberos-mcp-bridge".into(),
            resource_attributes: Vec::new(),
            export_timeout: Duration::from_secs(10),
            metrics_interval: Duration::from_secs(60),
            sample_ratio: 1.0,
            span_queue: 8192,
        }
    }
}

/// Why telemetry could not start: always a setting, and the text names it.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("the log filter {filter:?} is not understood: {why}")]
    LogFilter { filter: String, why: String },
    #[error("logs were already set up in this process")]
    LogsTaken,
    #[error("the OTLP endpoint {endpoint:?} cannot be used: {why}")]
    Endpoint { endpoint: String, why: String },
    #[error("the sample ratio must be between 0 and 1, not {0}")]
    SampleRatio(f64),
    #[error("the span queue must hold at least one span")]
    SpanQueue,
    #[error("metrics cannot be set up: {0}")]
    Metrics(String),
}

/// The running telemetry of one process.
pub struct Telemetry {
    pub metrics: Arc<Metrics>,
    pub tracer: Tracer,
    worker: Option<export::Worker>,
    provider: SdkMeterProvider,
}

impl Telemetry {
    /// Must be called inside a tokio runtime, on which the exporters keep their connection. Never waits for the
    /// collector. Logs are a matter of the whole process and start apart: [`logs::install`].
    pub fn start(settings: &TelemetrySettings) -> Result<Telemetry, StartError> {
        if !(0.0..=1.0).contains(&settings.sample_ratio) {
            return Err(StartError::SampleRatio(settings.sample_ratio));
        }
        if settings.span_queue == 0 {
            return Err(StartError::SpanQueue);
        }
        let resource = resource(settings);
        let mut providers = SdkMeterProvider::builder().with_resource(resource.clone());
        let mut tracer = Tracer::off();
        let mut worker = None;
        if let Some(endpoint) = &settings.otlp_endpoint {
            providers = providers.with_reader(push_metrics(settings, endpoint)?);
            let (queue, started) = export::Worker::start(push_spans(settings, endpoint, &resource)?, settings);
            tracer = Tracer::on(queue, settings.sample_ratio);
            worker = Some(started);
        }
        let registry = prometheus::Registry::new();
        let scrape = opentelemetry_prometheus::exporter()
            .with_registry(registry.clone())
            .scope_info_enabled(false)
            .build()
            .map_err(|e| StartError::Metrics(e.to_string()))?;
        let provider = providers.with_reader(scrape).build();
        let metrics = Arc::new(Metrics::new(&provider, registry));
        metrics.watch_spans(tracer.counts());
        Ok(Telemetry { metrics, tracer, worker, provider })
    }

    /// Send what is still here, for at most `budget`; then what is left is counted, logged and let go.
    pub async fn shutdown(self, budget: Duration) {
        let (done, metrics_flushed) = tokio::sync::oneshot::channel();
        let provider = self.provider;
        // The SDK's shutdown blocks and knows no budget. A thread of its own can be left behind; a blocking task of
        // the runtime would hold up the end of the process.
        let flush = move || {
            let _ = provider.shutdown();
            let _ = done.send(());
        };
        if let Err(e) = std::thread::Builder::new().name("metrics-shutdown".into()).spawn(flush) {
            tracing::warn!(error = %e, "the last metrics were not sent");
        }
        let spans = async {
            if let Some(worker) = self.worker {
                worker.stop(budget).await;
            }
        };
        let (metrics, ()) = tokio::join!(tokio::time::timeout(budget, metrics_flushed), spans);
        if metrics.is_err() {
            tracing::warn!("the collector did not take the last metrics in time");
        }
    }
}

fn resource(settings: &TelemetrySettings) -> Resource {
    // `builder_empty`: the SDK's own builder would read the environment, which is `config`'s to read.
    Resource::builder_empty()
        .with_detector(Box::new(TelemetryResourceDetector))
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .with_attributes(settings.resource_attributes.iter().map(|(k, v)| KeyValue::new(k.clone(), v.clone())))
        .with_service_name(settings.service_name.clone())
        .build()
}

fn push_metrics(settings: &TelemetrySettings, endpoint: &str) -> Result<PeriodicReader<MetricExporter>, StartError> {
    let exporter = MetricExporter::builder()
        .with_tonic()
        .with_endpoint(endpoint)
        .with_timeout(settings.export_timeout)
        // Values are cumulative: the next interval carries what a failed export did not.
        .with_retry_policy(RetryPolicy::disabled())
        .build()
        .map_err(|e| StartError::Endpoint { endpoint: endpoint.into(), why: e.to_string() })?;
    Ok(PeriodicReader::builder(exporter).with_interval(settings.metrics_interval).build())
}

fn push_spans(settings: &TelemetrySettings, endpoint: &str, resource: &Resource) -> Result<SpanExporter, StartError> {
    use opentelemetry_sdk::trace::SpanExporter as _;
    let mut exporter = SpanExporter::builder()
        .with_tonic()
        .with_endpoint(endpoint)
        .with_timeout(settings.export_timeout)
        // The worker retries by itself, so that it can stop in time.
        .with_retry_policy(RetryPolicy::disabled())
        .build()
        .map_err(|e| StartError::Endpoint { endpoint: endpoint.into(), why: e.to_string() })?;
    exporter.set_resource(resource);
    Ok(exporter)
}
