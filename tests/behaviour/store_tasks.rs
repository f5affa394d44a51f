//! Task rows, the same on SQLite and on Postgres.

use bridge_tests::on_both_stores;
use bridge_tests::stores::{TestStore, owner, some_task, some_tenant};
use cyberos_plugin_host::error::{Error, Reason};
use cyberos_plugin_host::model::{Content, Progress, ToolResult, TraceId};
use cyberos_plugin_host::store::{
    CancelOutcome, Inserted, NewTask, TaskEnd, TaskId, TaskQuestion, TaskStatus, WorkerId,
};
use jiff::Timestamp;
use serde_json::json;
use std::collections::HashSet;
use std::time::{Duration, Instant};

on_both_stores! {
    a_task_reads_back_as_it_was_created
    an_id_that_is_taken_is_refused
    a_task_exists_for_its_owner_only
    a_list_is_newest_first_and_goes_on_where_the_page_ended
    only_one_worker_holds_a_task
    a_lease_that_ran_out_goes_to_the_next_worker
    a_worker_reports_progress_and_learns_of_a_cancel
    a_task_asks_its_owner_and_goes_on
    the_first_answer_wins_and_only_the_owner_gives_it
    a_question_and_its_answer_are_gone_with_the_end_of_the_task
    the_next_worker_finds_no_old_question
    an_answer_wakes_the_worker_in_another_process
    a_task_ends_once
    a_tools_own_failure_and_a_bridge_error_both_end_as_failed
    a_cancelled_task_stays_cancelled
    a_task_is_gone_when_its_time_to_live_is_over
    a_task_whose_worker_died_is_found
    open_tasks_are_counted_for_their_tenant
    the_last_place_goes_to_one_of_many
    only_its_holder_ends_a_task
    a_change_wakes_those_who_wait_in_another_process
    a_change_that_came_first_is_not_waited_for
    patience_ends
    a_key_is_used_once_by_one_of_many
    a_used_key_is_forgotten_when_it_expires
    a_closed_store_refuses
}

const LEASE: Duration = Duration::from_secs(30);

fn worker(name: &str) -> WorkerId {
    WorkerId(name.to_owned())
}

fn done(text: &str) -> TaskEnd {
    TaskEnd::Result(ToolResult { content: vec![Content::text(text)], ..ToolResult::default() })
}

async fn a_task_reads_back_as_it_was_created(t: TestStore) {
    // given
    let alice = owner(some_tenant(), "alice@example.com");
    let mut task = some_task(&alice);
    let inputs = json!({ "zeta": 51.24817837550540_4, "alpha": ["\u{0}", "Tiếng Việt", null], "big": u64::MAX });
    task.arguments = inputs.as_object().unwrap().clone();
    // when
    assert_eq!(t.store.insert_task(&task, u64::MAX).await.unwrap(), Inserted::Added);
    let row = t.store.task(&alice, &task.id).await.unwrap().unwrap();
    // then
    assert_eq!((row.id, row.owner, row.tool), (task.id, task.owner, task.tool));
    assert_eq!(serde_json::to_string(&row.arguments).unwrap(), inputs.to_string(), "order and numbers included");
    assert_eq!((row.call, row.trace_id, row.ttl), (task.call, task.trace_id, task.ttl));
    assert_eq!(row.created_at.as_microsecond(), task.created_at.as_microsecond());
    assert_eq!(row.timeout_at.as_microsecond(), task.timeout_at.as_microsecond());
    assert_eq!((row.status, row.attempts), (TaskStatus::Running, 0));
    assert!(row.progress.is_none() && row.output.is_none() && row.error.is_none() && row.completed_at.is_none());
}

async fn an_id_that_is_taken_is_refused(t: TestStore) {
    let task = some_task(&owner(some_tenant(), "alice"));
    assert_eq!(t.store.insert_task(&task, u64::MAX).await.unwrap(), Inserted::Added);
    assert_eq!(t.store.insert_task(&task, u64::MAX).await.unwrap(), Inserted::IdTaken);
}

async fn a_task_exists_for_its_owner_only(t: TestStore) {
    // given
    let alice = owner(some_tenant(), "alice");
    let task = some_task(&alice);
    t.store.insert_task(&task, u64::MAX).await.unwrap();
    // when, then
    for stranger in [owner(alice.tenant, "bob"), owner(some_tenant(), "alice")] {
        assert!(t.store.task(&stranger, &task.id).await.unwrap().is_none());
        assert!(t.store.list_tasks(&stranger, None, 10).await.unwrap().is_empty());
        let outcome = t.store.cancel_task(&stranger, &task.id).await.unwrap();
        assert!(matches!(outcome, CancelOutcome::NotFound), "{outcome:?}");
    }
    let elsewhere = some_tenant();
    assert!(t.store.claim_task(elsewhere, &task.id, &worker("w"), LEASE).await.unwrap().is_none());
    assert!(!t.store.finish_task(elsewhere, &task.id, None, &done("stolen")).await.unwrap());
    assert!(t.store.task(&alice, &TaskId::random()).await.unwrap().is_none());
    assert_eq!(t.store.task(&alice, &task.id).await.unwrap().unwrap().status, TaskStatus::Running);
}

async fn a_list_is_newest_first_and_goes_on_where_the_page_ended(t: TestStore) {
    // given: seven tasks, three of them created in the same microsecond
    let alice = owner(some_tenant(), "alice");
    let start = Timestamp::now();
    let mut created = Vec::new();
    for age in [0, 1, 2, 2, 2, 3, 4] {
        let mut task = some_task(&alice);
        task.created_at = start - Duration::from_secs(age);
        t.store.insert_task(&task, u64::MAX).await.unwrap();
        created.push(task.id);
    }
    // when
    let mut seen = Vec::new();
    let mut before = None;
    loop {
        let page = t.store.list_tasks(&alice, before, 2).await.unwrap();
        let Some(last) = page.last() else { break };
        before = Some((last.created_at, last.id.clone()));
        seen.extend(page);
    }
    // then
    assert!(seen.is_sorted_by(|a, b| a.created_at >= b.created_at));
    assert_eq!(seen.len(), 7);
    assert_eq!(seen.into_iter().map(|row| row.id).collect::<HashSet<_>>(), created.into_iter().collect());
}

async fn only_one_worker_holds_a_task(t: TestStore) {
    // given
    let task = some_task(&owner(some_tenant(), "alice"));
    let other = t.another().await;
    t.store.insert_task(&task, u64::MAX).await.unwrap();
    // when: eight workers in two processes reach for it at once
    let mut tries = tokio::task::JoinSet::new();
    for n in 0..8 {
        let store = if n % 2 == 0 { t.store.clone() } else { other.clone() };
        let (tenant, id) = (task.owner.tenant, task.id.clone());
        tries.spawn(async move { store.claim_task(tenant, &id, &worker(&format!("w{n}")), LEASE).await.unwrap() });
    }
    let won: Vec<_> = tries.join_all().await.into_iter().flatten().collect();
    // then
    assert_eq!(won.len(), 1);
    assert_eq!((won[0].attempts, won[0].status), (1, TaskStatus::Running));
}

async fn a_lease_that_ran_out_goes_to_the_next_worker(t: TestStore) {
    // given
    let task = some_task(&owner(some_tenant(), "alice"));
    let (tenant, id) = (task.owner.tenant, &task.id);
    t.store.insert_task(&task, u64::MAX).await.unwrap();
    t.store.claim_task(tenant, id, &worker("first"), Duration::from_millis(20)).await.unwrap().unwrap();
    tokio::time::sleep(Duration::from_millis(60)).await;
    // when
    let row = t.store.claim_task(tenant, id, &worker("second"), LEASE).await.unwrap().unwrap();
    // then
    assert_eq!(row.attempts, 2);
    assert_eq!(t.store.renew_task(tenant, id, &worker("first"), LEASE, None).await.unwrap(), None);
    let status = t.store.renew_task(tenant, id, &worker("second"), LEASE, None).await.unwrap();
    assert_eq!(status, Some(TaskStatus::Running));
}

async fn a_worker_reports_progress_and_learns_of_a_cancel(t: TestStore) {
    // given
    let task = some_task(&owner(some_tenant(), "alice"));
    let (tenant, id, me) = (task.owner.tenant, &task.id, worker("me"));
    t.store.insert_task(&task, u64::MAX).await.unwrap();
    t.store.claim_task(tenant, id, &me, LEASE).await.unwrap().unwrap();
    // when
    let progress = Progress { progress: 2.5, total: Some(4.0), message: Some("step two".into()) };
    t.store.renew_task(tenant, id, &me, LEASE, Some(&progress)).await.unwrap();
    t.store.renew_task(tenant, id, &me, LEASE, None).await.unwrap();
    // then
    assert_eq!(t.store.task(&task.owner, id).await.unwrap().unwrap().progress, Some(progress.clone()));
    t.store.cancel_task(&task.owner, id).await.unwrap();
    let late = Progress { progress: 3.0, ..progress.clone() };
    let status = t.store.renew_task(tenant, id, &me, LEASE, Some(&late)).await.unwrap();
    assert_eq!(status, Some(TaskStatus::Cancelled));
    assert_eq!(t.store.task(&task.owner, id).await.unwrap().unwrap().progress, Some(progress), "ended rows stay");
}

fn a_question() -> TaskQuestion {
    TaskQuestion::new(json!({ "form": { "message": "Which one, \u{0} or Tiếng Việt?" }, "n": 0.1 }))
}

/// A task that `me` holds.
async fn held(t: &TestStore) -> (NewTask, WorkerId) {
    let (task, me) = (some_task(&owner(some_tenant(), "alice")), worker("me"));
    t.store.insert_task(&task, u64::MAX).await.unwrap();
    t.store.claim_task(task.owner.tenant, &task.id, &me, LEASE).await.unwrap().unwrap();
    (task, me)
}

async fn a_task_asks_its_owner_and_goes_on(t: TestStore) {
    // given
    let (task, me) = held(&t).await;
    let (tenant, id, question) = (task.owner.tenant, &task.id, a_question());
    let row = async || t.store.task(&task.owner, id).await.unwrap().unwrap();
    // when: it asks
    let waiting = t.store.set_input_required(tenant, id, &me, &question).await.unwrap();
    // then
    assert_eq!(waiting, Some(TaskStatus::InputRequired));
    let asked = row().await;
    assert_eq!((asked.status, asked.question, asked.answer), (TaskStatus::InputRequired, Some(question.clone()), None));
    assert_eq!(t.store.renew_task(tenant, id, &me, LEASE, None).await.unwrap(), Some(TaskStatus::InputRequired));
    assert_eq!(t.store.set_running(tenant, id, &worker("other"), task.timeout_at, None).await.unwrap(), None);
    // and when it is answered, and the worker takes the answer
    let answer = json!({ "action": "accept", "content": { "name": "\u{0} Ada" } });
    assert!(t.store.answer_task(&task.owner, id, &question.id, &answer).await.unwrap());
    assert_eq!(row().await.answer, Some(answer));
    let later = task.timeout_at + Duration::from_secs(7200);
    let call = json!({ "confirmation": "elicited" });
    assert_eq!(t.store.set_running(tenant, id, &me, later, Some(&call)).await.unwrap(), Some(TaskStatus::Running));
    // then it runs on, has its time, and nothing of what was said is left
    let running = row().await;
    assert_eq!((running.status, running.question, running.answer), (TaskStatus::Running, None, None));
    assert_eq!(running.call, call);
    assert_eq!(running.timeout_at.as_microsecond(), later.as_microsecond());
    assert!(running.created_at + running.ttl >= running.timeout_at, "a task is kept as long as it may run");
    // and once it ended, it does not ask again
    assert!(t.store.finish_task(tenant, id, None, &done("ok")).await.unwrap());
    let late = t.store.set_input_required(tenant, id, &me, &question).await.unwrap();
    assert_eq!((late, row().await.question), (Some(TaskStatus::Completed), None));
    let late = t.store.set_running(tenant, id, &me, task.timeout_at, Some(&json!({}))).await.unwrap();
    assert_eq!((late, row().await.call), (Some(TaskStatus::Completed), call));
    assert_eq!(row().await.timeout_at.as_microsecond(), later.as_microsecond());
}

async fn the_first_answer_wins_and_only_the_owner_gives_it(t: TestStore) {
    // given
    let (task, me) = held(&t).await;
    let (tenant, id, there) = (task.owner.tenant, &task.id, t.another().await);
    let (earlier, question) = (a_question(), a_question());
    assert!(!t.store.answer_task(&task.owner, id, &question.id, &json!(1)).await.unwrap(), "nothing was asked");
    t.store.set_input_required(tenant, id, &me, &earlier).await.unwrap();
    assert!(t.store.answer_task(&task.owner, id, &earlier.id, &json!(1)).await.unwrap());
    t.store.set_input_required(tenant, id, &me, &question).await.unwrap();
    assert_eq!(t.store.task(&task.owner, id).await.unwrap().unwrap().answer, None, "that was another question");
    // when, then: strangers and those who answer something else
    for stranger in [owner(tenant, "bob"), owner(some_tenant(), "alice")] {
        assert!(!t.store.answer_task(&stranger, id, &question.id, &json!(2)).await.unwrap());
    }
    for other in [earlier.id.as_str(), "", "x\0"] {
        assert!(!t.store.answer_task(&task.owner, id, other, &json!(3)).await.unwrap());
    }
    // and of eight in two processes, one
    let mut tries = tokio::task::JoinSet::new();
    for n in 10..18 {
        let store = if n % 2 == 0 { t.store.clone() } else { there.clone() };
        let (owner, id, question) = (task.owner.clone(), id.clone(), question.id.clone());
        tries.spawn(async move { store.answer_task(&owner, &id, &question, &json!(n)).await.unwrap().then_some(n) });
    }
    let won: Vec<_> = tries.join_all().await.into_iter().flatten().collect();
    assert_eq!(won.len(), 1);
    assert_eq!(there.task(&task.owner, id).await.unwrap().unwrap().answer, Some(json!(won[0])));
}

async fn a_question_and_its_answer_are_gone_with_the_end_of_the_task(t: TestStore) {
    for cancel in [true, false] {
        // given
        let (task, me) = held(&t).await;
        let (tenant, id, question) = (task.owner.tenant, &task.id, a_question());
        t.store.set_input_required(tenant, id, &me, &question).await.unwrap();
        t.store.answer_task(&task.owner, id, &question.id, &json!("personal")).await.unwrap();
        // when
        match cancel {
            true => drop(t.store.cancel_task(&task.owner, id).await.unwrap()),
            false => assert!(t.store.finish_task(tenant, id, Some(&me), &done("ok")).await.unwrap()),
        }
        // then
        let row = t.store.task(&task.owner, id).await.unwrap().unwrap();
        assert!(row.status.has_ended());
        assert_eq!((row.question, row.answer), (None, None));
        assert!(!t.store.answer_task(&task.owner, id, &question.id, &json!("late")).await.unwrap());
    }
}

async fn the_next_worker_finds_no_old_question(t: TestStore) {
    // given: a worker that asked, and died
    let (task, me) = (some_task(&owner(some_tenant(), "alice")), worker("me"));
    let (tenant, id) = (task.owner.tenant, &task.id);
    t.store.insert_task(&task, u64::MAX).await.unwrap();
    t.store.claim_task(tenant, id, &me, Duration::from_millis(20)).await.unwrap().unwrap();
    let question = a_question();
    t.store.set_input_required(tenant, id, &me, &question).await.unwrap();
    t.store.answer_task(&task.owner, id, &question.id, &json!("for the dead")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(60)).await;
    // when
    let row = t.store.claim_task(tenant, id, &worker("next"), LEASE).await.unwrap().unwrap();
    // then
    assert_eq!((row.status, row.question, row.answer), (TaskStatus::Running, None, None));
}

async fn an_answer_wakes_the_worker_in_another_process(t: TestStore) {
    // given: a worker there, a caller here
    let (task, me) = held(&t).await;
    let (there, question) = (t.another().await, a_question());
    there.set_input_required(task.owner.tenant, &task.id, &me, &question).await.unwrap();
    let seen = there.task(&task.owner, &task.id).await.unwrap().unwrap().updated_at;
    let (tenant, id) = (task.owner.tenant, task.id.clone());
    let waiting = tokio::spawn(async move {
        there.task_changed(tenant, &id, seen, Duration::from_secs(20)).await;
        Instant::now()
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!waiting.is_finished(), "nobody has answered yet");
    // when
    let answered = Instant::now();
    assert!(t.store.answer_task(&task.owner, &task.id, &question.id, &json!({})).await.unwrap());
    // then
    assert!(waiting.await.unwrap().saturating_duration_since(answered) < Duration::from_millis(600));
}

async fn a_task_ends_once(t: TestStore) {
    // given
    let task = some_task(&owner(some_tenant(), "alice"));
    let (tenant, id) = (task.owner.tenant, &task.id);
    t.store.insert_task(&task, u64::MAX).await.unwrap();
    // when
    assert!(t.store.finish_task(tenant, id, None, &done("first")).await.unwrap());
    assert!(!t.store.finish_task(tenant, id, None, &done("second")).await.unwrap());
    // then
    let row = t.store.task(&task.owner, id).await.unwrap().unwrap();
    assert_eq!(row.status, TaskStatus::Completed);
    assert_eq!(row.output.unwrap().content, vec![Content::text("first")]);
    assert!(row.completed_at.unwrap() >= row.created_at && row.updated_at > row.created_at);
    assert!(t.store.claim_task(tenant, id, &worker("late"), LEASE).await.unwrap().is_none());
}

async fn a_tools_own_failure_and_a_bridge_error_both_end_as_failed(t: TestStore) {
    // given
    let alice = owner(some_tenant(), "alice");
    let (by_tool, by_bridge) = (some_task(&alice), some_task(&alice));
    let failure = ToolResult { is_error: true, content: vec![Content::text("no such file")], ..Default::default() };
    let lost = Error::new(Reason::WorkerLost, "The process ended.").public_view(&TraceId::random());
    // when
    for (task, end) in [(&by_tool, TaskEnd::Result(failure.clone())), (&by_bridge, TaskEnd::Error(lost.clone()))] {
        t.store.insert_task(task, u64::MAX).await.unwrap();
        assert!(t.store.finish_task(alice.tenant, &task.id, None, &end).await.unwrap());
    }
    // then
    let row = t.store.task(&alice, &by_tool.id).await.unwrap().unwrap();
    assert_eq!((row.status, row.output, row.error), (TaskStatus::Failed, Some(failure), None));
    let row = t.store.task(&alice, &by_bridge.id).await.unwrap().unwrap();
    assert_eq!((row.status, row.output, row.error), (TaskStatus::Failed, None, Some(lost)));
}

async fn a_cancelled_task_stays_cancelled(t: TestStore) {
    // given
    let task = some_task(&owner(some_tenant(), "alice"));
    t.store.insert_task(&task, u64::MAX).await.unwrap();
    // when
    let first = t.store.cancel_task(&task.owner, &task.id).await.unwrap();
    let again = t.store.cancel_task(&task.owner, &task.id).await.unwrap();
    // then
    assert!(matches!(first, CancelOutcome::Cancelled(row) if row.status == TaskStatus::Cancelled));
    assert!(matches!(again, CancelOutcome::AlreadyEnded(row) if row.status == TaskStatus::Cancelled));
    assert!(!t.store.finish_task(task.owner.tenant, &task.id, None, &done("too late")).await.unwrap());
}

async fn a_task_is_gone_when_its_time_to_live_is_over(t: TestStore) {
    // given: one that ended, one that still runs, one with time left; the first two lived for a second, an hour ago
    let alice = owner(some_tenant(), "alice");
    let (mut ended, mut running, kept) = (some_task(&alice), some_task(&alice), some_task(&alice));
    for task in [&mut ended, &mut running] {
        task.created_at = Timestamp::now() - Duration::from_secs(3600);
        task.ttl = Duration::from_secs(1);
    }
    for task in [&ended, &running, &kept] {
        t.store.insert_task(task, u64::MAX).await.unwrap();
    }
    t.store.finish_task(alice.tenant, &ended.id, None, &done("x")).await.unwrap();
    t.store.finish_task(alice.tenant, &kept.id, None, &done("x")).await.unwrap();
    // then: out of sight at once
    for task in [&ended, &running] {
        assert!(t.store.task(&alice, &task.id).await.unwrap().is_none());
        assert!(matches!(t.store.cancel_task(&alice, &task.id).await.unwrap(), CancelOutcome::NotFound));
    }
    assert_eq!(t.store.list_tasks(&alice, None, 10).await.unwrap().len(), 1);
    // and deleted when it has ended
    assert_eq!(t.store.prune_tasks().await.unwrap(), 1);
    assert!(
        t.store.finish_task(alice.tenant, &running.id, None, &done("x")).await.unwrap(),
        "its end is still written"
    );
    assert_eq!(t.store.prune_tasks().await.unwrap(), 1);
    assert_eq!(t.store.prune_tasks().await.unwrap(), 0);
    assert!(t.store.task(&alice, &kept.id).await.unwrap().is_some());
}

async fn a_task_whose_worker_died_is_found(t: TestStore) {
    // given, in two tenants: held, run out, never claimed, ended
    let (here, there) = (owner(some_tenant(), "alice"), owner(some_tenant(), "bob"));
    let [held, ran_out, mut unclaimed, ended] = [&here, &there, &here, &here].map(some_task);
    unclaimed.created_at = Timestamp::now() - Duration::from_secs(60);
    for task in [&held, &ran_out, &unclaimed, &ended] {
        t.store.insert_task(task, u64::MAX).await.unwrap();
    }
    let (short, me) = (Duration::from_millis(1), worker("w"));
    t.store.claim_task(here.tenant, &held.id, &me, LEASE).await.unwrap().unwrap();
    t.store.claim_task(there.tenant, &ran_out.id, &me, short).await.unwrap().unwrap();
    t.store.set_input_required(there.tenant, &ran_out.id, &me, &a_question()).await.unwrap();
    t.store.claim_task(here.tenant, &ended.id, &me, short).await.unwrap().unwrap();
    t.store.finish_task(here.tenant, &ended.id, None, &done("x")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(120)).await;
    // when
    let found: HashSet<_> = t.store.abandoned_tasks(Duration::from_millis(100)).await.unwrap().into_iter().collect();
    // then
    let expected = HashSet::from([(there.tenant, ran_out.id.clone()), (here.tenant, unclaimed.id.clone())]);
    assert_eq!(found, expected);
    let later: HashSet<_> = t.store.abandoned_tasks(Duration::from_secs(30)).await.unwrap().into_iter().collect();
    assert_eq!(later, HashSet::from([(here.tenant, unclaimed.id)]), "the grace of the other is not over");
}

async fn open_tasks_are_counted_for_their_tenant(t: TestStore) {
    let (alice, bob) = (owner(some_tenant(), "alice"), owner(some_tenant(), "bob"));
    let tasks = [&alice, &alice, &alice, &bob].map(some_task);
    for task in &tasks {
        t.store.insert_task(task, u64::MAX).await.unwrap();
    }
    t.store.finish_task(alice.tenant, &tasks[0].id, None, &done("x")).await.unwrap();
    assert_eq!(t.store.open_tasks(alice.tenant).await.unwrap(), 2);
    assert_eq!(t.store.open_tasks(bob.tenant).await.unwrap(), 1);
}

async fn the_last_place_goes_to_one_of_many(t: TestStore) {
    // given: room for three
    let alice = owner(some_tenant(), "alice");
    let tasks: Vec<_> = (0..20).map(|_| some_task(&alice)).collect();
    // when
    let answers = futures::future::join_all(tasks.iter().map(|task| t.store.insert_task(task, 3))).await;
    // then
    let answers: Vec<Inserted> = answers.into_iter().map(Result::unwrap).collect();
    assert_eq!(answers.iter().filter(|a| **a == Inserted::Added).count(), 3);
    assert_eq!(answers.iter().filter(|a| **a == Inserted::TooMany).count(), 17);
    assert_eq!(t.store.insert_task(&some_task(&owner(some_tenant(), "bob")), 3).await.unwrap(), Inserted::Added);
}

async fn only_its_holder_ends_a_task(t: TestStore) {
    // given: a holder whose lease ran out, and the next one
    let task = some_task(&owner(some_tenant(), "alice"));
    let (tenant, id) = (task.owner.tenant, &task.id);
    t.store.insert_task(&task, u64::MAX).await.unwrap();
    let (slow, next) = (worker("slow"), worker("next"));
    t.store.claim_task(tenant, id, &slow, Duration::from_millis(1)).await.unwrap().unwrap();
    tokio::time::sleep(Duration::from_millis(20)).await;
    t.store.claim_task(tenant, id, &next, LEASE).await.unwrap().unwrap();
    // when, then
    assert!(!t.store.finish_task(tenant, id, Some(&slow), &done("late")).await.unwrap());
    assert!(t.store.finish_task(tenant, id, Some(&next), &done("right")).await.unwrap());
    let row = t.store.task(&task.owner, id).await.unwrap().unwrap();
    assert_eq!(row.output.unwrap().content, vec![Content::text("right")]);
}

async fn a_change_wakes_those_who_wait_in_another_process(t: TestStore) {
    // given
    let task = some_task(&owner(some_tenant(), "alice"));
    t.store.insert_task(&task, u64::MAX).await.unwrap();
    let row = t.store.claim_task(task.owner.tenant, &task.id, &worker("w"), LEASE).await.unwrap().unwrap();
    let there = t.another().await;
    // when
    let (id, tenant) = (task.id.clone(), task.owner.tenant);
    let waiting = tokio::spawn({
        let (there, id) = (there.clone(), id.clone());
        async move {
            there.task_changed(tenant, &id, row.updated_at, Duration::from_secs(20)).await;
            Instant::now()
        }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!waiting.is_finished(), "nothing has changed yet");
    t.store.cancel_task(&task.owner, &id).await.unwrap();
    let cancelled = Instant::now();
    // then: sooner than a look at the row once a second would find it
    let woken = waiting.await.unwrap();
    assert!(woken.saturating_duration_since(cancelled) < Duration::from_millis(600));
    assert_eq!(there.task(&task.owner, &id).await.unwrap().unwrap().status, TaskStatus::Cancelled);
}

async fn a_change_that_came_first_is_not_waited_for(t: TestStore) {
    // given
    let task = some_task(&owner(some_tenant(), "alice"));
    t.store.insert_task(&task, u64::MAX).await.unwrap();
    let seen = t.store.task(&task.owner, &task.id).await.unwrap().unwrap().updated_at;
    t.store.finish_task(task.owner.tenant, &task.id, None, &done("x")).await.unwrap();
    // when
    let start = Instant::now();
    t.store.task_changed(task.owner.tenant, &task.id, seen, Duration::from_secs(20)).await;
    t.store.task_changed(task.owner.tenant, &TaskId::random(), seen, Duration::from_secs(20)).await;
    // then
    assert!(start.elapsed() < Duration::from_secs(5));
}

async fn patience_ends(t: TestStore) {
    let task = some_task(&owner(some_tenant(), "alice"));
    t.store.insert_task(&task, u64::MAX).await.unwrap();
    let seen = t.store.task(&task.owner, &task.id).await.unwrap().unwrap().updated_at;
    let start = Instant::now();
    t.store.task_changed(task.owner.tenant, &task.id, seen, Duration::from_millis(150)).await;
    assert!(start.elapsed() >= Duration::from_millis(150) && start.elapsed() < Duration::from_secs(5));
}

async fn a_key_is_used_once_by_one_of_many(t: TestStore) {
    // given
    let (tenant, other) = (some_tenant(), t.another().await);
    let expires = Timestamp::now() + Duration::from_secs(60);
    // when
    let mut tries = tokio::task::JoinSet::new();
    for n in 0..16 {
        let store = if n % 2 == 0 { t.store.clone() } else { other.clone() };
        tries.spawn(async move { store.use_once(tenant, "token", expires).await.unwrap() });
    }
    // then
    assert_eq!(tries.join_all().await.into_iter().filter(|first| *first).count(), 1);
    assert!(t.store.use_once(some_tenant(), "token", expires).await.unwrap(), "another tenant's keys are its own");
}

async fn a_used_key_is_forgotten_when_it_expires(t: TestStore) {
    let tenant = some_tenant();
    assert!(t.store.use_once(tenant, "k", Timestamp::now() + Duration::from_millis(50)).await.unwrap());
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(t.store.use_once(tenant, "k", Timestamp::now() + Duration::from_secs(60)).await.unwrap());
    assert!(!t.store.use_once(tenant, "k", Timestamp::now() + Duration::from_secs(60)).await.unwrap());
}

async fn a_closed_store_refuses(t: TestStore) {
    t.store.ping().await.unwrap();
    t.store.close().await;
    assert_eq!(t.store.ping().await.unwrap_err().reason(), Reason::StoreUnavailable);
    let task = some_task(&owner(some_tenant(), "alice"));
    assert_eq!(t.store.insert_task(&task, u64::MAX).await.unwrap_err().reason(), Reason::StoreUnavailable);
    assert_eq!(t.store.task(&task.owner, &task.id).await.unwrap_err().reason(), Reason::StoreUnavailable);
}
