// What the binary carries and seldom or never needs as it lies there is compressed: together the components, which share
// most of their code, take a ninth.

use std::fs;
use std::path::Path;

/// Higher levels take ten times as long for a tenth less.
const LEVEL: i32 = 12;
/// 16 MiB: all of the components are within reach of each other.
const WINDOW_LOG: u32 = 24;

/// Write one Zstandard frame, which knows the length of `bytes`.
pub fn write(path: &Path, bytes: &[u8]) {
    let mut compressor = zstd::bulk::Compressor::new(LEVEL).expect("the level exists");
    compressor.long_distance_matching(true).expect("zstd can do so");
    compressor.window_log(WINDOW_LOG).expect("zstd can do so");
    let frame = compressor.compress(bytes).expect("compressing in memory");
    fs::write(path, frame).expect("OUT_DIR is writable");
}
