//! What replicas share: places, events, wakes, and whether they may.

use std::{
    process::Stdio,
    time::{Duration, Instant},
};

use futures::future::join_all;
use reqwest::StatusCode;
use serde_json::json;

use super::{Cluster, Events, edit};
use crate::support::Server;

#[tokio::test(flavor = "multi_thread")]
async fn fifty_at_once_over_three_replicas_get_exactly_the_places() {
    let Some(mut cluster) = Cluster::new(true).await else { return };
    for _ in 0..3 {
        let setup = cluster.setup(&cluster.url).env("LIMITS_MAX_RUNNING_PER_USER", "5");
        cluster.add_with(setup).await;
    }
    let mut ids = Vec::new();
    for n in 0..50 {
        let new = json!({ "name": format!("one of fifty {n}"), "desired_state": "STANDBY" });
        let (status, made) = cluster.servers[n % 3].post("/workspaces", new).await;
        assert_eq!(status, StatusCode::CREATED, "{made}");
        ids.push(made["id"].as_str().unwrap().to_owned());
    }
    for id in &ids {
        cluster.servers[0].until_arrived(id).await;
    }
    let starting = ids.iter().enumerate().map(|(n, id)| {
        let server = &cluster.servers[n % 3];
        async move { server.post(&format!("/workspaces/{id}/start"), json!({})).await.0 }
    });
    let answers = join_all(starting).await;
    let count = |status| answers.iter().filter(|answer| **answer == status).count();
    assert_eq!((count(StatusCode::ACCEPTED), count(StatusCode::TOO_MANY_REQUESTS)), (5, 45));

    // The places are taken: nobody creates one more, and a refused one leaves nothing.
    let creating = (0..6).map(|n| {
        let server = &cluster.servers[n % 3];
        async move { server.post("/workspaces", json!({ "name": "too many" })).await.0 }
    });
    assert!(join_all(creating).await.iter().all(|answer| *answer == StatusCode::TOO_MANY_REQUESTS));
    let list = cluster.servers[1].get("/workspaces?limit=100").await;
    assert_eq!(list["items"].as_array().unwrap().len(), 50);
}

/// A change on one replica is seen on the streams of every other.
#[tokio::test(flavor = "multi_thread")]
async fn what_happens_on_one_is_heard_on_all() {
    let Some(mut cluster) = Cluster::new(true).await else { return };
    for _ in 0..3 {
        cluster.add().await;
    }
    let (_, leader, _) = cluster.next_leader(0, Duration::from_secs(15)).await;
    let (asked, watched) = ((leader + 1) % 3, (leader + 2) % 3);
    let id = cluster.servers[asked].create(json!({ "name": "shared" })).await;
    let mut events = Events::of(&cluster.servers[watched]).await;
    events.until(&id, Duration::from_secs(5)).await;
    let mut worst = Duration::ZERO;
    for n in 0..20 {
        let memo = format!("memo number {n}.");
        edit(&cluster.servers[asked], &id, &memo).await;
        worst = worst.max(events.until(&memo, Duration::from_secs(3)).await);
    }
    println!("an edit on one replica is on the stream of another after {worst:?} at worst, of 20");
}

/// However many dashboards are open, a change is read once for all of them.
#[tokio::test(flavor = "multi_thread")]
async fn streams_of_one_person_share_their_reading() {
    let Some(mut cluster) = Cluster::new(true).await else { return };
    cluster.add().await;
    let server = &cluster.servers[0];
    let id = server.create(json!({ "name": "watched", "desired_state": "STANDBY" })).await;
    let mut open = Vec::new();
    for _ in 0..20 {
        let mut events = Events::of(server).await;
        events.until(&id, Duration::from_secs(5)).await;
        open.push(events);
    }
    let before = readings(server).await;
    for n in 0..5 {
        let memo = format!("memo number {n}.");
        edit(server, &id, &memo).await;
        for events in &mut open {
            events.until(&memo, Duration::from_secs(5)).await;
        }
    }
    // The controller may have looked at it meanwhile.
    let read = readings(server).await - before;
    assert!((5..=10).contains(&read), "{read} readings for 5 changes");
}

/// How often rows of workspaces were read by their ids.
async fn readings(server: &Server) -> u64 {
    let metrics = server.client.get(server.url("/metrics")).send().await.unwrap().text().await.unwrap();
    let count = "codehub_db_query_seconds_count{query=\"workspaces_get\"} ";
    metrics.lines().find_map(|line| line.strip_prefix(count)).map_or(0, |count| count.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn without_redis_there_is_one() {
    let Some(mut cluster) = Cluster::new(false).await else { return };
    cluster.add().await;
    cluster.servers[0].create(json!({ "name": "alone" })).await;
    let second = cluster.setup(&cluster.url);
    let started = Instant::now();
    let mut command = second.command(&["serve"]);
    command.stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("REDIS_URL") && said.contains("only one"), "{said}");
    assert!(started.elapsed() < Duration::from_secs(40));
    // The first one dies: its place is free at once.
    cluster.servers[0].kill();
    cluster.servers[0].restart().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn roles_divide_the_work() {
    let Some(mut cluster) = Cluster::new(true).await else { return };
    let api = cluster.setup(&cluster.url).env("CODEHUB_ROLE", "api");
    cluster.add_with(api).await;
    assert_eq!(cluster.leader().await.0, 0, "nobody leads");
    let (status, made) = cluster.servers[0].post("/workspaces", json!({ "name": "waits" })).await;
    assert_eq!(status, StatusCode::CREATED);
    let coordinator = cluster.setup(&cluster.url).env("CODEHUB_ROLE", "coordinator");
    cluster.add_with(coordinator).await;
    let id = made["id"].as_str().unwrap();
    cluster.servers[0].until_arrived(id).await;

    let path = format!("/w/{id}/");
    let (status, text) = asked(&cluster.servers[0], &path).await;
    assert_eq!(status, StatusCode::OK, "who answers proxies, too: {text}");
    for path in [&path, "/w/x", "/", "/login", "/setup", "/api/v1/workspaces", "/api/docs", "/nothing"] {
        let (status, text) = asked(&cluster.servers[1], path).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "a coordinator answers no one: {path}");
        assert!(text.contains("only coordinates") && text.contains("NOT_FOUND"), "{path}: {text}");
    }
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(asked(&cluster.servers[1], path).await.0, StatusCode::OK, "{path}");
    }
    let system = cluster.servers[0].get("/system").await;
    let roles: Vec<_> = system["replicas"].as_array().unwrap().iter().map(|it| it["role"].clone()).collect();
    assert_eq!(roles, [json!("api"), json!("coordinator")]);
    assert_eq!(system["replicas"][1]["leads"], true);
}

/// What the owner gets there.
async fn asked(server: &Server, path: &str) -> (StatusCode, String) {
    let answer = server.client.get(server.url(path)).bearer_auth(&server.token).send().await.unwrap();
    (answer.status(), answer.text().await.unwrap())
}
