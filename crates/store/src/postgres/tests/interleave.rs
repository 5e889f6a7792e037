//! A TTL that runs out against somebody who comes back, ten thousand times: the person always wins, and
//! no wake is overwritten.

use crate::fake::by;
use std::{
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::Duration,
};

use codehub_domain::{
    Desired, Epoch, Phase, Timestamp, WorkspaceId,
    event::{Actor, Reason},
    limits::Limits,
    ttl::TtlPolicy,
};
use codehub_testing::let_time_pass;
use futures::{StreamExt, stream};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::{Database, PostgresStore, server::with_workspace};
use crate::{Asked, Clock as _, Leadership as _, Reconciling as _, Store, Workspaces as _};

const INTERLEAVINGS: usize = 10_000;
const AT_ONCE: usize = 8;
const POLICY: TtlPolicy =
    TtlPolicy { standby_seconds: 600, archive_seconds: 0, unseen_activity: Duration::from_secs(90) };

/// Running, and idle for so long that the next tick would stop it.
async fn idle(store: &PostgresStore, id: WorkspaceId) {
    sqlx::query(
        "UPDATE workspaces SET phase = 'RUNNING', desired_state = 'RUNNING', operation = 'NONE',
             last_access_at = codehub_now() - 7200000000, phase_changed_at = codehub_now() - 7200000000
         WHERE id = $1",
    )
    .bind(id.as_uuid())
    .execute(&store.pool)
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_user_always_wins() {
    let Some(database) = Database::create().await else { return };
    let store = database.open().await;
    let epoch = store.epoch_take("test").await.unwrap();
    let mut ids = Vec::new();
    for _ in 0..AT_ONCE {
        ids.push(with_workspace(&store, Desired::Running).await.id);
    }
    let stopped_first = AtomicUsize::new(0);
    let lanes = ids.iter().enumerate().map(|(lane, id)| {
        let (store, stopped_first) = (&store, &stopped_first);
        async move {
            let mut random = StdRng::seed_from_u64(lane as u64);
            for round in 0..INTERLEAVINGS / AT_ONCE {
                if one(store, epoch, *id, &mut random, round).await {
                    stopped_first.fetch_add(1, Relaxed);
                }
            }
        }
    });
    stream::iter(lanes).buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
    let first = stopped_first.load(Relaxed);
    println!("{INTERLEAVINGS} interleavings: the TTL came first in {first}, the person in the rest");
    assert!(first > INTERLEAVINGS / 100 && first < INTERLEAVINGS * 99 / 100, "both orders were met: {first}");
}

/// One race; whether the TTL came first.
async fn one(
    store: &PostgresStore,
    epoch: Epoch,
    id: WorkspaceId,
    random: &mut StdRng,
    round: usize,
) -> bool {
    idle(store, id).await;
    let (wait_ttl, wait_user) = (random.random_range(0..4), random.random_range(0..4));
    let ttl = async {
        let_time_pass(Duration::from_millis(wait_ttl)).await;
        store.ttl_expire(epoch, &POLICY).await.unwrap();
    };
    let starts = round.is_multiple_of(2);
    let user = async {
        let_time_pass(Duration::from_millis(wait_user)).await;
        if starts {
            let asked = store
                .workspace_ask(
                    by(),
                    id,
                    Desired::Running,
                    Limits::NONE,
                    Actor::Operator,
                    &Reason::StartRequested,
                )
                .await
                .unwrap();
            match asked {
                Asked::Already(_) => false,
                Asked::Changed(_) => true,
                other => panic!("{other:?}"),
            }
        } else {
            let seen: Timestamp = store.now().await.unwrap();
            assert!(store.access_sync(epoch, &[(id, seen)]).await.unwrap());
            // Acknowledged activity is never stopped afterwards; what was stopped before it stays stopped.
            store.workspace_get(id).await.unwrap().unwrap().desired != Desired::Running
        }
    };
    let ((), ttl_first) = tokio::join!(ttl, user);
    // Whatever is still to come from another lane's tick sees the activity, too.
    store.ttl_expire(epoch, &POLICY).await.unwrap();
    let after = store.workspace_get(id).await.unwrap().unwrap();
    assert_eq!(after.status.phase, Phase::Running, "a TTL writes wishes, never phases");
    let wanted = if starts || !ttl_first { Desired::Running } else { Desired::Standby };
    assert_eq!(after.desired, wanted, "{id}, round {round}");
    ttl_first
}
