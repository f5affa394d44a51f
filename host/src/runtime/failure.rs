//! From the way a guest ended to a typed reason. The only place that looks at traps.
//!
//! Source: the trap table of `wasmtime::Trap`; design section 5, row "plugin trap, limit".

use wasmtime::component::ResourceTableError;
use wasmtime::{PoolConcurrencyLimitError, Trap, WasmBacktrace};
use wasmtime_wasi::I32Exit;
use wasmtime_wasi_http::FieldMapError;

use super::engine::DEEP;
use crate::error::{Error, Reason};

/// Raised by the host itself to end a guest; travels through wasmtime and is recognised by type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// It called host functions more often than its limit.
    TooManyHostCalls,
}

impl std::fmt::Display for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Stop::TooManyHostCalls => "host call limit reached",
        })
    }
}
impl std::error::Error for Stop {}

/// What the store knows beside the trap.
#[derive(Clone, Copy, Default)]
pub struct Evidence {
    /// The limiter refused a growth during this call. Most allocators abort then, which looks like any other panic.
    pub growth_refused: bool,
    /// The same, because the plugin's calls together use all the memory that it may have.
    pub share_refused: bool,
}

/// When a call that found no memory left in its plugin's share may come back.
const RETRY_AFTER_MS: u64 = 1_000;

/// The reason and the sentence for a call that ended in `error`.
pub fn explain(error: &wasmtime::Error, evidence: Evidence) -> Error {
    let reason = reason(error, evidence);
    if reason == Reason::Busy && evidence.share_refused {
        return Error::new(reason, "The calls of this tool's plugin use all the memory that it may have.")
            .with("retry_after_ms", RETRY_AFTER_MS)
            .detail(error.root_cause());
    }
    let public = match reason {
        Reason::OutOfFuel => "The tool used up its fuel.",
        Reason::OutOfMemory => "The tool used up its memory.",
        Reason::StackOverflow => "The tool recursed too deeply.",
        Reason::HostCallLimit => "The tool went over its limit for calls to the host.",
        Reason::OutputTooLarge => "The tool's result is over its output limit.",
        Reason::Busy => "Too many tools are running.",
        _ => "The tool crashed.",
    };
    Error::new(reason, public).detail(error.root_cause())
}

fn reason(error: &wasmtime::Error, evidence: Evidence) -> Reason {
    if let Some(stop) = error.downcast_ref::<Stop>() {
        return match stop {
            Stop::TooManyHostCalls => Reason::HostCallLimit,
        };
    }
    if error.downcast_ref::<PoolConcurrencyLimitError>().is_some() {
        return Reason::Busy;
    }
    if error.downcast_ref::<I32Exit>().is_some() {
        return Reason::PluginTrapped;
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::OutOfFuel) => Reason::OutOfFuel,
        Some(Trap::StackOverflow) => Reason::StackOverflow,
        Some(Trap::Interrupt) => Reason::Deadline,
        Some(Trap::UnreachableCodeReached) if evidence.growth_refused => Reason::OutOfMemory,
        Some(Trap::UnreachableCodeReached) | None if evidence.share_refused => Reason::Busy,
        // A Rust guest keeps its stack at the bottom of linear memory: deep recursion runs out of that, not of ours.
        Some(Trap::MemoryOutOfBounds) if frames(error) >= DEEP => Reason::StackOverflow,
        Some(_) => Reason::PluginTrapped,
        // Streams, descriptors and pollables that it holds are counted by their table, which has no kinder way to say no.
        None if matches!(error.downcast_ref(), Some(ResourceTableError::Full)) => Reason::HostCallLimit,
        // Headers of wasi:http, likewise.
        None if error.downcast_ref::<FieldMapError>().is_some() => Reason::HostCallLimit,
        // Wasmtime has no type for this one; its text is pinned by a test that returns a huge result. Nothing of the
        // guest is on the stack any more when its result is read.
        None if error.root_cause().to_string().contains("too much data is being copied") => match frames(error) {
            0 => Reason::OutputTooLarge,
            _ => Reason::HostCallLimit,
        },
        // Nor for this one, pinned likewise: more random bytes at once than `max_random_size`.
        None if is_too_random(error) => Reason::HostCallLimit,
        None => Reason::PluginTrapped,
    }
}

fn is_too_random(error: &wasmtime::Error) -> bool {
    let text = error.root_cause().to_string();
    text.starts_with("requested len ") && text.contains("exceeds limit")
}

/// How many of the guest's functions were running, at most [`DEEP`].
fn frames(error: &wasmtime::Error) -> usize {
    error.downcast_ref::<WasmBacktrace>().map_or(0, |trace| trace.frames().len())
}
