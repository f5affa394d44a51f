//! Once per process: the wasmtime engine, its pool of instance slots, and the clock that interrupts guests.
//!
//! Source: design section 4 (limits) and 9 (figures).

use std::time::Duration;
use wasmtime::{Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig};

include!("engine_config.rs");

/// How often a running guest is interrupted to let others run and to see whether it must stop.
pub const TICK: Duration = Duration::from_millis(5);

/// Most calls at once in one process. The pool is larger, so that loading a component never waits for callers.
pub const MAX_CALLS: usize = 192;

/// Largest linear memory that a pool slot can hold; a plugin's own limit may be lower.
pub const MAX_MEMORY_BYTES: usize = 256 << 20;

/// Most table elements that a pool slot can hold.
pub const MAX_TABLE_ELEMENTS: usize = 100_000;

pub fn engine() -> wasmtime::Result<Engine> {
    let mut config = code_settings();
    config.async_stack_size(2 << 20).allocation_strategy(InstanceAllocationStrategy::Pooling(pool()));
    let engine = Engine::new(&config)?;
    tick(&engine);
    Ok(engine)
}

/// Can the kernel tell which pages a call has touched? Without it a fresh instance costs about three times as much.
pub fn has_pagemap_scan() -> bool {
    PoolingAllocationConfig::is_pagemap_scan_available()
}

fn pool() -> PoolingAllocationConfig {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(256)
        .total_core_instances(1024)
        .total_memories(256)
        .total_tables(512)
        .total_stacks(256)
        .max_memory_size(MAX_MEMORY_BYTES)
        .table_elements(MAX_TABLE_ELEMENTS)
        .max_tables_per_module(4)
        .max_unused_warm_slots(64);
    // Resetting a slot by scanning the page map keeps its pages resident: a fresh instance costs a third, and two
    // threads do not fight over the address space. Where the kernel cannot do it, a large resident set would be
    // cleared by hand each time, so keep that small.
    if has_pagemap_scan() {
        pool.pagemap_scan(Enabled::Yes).linear_memory_keep_resident(1 << 20).table_keep_resident(1 << 20);
    } else {
        pool.pagemap_scan(Enabled::No).linear_memory_keep_resident(64 << 10).table_keep_resident(64 << 10);
    }
    pool
}

/// Advance the epoch for as long as the engine lives. A thread, not a future: it must tick while every worker thread
/// of the executor is inside a guest.
fn tick(engine: &Engine) {
    let engine = engine.weak();
    std::thread::Builder::new()
        .name("epoch".into())
        .spawn(move || {
            while let Some(engine) = engine.upgrade() {
                engine.increment_epoch();
                drop(engine);
                std::thread::sleep(TICK);
            }
        })
        .expect("a process that cannot start a thread cannot serve");
}
