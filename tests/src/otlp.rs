//! An OpenTelemetry collector for tests: takes OTLP over gRPC on a free port and keeps what it got.

use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{
    MetricsService, MetricsServiceServer,
};
use opentelemetry_proto::tonic::collector::metrics::v1::{ExportMetricsServiceRequest, ExportMetricsServiceResponse};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value::Value};
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::Span;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tonic::{Request, Response, Status};

/// Stops listening when dropped.
pub struct Collector {
    pub address: SocketAddr,
    kept: Kept,
    server: tokio::task::JoinHandle<()>,
}

#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Received>>);

type Received = (Vec<Span>, Vec<Metric>, Option<Resource>);

impl Collector {
    pub async fn start() -> Self {
        Self::start_at("127.0.0.1:0".parse().unwrap()).await
    }

    /// At a given address, to come back after an outage.
    pub async fn start_at(address: SocketAddr) -> Self {
        let incoming = tonic::transport::server::TcpIncoming::bind(address).expect("the collector's port is free");
        let address = incoming.local_addr().expect("a bound listener has an address");
        let kept = Kept::default();
        let serve = tonic::transport::Server::builder()
            .add_service(TraceServiceServer::new(kept.clone()))
            .add_service(MetricsServiceServer::new(kept.clone()))
            .serve_with_incoming(incoming);
        let server = tokio::spawn(async move { serve.await.expect("the collector serves") });
        Collector { address, kept, server }
    }

    /// For `TelemetrySettings::otlp_endpoint` or `OTEL_EXPORTER_OTLP_ENDPOINT`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn spans(&self) -> Vec<Span> {
        self.kept.0.lock().unwrap().0.clone()
    }

    pub fn metric(&self, name: &str) -> Option<Metric> {
        self.kept.0.lock().unwrap().1.iter().rev().find(|m| m.name == name).cloned()
    }

    pub fn resource(&self) -> Option<Resource> {
        self.kept.0.lock().unwrap().2.clone()
    }

    /// The spans, once there are `number`; panics after ten seconds.
    pub async fn wait_for_spans(&self, number: usize) -> Vec<Span> {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let spans = self.spans();
            if spans.len() >= number {
                return spans;
            }
            assert!(Instant::now() < deadline, "{} of {number} spans came", spans.len());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// One attribute as text, whatever its type.
pub fn attribute(attributes: &[KeyValue], key: &str) -> Option<String> {
    let value = attributes.iter().find(|a| a.key == key)?.value.as_ref()?.value.as_ref()?;
    Some(match value {
        Value::StringValue(text) => text.clone(),
        Value::IntValue(number) => number.to_string(),
        Value::DoubleValue(number) => number.to_string(),
        Value::BoolValue(flag) => flag.to_string(),
        other => format!("{other:?}"),
    })
}

#[tonic::async_trait]
impl TraceService for Kept {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let mut kept = self.0.lock().unwrap();
        for of_resource in request.into_inner().resource_spans {
            kept.2 = of_resource.resource.or(kept.2.take());
            kept.0.extend(of_resource.scope_spans.into_iter().flat_map(|scope| scope.spans));
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

#[tonic::async_trait]
impl MetricsService for Kept {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        let scopes = request.into_inner().resource_metrics.into_iter().flat_map(|r| r.scope_metrics);
        self.0.lock().unwrap().1.extend(scopes.flat_map(|scope| scope.metrics));
        Ok(Response::new(ExportMetricsServiceResponse::default()))
    }
}
