//! Once per call: a fresh store and instance, the call's limits, and how it ended.
//!
//! Three things can stop a guest: fuel (how much it computes), the deadline (how long it takes, waiting included) and
//! the caller (who cancels, or drops the future). All three work because a running guest yields at every tick of the
//! epoch: the future then sees the clock and the cancellation, and dropping it frees the instance.

use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use wasmtime::component::ResourceTable;
use wasmtime::{Store, UpdateDeadline};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use super::Services;
use super::ask::Ask;
use super::bindings::cyberos::plugin::types as wit;
use super::deadline::Deadline;
use super::engine::Clock;
use super::failure::{Evidence, explain};
use super::imports::{ClientGate, ProgressGate, WasiHttp};
use super::lanes::Pace;
use super::limiter::Limiter;
use super::output::Capture;
use super::plugin::Plugin;
use super::turns::{Turn, Turns};
use crate::auth::Caller;
use crate::config::Grants;
use crate::error::{Error, Reason, Result};
use crate::model::{ClientPort, Laps, Offers, PluginId, ProgressSink, TenantId, Trace};
use secrecy::SecretString;

/// Everything that the host knows about a call and a guest may make use of, never see whole.
#[derive(Clone)]
pub struct PluginCall {
    pub caller: Caller,
    /// The caller's own token, for upstreams of ours that check it themselves (the memory service). Never for plugins.
    pub bearer: Option<Arc<SecretString>>,
    pub trace: Trace,
    /// Time in which a person is waited for comes on top.
    pub deadline: Instant,
    pub cancel: CancellationToken,
    pub progress: ProgressSink,
    pub client: ClientPort,
    pub task_id: Option<String>,
    /// The call passed every gate that an append needs.
    pub cleared_to_append: bool,
}

/// A call's end and its cost, which is reported for failures, too: they are not free.
pub struct Ended<T> {
    pub outcome: Result<T>,
    pub fuel: u64,
    /// Linear memory at its largest, over all memories of the call.
    pub memory_bytes: usize,
}

impl<T> Ended<T> {
    /// The guest did not run.
    pub fn before_it_ran(refusal: Error) -> Ended<T> {
        Ended { outcome: Err(refusal), fuel: 0, memory_bytes: 0 }
    }
}

/// The data of a call's store; host imports are implemented on it.
pub struct CallState {
    wasi: WasiCtx,
    pub(super) table: ResourceTable,
    pub(super) wasi_http: Option<Box<WasiHttp>>,
    pub(super) limiter: Limiter,
    pub(super) output: Capture,
    pub(super) plugin: PluginId,
    pub(super) grants: Arc<Grants>,
    pub(super) services: Arc<Services>,
    pub(super) call: PluginCall,
    pub(super) offers: Arc<Offers>,
    pub(super) clock: Arc<Clock>,
    pub(super) deadline: Deadline,
    pub(super) turns: Turns,
    /// Given back while the call waits for a person.
    pub(super) turn: Option<Turn>,
    pub(super) progress: ProgressGate,
    pub(super) client: ClientGate,
    pub(super) host_calls_left: u32,
    pub(super) appends: u32,
    /// The host's own failure that the guest was last told of. If the guest gives up because of it, the caller gets
    /// this error (class, reason, hint), not the guest's retelling.
    blame: Option<Error>,
}

impl CallState {
    pub(super) fn blame(&mut self, error: Error) {
        self.blame = Some(error);
    }
}

impl WasiView for CallState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

impl Plugin {
    /// Run one call in a fresh instance.
    pub async fn call<A: Ask>(self: &Arc<Self>, ask: A, call: PluginCall, laps: &mut Laps) -> Ended<A::Answer> {
        let (deadline, cancel) = (call.deadline, call.cancel.clone());
        if let Err(resting) = self.circuits().admit(call.caller.tenant(), Instant::now()) {
            // Whoever calls again at once, though told when to, would have more of the processor than the guest had.
            tokio::select! {
                () = cancel.cancelled() => {}
                () = tokio::time::sleep(REFUSAL_HELD) => {}
            }
            return Ended::before_it_ran(resting);
        }
        let admitted = tokio::select! {
            biased;
            () = cancel.cancelled() => Err(cancelled()),
            admitted = self.turns().admit(deadline) => admitted,
        };
        let turn = match laps.lap("admit", admitted) {
            Ok(turn) => turn,
            Err(error) => return Ended::before_it_ran(error),
        };
        self.directories_ready().await;
        // Everything of the call moves with it, should it have to change lanes.
        let (pace, mut its_laps) = (Pace::default(), std::mem::replace(laps, Laps::none()));
        let running = {
            let (plugin, pace) = (self.clone(), pace.clone());
            async move {
                let ended = plugin.run(ask, call, turn, pace, &mut its_laps).await;
                (ended, its_laps)
            }
        };
        let ended;
        (ended, *laps) = self.lanes().drive(running, &pace).await;
        ended
    }

    /// With its turn. Fuel, deadline and caller can end it from here on.
    async fn run<A: Ask>(&self, ask: A, call: PluginCall, turn: Turn, pace: Pace, laps: &mut Laps) -> Ended<A::Answer> {
        let (tenant, cancel, limits) = (call.caller.tenant(), call.cancel.clone(), &self.grants().limits);
        let mut store = match laps.lap("make store", self.store(call, pace)) {
            Ok(store) => store,
            Err(error) => return Ended::before_it_ran(error),
        };
        store.data_mut().turn = Some(turn);
        let running = self.clock().run();
        let deadline = store.data().deadline.clone();
        let outcome = tokio::select! {
            biased;
            () = cancel.cancelled() => Err(cancelled()),
            outcome = ask.run(self, &mut store, laps) => match outcome {
                Ok(Ok(returned)) => A::answer(returned, limits.output_bytes),
                Ok(Err(error)) => Err(told(&mut store, error)),
                Err(error) => Err(explain(&error, evidence(&store.data().limiter))),
            },
            // After the guest, which yields at every tick: setting a timer wakes the thread that keeps the timers, and
            // costs more than a whole short call. Such a call is over before this line is reached.
            () = deadline.passed() => Err(Error::new(Reason::Deadline, "The call passed its timeout.")),
        };
        self.note_end(tenant, outcome.as_ref().err().map(Error::reason));
        let fuel = limits.fuel - store.get_fuel().unwrap_or(0);
        let memory_bytes = store.data().limiter.memory_used();
        self.log_output(&store);
        // Its instance goes before its turn does.
        let turn = store.data_mut().turn.take();
        drop((store, running, turn));
        laps.lap("drop instance", ());
        Ended { outcome, fuel, memory_bytes }
    }

    /// A fresh store with everything that bounds the call.
    fn store(&self, call: PluginCall, pace: Pace) -> Result<Store<CallState>> {
        let output = Capture::new(self.grants().limits.log_bytes);
        let wasi = self.wasi(&output)?;
        Ok(self.store_with(call, wasi, output, pace))
    }

    pub(super) fn store_with(&self, call: PluginCall, wasi: WasiCtx, output: Capture, pace: Pace) -> Store<CallState> {
        let grants = self.grants();
        let limits = &grants.limits;
        let state = CallState {
            wasi,
            table: table(grants),
            wasi_http: None,
            limiter: Limiter::new(limits, self.memory_share().clone()),
            output,
            plugin: self.id().clone(),
            grants: grants.clone(),
            services: self.services().clone(),
            offers: self.offers().clone(),
            clock: self.clock().clone(),
            deadline: Deadline::at(call.deadline),
            turns: self.turns().clone(),
            turn: None,
            call,
            progress: ProgressGate::default(),
            client: ClientGate::default(),
            host_calls_left: limits.host_calls,
            appends: 0,
            blame: None,
        };
        let mut store = Store::new(self.engine(), state);
        store.limiter(|state| &mut state.limiter);
        store.set_fuel(limits.fuel).expect("the engine counts fuel");
        store.set_hostcall_fuel(limits.host_call_bytes.max(limits.output_bytes + RESULT_SLACK));
        store.set_epoch_deadline(1);
        store.epoch_deadline_callback(move |_| {
            pace.count_slice();
            Ok(UpdateDeadline::YieldCustom(1, Box::pin(tokio::task::yield_now())))
        });
        store
    }

    fn note_end(&self, tenant: TenantId, failure: Option<Reason>) {
        if self.circuits().ended(tenant, failure, Instant::now()) {
            self.services().metrics.plugin_rests(self.id().as_str());
            tracing::warn!(plugin = self.id().as_str(), %tenant, "a plugin that keeps failing rests; its calls get `busy` meanwhile");
        }
    }

    fn log_output(&self, store: &Store<CallState>) {
        let (text, dropped) = store.data().output.take();
        let trace_id = store.data().call.trace.id;
        if !text.is_empty() {
            tracing::info!(target: "plugin", plugin = self.id().as_str(), %trace_id, "{}", text.trim_end());
        }
        if dropped > 0 {
            tracing::warn!(target: "plugin", plugin = self.id().as_str(), %trace_id, dropped, "output over the plugin's log limit was dropped");
        }
    }
}

fn cancelled() -> Error {
    Error::new(Reason::Cancelled, "The call was cancelled.")
}

fn evidence(limiter: &Limiter) -> Evidence {
    Evidence { growth_refused: limiter.refused, share_refused: limiter.share_refused }
}

/// From what the guest gave up with to what the caller is told.
fn told(store: &mut Store<CallState>, error: wit::ToolError) -> Error {
    let told = match error {
        wit::ToolError::InvalidInput(text) => Error::new(Reason::InvalidParams, sentence(&text))
            .hint("Correct the arguments as the message says, then call again."),
        wit::ToolError::Denied(text) => Error::new(Reason::ToolDenied, sentence(&text)),
        wit::ToolError::Unavailable(text) => Error::new(Reason::BadResponse, sentence(&text)),
        wit::ToolError::Internal(text) => Error::new(Reason::ToolFailed, "The tool failed.").detail(text),
    };
    // Passing on a failure of the host's: the host's own words know more, the hint above all.
    let ours = store.data_mut().blame.take();
    ours.filter(|ours| ours.class() == told.class()).unwrap_or(told)
}

/// Beside the strings themselves, a result is lifted with its lists and records.
const RESULT_SLACK: usize = 256 << 10;

/// Longest error text of a guest that a caller sees.
const MAX_ERROR_CHARS: usize = 1_000;
/// How long a caller of a resting plugin waits for its refusal: a flood of them costs next to nothing, and nobody who heeds
/// `retry_after_ms` notices.
const REFUSAL_HELD: Duration = Duration::from_millis(20);

/// Guest text for a caller: one line, no control characters, bounded.
fn sentence(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_ERROR_CHARS).collect()
}

fn table(grants: &Grants) -> ResourceTable {
    let mut table = ResourceTable::new();
    table.set_max_capacity(if grants.upstreams.is_empty() { MAX_RESOURCES } else { MAX_RESOURCES_OF_CLIENTS });
    table
}

/// Handles (streams, descriptors, pollables) that a call may hold at once.
const MAX_RESOURCES: usize = 256;

/// The same where `wasi:http` can reach somebody. Engines with a garbage collector let go of a request's handles late: five or
/// six stay behind for each in JavaScript.
const MAX_RESOURCES_OF_CLIENTS: usize = 1024;

/// For `list-tools` and its like: nobody calls, nothing may be reached.
pub(super) fn describing_call(time: std::time::Duration) -> PluginCall {
    PluginCall {
        caller: Caller::local(),
        bearer: None,
        trace: Trace::start(),
        deadline: Instant::now() + time,
        cancel: CancellationToken::new(),
        progress: ProgressSink::none(),
        client: ClientPort::none(),
        task_id: None,
        cleared_to_append: false,
    }
}
