//! What is announced, and what is not.

use crate::SessionEnd;
use crate::fake::by;
use codehub_domain::{
    Desired, ErrorReason, Operation, Phase, Progress,
    event::{Actor, Reason},
    limits::Limits,
    recovery::Recovery,
    ttl::TtlPolicy,
    user::Role,
};

use super::{Change, Created, Harness, failure, new_workspace, op_id, session_id, token_id};
use crate::{Edit, UserEdit};

pub(crate) async fn every_visible_change_is_announced(harness: &Harness) {
    let (user, epoch) = (harness.user("ann").await, harness.leader().await);
    let store = &harness.store;
    let mut changes = harness.changes().await;
    let made = harness.workspace(user.id, Desired::Running).await;
    let id = made.id;
    let updated = Change::Updated { workspace: id, owner: user.id };
    assert_eq!(harness.drain(&mut changes).await, [updated, Change::Wake], "created");

    store.workspace_edit(by(), id, Edit { memo: Some("new".into()), ..Edit::default() }).await.unwrap();
    assert_eq!(harness.drain(&mut changes).await, [updated], "edited");
    store
        .workspace_edit(by(), id, Edit { standby_ttl_seconds: Some(Some(5)), ..Edit::default() })
        .await
        .unwrap();
    assert_eq!(harness.drain(&mut changes).await, [updated], "its TTL");

    harness
        .put(epoch, id, |status| (status.operation, status.op_id) = (Operation::Provisioning, Some(op_id())))
        .await;
    assert_eq!(harness.drain(&mut changes).await, [updated], "operation");
    harness.put(epoch, id, |status| status.progress = Some(Progress { done: 1, total: 2, rate: 1 })).await;
    assert_eq!(harness.drain(&mut changes).await, [updated], "progress");
    harness.put(epoch, id, |status| status.error = Some(failure(ErrorReason::ActionFailed))).await;
    assert_eq!(harness.drain(&mut changes).await, [updated], "error");
    harness.put(epoch, id, |status| status.instance_backend = "process".into()).await;
    assert_eq!(harness.drain(&mut changes).await, [], "nothing that people see");
    harness
        .put(epoch, id, |status| {
            (status.phase, status.operation, status.error) = (Phase::Running, Operation::None, None);
        })
        .await;
    assert_eq!(harness.drain(&mut changes).await, [updated], "phase");

    harness.pass(100).await;
    let policy =
        TtlPolicy { standby_seconds: 0, archive_seconds: 0, unseen_activity: std::time::Duration::ZERO };
    assert_eq!(store.ttl_expire(epoch, &policy).await.unwrap().len(), 1);
    assert_eq!(harness.drain(&mut changes).await, [updated, Change::Wake], "its own TTL ran out");
    harness.ask(id, Desired::Archived).await;
    assert_eq!(harness.drain(&mut changes).await, [updated, Change::Wake], "asked");

    harness
        .put(epoch, id, |status| {
            (status.phase, status.error) = (Phase::Error, Some(failure(ErrorReason::Timeout)));
        })
        .await;
    harness.drain(&mut changes).await;
    store
        .workspace_recover(by(), id, Recovery::default(), None, Limits::NONE, Actor::Operator)
        .await
        .unwrap();
    assert_eq!(harness.drain(&mut changes).await, [updated, Change::Wake], "recovered");
    harness.ask(id, Desired::Deleted).await;
    let deleted = Change::Deleted { workspace: id, owner: user.id };
    assert_eq!(harness.drain(&mut changes).await, [deleted, Change::Wake], "deleted");
}

pub(crate) async fn nothing_is_announced_that_did_not_happen(harness: &Harness) {
    let (user, epoch) = (harness.user("ann").await, harness.leader().await);
    let made = harness.workspace(user.id, Desired::Running).await;
    let store = &harness.store;
    let mut changes = harness.changes().await;
    let one = Limits { running_per_user: 1, running_global: 0 };
    let refused = harness.create(new_workspace(user.id, "second", Desired::Running), one).await;
    assert!(matches!(refused, Created::LimitReached(_)));
    harness.ask(made.id, Desired::Running).await;
    store
        .workspace_edit(by(), made.id, Edit { name: Some(made.name.clone()), ..Edit::default() })
        .await
        .unwrap();
    store
        .workspace_recover(by(), made.id, Recovery::default(), None, Limits::NONE, Actor::Operator)
        .await
        .unwrap();
    let mut stale = made.clone();
    stale.revision += 5;
    let mut next = made.status.clone();
    next.phase = Phase::Running;
    store.workspace_save(epoch, &stale, &next, &[]).await.unwrap();
    (next.phase, next.operation) = (Phase::Error, Operation::Starting);
    store.workspace_save(epoch, &made, &next, &[]).await.unwrap_err();
    store.user_create(by(), super::user_id(), "ANN", "hash", Role::User).await.unwrap();
    store.session_delete(by(), session_id(), SessionEnd::Logout).await.unwrap();
    store.token_delete(by(), user.id, token_id()).await.unwrap();
    store.user_edit(by(), user.id, UserEdit::default()).await.unwrap();
    assert_eq!(harness.drain(&mut changes).await, []);
}

/// Whatever races with the deletion, and whatever the controller saves afterwards.
pub(crate) async fn nothing_follows_a_deletion(harness: &Harness) {
    let (user, epoch) = (harness.user("ann").await, harness.leader().await);
    for _ in 0..10 {
        let made = harness.workspace(user.id, Desired::Running).await;
        let id = made.id;
        let mut changes = harness.changes().await;
        let mut racers = Vec::new();
        for n in 0..6 {
            let store = harness.store.clone();
            racers.push(tokio::spawn(async move {
                if n == 3 {
                    let desired = Desired::Deleted;
                    store
                        .workspace_ask(
                            by(),
                            id,
                            desired,
                            Limits::NONE,
                            Actor::Operator,
                            &Reason::DeleteRequested,
                        )
                        .await
                        .unwrap();
                } else {
                    let edit = Edit { memo: Some(format!("memo {n}")), ..Edit::default() };
                    store.workspace_edit(by(), id, edit).await.unwrap();
                }
            }));
        }
        for racer in racers {
            racer.await.unwrap();
        }
        harness.put(epoch, id, |status| status.phase = Phase::Deleting).await;
        harness.put(epoch, id, |status| status.phase = Phase::Deleted).await;
        let seen = harness.drain(&mut changes).await;
        let end = seen.iter().position(|change| matches!(change, Change::Deleted { .. })).unwrap();
        assert!(!seen[end..].iter().any(|change| matches!(change, Change::Updated { .. })), "{seen:?}");
        assert_eq!(seen.len() as i64 - 1, harness.get(id).await.revision - made.revision - 2, "{seen:?}");
    }
}

pub(crate) async fn access_changes_are_announced(harness: &Harness) {
    let (user, store) = (harness.user("ann").await, &harness.store);
    let mut changes = harness.changes().await;
    let access = Change::Access { user: user.id };
    let session = store.session_create(by(), session_id(), user.id, b"one", 600).await.unwrap();
    let token = store.token_create(by(), token_id(), session.id, "ci", b"two", None).await.unwrap().unwrap();
    assert_eq!(harness.drain(&mut changes).await, []);
    store.session_delete(by(), session.id, SessionEnd::Logout).await.unwrap();
    assert_eq!(harness.drain(&mut changes).await, [access], "session");
    store.token_delete(by(), user.id, token.id).await.unwrap();
    assert_eq!(harness.drain(&mut changes).await, [access], "token");
    store.user_edit(by(), user.id, UserEdit { disabled: Some(true), ..UserEdit::default() }).await.unwrap();
    assert_eq!(harness.drain(&mut changes).await, [access], "disabled");
    store.user_delete(by(), user.id).await.unwrap();
    assert_eq!(harness.drain(&mut changes).await, [access], "deleted");
}
