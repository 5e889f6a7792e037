//! PostgreSQL and Redis go away and come back while people work.

use std::time::{Duration, Instant};

use codehub_testing::{eventually, let_time_pass, poll_every};
use reqwest::{Client, StatusCode};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{
    Cluster, Events, edit,
    servers::{OwnPostgres, OwnRedis},
    traffic::{Echo, Load},
};
use crate::support::{ADMIN, PASSWORD, Server};

/// Errors end this soon after the database is back.
const RECOVERED: Duration = Duration::from_secs(5);
/// A dashboard is whole this soon after its way back.
const WHOLE: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread")]
async fn postgresql_may_restart_under_load() {
    let Some(postgres) = OwnPostgres::start() else { return };
    let Some(redis) = codehub_testing::service("CODEHUB_TEST_REDIS", "no Redis") else { return };
    let mut cluster = Cluster::on(&postgres.url("postgres"), Some(redis)).await;
    for _ in 0..3 {
        cluster.add().await;
    }
    cluster.next_leader(0, Duration::from_secs(15)).await;
    let mut used = Vec::new();
    for server in &cluster.servers {
        used.push(server.create(json!({ "name": "used" })).await);
    }
    let starting = cluster.servers[1].create(json!({ "name": "started", "desired_state": "STANDBY" })).await;
    let mut programs = cluster.servers[0].programs();
    let typing = Echo::open(&cluster.servers[1], &used[0]).await.keep_asking();
    let mut events = Events::of(&cluster.servers[2]).await;
    events.until(&used[0], WHOLE).await;
    let loads: Vec<Load> =
        cluster.servers.iter().zip(&used).map(|(server, id)| Load::on(server, id)).collect();
    eventually("everybody works", async || loads.iter().all(|load| load.so_far().answered > 20)).await;

    // One operation has just begun, and every replica has just acknowledged something.
    let (status, _) = cluster.servers[2].post(&format!("/workspaces/{starting}/start"), json!({})).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    postgres.stop();
    let_time_pass(Duration::from_secs(4)).await;
    assert!(!typing.is_finished(), "the WebSocket lives without a database");
    postgres.start_again();
    let back = Instant::now();
    let_time_pass(RECOVERED + Duration::from_secs(5)).await;

    assert!(!typing.is_finished(), "the WebSocket lives on");
    typing.abort();
    let server = &cluster.servers[1];
    for (load, id) in loads.into_iter().zip(&used) {
        let seen = load.stop();
        let late: Vec<_> = seen.failed_at.iter().filter(|(at, _)| *at > back + RECOVERED).collect();
        assert!(late.is_empty(), "still failing {RECOVERED:?} after its return: {late:?}");
        assert!(!seen.failed_at.is_empty(), "an outage was met");
        // The last write may have been under way when we stopped.
        let (memo, written) = (server.workspace(id).await["memo"].clone(), seen.written.unwrap());
        let fits = [written, written + 1].map(|n| json!(format!("number {n}")));
        assert!(fits.contains(&memo), "what was acknowledged is there: {memo}, {written}");
        println!("{} requests were answered around the restart, {} not", seen.answered, seen.failed_at.len());
    }

    // The operation that had begun was done once, and nothing else was.
    server.until_arrived(&starting).await;
    let after = cluster.servers[0].programs();
    programs.retain(|pid| after.contains(pid));
    assert_eq!((programs.len(), after.len()), (3, 4), "three were left alone, one was started");
    let history = server.get(&format!("/workspaces/{starting}/history?limit=50")).await;
    let items = history["items"].as_array().unwrap();
    let starts = items.iter().filter(|item| item["to"] == "RUNNING" && item["from"] != "RUNNING").count();
    assert_eq!(starts, 1, "{history:#}");
    // The stream was open all the time, and is whole.
    edit(server, &used[2], "after the restart").await;
    println!("an edit is on the stream after {:?}", events.until("after the restart", WHOLE).await);
}

/// Activity is flushed and TTLs are looked at every second here, and a TTL is four seconds: the pause is
/// fifteen TTLs long.
const TTL: u64 = 4;
const PAUSE: Duration = Duration::from_secs(60);
/// A Redis that forgot is believed after a flush and ten seconds.
const SETTLED: Duration = Duration::from_secs(11);

#[tokio::test(flavor = "multi_thread")]
async fn redis_may_be_flushed_killed_and_frozen() {
    let Some(postgres) = codehub_testing::service("CODEHUB_TEST_POSTGRES", "no PostgreSQL") else { return };
    let Some(mut redis) = OwnRedis::start().await else { return };
    let mut cluster = Cluster::on(&postgres, Some(redis.url())).await;
    for _ in 0..2 {
        let setup = cluster.setup(&cluster.url);
        let setup = setup
            .env("TTL_STANDBY_SECONDS", &TTL.to_string())
            .env("COORDINATOR_TTL_INTERVAL", "1s")
            .env("ACTIVITY_FLUSH_INTERVAL", "1s");
        cluster.add_with(setup).await;
    }
    let (_, leader, _) = cluster.next_leader(0, Duration::from_secs(15)).await;
    let (leader, other) = (&cluster.servers[leader], &cluster.servers[1 - leader]);
    let used = other.create(json!({ "name": "used", "standby_ttl_seconds": TTL })).await;
    let now_and_then = other.create(json!({ "name": "now and then", "standby_ttl_seconds": 3600 })).await;
    // Somebody works there all the time, through the replica that does not lead.
    let work = Load::on(other, &used);
    let mut events = Events::of(other).await;
    events.until(&now_and_then, WHOLE).await;

    redis.command(&["FLUSHALL"]);
    let_time_pass(SETTLED + Duration::from_secs(TTL)).await;
    heard_within(WHOLE, leader, &mut events, &now_and_then, "flushed").await;
    still_runs(other, &used, "flushed").await;

    redis.kill();
    let_time_pass(Duration::from_secs(1)).await;
    // Not even the other replica's streams wait for it: they hear the database themselves.
    heard_within(WHOLE, leader, &mut events, &now_and_then, "gone").await;
    let_time_pass(Duration::from_secs(2 * TTL)).await;
    still_runs(other, &used, "gone").await;
    redis.start_again().await;
    heard_within(WHOLE, leader, &mut events, &now_and_then, "back").await;
    let_time_pass(SETTLED + Duration::from_secs(TTL)).await;
    still_runs(other, &used, "back").await;

    let before = other.workspace(&now_and_then).await["last_access_at"].clone();
    redis.signal(Signal::STOP);
    edit(leader, &now_and_then, "while it was frozen").await;
    let visit = other.client.get(other.url(&format!("/w/{now_and_then}/pid"))).bearer_auth(&other.token);
    assert_eq!(visit.send().await.unwrap().status(), StatusCode::OK, "serving goes on");
    let_time_pass(PAUSE).await;
    still_runs(other, &used, "frozen").await;
    redis.signal(Signal::CONT);
    let thawed = Instant::now();
    events.until("while it was frozen", WHOLE).await;
    heard_within(WHOLE, leader, &mut events, &now_and_then, "thawed").await;
    assert!(thawed.elapsed() < WHOLE, "{:?}", thawed.elapsed());
    let_time_pass(SETTLED).await;
    still_runs(other, &used, "thawed").await;
    other
        .until(&now_and_then, "activity of the pause is not lost", |it| it["last_access_at"] != before)
        .await;

    // And TTLs do work: nobody comes any more.
    assert!(work.stop().answered > 100);
    other.until_phase(&used, "STANDBY").await;
}

/// An edit on one replica is on the stream of another.
async fn heard_within(limit: Duration, server: &Server, events: &mut Events, id: &str, what: &str) {
    let memo = format!("edited: {what}");
    edit(server, id, &memo).await;
    println!("{what}: an edit is on the other replica's stream after {:?}", events.until(&memo, limit).await);
}

/// Nobody has even thought of stopping it.
async fn still_runs(server: &Server, id: &str, when: &str) {
    let history = server.get(&format!("/workspaces/{id}/history?limit=50")).await;
    let by_ttl = |item: &Value| item["actor"] == "ttl";
    assert!(!history["items"].as_array().unwrap().iter().any(by_ttl), "{when}: {history:#}");
    assert_eq!(server.workspace(id).await["desired_state"], "RUNNING", "{when}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_waits_for_a_database_that_comes_later() {
    let Some(postgres) = OwnPostgres::start() else { return };
    let cluster = Cluster::on(&postgres.url("postgres"), None).await;
    postgres.stop();
    let setup = cluster.setup(&cluster.url);
    let mut server = Server { child: setup.spawn(), setup, client: Client::new(), token: String::new() };
    let deadline = Instant::now() + Duration::from_secs(20);
    let waiting = loop {
        assert!(Instant::now() < deadline, "it says that it waits");
        poll_every(Duration::from_millis(50)).await;
        let Ok(answer) = server.client.get(server.url("/readyz")).send().await else { continue };
        assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
        break answer.json::<Value>().await.unwrap();
    };
    assert_eq!((&waiting["ready"], &waiting["dependencies"]["store"]["ok"]), (&json!(false), &json!(false)));
    let alive = server.client.get(server.url("/healthz")).send().await.unwrap();
    assert_eq!(alive.status(), StatusCode::OK);

    postgres.start_again();
    server.until_ready().await;
    server.sign_in(ADMIN, PASSWORD).await;
}
