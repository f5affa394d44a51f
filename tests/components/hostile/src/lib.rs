//! Tools that attack their host: through the clocks, randomness and files of WASI, through what they say, and by asking for
//! threads and processes. Each is named `test.<behaviour>`; what becomes of it is in `tests/components/README.md`.
//!
//! It imports only what every plugin has, so that it loads with any grants.

use cyberos_plugin_sdk::prelude::*;

wit_bindgen::generate!({
    inline: r#"
        package test:hostile@1.0.0;

        world abuser {
            import wasi:clocks/monotonic-clock@0.2.0;
            import wasi:clocks/wall-clock@0.2.0;
            import wasi:io/poll@0.2.0;
            import wasi:random/random@0.2.0;
        }

        package wasi:io@0.2.0 {
            interface poll {
                resource pollable { ready: func() -> bool; block: func(); }
                poll: func(in: list<borrow<pollable>>) -> list<u32>;
            }
        }
        package wasi:clocks@0.2.0 {
            interface monotonic-clock {
                use wasi:io/poll@0.2.0.{pollable};
                type instant = u64;
                type duration = u64;
                now: func() -> instant;
                resolution: func() -> duration;
                subscribe-instant: func(when: instant) -> pollable;
                subscribe-duration: func(when: duration) -> pollable;
            }
            interface wall-clock {
                record datetime { seconds: u64, nanoseconds: u32 }
                now: func() -> datetime;
                resolution: func() -> datetime;
            }
        }
        package wasi:random@0.2.0 {
            interface random {
                get-random-bytes: func(len: u64) -> list<u8>;
                get-random-u64: func() -> u64;
            }
        }
    "#,
    generate_all,
});

/// A tool from its name, what it does and a closure.
macro_rules! behaviour {
    ($tool:ident, $name:literal, $says:literal, $with:expr, $arguments:ty => $output:ty, $call:expr) => {
        pub struct $tool;

        impl cyberos_plugin_sdk::Tool for $tool {
            const NAME: &'static str = concat!("test.", $name);
            const TITLE: &'static str = $name;
            const DESCRIPTION: &'static str = concat!("Test guest: ", $says);
            const ANNOTATIONS: cyberos_plugin_sdk::Annotations = $with;
            type Arguments = $arguments;
            type Output = $output;

            fn call(arguments: $arguments) -> Result<$output, cyberos_plugin_sdk::ToolError> {
                let call: fn($arguments) -> Result<$output, cyberos_plugin_sdk::ToolError> = $call;
                call(arguments)
            }
        }
    };
}

mod escapes;
mod says;
mod waits;

#[derive(Serialize, JsonSchema)]
pub struct Count {
    count: u64,
}

cyberos_plugin_sdk::export_tools!(
    escapes::EscapesFrom,
    escapes::ForksAndSpawns,
    says::FailsAtLength,
    says::FloodsProgress,
    says::LogsWithoutEnd,
    says::MatchesSlowly,
    waits::RandomAtOnce,
    waits::RandomWithoutEnd,
    waits::ReadsClocksWithoutEnd,
    waits::SubscribesWithoutEnd,
    waits::PollsTheSame,
    waits::PollsNothing,
);
