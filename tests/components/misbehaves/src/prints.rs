//! Tools that write more than anyone wants to read. The call itself goes well.

use cyberos_plugin_sdk::log::{self, Level};
use cyberos_plugin_sdk::prelude::*;
use std::io::Write;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Amount {
    /// How much in all, half of it to each stream; 1 MiB when absent.
    #[serde(default = "one_mib")]
    bytes: usize,
}

#[derive(Serialize, JsonSchema)]
pub struct Written {
    bytes: usize,
}

/// Looks like a protocol message: on the wrong stream it would be one.
const LINE: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"printed by a plugin\"}\n";

behaviour!(PrintsWithoutEnd, "prints_without_end", "prints to standard output and standard error, then ends well.",
READ_ONLY, Amount => Written, |Amount { bytes }| {
    let mut written = 0;
    while written < bytes {
        // A full capture may refuse; a program that prints does not look.
        let _ = std::io::stdout().write_all(LINE);
        let _ = std::io::stderr().write_all(LINE);
        written += 2 * LINE.len();
    }
    Ok(Written { bytes: written })
});

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Messages {
    /// Bytes of each.
    bytes: usize,
    /// How many; one when absent.
    #[serde(default = "one")]
    count: usize,
}

behaviour!(HugeLog, "huge_log", "writes messages of the given size to the host's log.", READ_ONLY,
Messages => Written, |Messages { bytes, count }| {
    let message = "x".repeat(bytes);
    for _ in 0..count {
        log::write(Level::Warning, &message);
    }
    Ok(Written { bytes: bytes * count })
});

fn one_mib() -> usize {
    1 << 20
}
fn one() -> usize {
    1
}
