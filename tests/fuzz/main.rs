//! The fuzzer: libFuzzer on one of `bridge_tests::fuzzing::TARGETS`, which `FUZZ_TARGET` names. `scripts/fuzz` builds it
//! with coverage and runs it.

#![no_main]
// The entry points of libFuzzer are C functions.
#![allow(unsafe_code, clippy::disallowed_methods)]

mod mutate;

use bridge_tests::fuzzing::{Target, target};
use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::LazyLock;

static TARGET: LazyLock<&Target> = LazyLock::new(|| target(&std::env::var("FUZZ_TARGET").expect("FUZZ_TARGET is set")));

/// The input under test. A stack that overflows leaves no time to write it down.
static CURRENT: LazyLock<File> = LazyLock::new(|| {
    File::create(std::env::var("FUZZ_CURRENT").expect("FUZZ_CURRENT is set")).expect("the file can be written")
});

fuzz_target!(|bytes: &[u8]| {
    CURRENT.set_len(bytes.len() as u64).and_then(|()| CURRENT.write_all_at(bytes, 0)).expect("the disk has room");
    (TARGET.run)(bytes);
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate::mutate(data, size, max_size, seed, TARGET.vocabulary)
});
