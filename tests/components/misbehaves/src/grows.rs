//! Tools that want more memory or handles than they may have.
//!
//! Tables are not here: Rust cannot grow one.

use cyberos_plugin_sdk::prelude::*;
use std::fs::File;
use std::hint::black_box;

const CHUNK: usize = 1 << 20;

behaviour!(AllocatesWithoutEnd, "allocates_without_end", "fills memory until the allocator gives up.", READ_ONLY,
NoArguments => ToolResult, |_| {
    let mut held: Vec<Vec<u8>> = vec![];
    loop {
        held.push(black_box(vec![1; CHUNK]));
    }
});

#[derive(Serialize, JsonSchema)]
pub struct Got {
    /// What it could allocate, in bytes.
    bytes: u64,
}

behaviour!(AllocatesPolitely, "allocates_politely", "allocates until it is refused, and says how much it got.",
READ_ONLY, NoArguments => Got, |_| {
    let mut held: Vec<Vec<u8>> = vec![];
    loop {
        let mut chunk = Vec::new();
        if chunk.try_reserve_exact(CHUNK).is_err() {
            let bytes = (held.len() * CHUNK) as u64;
            // Given back first: the answer needs a little memory, too.
            drop(held);
            return Ok(Got { bytes });
        }
        chunk.resize(CHUNK, 1);
        held.push(black_box(chunk));
    }
});

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Directory {
    /// A granted directory.
    directory: String,
}

#[derive(Serialize, JsonSchema)]
pub struct Opened {
    /// How many handles it held when the next was refused, or 10 000.
    handles: u64,
}

behaviour!(OpensWithoutEnd, "opens_without_end", "opens the same directory again and again and closes none.", READ_ONLY,
Directory => Opened, |Directory { directory }| {
    let mut held = vec![];
    while let Ok(handle) = File::open(&directory)
        && held.len() < 10_000
    {
        held.push(handle);
    }
    Ok(Opened { handles: held.len() as u64 })
});

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Holding {
    bytes: usize,
    ms: u64,
}

behaviour!(HoldsMemory, "holds_memory", "fills some memory and keeps it for a while.", READ_ONLY, Holding => Got,
|Holding { bytes, ms }| {
    let held = black_box(vec![1_u8; bytes]);
    std::thread::sleep(std::time::Duration::from_millis(ms));
    Ok(Got { bytes: held.len() as u64 })
});
