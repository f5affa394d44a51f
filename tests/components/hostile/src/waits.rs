//! Clocks, randomness and pollables.

use crate::Count;
use crate::wasi::clocks::{monotonic_clock, wall_clock};
use crate::wasi::io::poll;
use crate::wasi::random::random;
use cyberos_plugin_sdk::prelude::*;
use std::hint::black_box;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Amount {
    bytes: u64,
}

behaviour!(RandomAtOnce, "random_at_once", "asks for so many random bytes in one go.", READ_ONLY, Amount => Count,
    |Amount { bytes }| Ok(Count { count: black_box(random::get_random_bytes(bytes)).len() as u64 }));

behaviour!(RandomWithoutEnd, "random_without_end", "asks for random bytes for ever, as many as it gets at once.",
READ_ONLY, Amount => Count, |Amount { bytes }| loop {
    black_box(random::get_random_bytes(bytes));
});

behaviour!(ReadsClocksWithoutEnd, "reads_clocks_without_end", "asks what time it is, for ever.", READ_ONLY,
NoArguments => Count, |_| loop {
    black_box((wall_clock::now().seconds, monotonic_clock::now()));
});

const AN_HOUR: u64 = 3_600_000_000_000;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pollables {
    /// How many.
    count: usize,
}

behaviour!(SubscribesWithoutEnd, "subscribes_without_end", "waits for thousands of timers at once.", READ_ONLY,
Pollables => Count, |Pollables { count }| {
    let timers: Vec<_> = (0..count).map(|_| monotonic_clock::subscribe_duration(AN_HOUR)).collect();
    Ok(Count { count: poll::poll(&timers.iter().collect::<Vec<_>>()).len() as u64 })
});

behaviour!(PollsTheSame, "polls_the_same", "waits for one timer, named so many times in one list, which has passed.",
READ_ONLY, Pollables => Count, |Pollables { count }| {
    let timer = monotonic_clock::subscribe_duration(0);
    Ok(Count { count: poll::poll(&vec![&timer; count]).len() as u64 })
});

behaviour!(PollsNothing, "polls_nothing", "waits for none of no timers, which WASI forbids.", READ_ONLY,
NoArguments => Count, |_| Ok(Count { count: poll::poll(&[]).len() as u64 }));
