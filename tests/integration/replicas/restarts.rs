//! Replicas are replaced one by one, as in an upgrade.

use std::time::Duration;

use reqwest::StatusCode;
use rustix::process::Signal;
use serde_json::json;
use tokio_tungstenite::tungstenite::{Message, protocol::frame::coding::CloseCode};

use super::{Cluster, Events, edit, traffic::Echo};
use crate::support::{ADMIN, PASSWORD, Server};

/// A browser's session, not a token.
async fn sign_in(server: &Server) -> String {
    let body = json!({ "username": ADMIN, "password": PASSWORD });
    let answer = server.client.post(server.url("/api/v1/auth/login")).json(&body).send().await.unwrap();
    answer.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned()
}

async fn signed_in(server: &Server, cookie: &str) -> bool {
    let ask = server.client.get(server.url("/api/v1/auth/session")).header("cookie", cookie);
    ask.send().await.unwrap().status() == StatusCode::OK
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_are_replaced_one_by_one() {
    let Some(mut cluster) = Cluster::new(true).await else { return };
    for _ in 0..3 {
        cluster.add().await;
    }
    let id = cluster.servers[0].create(json!({ "name": "survivor" })).await;
    let pid = cluster.servers[0].inside(&id, "/pid").await.unwrap();
    let cookie = sign_in(&cluster.servers[0]).await;
    for who in 0..3 {
        let elsewhere = (who + 1) % 3;
        let mut echo = Echo::open(&cluster.servers[who], &id).await;
        echo.ask("before").await;
        let mut events = Events::of(&cluster.servers[who]).await;
        events.until(&id, Duration::from_secs(5)).await;

        cluster.signal(who, Signal::TERM);
        let goodbye = tokio::time::timeout(Duration::from_secs(5), echo.next()).await.expect("told in time");
        let Message::Close(Some(frame)) = goodbye else { panic!("{goodbye:?}") };
        assert_eq!(frame.code, CloseCode::Away, "1001: come again");
        events.ends(Duration::from_secs(5)).await;

        // The browser comes again, and the balancer sends it elsewhere.
        let server = &cluster.servers[elsewhere];
        let mut echo = Echo::open(server, &id).await;
        echo.ask("after").await;
        let mut events = Events::of(server).await;
        events.until(&id, Duration::from_secs(5)).await;
        assert!(signed_in(server, &cookie).await, "sessions stay");

        let status = tokio::task::block_in_place(|| cluster.servers[who].child.wait()).unwrap();
        assert!(status.success(), "{status}");
        cluster.servers[who].restart().await;
        assert!(signed_in(&cluster.servers[who], &cookie).await);
        // Whoever leads now, changes are heard by those who stayed.
        let memo = format!("replaced {who}");
        edit(&cluster.servers[who], &id, &memo).await;
        events.until(&memo, Duration::from_secs(5)).await;
    }
    assert_eq!(cluster.servers[0].inside(&id, "/pid").await.unwrap(), pid, "its program never noticed");
    let replicas = cluster.servers[0].get("/system").await["replicas"].clone();
    let pids: Vec<String> = cluster.servers.iter().map(|server| format!(":{}", server.child.id())).collect();
    let names: Vec<&str> =
        replicas.as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 3, "those that left are not shown: {names:?}");
    assert!(pids.iter().all(|pid| names.iter().any(|name| name.ends_with(pid))), "{names:?}");
}
