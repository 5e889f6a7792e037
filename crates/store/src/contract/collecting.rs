//! Claims of the garbage collector, and the workspaces that come for the same thing.

use crate::fake::by;
use codehub_domain::{
    ArchiveKey, Desired, Epoch, ErrorReason, Generation, Operation, Phase, Truth, UserId,
    event::{Actor, Reason},
    gc::Item,
    limits::Limits,
    recovery::{Recovery, RecoveryRefusal},
};

use super::{Harness, failure, new_workspace, op_id, workspace_id};
use crate::{Created, GcClaim, NewWorkspace, Recovered};

async fn claim(harness: &Harness, epoch: Epoch, key: ArchiveKey) -> GcClaim {
    harness.store.gc_claim(epoch, Item::Archive(key)).await.unwrap()
}

fn fork(owner: UserId, key: ArchiveKey) -> NewWorkspace {
    NewWorkspace { from_archive: Some(key), ..new_workspace(owner, "fork", Desired::Standby) }
}

pub(crate) async fn claims_are_refused_where_a_row_refers(harness: &Harness) {
    let epoch = harness.leader().await;
    let user = harness.user("ann").await;
    let made = harness.workspace(user.id, Desired::Standby).await;
    let (home, under_way, old) = (
        ArchiveKey::of(made.id, op_id()),
        ArchiveKey::of(made.id, op_id()),
        ArchiveKey::of(made.id, op_id()),
    );
    harness
        .put(epoch, made.id, |status| {
            status.archive_key = Some(home);
            status.op_id = Some(under_way.op);
            status.home.truth = Truth::Volume;
            status.home.generation = Generation(3);
        })
        .await;
    assert_eq!(claim(harness, epoch, home).await, GcClaim::InUse);
    assert_eq!(claim(harness, epoch, under_way).await, GcClaim::InUse);
    assert_eq!(claim(harness, epoch, ArchiveKey::of(workspace_id(), op_id())).await, GcClaim::Claimed);
    let volume = |generation| Item::Volume { workspace: made.id, generation: Generation(generation) };
    for (generation, expected) in [(2, GcClaim::Claimed), (3, GcClaim::InUse), (4, GcClaim::InUse)] {
        assert_eq!(
            harness.store.gc_claim(epoch, volume(generation)).await.unwrap(),
            expected,
            "{generation}"
        );
    }

    // A workspace in ERROR may want to go back to any of its archives.
    harness
        .put(epoch, made.id, |status| {
            status.phase = Phase::Error;
            status.operation = Operation::None;
            status.error = Some(failure(ErrorReason::DataLost));
        })
        .await;
    assert_eq!(claim(harness, epoch, old).await, GcClaim::InUse);

    // Another workspace was made from it: its own may be gone.
    let Created::Created(forked) = harness.create(fork(user.id, home), Limits::NONE).await else {
        panic!("not created");
    };
    assert_eq!((forked.status.archive_key, forked.status.home.truth), (Some(home), Truth::Archive));
    assert_eq!(harness.get(forked.id).await, *forked);
    let history = harness.store.workspace_history(forked.id, None, 1).await.unwrap();
    assert_eq!(history.items[0].reason, Reason::CreatedFromArchive(home));
    harness.ask(made.id, Desired::Deleted).await;
    assert_eq!(claim(harness, epoch, home).await, GcClaim::InUse);
    assert_eq!(claim(harness, epoch, old).await, GcClaim::Claimed);
    harness.ask(forked.id, Desired::Deleted).await;
    assert_eq!(claim(harness, epoch, home).await, GcClaim::Claimed);
    let later = harness.leader().await;
    assert_eq!(claim(harness, epoch, home).await, GcClaim::Fenced);
    assert_eq!(claim(harness, later, home).await, GcClaim::Claimed, "again is fine");
}

pub(crate) async fn what_is_claimed_is_nobodys_home(harness: &Harness) {
    let epoch = harness.leader().await;
    let user = harness.user("ann").await;
    let made = harness.workspace(user.id, Desired::Standby).await;
    let key = ArchiveKey::of(made.id, op_id());
    assert_eq!(claim(harness, epoch, key).await, GcClaim::Claimed);
    let refused = harness.create(fork(user.id, key), Limits::NONE).await;
    assert_eq!(refused, Created::ArchiveGone);
    assert_eq!(harness.store.gc_rows().await.unwrap().len(), 1, "nothing was created");

    harness
        .put(epoch, made.id, |status| {
            status.phase = Phase::Error;
            status.error = Some(failure(ErrorReason::DataLost));
            status.home.truth = Truth::Volume;
        })
        .await;
    let recover = |key| {
        let desired = Recovery { restore_from: Some(key), accept_data_loss: true, ..Recovery::default() };
        harness.store.workspace_recover(by(), made.id, desired, None, Limits::NONE, Actor::Operator)
    };
    let refused = Recovered::Refused(RecoveryRefusal::BeingDeleted);
    assert_eq!(recover(key).await.unwrap(), refused);
    // The sightings come and go; the claim outlives them by far.
    assert!(harness.store.gc_sightings_replace(epoch, &[].into()).await.unwrap());
    assert_eq!(recover(key).await.unwrap(), refused);
    assert!(matches!(recover(ArchiveKey::of(made.id, op_id())).await.unwrap(), Recovered::Recovered(_)));
}

pub(crate) async fn a_claim_and_a_creation_have_one_winner(harness: &Harness) {
    let epoch = harness.leader().await;
    let user = harness.user("ann").await;
    let source = harness.workspace(user.id, Desired::Standby).await;
    for _ in 0..20 {
        let key = ArchiveKey::of(source.id, op_id());
        let claimant = harness.store.clone();
        let claimed =
            tokio::spawn(async move { claimant.gc_claim(epoch, Item::Archive(key)).await.unwrap() });
        let created = harness.create(fork(user.id, key), Limits::NONE).await;
        match (claimed.await.unwrap(), created) {
            (GcClaim::Claimed, Created::ArchiveGone) | (GcClaim::InUse, Created::Created(_)) => {}
            other => panic!("{other:?}"),
        }
    }
}
