//! The leader dies, freezes, loses its session, is cut off: another one reconciles, and the old one
//! changes nothing any more.

use std::time::Duration;

use rustix::process::Signal;
use sqlx::Row;

use super::{Cluster, Wire, reconciles};

const QUICK: Duration = Duration::from_secs(5);
const SLOW: Duration = Duration::from_secs(15);

#[tokio::test(flavor = "multi_thread")]
async fn another_one_leads_whatever_happens_to_the_leader() {
    let Some(mut cluster) = Cluster::new(true).await else { return };
    for _ in 0..3 {
        cluster.add().await;
    }
    let (epoch, who, _) = cluster.next_leader(0, SLOW).await;
    reconciles(&cluster.servers[who], "first").await;

    // Frozen: its session stays, its heartbeat does not.
    cluster.signal(who, Signal::STOP);
    let (epoch, next, took) = cluster.next_leader(epoch, SLOW).await;
    println!("SIGSTOP: another leads after {took:?}");
    assert_ne!(who, next);
    reconciles(&cluster.servers[next], "while one is frozen").await;
    let before = writes(&cluster).await;
    cluster.signal(who, Signal::CONT);
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(writes(&cluster).await, before, "the one that woke wrote nothing");
    assert_eq!(cluster.leader().await, (epoch, Some(next)), "and does not lead");

    // Its session is ended by somebody.
    let mut database = cluster.database().await;
    let ended: i64 = sqlx::query_scalar(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_locks
         WHERE locktype = 'advisory' AND objid = 3 AND objsubid = 2 AND granted
           AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
    )
    .fetch_one(&mut database)
    .await
    .unwrap();
    assert_eq!(ended, 1, "one session leads");
    let (epoch, who, took) = cluster.next_leader(epoch, QUICK).await;
    println!("pg_terminate_backend: somebody leads again after {took:?}");
    reconciles(&cluster.servers[who], "after a lost session").await;

    // Killed.
    cluster.servers[who].kill();
    let (_, next, took) = cluster.next_leader(epoch, QUICK).await;
    println!("kill -9: another leads after {took:?}");
    assert_ne!(who, next);
    let took = reconciles(&cluster.servers[next], "after a death").await;
    println!("and a new workspace runs {took:?} after it was asked for");
    let system = cluster.servers[next].get("/system").await;
    assert_eq!(system["leader"]["replica"].as_str().map(pid), Some(cluster.servers[next].child.id()));
    assert!(system["leader"]["since"].is_string() && system["replicas"].as_array().unwrap().len() >= 2);
}

fn pid(replica: &str) -> u32 {
    replica.rsplit_once(':').unwrap().1.parse().unwrap()
}

/// Everything the coordinator writes about workspaces.
async fn writes(cluster: &Cluster) -> (i64, i64) {
    let mut database = cluster.database().await;
    let row = sqlx::query(
        "SELECT (SELECT coalesce(sum(revision), 0)::BIGINT FROM workspaces) AS revisions,
                (SELECT count(*) FROM workspace_events) AS events",
    )
    .fetch_one(&mut database)
    .await
    .unwrap();
    (row.get("revisions"), row.get("events"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_cut_off_is_replaced() {
    let Some(mut cluster) = Cluster::new(true).await else { return };
    let wire = Wire::to(&cluster.url).await;
    let setup = cluster.setup(&wire.url);
    cluster.add_with(setup).await;
    let (epoch, who, _) = cluster.next_leader(0, SLOW).await;
    assert_eq!(who, 0);
    cluster.add().await;
    wire.cut();
    let (_, next, took) = cluster.next_leader(epoch, SLOW).await;
    println!("cut off: another leads after {took:?}");
    assert_eq!(next, 1);
    reconciles(&cluster.servers[1], "beyond the cut").await;
}
