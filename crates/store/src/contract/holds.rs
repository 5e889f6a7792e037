//! Keep-awake leases.

use crate::fake::by;
use std::time::Duration;

use codehub_domain::{Desired, HoldId, Phase, UserId, activity::ActivityMode, ttl::TtlPolicy};
use uuid::Uuid;

use super::{Change, Harness};
use crate::{Edit, NewHold};

const POLICY: TtlPolicy =
    TtlPolicy { standby_seconds: 600, archive_seconds: 0, unseen_activity: Duration::from_secs(90) };

fn lease(by: UserId, seconds: u32, reason: &str) -> NewHold {
    NewHold { id: HoldId::from_uuid(Uuid::now_v7()), by, seconds, reason: reason.into() }
}

pub(crate) async fn a_lease_counts_as_activity_until_it_ends(harness: &Harness) {
    let (user, epoch) = (harness.user("ann").await, harness.leader().await);
    let store = &harness.store;
    for own_ttl in [None, Some(Some(600))] {
        let made = harness.workspace(user.id, Desired::Running).await;
        harness.put(epoch, made.id, |status| status.phase = Phase::Running).await;
        if let Some(ttl) = own_ttl {
            store
                .workspace_edit(by(), made.id, Edit { standby_ttl_seconds: Some(ttl), ..Edit::default() })
                .await
                .unwrap();
        }
        let (held, hold) =
            store.workspace_hold(made.id, lease(user.id, 3600, "a build")).await.unwrap().unwrap();
        assert_eq!(held.held_until, Some(hold.until));
        assert_eq!((hold.until - hold.created_at).get_seconds(), 3600);
        harness.pass(3600).await;
        assert_eq!(store.ttl_expire(epoch, &POLICY).await.unwrap(), [], "held");
        harness.pass(600).await;
        assert_eq!(store.ttl_expire(epoch, &POLICY).await.unwrap(), [], "within the TTL after it");
        assert_eq!(store.workspace_holds(made.id).await.unwrap(), [], "it has ended");
        harness.pass(100).await;
        assert_eq!(store.ttl_expire(epoch, &POLICY).await.unwrap().len(), 1);
    }
}

pub(crate) async fn leases_are_listed_and_given_back(harness: &Harness) {
    let (user, epoch) = (harness.user("ann").await, harness.leader().await);
    let store = &harness.store;
    let made = harness.workspace(user.id, Desired::Running).await;
    let running = harness.put(epoch, made.id, |status| status.phase = Phase::Running).await;
    let mut changes = harness.changes().await;
    let (_, long) = store.workspace_hold(made.id, lease(user.id, 7200, "long")).await.unwrap().unwrap();
    let (after, short) = store.workspace_hold(made.id, lease(user.id, 60, "short")).await.unwrap().unwrap();
    assert_eq!((after.held_until, after.revision), (Some(long.until), running.revision + 2));
    assert_eq!(store.workspace_holds(made.id).await.unwrap(), [long.clone(), short.clone()]);
    assert_eq!(
        harness.drain(&mut changes).await,
        [Change::Updated { workspace: made.id, owner: user.id }; 2]
    );

    harness.pass(30).await;
    let after = store.workspace_release(made.id, Some(long.id)).await.unwrap().unwrap();
    assert_eq!(store.workspace_release(made.id, Some(long.id)).await.unwrap(), None, "once");
    let left = store.workspace_holds(made.id).await.unwrap();
    assert_eq!(left.len(), 1);
    assert_eq!(after.held_until, Some(left[0].until));
    assert!(
        (after.last_access_at - after.status.phase_changed_at).get_seconds() >= 30,
        "held until it was given back"
    );
    harness.pass(60).await;
    assert_eq!(store.workspace_release(made.id, None).await.unwrap(), None, "the other has ended");
    let (_, _) = store.workspace_hold(made.id, lease(user.id, 60, "again")).await.unwrap().unwrap();
    let after = store.workspace_release(made.id, None).await.unwrap().unwrap();
    assert_eq!((after.held_until, store.workspace_holds(made.id).await.unwrap()), (None, vec![]));

    harness.ask(made.id, Desired::Deleted).await;
    assert_eq!(store.workspace_hold(made.id, lease(user.id, 60, "gone")).await.unwrap(), None);
    assert_eq!(store.workspace_hold(super::workspace_id(), lease(user.id, 60, "x")).await.unwrap(), None);
}

pub(crate) async fn a_workspace_may_have_its_own_mode(harness: &Harness) {
    let user = harness.user("ann").await;
    let made = harness.workspace(user.id, Desired::Running).await;
    assert_eq!(made.activity_mode, None);
    for mode in [Some(ActivityMode::Connections), Some(ActivityMode::Traffic), None] {
        let edit = Edit { activity_mode: Some(mode), ..Edit::default() };
        assert_eq!(
            harness.store.workspace_edit(by(), made.id, edit).await.unwrap().unwrap().activity_mode,
            mode
        );
        assert_eq!(harness.get(made.id).await.activity_mode, mode);
    }
}
