//! The leader dies, freezes, loses its session, is cut off: another one reconciles, and the old one
//! changes nothing any more.

use std::{fs::File, io::Read as _, path::PathBuf, time::Duration};

use codehub_testing::{eventually, let_time_pass};
use rustix::process::Signal;
use serde_json::json;
use sqlx::Row;

use super::{Cluster, Wire, reconciles};

const QUICK: Duration = Duration::from_secs(5);
const SLOW: Duration = Duration::from_secs(15);

#[tokio::test(flavor = "multi_thread")]
async fn another_one_leads_whatever_happens_to_the_leader() {
    let Some(mut cluster) = Cluster::new(true).await else { return };
    for who in 0..3 {
        let setup = cluster.setup(&named(&cluster, who).await);
        cluster.add_with(setup).await;
    }
    watch_writers(&cluster).await;
    let (epoch, who, _) = cluster.next_leader(0, SLOW).await;
    reconciles(&cluster.servers[who], "first").await;

    // Frozen in the middle of things: its session stays, its heartbeat does not.
    let server = &cluster.servers[(who + 1) % 3];
    let mut busy = Vec::new();
    for verb in ["archive", "start"] {
        let id = server.create(json!({ "name": verb })).await;
        // Does not compress: packing and unpacking it takes a while.
        let mut noise = File::open("/dev/urandom").unwrap().take(64 * 1024 * 1024);
        let mut file = File::create(cluster.servers[0].home(&id).join("noise")).unwrap();
        std::io::copy(&mut noise, &mut file).unwrap();
        if verb == "start" {
            server.go(&id, "archive").await;
        }
        busy.push((id, verb));
    }
    for (id, verb) in &busy {
        server.post(&format!("/workspaces/{id}/{verb}"), json!({})).await;
    }
    eventually("both are moving bytes", async || {
        for (id, verb) in &busy {
            let moving = if *verb == "archive" { "ARCHIVING" } else { "RESTORING" };
            if server.workspace(id).await["operation"] != moving {
                return false;
            }
        }
        true
    })
    .await;
    cluster.signal(who, Signal::STOP);
    for (id, verb) in &busy {
        let row = cluster.servers[(who + 1) % 3].workspace(id).await;
        println!("frozen in the middle of {verb}: {}", row["operation"]);
        assert_ne!(row["operation"], "NONE", "{verb} has begun and is not done");
    }
    let (epoch, next, took) = cluster.next_leader(epoch, SLOW).await;
    println!("SIGSTOP: another leads after {took:?}");
    assert_ne!(who, next);
    reconciles(&cluster.servers[next], "while one is frozen").await;
    // What the frozen one had begun is finished, and then people want something else.
    let server = &cluster.servers[next];
    for (id, verb) in &busy {
        server.until_arrived(id).await;
        if *verb != "start" {
            server.go(id, "start").await;
        }
        // By the first one: its data directory is everybody's.
        cluster.servers[0].inside(id, "/write?kept=yes").await.expect("it runs");
    }
    let before = (writes(&cluster).await, there_is(&cluster));
    cluster.signal(who, Signal::CONT);
    let_time_pass(Duration::from_secs(5)).await;
    assert_eq!(writes(&cluster).await, before.0, "the one that woke wrote nothing");
    assert_eq!(there_is(&cluster), before.1, "and stopped and deleted nothing");
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
    only_leaders_wrote(&cluster).await;
}

/// The database's address under a role of that replica's own, so that the database knows who writes.
async fn named(cluster: &Cluster, who: usize) -> String {
    let mut database = cluster.database().await;
    // Roles are the server's, not the database's.
    let role = format!("{}_{who}", cluster.url.rsplit_once('/').unwrap().1);
    let create = format!("CREATE ROLE {role} SUPERUSER LOGIN");
    sqlx::query(sqlx::AssertSqlSafe(create)).execute(&mut database).await.unwrap();
    let (_, rest) = cluster.url.split_once('@').unwrap();
    format!("postgres://{role}@{rest}")
}

/// From now on the database notes which role wrote what the controller does, and who led then.
async fn watch_writers(cluster: &Cluster) {
    let mut database = cluster.database().await;
    for statement in [
        "CREATE TABLE writers (role TEXT NOT NULL, epoch BIGINT NOT NULL, holder TEXT NOT NULL)",
        "CREATE FUNCTION note_writer() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             INSERT INTO writers SELECT session_user, epoch, holder FROM leader;
             RETURN NULL;
         END $$",
        "CREATE TRIGGER note_writer AFTER INSERT ON workspace_events
             FOR EACH ROW WHEN (NEW.actor = 'controller') EXECUTE FUNCTION note_writer()",
    ] {
        sqlx::query(statement).execute(&mut database).await.unwrap();
    }
}

/// Every write that succeeded was the leader's of that moment, and no epoch had two writers.
async fn only_leaders_wrote(cluster: &Cluster) {
    let mut database = cluster.database().await;
    let rows = sqlx::query("SELECT DISTINCT role, epoch, holder FROM writers ORDER BY epoch")
        .fetch_all(&mut database)
        .await
        .unwrap();
    let mut epochs = Vec::new();
    for row in rows {
        let (role, holder): (String, String) = (row.get("role"), row.get("holder"));
        let who: usize = role.rsplit_once('_').unwrap().1.parse().unwrap();
        assert_eq!(pid(&holder), cluster.servers[who].child.id(), "{role} wrote while {holder} led");
        epochs.push(row.get::<i64, _>("epoch"));
    }
    println!("epochs that wrote: {epochs:?}");
    assert!(epochs.len() >= 3 && epochs.is_sorted_by(|a, b| a < b), "one writer each: {epochs:?}");
}

/// What exists outside the database: programs and homes.
fn there_is(cluster: &Cluster) -> (Vec<i32>, Vec<PathBuf>) {
    let server = &cluster.servers[0];
    let mut programs = server.programs();
    programs.sort_unstable();
    let mut files = server.files_below("homes/users");
    files.extend(server.files_below("archives"));
    (programs, files)
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
