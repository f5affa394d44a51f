//! A hundred swaps under eight callers: no call is lost, both versions answer, and nothing stays behind.

use bridge_tests::{Bridge, Caller};
use serde_json::json;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::hot_swap::{TOOL, component, put, serving};

const CALLERS: usize = 8;
const SWAPS: usize = 100;
/// Before memory is measured: pools, caches and connections fill up.
const WARM: usize = 20;

#[derive(Default)]
struct Served {
    one: AtomicUsize,
    two: AtomicUsize,
    over: AtomicBool,
}

async fn call_until_over(alice: Caller<'_>, served: &Served) {
    while !served.over.load(Ordering::Relaxed) {
        let reply = alice.call(TOOL, json!({})).await;
        match reply.structured()["version"].as_str() {
            Some("one") => served.one.fetch_add(1, Ordering::Relaxed),
            Some("two") => served.two.fetch_add(1, Ordering::Relaxed),
            other => panic!("{other:?}"),
        };
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_swaps_under_eight_callers_lose_no_call_and_leave_nothing_behind() {
    // given
    let setup = serving(Bridge::http().auth_none(), "one");
    let bridge = setup.start().await;
    let served = Served::default();
    let versions = [component("one"), component("two")];
    // when
    let swapping = async {
        let mut after_warming = None;
        for n in 1..=SWAPS {
            put(&setup, "notes.wasm", &versions[n % 2]);
            let counter = [&served.one, &served.two][n % 2];
            let (before, started) = (counter.load(Ordering::Relaxed), Instant::now());
            // A call or two of the other version may end after the swap before this one.
            while counter.load(Ordering::Relaxed) < before + CALLERS + 1 {
                assert!(started.elapsed() < Duration::from_secs(20), "swap {n} is not served: {}", bridge.log());
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            if n == WARM {
                after_warming = Some((bridge.memory_kib("VmRSS"), open_files(&bridge)));
            }
        }
        let end = (bridge.memory_kib("VmRSS"), open_files(&bridge));
        served.over.store(true, Ordering::Relaxed);
        (after_warming.expect("it got warm"), end)
    };
    let callers = (0..CALLERS).map(|n| call_until_over(bridge.caller(&format!("caller-{n}")), &served));
    let (((memory, files), (memory_at_end, files_at_end)), _) =
        tokio::join!(swapping, futures::future::join_all(callers));
    // then: every call was answered, or its caller would have failed
    let (one, two) = (served.one.into_inner(), served.two.into_inner());
    assert!(one > SWAPS * CALLERS / 2 && two > SWAPS * CALLERS / 2, "{one} and {two}");
    let metrics = bridge.get("/metrics").await.text;
    assert!(metrics.contains(&format!("cyberos_bridge_plugins_swapped_total {SWAPS}")), "{metrics}");
    assert!(memory_at_end < memory + (6 << 10), "{memory} KiB after {WARM} swaps, {memory_at_end} KiB after {SWAPS}");
    assert!(files_at_end < files + 5, "{files} open files after {WARM} swaps, {files_at_end} after {SWAPS}");
}

fn open_files(bridge: &Bridge) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", bridge.pid.as_raw_nonzero())).expect("it runs").count()
}
