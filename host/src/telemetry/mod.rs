//! placeholder until the branch lands
use std::time::Duration;
pub struct Metrics;
impl Metrics {
    pub fn render(&self) -> String {
        String::new()
    }
    pub fn plugin_rejected(&self, _p: &str) {}
}
pub struct Telemetry {
    pub metrics: Metrics,
}
#[derive(Clone)]
pub enum LogFormat {
    Text,
    Json,
}
#[derive(Default)]
pub struct TelemetrySettings {
    pub filter: String,
    pub format: LogFormat,
    pub otlp_endpoint: Option<String>,
}
impl Default for LogFormat {
    fn default() -> Self {
        LogFormat::Text
    }
}
impl Telemetry {
    pub fn start(_s: TelemetrySettings) -> anyhow::Result<Self> {
        Ok(Telemetry { metrics: Metrics })
    }
    pub async fn shutdown(&self, _b: Duration) {}
}
