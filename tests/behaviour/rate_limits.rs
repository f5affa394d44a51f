//! Who may call how often, through real HTTP and with real tokens.

use bridge_tests::{Bridge, Caller, Reply, Setup, TENANT_A, TENANT_B};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const TOOL: &str = "cyberos.cuo.list_personas";
const OTHER: &str = "cyberos.skill.list_catalog";

/// Limits as given; `off` for the others.
fn limited(user: &str, tenant: &str, tool: &str) -> Setup {
    Bridge::http()
        .flag(format!("--rate-limit-user={user}"))
        .flag(format!("--rate-limit-tenant={tenant}"))
        .flag(format!("--rate-limit-tool={tool}"))
}

async fn ask(caller: &Caller<'_>) -> Reply {
    caller.call(TOOL, json!({})).await
}

/// Refused by this limit; how long to wait.
#[track_caller]
fn wait_of(reply: &Reply, limit: &str) -> u64 {
    let data = reply.assert_code(-32002).assert_status(200).assert_error("upstream_unavailable", "rate_limited");
    assert_eq!(data["limit"], limit, "{data:?}");
    let wait = data["retry_after_ms"].as_u64().expect("a number of milliseconds");
    assert!(wait > 0 && data["hint"].as_str().unwrap().contains(&wait.to_string()), "{data:?}");
    wait
}

#[tokio::test]
async fn a_user_is_limited_by_default_over_http_and_gets_through_after_exactly_the_time_that_was_named() {
    let bridge = Bridge::http().start().await;
    let alice = bridge.caller("alice");
    let begun = Instant::now();
    let mut passed = 0;
    let refused = loop {
        let reply = ask(&alice).await;
        match reply.body.get("error") {
            None => passed += 1,
            Some(_) => break reply,
        }
        assert!(passed < 200, "nobody is limited");
    };
    // 60 at once, and one more for each second that these took.
    let earned = begun.elapsed().as_secs();
    assert!((60..=61 + earned).contains(&passed), "{passed} in {:?}", begun.elapsed());
    let wait = wait_of(&refused, "user");
    assert!(wait <= 1000, "{wait}");
    // A client is not better off for the headers it sends, nor worse for the colleague it has.
    let disguised = alice.clone().header("x-forwarded-for", "10.0.0.9").header("x-tenant-id", TENANT_B);
    let again = ask(&disguised.header("x-user-id", "bob")).await;
    let wait = again.body.get("error").map(|_| wait_of(&again, "user"));
    ask(&bridge.caller("bob")).await.structured();
    if let Some(wait) = wait {
        tokio::time::sleep(Duration::from_millis(wait)).await;
        ask(&alice).await.structured();
    }
}

#[tokio::test]
async fn a_user_keeps_their_call_when_the_tenant_has_none_left_and_other_tenants_go_on() {
    // given: three calls for the tenant and two for each user
    let bridge = limited("2,1/h", "3,1/2s", "off").start().await;
    let (alice, bob) = (bridge.caller("alice"), bridge.caller("bob"));
    for caller in [&alice, &bob, &bob] {
        ask(caller).await.structured();
    }
    // when the tenant has run out
    for _ in 0..5 {
        assert!(wait_of(&ask(&alice).await, "tenant") <= 2000);
    }
    // then nobody else has
    ask(&bridge.caller("alice").tenant(TENANT_B)).await.structured();
    // and five refusals have cost Alice nothing: her second call is still hers
    let wait = wait_of(&ask(&alice).await, "tenant");
    tokio::time::sleep(Duration::from_millis(wait)).await;
    ask(&alice).await.structured();
    wait_of(&ask(&alice).await, "user");
}

#[tokio::test]
async fn a_tool_is_limited_for_a_tenant_whoever_calls_it_and_however_it_is_spelt() {
    let bridge = limited("off", "off", "4/h").start().await;
    for name in ["alice", "bob", "carol"] {
        ask(&bridge.caller(name)).await.structured();
    }
    bridge.caller("dora").call("cyberos_cuo_list_personas", json!({})).await.structured();
    let erin = bridge.caller("erin");
    assert!(wait_of(&ask(&erin).await, "tool") > 3_500_000);
    wait_of(&erin.call("cyberos_cuo_list_personas", json!({})).await, "tool");
    // Other tools and other tenants are not.
    erin.call(OTHER, json!({})).await.structured();
    ask(&bridge.caller("erin").tenant(TENANT_B)).await.structured();
}

#[tokio::test]
async fn a_burst_is_let_through_before_the_lasting_rate_counts() {
    let bridge = limited("off", "off", "2/h,5/s").start().await;
    let alice = bridge.caller("alice");
    for _ in 0..5 {
        ask(&alice).await.structured();
    }
    let wait = wait_of(&ask(&alice).await, "tool");
    assert!((1_790_000..=1_800_000).contains(&wait), "half an hour for one of two an hour: {wait}");
}

#[tokio::test]
async fn a_refused_call_leaves_one_row_touches_nothing_and_is_counted() {
    // given: a supervisor that would be heard of
    let setup = limited("1,1/h", "off", "off");
    let trace = setup.home().join("asked");
    let script = format!("touch {}\nexit 1\n", trace.display());
    let bridge = setup.supervisor(&script).start().await;
    let alice = bridge.caller("alice");
    ask(&alice).await.structured();
    // when
    let arguments = json!({ "persona": "chief-technology-officer", "workflow": "adr-quick-capture" });
    wait_of(&alice.call("cyberos.cuo.execute_workflow", arguments).await, "user");
    // then
    assert!(!trace.exists(), "the supervisor was asked");
    assert_eq!(alice.request("tasks/list", json!({})).await.result()["tasks"], json!([]));
    let rows = bridge.audit(TENANT_A).await;
    let refused: Vec<_> = rows.iter().filter(|row| row.kind == "mcp.tool_call_refused").collect();
    assert_eq!((rows.len(), refused.len()), (3, 1), "{rows:?}");
    assert_eq!(refused[0].body["tool_name"], "cyberos.cuo.execute_workflow");
    let metrics = bridge.get("/metrics").await.text;
    let counted = metrics.lines().find(|l| l.starts_with("cyberos_bridge_rate_limited_total{")).expect("a count");
    assert!(counted.contains("limit=\"user\"") && counted.ends_with(" 1"), "{counted}");
}

#[tokio::test]
async fn calls_that_could_never_run_use_up_nobodys_allowance() {
    let bridge = limited("1,1/h", "1,1/h", "1/h").start().await;
    let alice = bridge.caller("alice");
    for _ in 0..5 {
        alice.call("cyberos.cuo.nothing", json!({})).await.assert_error("input_validation", "tool_not_found");
        let powerless = alice.clone().scopes(&[]);
        ask(&powerless).await.assert_error("authz_denied", "insufficient_scope");
        alice.list().await.result();
    }
    ask(&alice).await.structured();
    // In a batch each call pays for itself.
    let batch: Vec<Value> = (0..3).map(|_| alice.message("tools/call", json!({ "name": TOOL }))).collect();
    let answer = alice.post(json!(batch).to_string().into_bytes()).await;
    assert_eq!(answer.text.matches("\"rate_limited\"").count(), 3, "{answer:?}");
}

#[tokio::test]
async fn the_local_user_is_not_limited() {
    let hundred = |bridge: Bridge| async move {
        let me = bridge.caller("me");
        for _ in 0..100 {
            ask(&me).await.structured();
        }
    };
    let strict = |setup: Setup| {
        setup.flag("--rate-limit-user=1,1/h").flag("--rate-limit-tenant=1,1/h").flag("--rate-limit-tool=1/h")
    };
    hundred(strict(Bridge::http().auth_none()).start().await).await;
    hundred(strict(Bridge::stdio()).start().await).await;
}

#[tokio::test]
async fn an_operator_switches_limits_off_and_is_told_of_mistakes() {
    let bridge = limited("off", "off", "off").start().await;
    let alice = bridge.caller("alice");
    for _ in 0..150 {
        ask(&alice).await.structured();
    }
    for (flag, wrong) in [("user", "60"), ("tenant", "0,1/s"), ("tool", "100/min,50/s"), ("tool", "lots")] {
        let said = Bridge::http().flag(format!("--rate-limit-{flag}={wrong}")).refuses_to_start().await;
        assert!(said.contains(&format!("--rate-limit-{flag}")), "{said}");
    }
}
