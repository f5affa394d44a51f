//! How much of everything is measured: enough to be stable, or just enough to see that it works.

use std::time::Duration;

pub struct Plan {
    pub quick: bool,
    /// How often two sides of a ratio take turns.
    pub rounds: usize,
    /// How long one side's turn is.
    pub turn: Duration,
    /// Calls before anything is counted.
    pub warm_up: usize,
    /// Calls of a serial measurement, in each of its turns.
    pub serial: usize,
    /// Starts of the process.
    pub starts: usize,
}

impl Plan {
    pub fn from_environment() -> Plan {
        match std::env::var_os("BENCH_QUICK").is_some_and(|v| v != "0") {
            true => {
                Plan { quick: true, rounds: 3, turn: Duration::from_millis(150), warm_up: 200, serial: 300, starts: 3 }
            }
            false => Plan {
                quick: false,
                rounds: 9,
                turn: Duration::from_millis(700),
                warm_up: 3_000,
                serial: 3_000,
                starts: 20,
            },
        }
    }
}
