//! Tools that do not come to an end, or to a bad one.

use cyberos_plugin_sdk::call_context;
use cyberos_plugin_sdk::prelude::*;
use std::hint::black_box;
use std::time::Duration;

behaviour!(SpinsForever, "spins_forever", "computes without end and never calls the host.", READ_ONLY,
NoArguments => ToolResult, |_| {
    let mut n = 0_u64;
    loop {
        n = black_box(n).wrapping_add(1);
    }
});

behaviour!(RecursesForever, "recurses_forever", "calls itself until the stack is full.", READ_ONLY,
    NoArguments => ToolResult, |_| Err(ToolError::Internal(deeper(1).to_string())));

/// Not a tail call, and with a frame that the optimiser cannot remove.
#[allow(unconditional_recursion, reason = "that is the behaviour")]
fn deeper(n: u64) -> u64 {
    let frame = black_box([n; 16]);
    black_box(deeper(n + 1)).wrapping_add(frame[15])
}

/// A caller must never see this.
const SECRET: &str = "hunter2 in a panic message";

behaviour!(Panics, "panics", "panics with a message that holds a secret.", READ_ONLY,
    NoArguments => ToolResult, |_| panic!("{SECRET}"));

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Exit {
    /// 0 says that all is well, which a call that gave no result is not.
    #[serde(default)]
    #[schemars(range(min = 0, max = 255))]
    code: i32,
}

behaviour!(Exits, "exits", "ends its process, as if it had one, with the given code.", READ_ONLY,
    Exit => ToolResult, |Exit { code }| std::process::exit(code));

#[derive(Serialize, JsonSchema)]
pub struct Quotient {
    quotient: i64,
}

behaviour!(DividesByZero, "divides_by_zero", "divides one by zero, which Rust turns into a panic.", READ_ONLY,
    NoArguments => Quotient, |_| Ok(Quotient { quotient: black_box(1_i64) / black_box(0_i64) }));

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pause {
    /// How long.
    ms: u64,
}

#[derive(Serialize, JsonSchema)]
pub struct Slept {
    slept_ms: u64,
}

behaviour!(Sleeps, "sleeps", "waits on the clock of WASI and burns no fuel meanwhile.", READ_ONLY,
Pause => Slept, |Pause { ms }| {
    std::thread::sleep(Duration::from_millis(ms));
    Ok(Slept { slept_ms: ms })
});

behaviour!(CallsHostWithoutEnd, "calls_host_without_end", "asks the host the same thing for ever.", READ_ONLY,
NoArguments => ToolResult, |_| loop {
    black_box(call_context::get());
});
