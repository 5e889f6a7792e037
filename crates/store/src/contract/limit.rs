//! Limits on what runs, under everybody asking at once.

use crate::fake::by;
use codehub_domain::{
    Desired, ErrorReason, Failure, Phase,
    condition::{NO_INSTANCE, set},
    event::{Actor, Reason},
    limits::{LimitScope, Limits, takes_a_place},
    recovery::Recovery,
};
use futures::future::join_all;

use super::{Asked, Created, Harness, new_workspace};
use crate::{ListFilter, Recovered};

const FIVE: Limits = Limits { running_per_user: 5, running_global: 100 };

pub(crate) async fn fifty_at_once_get_exactly_the_places(harness: &Harness) {
    let user = harness.user("ann").await;
    let mut asking = Vec::new();
    for _ in 0..50 {
        let id = harness.workspace(user.id, Desired::Standby).await.id;
        let store = harness.store.clone();
        asking.push(async move {
            tokio::spawn(async move {
                store
                    .workspace_ask(by(), id, Desired::Running, FIVE, Actor::Operator, &Reason::StartRequested)
                    .await
                    .unwrap()
            })
            .await
            .unwrap()
        });
    }
    let answers = join_all(asking).await;
    let changed = answers.iter().filter(|asked| matches!(asked, Asked::Changed(_))).count();
    assert_eq!(changed, 5);
    assert_eq!(answers.iter().filter(|asked| matches!(asked, Asked::LimitReached(_))).count(), 45);
    assert_eq!(harness.store.workspaces_running_of(user.id).await.unwrap().len(), 5);
}

pub(crate) async fn fifty_creations_at_once_too(harness: &Harness) {
    let users = [harness.user("ann").await, harness.user("bob").await];
    let limits = Limits { running_per_user: 0, running_global: 7 };
    let creating = (0..50).map(|n| {
        let store = harness.store.clone();
        let new = new_workspace(users[n % 2].id, "work", Desired::Running);
        tokio::spawn(async move { store.workspace_create(by(), new, limits, Actor::Operator).await.unwrap() })
    });
    let answers = join_all(creating).await;
    let made = answers.iter().filter(|made| matches!(made.as_ref().unwrap(), Created::Created(_))).count();
    assert_eq!(made, 7);
    let list = harness.store.workspace_list(&ListFilter { limit: 99, ..Default::default() }).await.unwrap();
    assert_eq!((list.items.len(), list.total), (7, Some(7)));
}

pub(crate) async fn a_refused_creation_leaves_nothing(harness: &Harness) {
    let user = harness.user("ann").await;
    let limits = Limits { running_per_user: 1, running_global: 0 };
    let first = harness.workspace(user.id, Desired::Running).await;
    let refused = new_workspace(user.id, "second", Desired::Running);
    let id = refused.id;
    let Created::LimitReached(hit) = harness.create(refused, limits).await else { panic!("created") };
    assert_eq!(hit.scope, LimitScope::User { limit: 1 });
    assert_eq!(hit.running.iter().map(|running| running.id).collect::<Vec<_>>(), [first.id]);
    assert_eq!(harness.store.workspace_get(id).await.unwrap(), None);
    assert_eq!(harness.store.workspace_history(id, None, 9).await.unwrap().total, Some(0));
    // What does not run needs no place.
    let asleep = new_workspace(user.id, "asleep", Desired::Standby);
    assert!(matches!(harness.create(asleep, limits).await, Created::Created(_)));
}

/// What runs or is meant to run counts; the one that asks is not in its own way.
pub(crate) async fn what_takes_a_place(harness: &Harness) {
    let (user, epoch) = (harness.user("ann").await, harness.leader().await);
    let one = Limits { running_per_user: 1, running_global: 0 };
    let ask = |id, desired| {
        harness.store.workspace_ask(by(), id, desired, one, Actor::Operator, &Reason::StateRequested)
    };
    let first = harness.workspace(user.id, Desired::Running).await;
    let second = harness.workspace(user.id, Desired::Standby).await;
    harness.put(epoch, first.id, |status| status.phase = Phase::Running).await;
    // Asked to stop, but still running.
    assert!(matches!(ask(first.id, Desired::Standby).await.unwrap(), Asked::Changed(_)));
    let before = harness.get(second.id).await;
    assert!(matches!(ask(second.id, Desired::Running).await.unwrap(), Asked::LimitReached(_)));
    assert_eq!(harness.get(second.id).await, before);
    // It may change its mind: the place is its own.
    assert!(matches!(ask(first.id, Desired::Running).await.unwrap(), Asked::Changed(_)));
    // Deleted, it keeps its place for as long as it runs, though nobody can see it any more.
    assert!(matches!(ask(first.id, Desired::Deleted).await.unwrap(), Asked::Changed(_)));
    assert!(matches!(ask(second.id, Desired::Running).await.unwrap(), Asked::LimitReached(_)));
    assert_eq!(harness.store.workspaces_running_of(user.id).await.unwrap(), []);
    harness.put(epoch, first.id, |status| status.phase = Phase::Deleting).await;
    assert!(matches!(ask(second.id, Desired::Running).await.unwrap(), Asked::Changed(_)));
    assert_eq!(harness.store.workspaces_running_of(user.id).await.unwrap().len(), 1);
}

/// One in ERROR does not start by itself: it is in nobody's way, until it is recovered.
pub(crate) async fn an_error_takes_one_only_while_something_runs(harness: &Harness) {
    let (user, epoch) = (harness.user("ann").await, harness.leader().await);
    let one = Limits { running_per_user: 1, running_global: 0 };
    let start = |id| {
        harness.store.workspace_ask(by(), id, Desired::Running, one, Actor::Operator, &Reason::StateRequested)
    };
    let recover = |id, desired| {
        harness.store.workspace_recover(by(), id, Recovery::default(), desired, one, Actor::Operator)
    };
    let running = || harness.store.workspaces_running_of(user.id);
    let broken = harness.workspace(user.id, Desired::Running).await;
    let other = harness.workspace(user.id, Desired::Standby).await;
    let fail = |ready: bool, reason: &'static str| {
        harness.put(epoch, broken.id, move |status| {
            status.phase = Phase::Error;
            status.error = Some(Failure::new(ErrorReason::Timeout, "given"));
            set(&mut status.conditions.container_ready, ready, reason, "", status.phase_changed_at);
        })
    };
    // Something runs, whether or not it answers, and on whichever home.
    for (ready, reason) in [(true, "Ready"), (false, "NotReady"), (false, "WrongHome")] {
        fail(ready, reason).await;
        assert!(takes_a_place(&harness.get(broken.id).await), "{reason}");
        assert_eq!(running().await.unwrap().len(), 1, "{reason}");
        assert!(matches!(start(other.id).await.unwrap(), Asked::LimitReached(_)), "{reason}");
    }
    for reason in NO_INSTANCE {
        fail(false, reason).await;
        assert!(!takes_a_place(&harness.get(broken.id).await), "{reason}");
        assert_eq!(running().await.unwrap(), [], "{reason}");
    }
    assert!(matches!(start(other.id).await.unwrap(), Asked::Changed(_)), "the place is free");
    // It is wanted to run: recovered, it would. Nothing happens by halves.
    let before = harness.get(broken.id).await;
    for desired in [None, Some(Desired::Running)] {
        let refused = recover(broken.id, desired).await.unwrap();
        assert!(matches!(refused, Recovered::LimitReached(_)), "{refused:?}");
        assert_eq!(harness.get(broken.id).await, before);
    }
    assert!(matches!(recover(broken.id, Some(Desired::Standby)).await.unwrap(), Recovered::Recovered(_)));
    // Recovered before anything else runs, the place is its own again.
    fail(false, "NotFound").await;
    harness
        .store
        .workspace_ask(by(), other.id, Desired::Standby, one, Actor::Operator, &Reason::StateRequested)
        .await
        .unwrap();
    assert!(matches!(recover(broken.id, Some(Desired::Running)).await.unwrap(), Recovered::Recovered(_)));
    assert!(matches!(start(other.id).await.unwrap(), Asked::LimitReached(_)));
}

pub(crate) async fn the_hit_lists_only_ones_own(harness: &Harness) {
    let (ann, bob) = (harness.user("ann").await, harness.user("bob").await);
    let limits = Limits { running_per_user: 5, running_global: 2 };
    let own = harness.workspace(ann.id, Desired::Running).await;
    harness.workspace(bob.id, Desired::Running).await;
    let Created::LimitReached(hit) =
        harness.create(new_workspace(ann.id, "third", Desired::Running), limits).await
    else {
        panic!("created");
    };
    assert_eq!(hit.scope, LimitScope::Global { limit: 2 });
    assert_eq!(hit.running.len(), 1);
    assert_eq!((hit.running[0].id, hit.running[0].name.as_str()), (own.id, "work"));
}
