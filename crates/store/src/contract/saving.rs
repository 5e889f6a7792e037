//! The controller's writes.

use codehub_domain::{
    ArchiveKey, Desired, Epoch, ErrorReason, Failure, Generation, HomeCtx, Operation, Phase, Progress,
    Status, Timestamp, Truth, WorkspaceId,
    condition::{Conditions, set},
    event::{Actor, Reason, Transition},
    gc::Item,
    ttl::TtlPolicy,
};
use futures::future::join_all;

use super::{Harness, op_id, seconds_before, workspace_id};
use crate::{Due, GcClaim, Saved, StoreError};

/// A status with something in every field.
fn full(id: WorkspaceId, now: Timestamp) -> Status {
    let mut conditions = Conditions::default();
    set(&mut conditions.volume_ready, true, "Found", "a message", now);
    set(&mut conditions.healthy, false, "Bad", "'quoted' \"text\"", seconds_before(now, 5));
    let key = ArchiveKey::of(id, op_id());
    Status {
        conditions,
        observed_at: Some(seconds_before(now, 1)),
        phase: Phase::Standby,
        phase_changed_at: seconds_before(now, 2),
        operation: Operation::Archiving,
        op_started_at: Some(seconds_before(now, 3)),
        op_moved_at: Some(seconds_before(now, 4)),
        op_id: Some(key.op),
        archive_key: Some(ArchiveKey::of(id, op_id())),
        error: Some(Failure::new(ErrorReason::Unreachable, "the bucket does not answer")),
        error_count: u32::MAX,
        next_retry_at: Some(now),
        home: HomeCtx {
            truth: Truth::Volume,
            generation: Generation(u32::MAX),
            restore_marker: Some(key),
            spent: Some(Generation(9)),
            packed_from: Some(Generation(3)),
            deaths: vec![seconds_before(now, 9), now],
            evict_instance: true,
        },
        progress: Some(Progress { done: 1, total: u64::MAX, rate: 3 }),
        instance_backend: "process".into(),
        storage_backend: "directory".into(),
    }
}

pub(crate) async fn a_status_comes_back_as_it_was_saved(harness: &Harness) {
    let (user, epoch) = (harness.user("ann").await, harness.leader().await);
    let made = harness.workspace(user.id, Desired::Running).await;
    let next = full(made.id, harness.store.now().await.unwrap());
    let saved = harness.store.workspace_save(epoch, &made, &next, &[]).await.unwrap();
    assert_eq!(saved, Saved::Saved(made.revision + 1));
    let stored = harness.get(made.id).await;
    assert_eq!(stored.status, next);
    assert_eq!(stored.revision, made.revision + 1);
    assert!(stored.updated_at >= made.updated_at);
    let mut rest = stored.clone();
    rest.status = made.status.clone();
    (rest.revision, rest.updated_at) = (made.revision, made.updated_at);
    assert_eq!(rest, made, "saving a status writes nothing else");
    // And back to nothing.
    harness.put(epoch, made.id, |status| *status = made.status.clone()).await;
    assert_eq!(harness.get(made.id).await.status, made.status);
}

pub(crate) async fn a_save_is_a_compare_and_swap(harness: &Harness) {
    let (user, epoch) = (harness.user("ann").await, harness.leader().await);
    let made = harness.workspace(user.id, Desired::Running).await;
    let store = &harness.store;
    let mut begun = made.status.clone();
    (begun.operation, begun.op_id) = (Operation::Provisioning, Some(op_id()));
    let line = Transition {
        from: Phase::Pending,
        to: Phase::Pending,
        operation: Operation::Provisioning,
        reason: Reason::OperationStarted,
        actor: Actor::Controller,
    };
    let save =
        async |read| store.workspace_save(epoch, read, &begun, std::slice::from_ref(&line)).await.unwrap();
    assert_eq!(save(&made).await, Saved::Saved(made.revision + 1));
    let first = harness.get(made.id).await;
    assert_eq!(save(&made).await, Saved::Changed, "the same read, again");
    assert_eq!(harness.get(made.id).await, first);
    // The same revision but another operation was read: not what is there.
    let mut wrong = first.clone();
    wrong.status.operation = Operation::None;
    assert_eq!(save(&wrong).await, Saved::Changed);
    let mut missing = first.clone();
    missing.id = workspace_id();
    assert_eq!(save(&missing).await, Saved::Gone);
    assert_eq!(store.workspace_history(made.id, None, 9).await.unwrap().total, Some(2), "one line, once");

    // A wish in between is a change.
    let other = harness.workspace(user.id, Desired::Running).await;
    harness.ask(other.id, Desired::Standby).await;
    assert_eq!(save(&other).await, Saved::Changed);
    assert_eq!(harness.get(other.id).await.status, other.status);
}

pub(crate) async fn a_stale_epoch_changes_nothing_anywhere(harness: &Harness) {
    let (user, stale) = (harness.user("ann").await, harness.leader().await);
    let made = harness.workspace(user.id, Desired::Running).await;
    let store = &harness.store;
    let now = store.now().await.unwrap();
    let resting = harness
        .put(stale, made.id, |status| {
            status.phase = Phase::Running;
            status.phase_changed_at = seconds_before(now, 10_000);
        })
        .await;
    harness.pass(10_000).await;
    let current = harness.leader().await;
    let before = harness.get(made.id).await;
    let sightings = store.gc_sightings().await.unwrap();
    let mut changes = harness.changes().await;
    let policy =
        TtlPolicy { standby_seconds: 1, archive_seconds: 1, unseen_activity: std::time::Duration::ZERO };
    let line = Transition {
        from: Phase::Running,
        to: Phase::Error,
        operation: Operation::None,
        reason: Reason::OperationDone,
        actor: Actor::Controller,
    };
    for epoch in [stale, Epoch(0), Epoch(current.0 + 1)] {
        let next = full(made.id, now);
        let saved = store.workspace_save(epoch, &resting, &next, std::slice::from_ref(&line)).await.unwrap();
        assert_eq!(saved, Saved::Fenced, "{epoch}");
        assert!(!store.workspaces_observed(epoch, &[made.id]).await.unwrap());
        let later = Timestamp::from_microsecond(now.as_microsecond() + 1_000_000_000_000).unwrap();
        assert!(!store.access_sync(epoch, &[(made.id, later)]).await.unwrap());
        assert_eq!(store.ttl_expire(epoch, &policy).await.unwrap(), []);
        let item = Item::Volume { workspace: made.id, generation: Generation(1) };
        assert!(!store.gc_sightings_replace(epoch, &[(item, now)].into()).await.unwrap());
        assert_eq!(store.gc_claim(epoch, item).await.unwrap(), GcClaim::Fenced);
    }
    // Fenced comes before gone: a stale leader is told the one thing that matters.
    let mut missing = resting.clone();
    missing.id = workspace_id();
    let saved = store.workspace_save(stale, &missing, &resting.status, &[]).await.unwrap();
    assert_eq!(saved, Saved::Fenced);
    assert_eq!(harness.get(made.id).await, before);
    assert_eq!(store.workspace_history(made.id, None, 9).await.unwrap().total, Some(1));
    assert_eq!(store.gc_sightings().await.unwrap(), sightings);
    assert_eq!(harness.drain(&mut changes).await, []);
    assert_eq!(store.ttl_expire(current, &policy).await.unwrap().len(), 1, "the leader may");
}

pub(crate) async fn an_error_has_no_operation(harness: &Harness) {
    let (user, epoch) = (harness.user("ann").await, harness.leader().await);
    let made = harness.workspace(user.id, Desired::Running).await;
    let mut wrong = full(made.id, made.created_at);
    wrong.phase = Phase::Error;
    let saved = harness.store.workspace_save(epoch, &made, &wrong, &[]).await;
    assert!(matches!(saved, Err(StoreError::Failed(_))), "{saved:?}");
    assert_eq!(harness.get(made.id).await, made);
}

pub(crate) async fn observing_is_no_revision(harness: &Harness) {
    let (user, epoch) = (harness.user("ann").await, harness.leader().await);
    let made = harness.workspace(user.id, Desired::Running).await;
    let other = harness.workspace(user.id, Desired::Running).await;
    let store = &harness.store;
    let mut changes = harness.changes().await;
    assert!(store.workspaces_observed(epoch, &[made.id, workspace_id()]).await.unwrap());
    let seen = harness.get(made.id).await;
    assert!(seen.status.observed_at.is_some());
    assert_eq!((seen.revision, seen.updated_at), (made.revision, made.updated_at));
    assert_eq!(harness.get(other.id).await.status.observed_at, None);
    assert_eq!(harness.drain(&mut changes).await, []);
    // It is in nobody's way: what was read before can still be saved.
    let saved = store.workspace_save(epoch, &made, &made.status, &[]).await.unwrap();
    assert_eq!(saved, Saved::Saved(made.revision + 1));
}

pub(crate) async fn racing_saves_have_one_winner(harness: &Harness) {
    let (user, epoch) = (harness.user("ann").await, harness.leader().await);
    harness.workspace(user.id, Desired::Running).await;
    for _ in 0..5 {
        let reading = harness.store.workspaces_due(Due::Active).await.unwrap();
        let racers = (0..10).map(|_| {
            let (store, read) = (harness.store.clone(), reading.workspaces[0].clone());
            let mut next = read.status.clone();
            next.op_id = Some(op_id());
            tokio::spawn(async move { store.workspace_save(epoch, &read, &next, &[]).await.unwrap() })
        });
        let results = join_all(racers).await;
        let won = results.iter().filter(|saved| matches!(saved, Ok(Saved::Saved(_)))).count();
        let lost = results.iter().filter(|saved| matches!(saved, Ok(Saved::Changed))).count();
        assert_eq!((won, lost), (1, 9));
    }
}
