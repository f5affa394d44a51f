//! Once per process: the wasmtime engine, its pool of instance slots, and the clock that interrupts guests.
//!
//! Source: design section 4 (limits) and 9 (figures).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::Thread;
use std::time::Duration;
use wasmtime::{Enabled, Engine, EngineWeak, InstanceAllocationStrategy, PoolingAllocationConfig};

include!("engine_config.rs");

/// How long a guest may run before it yields, so that others get their turn and a stop is seen.
pub const TICK: Duration = Duration::from_millis(1);

/// Most calls at once in one process. The pool is larger, so that loading a component never waits for callers.
pub const MAX_CALLS: usize = 192;

/// Most calls that keep their instance beside those, because they wait for a person.
pub const MAX_WAITING: usize = 128;

/// For loading components.
const SPARE: usize = 64;

/// Core modules that one component may link. A language's runtime with its shared libraries has some dozens.
const MODULES_OF_ONE: u32 = 64;

/// What the host keeps of one instance beside memories and tables: mostly a few words for each function.
const MAX_INSTANCE_BYTES: usize = 4 << 20;

/// Largest linear memory that a pool slot can hold; a plugin's own limit may be lower.
pub const MAX_MEMORY_BYTES: usize = 256 << 20;

/// Most table elements that a pool slot can hold.
pub const MAX_TABLE_ELEMENTS: usize = 100_000;

/// `scan`: clean slots by scanning the page map where the kernel can.
pub fn engine(scan: bool) -> wasmtime::Result<(Engine, Arc<Clock>)> {
    let mut config = code_settings();
    config
        .async_stack_size(2 << 20)
        .allocation_strategy(InstanceAllocationStrategy::Pooling(pool(scan && has_pagemap_scan())));
    let engine = Engine::new(&config)?;
    let clock = Clock::start(&engine);
    Ok((engine, clock))
}

/// Can the kernel tell which pages a call has touched? Without it a fresh instance costs about three times as much.
pub fn has_pagemap_scan() -> bool {
    PoolingAllocationConfig::is_pagemap_scan_available()
}

fn pool(scan: bool) -> PoolingAllocationConfig {
    let mut pool = PoolingAllocationConfig::new();
    let calls = (MAX_CALLS + MAX_WAITING + SPARE) as u32;
    pool.total_component_instances(calls)
        // Counters alone. Python links 14 core modules, 38 with its own stand-ins for WASI; JavaScript 4, Rust 3.
        .total_core_instances(MODULES_OF_ONE * calls)
        .max_core_instances_per_component(MODULES_OF_ONE)
        .max_component_instance_size(MAX_INSTANCE_BYTES)
        .total_memories(calls)
        // Address space: they are not touched until they are used.
        .total_tables(4 * calls)
        .total_stacks(calls)
        .max_memory_size(MAX_MEMORY_BYTES)
        .table_elements(MAX_TABLE_ELEMENTS)
        .max_tables_per_module(4)
        .max_unused_warm_slots(64);
    // Resetting a slot by scanning the page map keeps its pages resident: a fresh instance costs a third, and two
    // threads do not fight over the address space. Upstream still evaluates it, so it can be switched off. Without it a
    // large resident set would be cleared by hand each time, so keep that small.
    if scan {
        pool.pagemap_scan(Enabled::Yes).linear_memory_keep_resident(1 << 20).table_keep_resident(1 << 20);
    } else {
        pool.pagemap_scan(Enabled::No).linear_memory_keep_resident(64 << 10).table_keep_resident(64 << 10);
    }
    pool
}

/// Advances the epoch while guests run, and rests while none does: an idle bridge wakes nobody up.
///
/// A thread, not a future: it must tick while every worker thread of the executor is inside a guest.
pub struct Clock {
    running: AtomicUsize,
    thread: std::sync::OnceLock<Thread>,
}

impl Clock {
    fn start(engine: &Engine) -> Arc<Clock> {
        let clock = Arc::new(Clock { running: AtomicUsize::new(0), thread: std::sync::OnceLock::new() });
        let (engine, ticking) = (engine.weak(), Arc::downgrade(&clock));
        let thread = std::thread::Builder::new()
            .name("epoch".into())
            .spawn(move || {
                while let Some(clock) = ticking.upgrade() {
                    if !clock.tick(&engine) {
                        return;
                    }
                }
            })
            .expect("a process that cannot start a thread cannot serve");
        clock.thread.get_or_init(|| thread.thread().clone());
        clock
    }

    /// One turn of the thread; false when the engine is gone.
    fn tick(&self, engine: &EngineWeak) -> bool {
        if self.running.load(Ordering::Acquire) == 0 {
            std::thread::park_timeout(Duration::from_secs(1));
        } else {
            std::thread::sleep(TICK);
        }
        engine.upgrade().map(|engine| engine.increment_epoch()).is_some()
    }

    /// A guest runs for as long as the guard lives.
    pub fn run(self: &Arc<Self>) -> Running {
        self.enter();
        Running(self.clone())
    }

    /// A guest that runs waits for a person for as long as the guard lives: it needs no tick and slows nobody down.
    pub fn rest(self: &Arc<Self>) -> Resting {
        self.running.fetch_sub(1, Ordering::AcqRel);
        Resting(self.clone())
    }

    fn enter(&self) {
        if self.running.fetch_add(1, Ordering::AcqRel) == 0
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }
}

pub struct Running(Arc<Clock>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::AcqRel);
    }
}

pub struct Resting(Arc<Clock>);

impl Drop for Resting {
    fn drop(&mut self) {
        self.0.enter();
    }
}
