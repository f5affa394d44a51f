//! The bridge's numbers, served to Prometheus as text and pushed over OTLP from the same instruments.
//!
//! `cyberos.bridge.calls` over OTLP is `cyberos_bridge_calls_total` in the text. The number of series stays bounded:
//! tools are those that were announced, words come from closed sets, and the tenant, which alone is open, stands only
//! on the counters of fuel and time, where the SDK folds all beyond 2,000 series into one (`otel_metric_overflow`).

use arc_swap::ArcSwap;
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, Meter, MeterProvider, UpDownCounter};
use opentelemetry_sdk::metrics::SdkMeterProvider;
use prometheus::{Registry, TextEncoder};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::export::SpanCounts;
use super::outcome::Outcome;

/// Seconds: from a warm read-only tool (50 µs) to the longest task (10 min).
const CALL_SECONDS: &[f64] = &[
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
    10.0, 30.0, 60.0, 120.0, 300.0, 600.0,
];
/// Seconds: from a group commit that was just closing to a store in trouble.
const APPEND_SECONDS: &[f64] =
    &[0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0];
/// Seconds: from a component whose code is in the cache to one of 40 MB that has to be compiled.
const SWAP_SECONDS: &[f64] = &[0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];
const BATCH_ROWS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0];
const FUEL: &[f64] = &[1e4, 1e5, 3e5, 1e6, 3e6, 1e7, 3e7, 1e8, 3e8, 1e9, 1e10];

/// A call that ended, refused ones included.
pub struct CallRecord<'a> {
    /// The public tool name; one that was not announced counts as `unknown`.
    pub tool: &'a str,
    pub tenant: Option<&'a str>,
    pub outcome: Outcome,
    pub duration: Duration,
    pub fuel: u64,
}

/// A prompt, a resource or a completion that was served or refused.
pub struct OfferRecord<'a> {
    /// Of MCP, such as `prompts/get`.
    pub method: &'static str,
    /// `none` for what nobody offers.
    pub plugin: &'a str,
    pub tenant: &'a str,
    pub outcome: Outcome,
    pub duration: Duration,
    pub fuel: u64,
}

/// Every instrument. Recording takes no lock of ours and, beside the tenant's name, allocates nothing.
pub struct Metrics {
    registry: Registry,
    /// Kept, because the instruments go silent when the last provider is dropped.
    _provider: SdkMeterProvider,
    meter: Meter,
    tools: ArcSwap<HashMap<String, Arc<ToolLabels>>>,
    unknown: Arc<ToolLabels>,
    calls: Counter<u64>,
    call_duration: Histogram<f64>,
    call_fuel: Histogram<u64>,
    fuel: Counter<u64>,
    seconds: Counter<f64>,
    running: UpDownCounter<i64>,
    offers: Counter<u64>,
    offer_duration: Histogram<f64>,
    offer_fuel: Counter<u64>,
    tasks_open: UpDownCounter<i64>,
    tasks_ended: Counter<u64>,
    audit_append: Histogram<f64>,
    audit_batch: Histogram<u64>,
    audit_shipped: Counter<u64>,
    rate_limited: Counter<u64>,
    host_call_denials: Counter<u64>,
    plugins_loaded: Counter<u64>,
    plugins_rejected: Counter<u64>,
    plugins_swapped: Counter<u64>,
    plugins_swap_duration: Histogram<f64>,
    grants_reloaded: Counter<u64>,
    secrets_reloaded: Counter<u64>,
    plugin_rests: Counter<u64>,
    http_requests: Counter<u64>,
}

/// The attribute sets of one tool, built once; cloning a member counts a reference.
struct ToolLabels {
    tool: KeyValue,
    plugin: KeyValue,
}

impl ToolLabels {
    fn new(tool: &str, plugin: &str) -> Self {
        let shared = |text: &str| Arc::<str>::from(text);
        ToolLabels { tool: KeyValue::new("tool", shared(tool)), plugin: KeyValue::new("plugin", shared(plugin)) }
    }
}

impl Metrics {
    pub(super) fn new(provider: &SdkMeterProvider, registry: Registry) -> Self {
        let meter = provider.meter("cyberos-mcp-bridge");
        let count = |name, unit, what| meter.u64_counter(name).with_unit(unit).with_description(what).build();
        let level = |name, unit, what| meter.i64_up_down_counter(name).with_unit(unit).with_description(what).build();
        let seconds = |name, what, bounds: &[f64]| {
            let histogram = meter.f64_histogram(name).with_unit("s").with_description(what);
            histogram.with_boundaries(bounds.to_vec()).build()
        };
        let sizes = |name, unit, what, bounds: &[f64]| {
            let histogram = meter.u64_histogram(name).with_unit(unit).with_description(what);
            histogram.with_boundaries(bounds.to_vec()).build()
        };
        meter
            .u64_observable_gauge("cyberos.bridge.build_info")
            .with_description("Always 1; the labels say what is running.")
            .with_callback(|gauge| gauge.observe(1, &[KeyValue::new("version", env!("CARGO_PKG_VERSION"))]))
            .build();
        Metrics {
            tools: ArcSwap::default(),
            unknown: Arc::new(ToolLabels::new("unknown", "none")),
            calls: count("cyberos.bridge.calls", "{call}", "Tool calls that ended, refused ones included."),
            call_duration: seconds("cyberos.bridge.call.duration", "From request to result.", CALL_SECONDS),
            call_fuel: sizes("cyberos.bridge.call.fuel", "{fuel}", "Fuel that one call used.", FUEL),
            fuel: count("cyberos.bridge.fuel", "{fuel}", "Fuel used, by tool and tenant."),
            seconds: meter
                .f64_counter("cyberos.bridge.time")
                .with_unit("s")
                .with_description("Time that calls took, by tool and tenant.")
                .build(),
            running: level("cyberos.bridge.calls.running", "{call}", "Tool calls running now."),
            offers: count(
                "cyberos.bridge.offers",
                "{request}",
                "Prompts, resources and completions that were asked for, refused ones included.",
            ),
            offer_duration: seconds("cyberos.bridge.offer.duration", "From request to answer.", CALL_SECONDS),
            offer_fuel: count("cyberos.bridge.offer.fuel", "{fuel}", "Fuel used by those, by method and tenant."),
            tasks_open: level("cyberos.bridge.tasks.open", "{task}", "Tasks that this process is running."),
            tasks_ended: count("cyberos.bridge.tasks.ended", "{task}", "Tasks that ended, by final status."),
            audit_append: seconds(
                "cyberos.bridge.audit.append.duration",
                "From handing over an audit row to its commit.",
                APPEND_SECONDS,
            ),
            audit_batch: sizes("cyberos.bridge.audit.batch.size", "{row}", "Audit rows per commit.", BATCH_ROWS),
            audit_shipped: count(
                "cyberos.bridge.audit.shipped",
                "{row}",
                "Audit rows for the memory service, by fate.",
            ),
            rate_limited: count("cyberos.bridge.rate_limited", "{request}", "Requests refused by a rate limit."),
            host_call_denials: count("cyberos.bridge.host_call.denials", "{call}", "Host calls refused by policy."),
            plugins_loaded: count("cyberos.bridge.plugins.loaded", "{plugin}", "Plugins loaded, swaps included."),
            plugins_rejected: count(
                "cyberos.bridge.plugins.rejected",
                "{plugin}",
                "Components that were not admitted, by reason.",
            ),
            plugins_swapped: count("cyberos.bridge.plugins.swapped", "{swap}", "Versions that took another's place."),
            plugins_swap_duration: seconds(
                "cyberos.bridge.plugins.swap.duration",
                "From the notice that a file changed to the first call that its new version can serve.",
                SWAP_SECONDS,
            ),
            grants_reloaded: count("cyberos.bridge.plugins.grants.reloaded", "{reload}", "Reloads of plugins.toml."),
            secrets_reloaded: count(
                "cyberos.bridge.plugins.secrets.reloaded",
                "{reload}",
                "Secrets that were found changed or unreadable while they are used.",
            ),
            plugin_rests: count(
                "cyberos.bridge.plugins.rests",
                "{rest}",
                "Times that a failing plugin was given a rest.",
            ),
            http_requests: count("cyberos.bridge.http.requests", "{request}", "HTTP requests, by route and status."),
            _provider: provider.clone(),
            meter,
            registry,
        }
    }

    /// Announce a tool, so that its calls are counted under its name. Again after a swap is harmless.
    pub fn know_tool(&self, tool: &str, plugin: &str) {
        let labels = Arc::new(ToolLabels::new(tool, plugin));
        self.tools.rcu(|known| {
            let mut next = HashMap::clone(known);
            next.insert(tool.to_owned(), labels.clone());
            next
        });
    }

    /// Exactly these tools are announced from now on: calls of others count as `unknown`.
    pub fn know_tools<'a>(&self, tools: impl Iterator<Item = (&'a str, &'a str)>) {
        let labels = tools.map(|(tool, plugin)| (tool.to_owned(), Arc::new(ToolLabels::new(tool, plugin))));
        self.tools.store(Arc::new(labels.collect()));
    }

    fn labels(&self, tool: &str) -> Arc<ToolLabels> {
        self.tools.load().get(tool).unwrap_or(&self.unknown).clone()
    }

    /// Counts a call as running until the guard is dropped, also when the call is cancelled or panics.
    pub fn running(&self, tool: &str) -> Running {
        let running = Running { level: self.running.clone(), labels: self.labels(tool) };
        running.level.add(1, std::slice::from_ref(&running.labels.tool));
        running
    }

    pub fn call_ended(&self, call: &CallRecord<'_>) {
        let labels = self.labels(call.tool);
        let (tool, plugin) = (labels.tool.clone(), labels.plugin.clone());
        let outcome = KeyValue::new("outcome", call.outcome.as_str());
        let reason = KeyValue::new("reason", call.outcome.error_type().unwrap_or("none"));
        self.call_duration.record(call.duration.as_secs_f64(), &[tool.clone(), outcome.clone()]);
        if call.fuel > 0 {
            self.call_fuel.record(call.fuel, std::slice::from_ref(&tool));
            let tenant = KeyValue::new("tenant", call.tenant.unwrap_or("none").to_owned());
            let whose = [tool.clone(), tenant];
            self.fuel.add(call.fuel, &whose);
            self.seconds.add(call.duration.as_secs_f64(), &whose);
        }
        self.calls.add(1, &[tool, plugin, outcome, reason]);
    }

    pub fn offer_served(&self, offer: &OfferRecord<'_>) {
        let method = KeyValue::new("method", offer.method);
        let outcome = KeyValue::new("outcome", offer.outcome.as_str());
        let reason = KeyValue::new("reason", offer.outcome.error_type().unwrap_or("none"));
        self.offer_duration.record(offer.duration.as_secs_f64(), &[method.clone(), outcome.clone()]);
        if offer.fuel > 0 {
            self.offer_fuel.add(offer.fuel, &[method.clone(), KeyValue::new("tenant", offer.tenant.to_owned())]);
        }
        self.offers.add(1, &[method, KeyValue::new("plugin", offer.plugin.to_owned()), outcome, reason]);
    }

    pub fn task_opened(&self) {
        self.tasks_open.add(1, &[]);
    }

    /// A task that this process ran reached `status`, such as `completed`, `failed` or `cancelled`.
    pub fn task_ended(&self, status: &'static str) {
        self.tasks_open.add(-1, &[]);
        self.tasks_ended.add(1, &[KeyValue::new("status", status)]);
    }

    /// Tasks of a process that is gone, ended by this one.
    pub fn tasks_recovered(&self, number: u64, status: &'static str) {
        self.tasks_ended.add(number, &[KeyValue::new("status", status)]);
    }

    /// One row, from handing it over to its commit.
    pub fn audit_appended(&self, took: Duration) {
        self.audit_append.record(took.as_secs_f64(), &[]);
    }

    /// One commit of `rows` rows.
    pub fn audit_committed(&self, rows: u64) {
        self.audit_batch.record(rows, &[]);
    }

    /// Ask `depth` at every scrape how many audit rows wait to be shipped. It must answer at once, from an atomic.
    pub fn watch_outbox(&self, depth: impl Fn() -> u64 + Send + Sync + 'static) {
        self.meter
            .u64_observable_gauge("cyberos.bridge.audit.outbox.depth")
            .with_unit("{row}")
            .with_description("Audit rows that wait to be shipped to the memory service.")
            .with_callback(move |gauge| gauge.observe(depth(), &[]))
            .build();
    }

    /// One attempt to ship a row: `shipped`, `retried` or `given_up`.
    pub fn audit_shipped(&self, fate: &'static str) {
        self.audit_shipped.add(1, &[KeyValue::new("fate", fate)]);
    }

    /// `limit` is one of `user`, `tenant`, `tool` and `capacity`.
    pub fn rate_limited(&self, limit: &str) {
        self.rate_limited.add(1, &[KeyValue::new("limit", limit.to_owned())]);
    }

    /// `import` is the WIT interface, `why` the word of its error, such as `host-not-allowed`.
    pub fn host_call_denied(&self, import: &'static str, why: &'static str) {
        self.host_call_denials.add(1, &[KeyValue::new("import", import), KeyValue::new("why", why)]);
    }

    pub fn plugin_loaded(&self, plugin: &str) {
        self.plugins_loaded.add(1, &[KeyValue::new("plugin", plugin.to_owned())]);
    }

    /// Without the plugin's name: a directory of refused files must not grow the number of series.
    pub fn plugin_rejected(&self, why: &'static str) {
        self.plugins_rejected.add(1, &[KeyValue::new("why", why)]);
    }

    /// A new version serves, so long after the change of its file was noticed; in place of another one, or as the first.
    pub fn plugin_swapped(&self, in_place: bool, took: Duration) {
        self.plugins_swapped.add(u64::from(in_place), &[]);
        self.plugins_swap_duration.record(took.as_secs_f64(), &[]);
    }

    /// `outcome` is `ok` or `invalid`; grants that are invalid leave the old ones in force.
    pub fn grants_reloaded(&self, outcome: &'static str) {
        self.grants_reloaded.add(1, &[KeyValue::new("outcome", outcome)]);
    }

    pub fn secret_reloaded(&self, outcome: &'static str) {
        self.secrets_reloaded.add(1, &[KeyValue::new("outcome", outcome)]);
    }

    /// Ask at every scrape how many plugins are in which state. It must answer at once.
    pub fn watch_plugins<const N: usize>(&self, states: impl Fn() -> [(&'static str, u64); N] + Send + Sync + 'static) {
        self.meter
            .u64_observable_gauge("cyberos.bridge.plugins")
            .with_unit("{plugin}")
            .with_description("Plugins by state; one whose new version waits is in two.")
            .with_callback(move |gauge| {
                states().into_iter().for_each(|(state, number)| gauge.observe(number, &[KeyValue::new("state", state)]))
            })
            .build();
    }

    /// A plugin failed so often in a row that its calls are refused for a while.
    pub fn plugin_rests(&self, plugin: &str) {
        self.plugin_rests.add(1, &[KeyValue::new("plugin", plugin.to_owned())]);
    }

    /// `route` is the matched pattern (`/mcp`), never the path that was asked for.
    pub fn http_request(&self, route: &'static str, status: u16) {
        self.http_requests.add(1, &[KeyValue::new("route", route), KeyValue::new("status", i64::from(status))]);
    }

    pub(super) fn watch_spans(&self, counts: Option<Arc<SpanCounts>>) {
        let Some(counts) = counts else { return };
        self.meter
            .u64_observable_counter("cyberos.bridge.spans")
            .with_unit("{span}")
            .with_description("Finished spans, by what became of them.")
            .with_callback(move |counter| {
                let fates = [("exported", &counts.exported), ("dropped", &counts.dropped), ("lost", &counts.lost)];
                for (fate, number) in fates {
                    counter.observe(number.load(Relaxed), &[KeyValue::new("fate", fate)]);
                }
            })
            .build();
    }

    /// All numbers in the Prometheus text format 0.0.4 (`text/plain; version=0.0.4`), for `GET /metrics`.
    pub fn render(&self) -> String {
        TextEncoder::new().encode_to_string(&self.registry.gather()).unwrap_or_else(|error| {
            tracing::error!(%error, "metrics could not be written as text");
            String::new()
        })
    }
}

/// A call that runs; see [`Metrics::running`].
pub struct Running {
    level: UpDownCounter<i64>,
    labels: Arc<ToolLabels>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.level.add(-1, std::slice::from_ref(&self.labels.tool));
    }
}
