// The engine's settings that decide what compiled code looks like. `build.rs` includes this file to compile the
// first-party components ahead of time; the runtime includes it so that both agree to the letter.

/// A trap with so many frames below it came from a recursion.
pub const DEEP: usize = 256;

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
        // Tells where in the bytecode an instruction came from, which nobody is shown; it is a good part of the code's size.
        .generate_address_map(false)
        // For debuggers and profilers. Traps unwind by the frames themselves.
        .native_unwind_info(false)
        // Frames are never shown: how many there were tells a guest that recursed from one that reached astray.
        .wasm_backtrace_max_frames(std::num::NonZeroUsize::new(DEEP));
    config
}
