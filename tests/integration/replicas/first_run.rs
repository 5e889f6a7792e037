//! Several servers on an empty database: whichever log a person looks into, the link there works.

use std::{
    fs,
    time::{Duration, Instant},
};

use codehub_testing::poll_every;
use reqwest::{Client, StatusCode};
use rustix::process::Signal;
use serde_json::json;

use super::Cluster;
use crate::support::{PASSWORD, Server, Setup};

/// The token of the link in this server's log; it must be the only one.
fn printed(server: &Server) -> Option<String> {
    let log = fs::read_to_string(server.setup.log_file()).unwrap();
    let mut links = log.split("/setup?token=").skip(1);
    let link = links.next()?;
    assert_eq!(links.next(), None, "one link each");
    Some(link.split_whitespace().next().unwrap().to_owned())
}

async fn set_up(server: &Server, token: &str, password: &str) -> StatusCode {
    let body = json!({ "token": token, "username": "root", "password": password });
    server.client.post(server.url("/api/v1/setup")).json(&body).send().await.unwrap().status()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_link_works_until_the_first_is_used() {
    let Some(mut cluster) = Cluster::new(true).await else { return };
    let fresh = |cluster: &Cluster, role: &str| -> Setup {
        let setup = cluster.setup(&cluster.url).env("CODEHUB_ROLE", role);
        setup.without("CODEHUB_ADMIN_USERNAME").without("CODEHUB_ADMIN_PASSWORD")
    };
    // All at once, on a database that does not even have its tables.
    for role in ["all", "api", "all", "coordinator"] {
        let setup = fresh(&cluster, role);
        let child = setup.spawn();
        cluster.servers.push(Server { setup, child, client: Client::new(), token: String::new() });
    }
    for server in &mut cluster.servers {
        server.until_ready().await;
    }
    let servers = &cluster.servers;
    let tokens: Vec<Option<String>> = servers.iter().map(printed).collect();
    assert_eq!(tokens[3], None, "nobody could open it at a coordinator");
    let tokens: Vec<String> = tokens.into_iter().flatten().collect();
    assert_eq!(tokens.len(), 3);
    for server in &servers[..3] {
        assert_eq!(set_up(server, "guessed", PASSWORD).await, StatusCode::FORBIDDEN);
        for token in &tokens {
            let answer = set_up(server, token, "short").await;
            assert_eq!(answer, StatusCode::BAD_REQUEST, "the link is right, the password is not");
        }
    }

    // Whoever ends takes its link along.
    cluster.signal(1, Signal::TERM);
    let deadline = Instant::now() + Duration::from_secs(20);
    while cluster.servers[1].child.try_wait().unwrap().is_none() {
        assert!(Instant::now() < deadline, "it ends");
        poll_every(Duration::from_millis(50)).await;
    }
    let servers = &cluster.servers;
    assert_eq!(set_up(&servers[0], &tokens[1], PASSWORD).await, StatusCode::FORBIDDEN);

    assert_eq!(set_up(&servers[0], &tokens[2], PASSWORD).await, StatusCode::CREATED, "anybody's, anywhere");
    for token in &tokens {
        assert_eq!(set_up(&servers[2], token, PASSWORD).await, StatusCode::CONFLICT);
    }
}
