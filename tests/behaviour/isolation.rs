//! Instances reuse each other's slots of memory and never see what was in them.
//!
//! Cleaning a slot by scanning the page map is what makes a fresh instance cheap, and it is young: so both ways of
//! cleaning are tested, on every run. A test, not a proof: the pool prefers a slot that held the same component, so most
//! of what this sees is one call of a component after another of the same.

use bridge_tests::{Bridge, Setup};
use futures::StreamExt;
use serde_json::{Value, json};

const GRANTS: &str =
    "[plugins.guest-misbehaves]\nany_tool_name = true\n[plugins.guest-misbehaves.limits]\nconcurrency = 8\n";
/// What two different components have in their memory, and the same in the other case, which is not.
const OF_MISBEHAVES: [&str; 2] = ["leftBehindByAnotherCall", "LEFTbEHINDbYaNOTHERcALL"];
const OF_ECHO: [&str; 2] = ["echoedForAnotherTenant", "ECHOEDfORaNOTHERtENANT"];
const ROUNDS: usize = 100;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_sees_what_another_left_in_memory() {
    nothing_is_left(Bridge::http().unlimited()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_sees_what_another_left_in_memory_without_scanning_the_page_map() {
    nothing_is_left(Bridge::http().unlimited().flag("--pagemap-scan=off")).await;
}

async fn nothing_is_left(setup: Setup) {
    let bridge = setup.guests(&["guest_misbehaves", "fixture_echo"], GRANTS).start().await;
    let (alice, eve) = (&bridge.caller("alice"), &bridge.caller("eve").tenant(bridge_tests::TENANT_B));
    let seek = |plant: bool| {
        eve.call("test.finds_marker", json!({ "turned": [OF_MISBEHAVES[1], OF_ECHO[1]], "plant": plant }))
    };
    // given: the seeker finds what is there
    let planted = seek(true).await;
    assert_eq!((&planted.structured()["markers"], &planted.structured()["dirty"]), (&json!(1), &json!(23)));
    // when: secrets of two components and seekers take turns in the same slots, eight at a time on two threads
    let calls = (0..ROUNDS * 3).map(|n| async move {
        match n % 3 {
            0 => {
                let written = alice.call("test.writes_marker", json!({ "marker": OF_MISBEHAVES[0] })).await;
                assert!(written.structured()["copies"].as_u64().unwrap() > 100_000);
                None
            }
            1 => {
                let text = OF_ECHO[0].repeat(500);
                assert_eq!(
                    alice.call("cyberos.fixture.echo", json!({ "text": text })).await.structured()["text"],
                    text
                );
                None
            }
            _ => Some(seek(false).await.structured().clone()),
        }
    });
    let seen: Vec<Value> = futures::stream::iter(calls).buffer_unordered(8).filter_map(async |s| s).collect().await;
    // then: nothing of others, new memory all zeros, and each seeker's memory as large as every other's
    assert_eq!(seen.len(), ROUNDS);
    for found in &seen {
        assert_eq!((&found["markers"], &found["dirty"]), (&json!(0), &json!(0)), "{found}");
        assert_eq!(found["bytes"], planted.structured()["bytes"]);
    }
}
