//! The audit log, its chain and its outbox, the same on SQLite and on Postgres.

use bridge_tests::on_both_stores;
use bridge_tests::stores::{Place, TestStore, audit_row, some_tenant};
use cyberos_plugin_host::error::Reason;
use cyberos_plugin_host::model::TenantId;
use cyberos_plugin_host::store::verify::{FaultKind, verify_chain};
use cyberos_plugin_host::store::{Appended, AuditFilter, AuditHead, AuditRow, Durability, NewAuditRow};
use jiff::Timestamp;
use serde_json::json;
use std::time::Duration;

on_both_stores! {
    rows_are_numbered_without_gaps_and_chained
    every_tenant_of_a_batch_has_its_own_chain
    appends_from_many_tasks_in_two_processes_make_one_chain
    bodies_read_back_exactly_and_the_chain_survives_an_export
    a_repeated_key_adds_nothing_and_gives_the_first_position
    a_key_that_was_used_for_something_else_is_a_conflict
    a_log_can_be_filtered_and_paged
    a_synced_append_is_an_append
    text_that_not_every_database_holds_is_refused
    a_question_that_no_row_can_answer_finds_none
    an_append_whose_caller_went_away_leaves_no_trace_of_a_half
    an_edited_row_is_found
    a_deleted_row_is_found
    swapped_rows_are_found
    an_inserted_row_is_found
    a_lost_tail_shows_against_a_checkpoint
    a_chain_computed_anew_shows_against_a_checkpoint
    shipped_rows_are_delivered_first_in_first_out
    a_row_that_waits_for_its_next_try_holds_back_those_after_it
    a_row_that_was_given_up_is_kept_and_lets_others_pass
    two_shippers_never_hold_the_same_row
}

async fn append(t: &TestStore, rows: &[NewAuditRow]) -> Vec<Appended> {
    t.store.append_audit(rows, Durability::Written).await.unwrap()
}

async fn six_rows(t: &TestStore) -> TenantId {
    let tenant = some_tenant();
    let rows: Vec<_> = (1..=6).map(|n| audit_row(tenant, "note", json!({ "n": n }))).collect();
    append(t, &rows).await;
    tenant
}

async fn check(t: &TestStore, tenant: TenantId) -> Option<(i64, FaultKind)> {
    verify_chain(t.all_audit(tenant).await, None).fault.map(|fault| (fault.seq, fault.kind))
}

async fn rows_are_numbered_without_gaps_and_chained(t: TestStore) {
    // given
    let tenant = some_tenant();
    assert!(t.store.audit_head(tenant).await.unwrap().is_none());
    // when: single rows and batches
    let mut answers = Vec::new();
    for size in [1, 5, 1, 64, 2, 200] {
        let batch: Vec<_> = (0..size).map(|n| audit_row(tenant, "note", json!({ "n": n }))).collect();
        answers.extend(append(&t, &batch).await);
    }
    // then
    let rows = t.all_audit(tenant).await;
    assert_eq!(rows.iter().map(|r| r.seq).collect::<Vec<_>>(), (1..=273).collect::<Vec<_>>());
    for (row, answer) in rows.iter().zip(&answers) {
        let position = answer.position();
        assert!(matches!(answer, Appended::Added(_)));
        assert_eq!(
            (&row.chain_anchor, &row.prev_anchor, row.seq),
            (&position.chain_anchor, &position.prev_anchor, position.seq)
        );
    }
    let report = verify_chain(rows, None);
    assert_eq!((report.rows, &report.fault), (273, &None));
    assert_eq!(t.store.audit_head(tenant).await.unwrap(), report.head);
    assert!(append(&t, &[]).await.is_empty());
}

async fn every_tenant_of_a_batch_has_its_own_chain(t: TestStore) {
    // given
    let tenants = [some_tenant(), some_tenant(), some_tenant()];
    let batch: Vec<_> = (0..30).map(|n| audit_row(tenants[n % 3], "note", json!({ "n": n }))).collect();
    // when
    let answers = append(&t, &batch).await;
    // then
    for (n, answer) in answers.iter().enumerate() {
        assert_eq!(answer.position().seq, n as i64 / 3 + 1, "answers come in the order of the rows");
    }
    for tenant in tenants {
        let report = verify_chain(t.all_audit(tenant).await, None);
        assert_eq!((report.rows, report.fault), (10, None));
    }
}

async fn appends_from_many_tasks_in_two_processes_make_one_chain(t: TestStore) {
    // given
    let (tenant, quiet) = (some_tenant(), some_tenant());
    let other = t.another().await;
    // when: eight tasks, half of them through the other process, some batches across tenants
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..8 {
        let store = if writer % 2 == 0 { t.store.clone() } else { other.clone() };
        writers.spawn(async move {
            for n in 0..20 {
                let mut batch = vec![audit_row(tenant, "note", json!({ "writer": writer, "n": n })); 1 + n % 3];
                batch.push(audit_row(quiet, "note", json!({})));
                if n % 2 == 0 {
                    batch.reverse();
                }
                let durability = if n % 5 == 0 { Durability::Synced } else { Durability::Written };
                store.append_audit(&batch, durability).await.unwrap();
            }
        });
    }
    writers.join_all().await;
    // then
    let report = verify_chain(t.all_audit(tenant).await, None);
    assert_eq!((report.rows, report.fault), (8 * (20 + 7 + 12), None));
    let report = verify_chain(t.all_audit(quiet).await, None);
    assert_eq!((report.rows, report.fault), (160, None));
}

async fn bodies_read_back_exactly_and_the_chain_survives_an_export(t: TestStore) {
    // given
    let tenant = some_tenant();
    let body = json!({
        "z": [51.24817837550540_4, -0.0, 1e300, 5e-324, u64::MAX, i64::MIN],
        "a": { "đ": "\u{0}\u{1}\"\\/\u{1F600}", "": [], "nested": [[[{}]]] },
        "long": "x".repeat(200_000),
    });
    append(&t, &[audit_row(tenant, "kind \"quoted\"", body.clone()), audit_row(tenant, "k", json!(null))]).await;
    // when
    let rows = t.all_audit(tenant).await;
    let export: String = rows.iter().map(|r| serde_json::to_string(r).unwrap() + "\n").collect();
    // then
    assert_eq!(rows[0].body, body);
    let again = export.lines().map(|line| serde_json::from_str::<AuditRow>(line).unwrap());
    let report = verify_chain(again, None);
    assert_eq!((report.rows, report.fault), (2, None));
}

fn keyed(tenant: TenantId, key: &str, body: serde_json::Value) -> NewAuditRow {
    NewAuditRow { idempotency_key: Some(key.to_owned()), ..audit_row(tenant, "note", body) }
}

async fn a_repeated_key_adds_nothing_and_gives_the_first_position(t: TestStore) {
    // given
    let (tenant, elsewhere) = (some_tenant(), some_tenant());
    let first = append(&t, &[keyed(tenant, "k1", json!({ "a": 1, "b": 2 }))]).await;
    // when: again in another batch, twice within one, with the keys of the body in another order, from another process
    let second = append(
        &t,
        &[
            keyed(tenant, "k2", json!({})),
            keyed(tenant, "k1", json!({ "b": 2, "a": 1 })),
            keyed(tenant, "k2", json!({})),
            audit_row(tenant, "note", json!({})),
            keyed(elsewhere, "k1", json!({ "other": true })),
        ],
    )
    .await;
    let other = t.another().await;
    let third = other.append_audit(&[keyed(tenant, "k2", json!({}))], Durability::Written).await.unwrap();
    // then
    assert_eq!(second[1], Appended::Repeated(first[0].position().clone()));
    assert_eq!(second[2], Appended::Repeated(second[0].position().clone()));
    assert_eq!(third[0], Appended::Repeated(second[0].position().clone()));
    assert!(matches!(&second[4], Appended::Added(p) if p.seq == 1), "another tenant's keys are its own");
    assert_eq!(verify_chain(t.all_audit(tenant).await, None).rows, 3);
    assert_eq!(t.store.audit_by_key(tenant, "k1").await.unwrap().unwrap().seq, 1);
    assert!(t.store.audit_by_key(tenant, "k9").await.unwrap().is_none());
}

async fn a_key_that_was_used_for_something_else_is_a_conflict(t: TestStore) {
    // given
    let tenant = some_tenant();
    let first = append(&t, &[keyed(tenant, "k", json!({ "amount": 1 }))]).await;
    // when
    let other_body = keyed(tenant, "k", json!({ "amount": 2 }));
    let other_kind = NewAuditRow { kind: "other".into(), ..keyed(tenant, "k", json!({ "amount": 1 })) };
    let answers = append(&t, &[other_body, audit_row(tenant, "note", json!({})), other_kind]).await;
    // then
    let conflict = Appended::KeyConflict(first[0].position().clone());
    assert_eq!((&answers[0], &answers[2]), (&conflict, &conflict));
    assert!(matches!(&answers[1], Appended::Added(p) if p.seq == 2), "the rest of the batch is not held up");
    assert_eq!(t.all_audit(tenant).await.len(), 2);
}

async fn a_log_can_be_filtered_and_paged(t: TestStore) {
    // given
    let tenant = some_tenant();
    let rows: Vec<_> = (1..=10)
        .map(|n| NewAuditRow {
            actor: if n % 2 == 0 { "bob" } else { "alice" }.to_owned(),
            ..audit_row(tenant, if n > 5 { "late" } else { "early" }, json!({ "n": n }))
        })
        .collect();
    append(&t, &rows).await;
    let seqs = async |filter: AuditFilter| -> Vec<i64> {
        t.store.read_audit(tenant, &filter).await.unwrap().iter().map(|r| r.seq).collect()
    };
    // when, then
    let all = AuditFilter { limit: 100, ..Default::default() };
    assert_eq!(seqs(AuditFilter { limit: 3, ..Default::default() }).await, [1, 2, 3]);
    assert_eq!(seqs(AuditFilter { since_seq: Some(8), ..all.clone() }).await, [9, 10]);
    assert_eq!(seqs(AuditFilter { actor: Some("bob".into()), ..all.clone() }).await, [2, 4, 6, 8, 10]);
    let late_alice = AuditFilter { actor: Some("alice".into()), kind: Some("late".into()), ..all.clone() };
    assert_eq!(seqs(late_alice).await, [7, 9]);
    assert!(t.store.read_audit(some_tenant(), &all).await.unwrap().is_empty());
}

async fn a_synced_append_is_an_append(t: TestStore) {
    let tenant = some_tenant();
    for n in 1..=3 {
        let rows = [audit_row(tenant, "note", json!({}))];
        let answers = t.store.append_audit(&rows, Durability::Synced).await.unwrap();
        assert_eq!(answers[0].position().seq, n);
    }
    assert_eq!(check(&t, tenant).await, None);
}

async fn text_that_not_every_database_holds_is_refused(t: TestStore) {
    let tenant = some_tenant();
    let row = audit_row(tenant, "no\0te", json!({}));
    let error = t.store.append_audit(&[row], Durability::Written).await.unwrap_err();
    assert_eq!(error.reason(), Reason::InvalidParams);
    assert!(t.all_audit(tenant).await.is_empty());
}

async fn a_question_that_no_row_can_answer_finds_none(t: TestStore) {
    let tenant = six_rows(&t).await;
    let of = |actor: Option<&str>, kind: Option<&str>| AuditFilter {
        actor: actor.map(str::to_owned),
        kind: kind.map(str::to_owned),
        ..AuditFilter::default()
    };
    for filter in [of(Some("\0"), None), of(None, Some("no\0te"))] {
        assert!(t.store.read_audit(tenant, &filter).await.unwrap().is_empty());
    }
    assert!(t.store.audit_by_key(tenant, "\0").await.unwrap().is_none());
}

async fn an_append_whose_caller_went_away_leaves_no_trace_of_a_half(t: TestStore) {
    // given
    let tenant = some_tenant();
    // when: batches of three, each dropped after a little longer than the one before
    for n in 0..60u64 {
        let batch = [0, 1, 2].map(|i| keyed(tenant, &format!("{}-{i}", n / 2), json!({ "n": n / 2, "i": i })));
        let append = t.store.append_audit(&batch, Durability::Written);
        let _ = tokio::time::timeout(Duration::from_micros(n * 40), append).await;
    }
    // then: the store goes on, every batch is there as a whole or not at all, and the chain is whole
    append(&t, &[audit_row(tenant, "last", json!({}))]).await;
    let rows = t.all_audit(tenant).await;
    assert_eq!((rows.len() - 1) % 3, 0, "{}", rows.len());
    assert_eq!(verify_chain(rows, None).fault, None);
}

async fn an_edited_row_is_found(t: TestStore) {
    for column in ["body = '{\"n\":7}'", "kind = 'other'", "actor_id = 'mallory'", "ts = '2020-01-01T00:00:00.000000Z'"]
    {
        let tenant = six_rows(&t).await;
        t.tamper(&format!("UPDATE audit SET {column} WHERE tenant_id = '{tenant}' AND seq = 3")).await;
        assert_eq!(check(&t, tenant).await, Some((3, FaultKind::Edited)), "{column}");
    }
    // and when its anchor was made to fit, the next row does not follow it
    let tenant = six_rows(&t).await;
    let mut third = t.all_audit(tenant).await.remove(2);
    third.kind = "other".into();
    let anchor = third.expected_anchor();
    let set = format!("kind = 'other', chain_anchor = '{anchor}'");
    t.tamper(&format!("UPDATE audit SET {set} WHERE tenant_id = '{tenant}' AND seq = 3")).await;
    assert_eq!(check(&t, tenant).await, Some((4, FaultKind::Unlinked)));
}

async fn a_deleted_row_is_found(t: TestStore) {
    for seq in [1, 4] {
        let tenant = six_rows(&t).await;
        t.tamper(&format!("DELETE FROM audit WHERE tenant_id = '{tenant}' AND seq = {seq}")).await;
        assert_eq!(check(&t, tenant).await, Some((seq, FaultKind::Missing)));
    }
    // and when those after it are renumbered to close the gap
    let tenant = six_rows(&t).await;
    t.tamper(&format!("DELETE FROM audit WHERE tenant_id = '{tenant}' AND seq = 4")).await;
    for seq in [5, 6] {
        t.tamper(&format!("UPDATE audit SET seq = {seq} - 1 WHERE tenant_id = '{tenant}' AND seq = {seq}")).await;
    }
    assert_eq!(check(&t, tenant).await, Some((4, FaultKind::Edited)));
}

async fn swapped_rows_are_found(t: TestStore) {
    let tenant = six_rows(&t).await;
    for (from, to) in [(3, 100), (5, 3), (100, 5)] {
        t.tamper(&format!("UPDATE audit SET seq = {to} WHERE tenant_id = '{tenant}' AND seq = {from}")).await;
    }
    assert_eq!(check(&t, tenant).await, Some((3, FaultKind::Edited)));
}

async fn an_inserted_row_is_found(t: TestStore) {
    // given: the rows from 3 on are pushed up by one
    let tenant = six_rows(&t).await;
    let third = t.all_audit(tenant).await.remove(2);
    for seq in [6, 5, 4, 3] {
        t.tamper(&format!("UPDATE audit SET seq = {seq} + 1 WHERE tenant_id = '{tenant}' AND seq = {seq}")).await;
    }
    // when: a row goes in that fits the one before it, as good as a forger can make it
    let forged = AuditRow { body: json!({ "forged": true }), ..third };
    let (columns, ship) = match t.at {
        Place::Sqlite(_) => (", ship", ", 0"),
        Place::Postgres(_) => ("", ""),
    };
    t.tamper(&format!(
        "INSERT INTO audit (tenant_id, seq, kind, actor_id, body, ts, trace_id, prev_anchor, chain_anchor{columns})
         VALUES ('{tenant}', 3, '{}', '{}', '{}', '{}', '{}', '{}', '{}'{ship})",
        forged.kind,
        forged.actor_id,
        forged.body,
        forged.ts,
        forged.trace_id,
        forged.prev_anchor,
        forged.expected_anchor()
    ))
    .await;
    // then: the first row that does not fit is the one it displaced
    assert_eq!(check(&t, tenant).await, Some((4, FaultKind::Edited)));
}

async fn a_lost_tail_shows_against_a_checkpoint(t: TestStore) {
    // given
    let tenant = six_rows(&t).await;
    let checkpoint = t.store.audit_head(tenant).await.unwrap().unwrap();
    // when
    t.tamper(&format!("DELETE FROM audit WHERE tenant_id = '{tenant}' AND seq >= 5")).await;
    // then
    assert_eq!(check(&t, tenant).await, None, "a shorter chain is whole in itself");
    let report = verify_chain(t.all_audit(tenant).await, Some(&checkpoint));
    assert_eq!(report.fault.map(|f| (f.seq, f.kind)), Some((5, FaultKind::TailLost)));
    let empty = verify_chain(Vec::new(), Some(&checkpoint));
    assert_eq!(empty.fault.map(|f| (f.seq, f.kind)), Some((1, FaultKind::TailLost)));
}

async fn a_chain_computed_anew_shows_against_a_checkpoint(t: TestStore) {
    // given
    let tenant = six_rows(&t).await;
    let head = t.store.audit_head(tenant).await.unwrap().unwrap();
    let checkpoint = AuditHead { seq: 4, chain_anchor: t.all_audit(tenant).await[3].chain_anchor.clone(), ..head };
    // when: row 2 is changed and every anchor after it is made to fit
    let mut rows = t.all_audit(tenant).await;
    rows[1].body = json!({ "n": 200 });
    for n in 1..6 {
        rows[n].prev_anchor = rows[n - 1].chain_anchor.clone();
        rows[n].chain_anchor = rows[n].expected_anchor();
    }
    // then
    assert_eq!(verify_chain(rows.clone(), None).fault, None);
    let fault = verify_chain(rows, Some(&checkpoint)).fault.unwrap();
    assert_eq!((fault.seq, fault.kind), (4, FaultKind::Rewritten));
    assert_eq!(verify_chain(t.all_audit(tenant).await, Some(&checkpoint)).fault, None);
}

fn shipped(tenant: TenantId, n: u32) -> NewAuditRow {
    NewAuditRow { ship: true, ..audit_row(tenant, "note", json!({ "n": n })) }
}

const HOLD: Duration = Duration::from_secs(60);

async fn shipped_rows_are_delivered_first_in_first_out(t: TestStore) {
    // given
    let (a, b) = (some_tenant(), some_tenant());
    let own_key = NewAuditRow { idempotency_key: Some("mine".into()), ..shipped(a, 2) };
    append(&t, &[shipped(a, 1), own_key, audit_row(a, "kept", json!({})), shipped(a, 3), shipped(b, 1)]).await;
    assert_eq!(t.store.outbox_depth().await.unwrap(), (4, 0));
    // when
    let first = t.store.claim_outbox(2, HOLD).await.unwrap();
    // then: tenants take turns
    let ids = |rows: &[cyberos_plugin_host::store::OutboxRow]| -> Vec<_> {
        rows.iter().map(|r| (r.row.tenant_id, r.row.seq)).collect()
    };
    let mut expected = vec![(a, 1), (b, 1)];
    expected.sort();
    assert_eq!(ids(&first), expected);
    let of_a = first.iter().find(|r| r.row.tenant_id == a).unwrap();
    assert_eq!((of_a.attempts, &of_a.idempotency_key), (1, &of_a.row.chain_anchor));
    assert_eq!(of_a.row, t.all_audit(a).await[0]);
    assert!(t.store.claim_outbox(10, HOLD).await.unwrap().is_empty(), "the first rows are held");
    // and the next come when the first are delivered
    for row in &first {
        t.store.ack_outbox(row.row.tenant_id, row.row.seq).await.unwrap();
    }
    let next = t.store.claim_outbox(10, HOLD).await.unwrap();
    assert_eq!(ids(&next), [(a, 2), (a, 4)]);
    assert_eq!(next[0].idempotency_key, "mine");
    for row in &next {
        t.store.ack_outbox(row.row.tenant_id, row.row.seq).await.unwrap();
    }
    assert_eq!(t.store.outbox_depth().await.unwrap(), (0, 0));
}

async fn a_row_that_waits_for_its_next_try_holds_back_those_after_it(t: TestStore) {
    // given
    let tenant = some_tenant();
    append(&t, &[shipped(tenant, 1), shipped(tenant, 2)]).await;
    t.store.claim_outbox(1, HOLD).await.unwrap();
    // when
    let soon = Timestamp::now() + Duration::from_millis(300);
    t.store.retry_outbox(tenant, 1, Some(soon), "503").await.unwrap();
    // then
    assert!(t.store.claim_outbox(10, HOLD).await.unwrap().is_empty());
    tokio::time::sleep(Duration::from_millis(400)).await;
    let claimed = t.store.claim_outbox(10, HOLD).await.unwrap();
    assert_eq!(claimed.iter().map(|r| (r.row.seq, r.attempts)).collect::<Vec<_>>(), [(1, 2), (2, 1)]);
}

async fn a_row_that_was_given_up_is_kept_and_lets_others_pass(t: TestStore) {
    // given
    let tenant = some_tenant();
    append(&t, &[shipped(tenant, 1), shipped(tenant, 2)]).await;
    t.store.claim_outbox(1, HOLD).await.unwrap();
    // when
    t.store.retry_outbox(tenant, 1, None, "422: no such kind").await.unwrap();
    // then
    assert_eq!(t.store.outbox_depth().await.unwrap(), (1, 1));
    let claimed = t.store.claim_outbox(10, HOLD).await.unwrap();
    assert_eq!(claimed.iter().map(|r| r.row.seq).collect::<Vec<_>>(), [2]);
}

async fn two_shippers_never_hold_the_same_row(t: TestStore) {
    // given
    let tenants: Vec<_> = (0..10).map(|_| some_tenant()).collect();
    append(&t, &tenants.iter().map(|tenant| shipped(*tenant, 1)).collect::<Vec<_>>()).await;
    let other = t.another().await;
    // when
    let mut claims = tokio::task::JoinSet::new();
    for n in 0..10 {
        let store = if n % 2 == 0 { t.store.clone() } else { other.clone() };
        claims.spawn(async move { store.claim_outbox(3, HOLD).await.unwrap() });
    }
    let mut held: Vec<_> = claims.join_all().await.into_iter().flatten().map(|r| r.row.tenant_id).collect();
    // then
    held.sort();
    let mut all = tenants;
    all.sort();
    assert_eq!(held, all);
}
