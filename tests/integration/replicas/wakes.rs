//! How a wish on one replica reaches the leader: through the database's notifications and Redis, without
//! Redis, and without either.

use std::time::Duration;

use codehub_domain::Timestamp;
use serde_json::{Value, json};

use super::{Cluster, servers::OwnRedis};

/// The time from the last wish in the history (newest first) to what the controller did next.
fn reaction(items: &[Value]) -> Duration {
    let at = |item: &Value| item["at"].as_str().unwrap().parse::<Timestamp>().unwrap();
    let wish = items
        .iter()
        .position(|item| item["actor"].as_str().unwrap().starts_with("user"))
        .unwrap_or_else(|| panic!("a wish in {items:#?}"));
    Duration::try_from(at(&items[wish - 1]).duration_since(at(&items[wish]))).unwrap()
}

/// From the wish on a replica to the leader's first step, several times, sorted.
async fn reactions(cluster: &Cluster, asked: usize, id: &str) -> Vec<Duration> {
    let mut waits = Vec::new();
    for verb in ["stop", "start", "stop", "start", "stop", "start"] {
        cluster.servers[asked].go(id, verb).await;
        let history = cluster.servers[asked].get(&format!("/workspaces/{id}/history?limit=50")).await;
        waits.push(reaction(history["items"].as_array().unwrap()));
    }
    waits.sort();
    waits
}

#[tokio::test(flavor = "multi_thread")]
async fn the_leader_is_woken_with_and_without_redis() {
    let Some(postgres) = codehub_testing::service("CODEHUB_TEST_POSTGRES", "no PostgreSQL") else { return };
    let Some(mut redis) = OwnRedis::start().await else { return };
    let mut cluster = Cluster::on(&postgres, Some(redis.url())).await;
    for _ in 0..2 {
        // Whatever happens sooner was not found by looking now and then.
        let setup = cluster.setup(&cluster.url).env("COORDINATOR_IDLE_INTERVAL", "60s");
        let setup = setup.env("COORDINATOR_ACTIVE_INTERVAL", "30s");
        cluster.add_with(setup).await;
    }
    let (_, leader, _) = cluster.next_leader(0, Duration::from_secs(15)).await;
    let asked = 1 - leader;
    let id = cluster.servers[asked].create(json!({ "name": "woken" })).await;
    for with_redis in [true, false] {
        if !with_redis {
            redis.kill();
        }
        let waits = reactions(&cluster, asked, &id).await;
        println!("with Redis: {with_redis}; from the wish to the leader's first step: {waits:?}");
        assert!(waits[waits.len() / 2] < Duration::from_secs(10), "woken, not found: {waits:?}");
    }
}

/// A wish that nobody was told of: as if every notification had been lost.
#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_was_told_of_is_found_by_looking() {
    let Some(mut cluster) = Cluster::new(true).await else { return };
    let setup = cluster.setup(&cluster.url).env("COORDINATOR_IDLE_INTERVAL", "2s");
    cluster.add_with(setup).await;
    let id = cluster.servers[0].create(json!({ "name": "found" })).await;
    let mut database = cluster.database().await;
    for statement in [
        "SET session_replication_role = replica",
        "UPDATE workspaces SET desired_state = 'STANDBY', revision = revision + 1",
    ] {
        sqlx::query(statement).execute(&mut database).await.unwrap();
    }
    cluster.servers[0].until_phase(&id, "STANDBY").await;
}
