//! What a tick of the controller looks at.

use std::collections::BTreeSet;

use codehub_domain::{Desired, ErrorReason, Operation, Phase};

use super::{Asked, Harness, failure, op_id};
use crate::{Due, is_active};

/// Every combination that can be stored: the database chooses as the domain does.
pub(crate) async fn active_is_the_rule_of_the_domain(harness: &Harness) {
    let (user, epoch) = (harness.user("ann").await, harness.leader().await);
    let mut ids = Vec::new();
    for &desired in Desired::ALL {
        let asked = if desired == Desired::Deleted { Desired::Running } else { desired };
        let made = harness.workspace(user.id, asked).await;
        if desired == Desired::Deleted {
            assert!(matches!(harness.ask(made.id, desired).await, Asked::Changed(_)));
        }
        ids.push(made.id);
    }
    let errors = [None, Some(ErrorReason::Unreachable), Some(ErrorReason::DataLost)];
    for &phase in Phase::ALL {
        for &operation in Operation::ALL {
            if phase == Phase::Error && operation != Operation::None {
                continue;
            }
            for error in errors {
                let mut expected = BTreeSet::new();
                for id in &ids {
                    let workspace = harness
                        .put(epoch, *id, |status| {
                            (status.phase, status.operation) = (phase, operation);
                            status.op_id = Some(op_id());
                            status.error = error.map(failure);
                        })
                        .await;
                    if is_active(&workspace) {
                        expected.insert(*id);
                    }
                }
                let reading = harness.store.workspaces_due(Due::Active).await.unwrap();
                let found: BTreeSet<_> = reading.workspaces.iter().map(|workspace| workspace.id).collect();
                assert_eq!(found, expected, "{phase} {operation} {error:?}");
            }
        }
    }
    // Every terminal reason waits for a person, every other one does not.
    for &reason in ErrorReason::ALL {
        for id in &ids {
            harness
                .put(epoch, *id, |status| {
                    (status.phase, status.operation) = (Phase::Error, Operation::None);
                    status.error = Some(failure(reason));
                })
                .await;
        }
        let found = harness.store.workspaces_due(Due::Active).await.unwrap().workspaces.len();
        assert_eq!(found, if reason.is_terminal() { 1 } else { 4 }, "{reason}");
    }
}

pub(crate) async fn full_adds_what_runs_and_the_oldest(harness: &Harness) {
    let (user, epoch) = (harness.user("ann").await, harness.leader().await);
    let store = &harness.store;
    let mut resting = Vec::new();
    for _ in 0..4 {
        let made = harness.workspace(user.id, Desired::Standby).await;
        harness.put(epoch, made.id, |status| status.phase = Phase::Standby).await;
        resting.push(made.id);
    }
    let running = harness.workspace(user.id, Desired::Running).await;
    harness.put(epoch, running.id, |status| status.phase = Phase::Running).await;
    let active = harness.workspace(user.id, Desired::Running).await;
    // Deleted: one is gone for good, of the other something is left.
    let mut deleted = Vec::new();
    for phase in [Phase::Deleted, Phase::Deleting] {
        let made = harness.workspace(user.id, Desired::Standby).await;
        assert!(matches!(harness.ask(made.id, Desired::Deleted).await, Asked::Changed(_)));
        harness.put(epoch, made.id, |status| status.phase = phase).await;
        deleted.push(made.id);
    }
    let [gone, going] = deleted[..] else { panic!("two") };
    // Looked at in this order, the last one never.
    for id in [resting[2], resting[0], resting[1]] {
        assert!(store.workspaces_observed(epoch, &[id]).await.unwrap());
        harness.pass(1).await;
    }
    let due = async |due| {
        let reading = store.workspaces_due(due).await.unwrap();
        assert!(reading.workspaces.is_sorted_by_key(|workspace| workspace.id));
        reading.workspaces.iter().map(|workspace| workspace.id).collect::<BTreeSet<_>>()
    };
    assert_eq!(due(Due::Active).await, BTreeSet::from([active.id, going]));
    assert_eq!(due(Due::Full { also_oldest: 0 }).await, BTreeSet::from([active.id, going, running.id]));
    let two = BTreeSet::from([active.id, going, running.id, resting[3], resting[2]]);
    assert_eq!(due(Due::Full { also_oldest: 2 }).await, two);
    let all = due(Due::Full { also_oldest: 100 }).await;
    assert_eq!((all.len(), all.contains(&gone)), (7, false));
    let reading = store.workspaces_due(Due::Active).await.unwrap();
    assert!(reading.now <= store.now().await.unwrap());
    assert_eq!(reading.workspaces, [harness.get(active.id).await, harness.get(going).await]);
    // Something of it was found after all: it is looked at until that is gone, too.
    harness.put(epoch, gone, |status| status.phase = Phase::Deleting).await;
    assert!(due(Due::Active).await.contains(&gone));
}
