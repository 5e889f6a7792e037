//! A workspace's life as its owner drives it.

use crate::fake::by;
use codehub_domain::{
    Desired, ErrorReason, Operation, Phase, Status,
    desired::{Answer, Refusal, ask},
    event::{Actor, Reason, Transition},
    intent::{NewWorkspace, Once},
    limits::Limits,
};

use super::{Asked, Created, Harness, failure, new_workspace, op_id, workspace_id};
use crate::{Edit, ListFilter, Saved};

pub(crate) async fn a_new_workspace_is_what_was_asked_for(harness: &Harness) {
    let user = harness.user("ann").await;
    let mut new = new_workspace(user.id, "Grüße, Welt", Desired::Archived);
    new.standby_ttl_seconds = Some(u32::MAX);
    new.archive_ttl_seconds = Some(0);
    let Created::Created(made) = harness.create(new.clone(), Limits::NONE).await else {
        panic!("refused");
    };
    let stored = harness.get(new.id).await;
    assert_eq!(*made, stored);
    assert_eq!((stored.owner, stored.name.as_str()), (user.id, "Grüße, Welt"));
    assert_eq!((stored.description, stored.memo), (new.description, new.memo));
    assert_eq!((stored.image_ref, stored.desired), (new.image_ref, Desired::Archived));
    assert_eq!((stored.standby_ttl_seconds, stored.archive_ttl_seconds), (Some(u32::MAX), Some(0)));
    assert_eq!(stored.status, Status::new(stored.created_at));
    assert_eq!((stored.deleted_at, stored.last_access_at), (None, stored.created_at));
    assert_eq!(stored.home_store_key, format!("users/{}/workspaces/{}/home", user.id, new.id));

    // The same id again, a wish to be deleted, an owner who does not exist: nothing of it is stored.
    let none = Limits::NONE;
    let mut twice = new_workspace(user.id, "other", Desired::Running);
    twice.id = made.id;
    assert!(harness.store.workspace_create(by(), twice, none, Actor::Operator).await.is_err());
    let dead = new_workspace(user.id, "dead", Desired::Deleted);
    assert!(harness.store.workspace_create(by(), dead, none, Actor::Operator).await.is_err());
    let stray = new_workspace(super::user_id(), "stray", Desired::Running);
    assert!(harness.store.workspace_create(by(), stray, none, Actor::Operator).await.is_err());
    assert_eq!(
        harness.store.workspace_list(&ListFilter { limit: 9, ..Default::default() }).await.unwrap().total,
        Some(1)
    );
    assert_eq!(harness.get(made.id).await, *made);
}

pub(crate) async fn an_edit_changes_only_what_it_names(harness: &Harness) {
    let user = harness.user("ann").await;
    let before = harness.workspace(user.id, Desired::Standby).await;
    let store = &harness.store;
    let edit = Edit { name: Some("renamed".into()), archive_ttl_seconds: Some(Some(60)), ..Edit::default() };
    let after = store.workspace_edit(by(), before.id, edit.clone()).await.unwrap().unwrap();
    assert_eq!((after.name.as_str(), after.archive_ttl_seconds), ("renamed", Some(60)));
    assert_eq!((&after.description, &after.memo), (&before.description, &before.memo));
    assert_eq!((after.revision, after.status.clone()), (before.revision + 1, before.status.clone()));
    assert_eq!(harness.get(before.id).await, after);
    // Nothing new: no revision.
    assert_eq!(store.workspace_edit(by(), before.id, edit).await.unwrap().unwrap(), after);
    let back = Edit { archive_ttl_seconds: Some(None), memo: Some(String::new()), ..Edit::default() };
    let after = store.workspace_edit(by(), before.id, back).await.unwrap().unwrap();
    assert_eq!((after.archive_ttl_seconds, after.memo.as_str()), (None, ""));
    assert_eq!(store.workspace_edit(by(), workspace_id(), Edit::default()).await.unwrap(), None);
    harness.ask(before.id, Desired::Deleted).await;
    let late = Edit { name: Some("late".into()), ..Edit::default() };
    assert_eq!(store.workspace_edit(by(), before.id, late).await.unwrap(), None);
    assert_eq!(harness.get(before.id).await.name, "renamed");
}

/// Every phase, operation and error, against every wish: the answer is the domain's, and a refusal
/// changes nothing.
pub(crate) async fn the_table_of_wishes(harness: &Harness) {
    let (user, epoch) = (harness.user("ann").await, harness.leader().await);
    assert_eq!(harness.ask(workspace_id(), Desired::Running).await, Asked::NotFound);
    for (phase, operation, error) in [
        (Phase::Pending, Operation::None, None),
        (Phase::Standby, Operation::None, None),
        (Phase::Running, Operation::None, None),
        (Phase::Archived, Operation::None, None),
        (Phase::Standby, Operation::Starting, None),
        (Phase::Running, Operation::Stopping, None),
        (Phase::Standby, Operation::Archiving, Some(ErrorReason::Unreachable)),
        (Phase::Archived, Operation::Restoring, Some(ErrorReason::ActionFailed)),
        (Phase::Error, Operation::None, Some(ErrorReason::DataLost)),
        (Phase::Error, Operation::None, None),
    ] {
        for &desired in Desired::ALL {
            let made = harness.workspace(user.id, Desired::Standby).await;
            let before = harness
                .put(epoch, made.id, |status| {
                    (status.phase, status.operation) = (phase, operation);
                    status.op_id = Some(op_id());
                    status.error = error.map(failure);
                })
                .await;
            let expected = ask(&before, desired);
            let asked = harness.ask(made.id, desired).await;
            let after = harness.get(made.id).await;
            let row = format!("{phase} {operation} {error:?} wants {desired}");
            match expected {
                Answer::Refuse(refusal) => {
                    assert_eq!(asked, Asked::Refused(refusal), "{row}");
                    assert_eq!(after, before, "{row}");
                }
                Answer::Already => {
                    assert_eq!(asked, Asked::Already(Box::new(after.clone())), "{row}");
                    assert_eq!(after.revision, before.revision, "{row}");
                }
                Answer::Change => {
                    assert_eq!(asked, Asked::Changed(Box::new(after.clone())), "{row}");
                    assert_eq!((after.desired, after.revision), (desired, before.revision + 1), "{row}");
                    assert_eq!(after.status, before.status, "{row}: a wish is not a phase");
                    assert_eq!(after.deleted_at.is_some(), desired == Desired::Deleted, "{row}");
                }
            }
        }
    }
}

pub(crate) async fn asking_again_changes_nothing_but_counts_as_activity(harness: &Harness) {
    let user = harness.user("ann").await;
    let made = harness.workspace(user.id, Desired::Running).await;
    harness.pass(100).await;
    let before = harness.get(made.id).await;
    let Asked::Already(after) = harness.ask(made.id, Desired::Running).await else { panic!("not already") };
    assert!(after.last_access_at.duration_since(before.last_access_at).as_secs() >= 100);
    assert_eq!((after.revision, after.desired_changed_at), (before.revision, before.desired_changed_at));
    assert_eq!(harness.get(made.id).await, *after);
    assert_eq!(harness.store.workspace_history(made.id, None, 9).await.unwrap().total, Some(1));

    // A wish to run from elsewhere counts, too; a wish to stop does not.
    harness.ask(made.id, Desired::Standby).await;
    harness.pass(100).await;
    let asleep = harness.get(made.id).await;
    harness.ask(made.id, Desired::Standby).await;
    assert_eq!(harness.get(made.id).await, asleep);
    let Asked::Changed(awake) = harness.ask(made.id, Desired::Running).await else { panic!("not changed") };
    assert!(awake.last_access_at.duration_since(asleep.last_access_at).as_secs() >= 100);
}

pub(crate) async fn deleting_keeps_the_row_and_hides_it(harness: &Harness) {
    let (user, epoch) = (harness.user("ann").await, harness.leader().await);
    let made = harness.workspace(user.id, Desired::Running).await;
    let Asked::Changed(deleted) = harness.ask(made.id, Desired::Deleted).await else { panic!("refused") };
    assert_eq!(deleted.deleted_at, Some(deleted.desired_changed_at));
    assert_eq!(harness.get(made.id).await, *deleted);
    assert_eq!(harness.store.workspaces_get(&[made.id]).await.unwrap(), [*deleted.clone()]);
    let list = harness.store.workspace_list(&ListFilter { limit: 9, ..Default::default() }).await.unwrap();
    assert_eq!((list.items.len(), list.total), (0, Some(0)));
    assert!(harness.store.workspace_counts().await.unwrap().is_empty());
    for &desired in Desired::ALL {
        assert_eq!(harness.ask(made.id, desired).await, Asked::Refused(Refusal::Gone), "{desired}");
    }
    // The controller still finishes it, and its history stays.
    harness.put(epoch, made.id, |status| status.phase = Phase::Deleted).await;
    assert_eq!(harness.store.workspace_history(made.id, None, 9).await.unwrap().total, Some(2));
}

pub(crate) async fn history_is_newest_first_and_pages(harness: &Harness) {
    let (user, epoch) = (harness.user("ann").await, harness.leader().await);
    let made = harness.workspace(user.id, Desired::Running).await;
    let other = harness.workspace(user.id, Desired::Running).await;
    let store = &harness.store;
    let line = |n: u32| Transition {
        from: Phase::Pending,
        to: Phase::Standby,
        operation: Operation::Provisioning,
        reason: Reason::InstanceEnded(format!("step: {n}")),
        actor: Actor::Controller,
    };
    let saved = store.workspace_save(epoch, &made, &made.status, &[line(1), line(2)]).await.unwrap();
    assert_eq!(saved, Saved::Saved(made.revision + 1));
    let wake = Actor::Wake(user.id);
    store
        .workspace_ask(by(), made.id, Desired::Standby, Limits::NONE, wake, &Reason::StopRequested)
        .await
        .unwrap();
    let all = store.workspace_history(made.id, None, 10).await.unwrap();
    let reasons: Vec<_> = all.items.iter().map(|entry| entry.reason.clone()).collect();
    assert_eq!(reasons, [Reason::StopRequested, line(2).reason, line(1).reason, Reason::Created]);
    assert_eq!((all.more, all.total), (false, Some(4)));
    assert_eq!(all.items[0].actor, format!("wake:{}", user.id));
    let step = &all.items[1];
    assert_eq!(
        (step.from, step.to, step.operation),
        (Phase::Pending, Phase::Standby, Operation::Provisioning)
    );
    assert_eq!(step.actor, "controller");
    assert!(all.items.is_sorted_by(|newer, older| newer.id > older.id && newer.at >= older.at));

    let first = store.workspace_history(made.id, None, 3).await.unwrap();
    assert_eq!((first.items.as_slice(), first.more, first.total), (&all.items[..3], true, Some(4)));
    let rest = store.workspace_history(made.id, Some(first.items[2].id), 3).await.unwrap();
    assert_eq!((rest.items.as_slice(), rest.more), (&all.items[3..], false));
    assert_eq!(store.workspace_history(other.id, None, 10).await.unwrap().total, Some(1));
    assert_eq!(store.workspace_history(workspace_id(), None, 10).await.unwrap().total, Some(0));
}

/// A creation that is sent again, by somebody who did not hear the answer.
pub(crate) async fn what_is_created_once_is_not_created_twice(harness: &Harness) {
    let (ann, bob) = (harness.user("ann").await, harness.user("bob").await);
    let once = |key: &str, request: &str| Some(Once { key: key.into(), request: request.into() });
    let new = |owner, once| NewWorkspace { once, ..new_workspace(owner, "again", Desired::Standby) };
    let Created::Created(made) = harness.create(new(ann.id, once("k", "r")), Limits::NONE).await else {
        panic!("refused");
    };
    let tries = (0..4).map(|_| harness.create(new(ann.id, once("k", "r")), Limits::NONE));
    for again in futures::future::join_all(tries).await {
        assert!(matches!(&again, Created::Already(found) if found.id == made.id), "{again:?}");
    }
    let other = harness.create(new(ann.id, once("k", "another")), Limits::NONE).await;
    assert!(matches!(other, Created::KeyTaken), "{other:?}");
    for (owner, once) in [(bob.id, once("k", "r")), (ann.id, once("l", "r")), (ann.id, None), (ann.id, None)]
    {
        let made = harness.create(new(owner, once), Limits::NONE).await;
        assert!(matches!(made, Created::Created(_)), "{made:?}");
    }
    let filter = ListFilter { owner: Some(ann.id), ..ListFilter::default() };
    assert_eq!(harness.store.workspace_list(&filter).await.unwrap().total, Some(4));
    // One that was refused does not have its key taken.
    let limits = Limits { running_per_user: 1, ..Limits::NONE };
    let first = new_workspace(ann.id, "runs", Desired::Running);
    assert!(matches!(harness.create(first, limits).await, Created::Created(_)));
    let running = || NewWorkspace { desired: Desired::Running, ..new(ann.id, once("m", "r")) };
    let refused = harness.create(running(), limits).await;
    assert!(matches!(refused, Created::LimitReached(_)), "{refused:?}");
    assert!(matches!(harness.create(running(), Limits::NONE).await, Created::Created(_)));
}
