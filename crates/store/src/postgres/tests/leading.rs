//! The lease: one holder, and what becomes of one that dies, freezes or is replaced.

use std::time::{Duration, Instant};

use codehub_domain::{Desired, Phase};

use super::{Database, server::with_workspace};
use crate::{
    Leadership as _, Renewed, Saved, Store as _,
    sql::{SqlStore as _, SqlWrite as _},
};
use codehub_testing::poll_every;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_leads_and_the_next_takes_over_when_it_goes() {
    let Some(database) = Database::create().await else { return };
    let (one, two) = (database.open().await, database.open().await);
    let (mut first, mut second) = (one.seat("one"), two.seat("two"));
    let mut lease = first.try_take().await.unwrap().expect("free");
    assert!(second.try_take().await.unwrap().is_none());
    assert_eq!(lease.renew().await.unwrap(), Renewed::Held);
    assert_eq!(two.leader_seen().await.unwrap().unwrap().holder, "one");
    let epoch = lease.epoch();
    // As a process that dies: the socket closes, and nobody says goodbye.
    drop(lease);
    let deadline = Instant::now() + Duration::from_secs(5);
    let next = loop {
        if let Some(lease) = second.try_take().await.unwrap() {
            break lease;
        }
        assert!(Instant::now() < deadline);
        poll_every(Duration::from_millis(50)).await;
    };
    assert_eq!(next.epoch().0, epoch.0 + 1);
    assert!(!one.epoch_is_current(epoch).await.unwrap());
}

/// The session of a frozen leader stays; its heartbeat does not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_leader_is_replaced_and_writes_nothing_when_it_wakes() {
    let Some(database) = Database::create().await else { return };
    let (one, two) = (database.open().await, database.open().await);
    let (mut first, mut second) = (one.seat("one"), two.seat("two"));
    let mut frozen = first.try_take().await.unwrap().unwrap();
    let made = with_workspace(&one, Desired::Standby).await;
    assert!(second.try_take().await.unwrap().is_none());
    one.age(Duration::from_secs(11)).await;
    assert!(second.try_take().await.unwrap().is_none(), "once may be chance");
    let lease = second.try_take().await.unwrap().expect("twice is not");
    // It wakes.
    let mut next = made.status.clone();
    next.phase = Phase::Standby;
    let saved = one.workspace_save(frozen.epoch(), &made, &next, &[]).await.unwrap();
    assert_eq!(saved, Saved::Fenced);
    frozen.renew().await.unwrap_err();
    assert!(two.epoch_is_current(lease.epoch()).await.unwrap());
}

/// A leader that is only slow to begin is left alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_beats_is_left_alone() {
    let Some(database) = Database::create().await else { return };
    let (one, two) = (database.open().await, database.open().await);
    let (mut first, mut second) = (one.seat("one"), two.seat("two"));
    let mut lease = first.try_take().await.unwrap().unwrap();
    for _ in 0..4 {
        one.age(Duration::from_secs(11)).await;
        assert!(second.try_take().await.unwrap().is_none());
        assert_eq!(lease.renew().await.unwrap(), Renewed::Held);
        assert!(second.try_take().await.unwrap().is_none());
    }
}

/// Frozen in the middle of a write, which holds the epoch: the server ends that transaction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_never_ends_does_not_keep_the_lead() {
    let Some(database) = Database::create().await else { return };
    let (one, two) = (database.open().await, database.open().await);
    let epoch = one.epoch_take("one").await.unwrap();
    let mut stuck = one.write().await.unwrap();
    assert!(stuck.leads(epoch).await.unwrap());
    let started = Instant::now();
    let lease = two.seat("two").try_take().await.unwrap().expect("after the timeout");
    assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
    assert_eq!(lease.epoch().0, epoch.0 + 1);
    stuck.commit().await.unwrap_err();
}
