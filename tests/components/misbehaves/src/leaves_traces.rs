//! One tool that leaves a secret all over its memory, and one that looks for it in all of its own.
//!
//! A marker is letters. The seeker is told the marker with every letter in the other case, so that what it is told is
//! not what it looks for.

use cyberos_plugin_sdk::prelude::*;
use std::arch::wasm32::{memory_grow, memory_size};
use std::hint::black_box;

const PAGE: usize = 64 << 10;
/// Memory that no data segment and no allocator has touched: what is in it was in it before.
const NEW_PAGES: usize = 32;
/// On the stack, which lies at the bottom of memory, below data and heap.
const STACK_BYTES: usize = 512 << 10;
const HEAP_BYTES: usize = 2 << 20;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Marker {
    #[schemars(regex(pattern = "^[A-Za-z]{8,64}$"))]
    marker: String,
}

#[derive(Serialize, JsonSchema)]
pub struct Copies {
    /// How many it wrote.
    copies: usize,
}

behaviour!(WritesMarker, "writes_marker", "fills stack, heap and new memory with copies of a text.", READ_ONLY,
Marker => Copies, |Marker { marker }| {
    let mut copies = on_the_stack(marker.as_bytes());
    let mut heap = vec![0_u8; HEAP_BYTES];
    copies += fill(&mut heap, marker.as_bytes());
    copies += fill(new_memory(), marker.as_bytes());
    black_box(heap);
    Ok(Copies { copies })
});

#[inline(never)]
fn on_the_stack(marker: &[u8]) -> usize {
    let mut frame = [0_u8; STACK_BYTES];
    let copies = fill(&mut frame, marker);
    black_box(&frame);
    copies
}

fn fill(place: &mut [u8], marker: &[u8]) -> usize {
    let copies = place.chunks_exact_mut(marker.len());
    copies.map(|copy| copy.copy_from_slice(marker)).count()
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sought {
    /// Each with every letter in the other case.
    #[schemars(length(min = 1, max = 4), inner(regex(pattern = "^[A-Za-z]{8,64}$")))]
    turned: Vec<String>,
    /// Writes the first one itself before it looks, which shows that looking finds.
    #[serde(default)]
    plant: bool,
}

#[derive(Serialize, JsonSchema)]
pub struct Found {
    /// Copies in the whole memory.
    markers: usize,
    /// Bytes of new memory that are not zero. It must come as it comes from the kernel.
    dirty: usize,
    /// How much it looked at.
    bytes: usize,
}

behaviour!(FindsMarker, "finds_marker", "looks through its whole memory for texts that others wrote.", READ_ONLY,
Sought => Found, |Sought { turned, plant }| {
    let new = new_memory();
    if plant {
        let first = turned[0].as_bytes();
        new[..first.len()].iter_mut().zip(first).for_each(|(byte, letter)| *byte = letter ^ OTHER_CASE);
    }
    let dirty = new.iter().filter(|byte| **byte != 0).count();
    let bytes = memory_size(0) * PAGE;
    let markers = (1..bytes - LONGEST).map(|at| turned.iter().filter(|turned| is_at(at, turned.as_bytes())).count()).sum();
    Ok(Found { markers, dirty, bytes })
});

const OTHER_CASE: u8 = b'a' ^ b'A';

/// Markers are no longer.
const LONGEST: usize = 64;

fn is_at(at: usize, turned: &[u8]) -> bool {
    turned.iter().enumerate().all(|(n, letter)| byte(at + n) == letter ^ OTHER_CASE)
}

/// Any byte of this instance's memory, whoever owns it.
fn byte(at: usize) -> u8 {
    // SAFETY: callers stay below `memory_size`, and no other thread exists. Volatile, because this also reads what Rust
    // believes to be out of reach.
    unsafe { (at as *const u8).read_volatile() }
}

fn new_memory() -> &'static mut [u8] {
    let before = memory_grow(0, NEW_PAGES);
    assert_ne!(before, usize::MAX, "memory grows");
    // SAFETY: these pages are new, and the allocator takes only pages that it grew itself.
    unsafe { std::slice::from_raw_parts_mut((before * PAGE) as *mut u8, NEW_PAGES * PAGE) }
}
