//! TTLs and the activity that holds them off.

use crate::fake::by;
use std::{collections::BTreeMap, time::Duration};

use codehub_domain::{
    Desired, Epoch, Operation, Phase, Timestamp, WorkspaceId,
    event::{Actor, Reason},
    limits::Limits,
    ttl::{TtlPolicy, expired, expiry},
};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::{Asked, Harness, new_workspace, op_id, seconds_before};
use crate::{Created, Expired};

const POLICY: TtlPolicy =
    TtlPolicy { standby_seconds: 600, archive_seconds: 1800, unseen_activity: Duration::from_secs(90) };

/// A workspace that rests in `phase`, untouched for `seconds`.
async fn resting(harness: &Harness, epoch: Epoch, phase: Phase, seconds: u64) -> WorkspaceId {
    let user = harness.user(&format!("user {}", op_id())).await;
    let desired = if phase == Phase::Running { Desired::Running } else { Desired::Standby };
    let made = harness.workspace(user.id, desired).await;
    harness.put(epoch, made.id, |status| status.phase = phase).await;
    harness.pass(seconds).await;
    made.id
}

/// Random rows of all kinds, under policies with and without defaults: the database expires exactly what
/// the domain says.
pub(crate) async fn expiry_is_the_rule_of_the_domain(harness: &Harness) {
    let mut random = StdRng::seed_from_u64(7);
    let (user, epoch) = (harness.user("ann").await, harness.leader().await);
    let store = &harness.store;
    let policies = [
        POLICY,
        TtlPolicy { standby_seconds: 0, archive_seconds: 60, unseen_activity: Duration::ZERO },
        TtlPolicy { standby_seconds: 60, archive_seconds: 0, unseen_activity: Duration::MAX },
    ];
    for policy in policies {
        let mut rows = Vec::new();
        for _ in 0..80 {
            rows.push(random_row(harness, epoch, user.id, &mut random).await);
        }
        harness.pass(3000).await;
        let now = store.now().await.unwrap();
        let seen: Vec<_> =
            rows.iter().map(|id| (*id, seconds_before(now, random.random_range(-100..3000)))).collect();
        assert!(store.access_sync(epoch, &seen).await.unwrap());
        let before = store.workspaces_get(&rows).await.unwrap();
        let early = store.now().await.unwrap();
        let done: BTreeMap<_, _> = store
            .ttl_expire(epoch, &policy)
            .await
            .unwrap()
            .into_iter()
            .map(|expired| (expired.id, expired.to))
            .collect();
        let late = store.now().await.unwrap();
        for read in &before {
            let (at_least, at_most) = (expired(read, &policy, early), expired(read, &policy, late));
            let decided = done.get(&read.id).copied();
            assert!(decided == at_least || decided == at_most, "{decided:?} for {read:#?}");
            let after = harness.get(read.id).await;
            assert_eq!(after.desired, decided.unwrap_or(read.desired));
            assert_eq!(after.status, read.status, "a TTL writes wishes, never phases");
            assert_eq!(after.revision, read.revision + i64::from(decided.is_some()));
        }
        assert!(policy.unseen_activity == Duration::MAX || !done.is_empty(), "the test tests something");
    }
}

async fn random_row(
    harness: &Harness,
    epoch: Epoch,
    owner: codehub_domain::UserId,
    random: &mut StdRng,
) -> WorkspaceId {
    let phases =
        [Phase::Running, Phase::Running, Phase::Standby, Phase::Standby, Phase::Archived, Phase::Error];
    let wishes = [Desired::Running, Desired::Standby, Desired::Archived];
    let ttls = [None, None, Some(0), Some(1), Some(600), Some(u32::MAX)];
    let phase = phases[random.random_range(0..phases.len())];
    let fitting = wishes.iter().find(|desired| desired.phase() == phase).copied().unwrap_or(Desired::Standby);
    let other = wishes[random.random_range(0..wishes.len())];
    let mut new = new_workspace(owner, "work", if random.random_bool(0.8) { fitting } else { other });
    new.standby_ttl_seconds = ttls[random.random_range(0..ttls.len())];
    new.archive_ttl_seconds = ttls[random.random_range(0..ttls.len())];
    let Created::Created(made) = harness.create(new, Limits::NONE).await else { panic!("refused") };
    let busy = phase != Phase::Error && random.random_bool(0.1);
    let changed = seconds_before(made.created_at, random.random_range(-100..4000));
    harness
        .put(epoch, made.id, |status| {
            (status.phase, status.phase_changed_at) = (phase, changed);
            if busy {
                (status.operation, status.op_id) = (Operation::Stopping, Some(op_id()));
            }
        })
        .await;
    if random.random_bool(0.05) {
        harness.ask(made.id, Desired::Deleted).await;
    }
    made.id
}

pub(crate) async fn expiry_says_why(harness: &Harness) {
    let epoch = harness.leader().await;
    let running = resting(harness, epoch, Phase::Running, 0).await;
    let standby = resting(harness, epoch, Phase::Standby, 0).await;
    harness.pass(100_000).await;
    let expired = harness.store.ttl_expire(epoch, &POLICY).await.unwrap();
    let expected =
        [Expired { id: running, to: Desired::Standby }, Expired { id: standby, to: Desired::Archived }];
    assert_eq!(expired, expected);
    assert_eq!(harness.store.ttl_expire(epoch, &POLICY).await.unwrap(), [], "once");
    for (id, phase, reason) in [
        (running, Phase::Running, Reason::TtlStandby(600)),
        (standby, Phase::Standby, Reason::TtlArchive(1800)),
    ] {
        let line = &harness.store.workspace_history(id, None, 1).await.unwrap().items[0];
        assert_eq!((&line.reason, line.actor.as_str()), (&reason, "ttl"));
        assert_eq!((line.from, line.to), (phase, phase));
    }
}

pub(crate) async fn a_start_wins_over_the_ttl(harness: &Harness) {
    let epoch = harness.leader().await;
    let id = resting(harness, epoch, Phase::Running, 0).await;
    for round in 0..20 {
        harness.pass(100_000).await;
        let (expiring, asking) = (harness.store.clone(), harness.store.clone());
        let ttl = tokio::spawn(async move { expiring.ttl_expire(epoch, &POLICY).await.unwrap() });
        let user = tokio::spawn(async move {
            asking
                .workspace_ask(
                    by(),
                    id,
                    Desired::Running,
                    Limits::NONE,
                    Actor::Operator,
                    &Reason::StartRequested,
                )
                .await
                .unwrap()
        });
        let (expired, asked) = (ttl.await.unwrap(), user.await.unwrap());
        match asked {
            Asked::Already(_) => assert_eq!(expired, [], "round {round}"),
            Asked::Changed(_) => assert_eq!(expired.len(), 1, "round {round}"),
            other => panic!("{other:?}"),
        }
        assert_eq!(harness.get(id).await.desired, Desired::Running, "round {round}");
    }
}

pub(crate) async fn activity_wins_over_the_ttl(harness: &Harness) {
    let epoch = harness.leader().await;
    let store = &harness.store;
    let id = resting(harness, epoch, Phase::Running, 100_000).await;
    let now = store.now().await.unwrap();
    assert!(store.access_sync(epoch, &[(id, seconds_before(now, 60))]).await.unwrap());
    assert_eq!(store.ttl_expire(epoch, &POLICY).await.unwrap(), []);
    // Past the TTL, but not past what may not have been seen yet.
    harness.pass(600).await;
    assert_eq!(store.ttl_expire(epoch, &POLICY).await.unwrap(), []);
    // A wish that waits is never overwritten, and neither is an operation under way.
    harness.pass(600).await;
    harness
        .put(epoch, id, |status| (status.operation, status.op_id) = (Operation::Stopping, Some(op_id())))
        .await;
    assert_eq!(store.ttl_expire(epoch, &POLICY).await.unwrap(), []);
    harness
        .put(epoch, id, |status| (status.operation, status.phase) = (Operation::None, Phase::Standby))
        .await;
    harness.pass(100_000).await;
    assert_eq!(store.ttl_expire(epoch, &POLICY).await.unwrap(), []);
    assert_eq!(harness.get(id).await.desired, Desired::Running);
    harness.put(epoch, id, |status| status.phase = Phase::Running).await;
    assert_eq!(store.ttl_expire(epoch, &POLICY).await.unwrap().len(), 1);
}

pub(crate) async fn access_only_grows(harness: &Harness) {
    let (user, epoch) = (harness.user("ann").await, harness.leader().await);
    let made = harness.workspace(user.id, Desired::Running).await;
    let store = &harness.store;
    let mut changes = harness.changes().await;
    let plus =
        |micros: i64| Timestamp::from_microsecond(made.last_access_at.as_microsecond() + micros).unwrap();
    for (seen, expected) in [(-5, 0), (7, 7), (3, 7), (7, 7), (8, 8)] {
        assert!(store.access_sync(epoch, &[(made.id, plus(seen))]).await.unwrap());
        assert_eq!(harness.get(made.id).await.last_access_at, plus(expected));
    }
    let several =
        [(made.id, plus(20)), (made.id, plus(30)), (made.id, plus(10)), (super::workspace_id(), plus(1))];
    assert!(store.access_sync(epoch, &several).await.unwrap());
    let after = harness.get(made.id).await;
    assert_eq!((after.last_access_at, after.revision), (plus(30), made.revision));
    assert!(store.access_sync(epoch, &[]).await.unwrap());
    assert_eq!(harness.drain(&mut changes).await, []);
}

pub(crate) async fn next_is_the_earliest_expiry(harness: &Harness) {
    let mut random = StdRng::seed_from_u64(11);
    let (user, epoch) = (harness.user("ann").await, harness.leader().await);
    let store = &harness.store;
    assert_eq!(store.ttl_next(&POLICY).await.unwrap(), None);
    let mut rows = Vec::new();
    for _ in 0..25 {
        rows.push(random_row(harness, epoch, user.id, &mut random).await);
        let all = store.workspaces_get(&rows).await.unwrap();
        for policy in [
            POLICY,
            TtlPolicy { standby_seconds: 0, ..POLICY },
            TtlPolicy { archive_seconds: 0, ..POLICY },
            TtlPolicy { unseen_activity: Duration::MAX, ..POLICY },
        ] {
            let expected =
                all.iter().filter_map(|found| expiry(found, &policy)).map(|expiry| expiry.acts_at).min();
            let whole = |at: Timestamp| at.as_microsecond();
            assert_eq!(store.ttl_next(&policy).await.unwrap().map(whole), expected.map(whole));
        }
    }
}
