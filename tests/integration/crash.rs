//! `kill -9` at any moment of any operation: the next process finishes it, the home is whole, a
//! running program keeps its process and port, and there is never a second one.

use std::time::Duration;

use codehub_testing::{eventually, let_time_pass, poll_every};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use reqwest::StatusCode;
use serde_json::json;

use crate::support::{Server, Setup};

/// Everything that was acknowledged is in the home.
async fn check_home(server: &Server, id: &str, written: &[String]) {
    let content = server.inside(id, "/read?log").await.unwrap_or_default();
    let lines: Vec<&str> = content.lines().collect();
    assert_eq!(lines, written, "what was acknowledged is what is there");
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_random_moments_of_every_operation() {
    let seed: u64 =
        std::env::var("CRASH_SEED").ok().and_then(|it| it.parse().ok()).unwrap_or_else(rand::random);
    println!("CRASH_SEED={seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let mut server = Setup::new().start().await;
    let id = server.create(json!({ "name": "survivor" })).await;
    let mut written = Vec::new();
    for round in 0..24 {
        if server.workspace(&id).await["phase"] == "RUNNING" {
            let line = format!("round-{round}");
            assert_eq!(server.inside(&id, &format!("/write?log={line}")).await.as_deref(), Some("ok"));
            written.push(line);
        }
        let verb = ["start", "stop", "archive", "start"][round % 4];
        let (status, body) = server.post(&format!("/workspaces/{id}/{verb}"), json!({})).await;
        assert_eq!(status, StatusCode::ACCEPTED, "{verb}: {body}");
        let_time_pass(Duration::from_micros(rng.random_range(0..250_000))).await;
        server.kill();
        assert!(server.programs().len() <= 1, "never a second process");
        server.restart().await;
        let workspace = server.until_arrived(&id).await;
        assert_eq!(workspace["error"], json!(null));
        assert!(server.programs().len() <= 1, "never a second process");
        if workspace["phase"] == "RUNNING" {
            check_home(&server, &id, &written).await;
        }
    }
    server.go(&id, "start").await;
    check_home(&server, &id, &written).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_program_survives_its_server() {
    let mut server = Setup::new().start().await;
    let id = server.create(json!({ "name": "steady" })).await;
    let (pid, port) = (server.inside(&id, "/pid").await.unwrap(), server.port_of(&id).unwrap());
    for _ in 0..3 {
        server.kill();
        assert_eq!(server.inside(&id, "/pid").await.as_deref(), Some(pid.as_str()), "it runs without us");
        server.restart().await;
        server.until_arrived(&id).await;
        assert_eq!(server.inside(&id, "/pid").await.as_deref(), Some(pid.as_str()));
        assert_eq!(server.port_of(&id), Some(port));
        assert_eq!(server.programs().len(), 1);
    }
}

/// The built-in IDE listens on a socket; nothing of it is open to other users of the machine.
#[tokio::test(flavor = "multi_thread")]
async fn the_built_in_ide_is_reached_before_and_after_a_crash_and_not_by_its_port() {
    let setup = Setup::new().env("IDE", "builtin").env("IDE_COMMAND", "").env("PROCESS_SANDBOX", "auto");
    let mut server = setup.start().await;
    let id = server.create(json!({ "name": "closed" })).await;
    let of_ide = async |server: &Server, path: &str| {
        let request = server.client.get(server.url(&format!("/w/{id}{path}"))).bearer_auth(&server.token);
        let answer = request.send().await.unwrap();
        (answer.status(), answer.text().await.unwrap())
    };
    let programs = server.processes();
    for _ in 0..2 {
        let (status, info) = of_ide(&server, "/api/info").await;
        assert_eq!(status, StatusCode::OK, "{info}");
        assert!(info.contains("closed"), "{info}");
        assert_eq!(of_ide(&server, "/healthz").await, (StatusCode::OK, "ok\n".into()));
        assert_eq!(server.inside(&id, "/healthz").await, None, "its port is closed");
        server.kill();
        server.restart().await;
        server.until_arrived(&id).await;
    }
    assert_eq!(server.processes(), programs, "the same as ever");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_dies_is_started_again_and_one_that_keeps_dying_is_an_error() {
    let server = Setup::new().env("COORDINATOR_IDLE_INTERVAL", "1s").start().await;
    let id = server.create(json!({ "name": "mortal" })).await;
    for round in 0..3 {
        let pid: i32 = server.inside(&id, "/pid").await.unwrap().parse().unwrap();
        let process = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap();
        if round < 2 {
            eventually("another answers", async || {
                server.inside(&id, "/pid").await.is_some_and(|now| now != pid.to_string())
            })
            .await;
            server.until_phase(&id, "RUNNING").await;
        }
    }
    let workspace = server.until_phase(&id, "ERROR").await;
    assert_eq!(workspace["error"]["reason"], "RetryExceeded");
    let (status, _) = server.post(&format!("/workspaces/{id}/recover?wait=30"), json!({})).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    server.until_phase(&id, "RUNNING").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_program_is_noticed_when_somebody_asks_for_it() {
    // Nobody looks by themselves before the test is over.
    let server = Setup::new().env("COORDINATOR_IDLE_INTERVAL", "10m").start().await;
    let id = server.create(json!({ "name": "mortal" })).await;
    let open = || server.client.get(server.url(&format!("/w/{id}/pid"))).bearer_auth(&server.token).send();
    let pid: i32 = open().await.unwrap().text().await.unwrap().parse().unwrap();
    // The wakes of its start are over.
    let_time_pass(Duration::from_secs(1)).await;
    let process = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap();
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    loop {
        let answer = open().await.unwrap();
        if answer.status().is_success() {
            let now: i32 = answer.text().await.unwrap().parse().unwrap();
            assert_ne!(now, pid);
            break;
        }
        assert!(std::time::Instant::now() < deadline, "nobody looked");
        poll_every(Duration::from_millis(100)).await;
    }
}
