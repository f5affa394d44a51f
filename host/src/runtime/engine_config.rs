// The engine's settings that decide what compiled code looks like. `build.rs` includes this file to compile the
// first-party components ahead of time; the runtime includes it so that both agree to the letter.

/// Code compiled with these settings loads in every engine that has them, on every machine of the target.
fn code_settings() -> wasmtime::Config {
    let mut config = wasmtime::Config::new();
    config
        .wasm_component_model(true)
        .consume_fuel(true)
        .epoch_interruption(true)
        .memory_init_cow(true)
        // Task and stream intrinsics of the component model's async proposal are a surface that nobody here needs.
        .concurrency_support(false)
        .max_wasm_stack(512 << 10)
        // Only whether there are frames is of interest: it tells a failure inside the guest from one beside it.
        .wasm_backtrace_max_frames(std::num::NonZeroUsize::new(4));
    config
}
