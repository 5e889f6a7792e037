//! A workspace's whole life through the API.

use codehub_testing::{eventually, let_time_pass};
use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::support::{Server, Setup};

#[tokio::test(flavor = "multi_thread")]
async fn from_creation_to_deletion() {
    let server = Setup::new().start().await;
    let id = server.create(json!({ "name": "first" })).await;
    let workspace = server.workspace(&id).await;
    assert_eq!(
        (workspace["phase"].as_str(), workspace["status"].as_str()),
        (Some("RUNNING"), Some("RUNNING"))
    );
    assert_eq!(workspace["path"], format!("/w/{id}/"));
    assert_eq!(workspace["conditions"]["infra.container_ready"]["status"], "True");
    let archive = &workspace["conditions"]["storage.archive_ready"];
    assert_eq!((archive["status"].as_str(), archive["reason"].as_str()), (Some("False"), Some("NoArchive")));
    assert!(workspace["image_ref"].is_null(), "a process has no image: {workspace}");
    assert_eq!(server.inside(&id, "/write?note=hello").await.as_deref(), Some("ok"));

    let stopped = server.go(&id, "stop").await;
    assert_eq!(stopped["phase"], "STANDBY");
    assert!(server.processes().is_empty(), "nothing runs on standby");
    assert_eq!(std::fs::read(server.home(&id).join("note")).unwrap(), b"hello\n");

    let archived = server.go(&id, "archive").await;
    assert_eq!(archived["phase"], "ARCHIVED");
    assert!(server.volumes(&id).is_empty(), "the volume is gone");
    let archives = server.get(&format!("/workspaces/{id}/archives")).await;
    assert_eq!(archives["items"].as_array().unwrap().len(), 1);
    assert_eq!(archives["items"][0]["key"], archived["archive_key"]);

    server.go(&id, "start").await;
    assert_eq!(server.inside(&id, "/read?note").await.as_deref(), Some("hello\n"));

    let history = server.get(&format!("/workspaces/{id}/history")).await;
    let operations: Vec<&str> = history["items"]
        .as_array()
        .unwrap()
        .iter()
        .rev()
        .filter(|entry| entry["reason_code"] == "operation_started")
        .map(|entry| entry["operation"].as_str().unwrap())
        .collect();
    assert_eq!(operations, ["PROVISIONING", "STARTING", "STOPPING", "ARCHIVING", "RESTORING", "STARTING"]);

    let (status, _) = server.call(Method::DELETE, &format!("/workspaces/{id}"), None).await;
    assert_eq!(status, StatusCode::NO_CONTENT);
    let (status, body) = server.call(Method::GET, &format!("/workspaces/{id}"), None).await;
    assert_eq!((status, body["error"]["code"].as_str()), (StatusCode::NOT_FOUND, Some("NOT_FOUND")));
    let gone = async || server.volumes(&id).is_empty() && server.processes().is_empty();
    eventually("the deleted workspace's volume and process are gone", gone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn created_archived_it_restores_to_an_empty_home() {
    let server = Setup::new().start().await;
    let id = server.create(json!({ "name": "cold", "desired_state": "ARCHIVED" })).await;
    assert_eq!(server.workspace(&id).await["phase"], "ARCHIVED");
    assert!(server.volumes(&id).is_empty());
    server.go(&id, "start").await;
    assert_eq!(server.inside(&id, "/read?note").await, None);
    assert_eq!(server.inside(&id, "/write?note=x").await.as_deref(), Some("ok"));
}

#[tokio::test(flavor = "multi_thread")]
async fn ttls_put_it_to_sleep_and_then_away() {
    let server = Setup::new()
        .env("TTL_STANDBY_SECONDS", "2")
        .env("TTL_ARCHIVE_SECONDS", "2")
        .env("TTL_STANDBY_MIN", "1")
        .env("TTL_ARCHIVE_MIN", "1")
        .env("ACTIVITY_FLUSH_INTERVAL", "1s")
        .env("COORDINATOR_TTL_INTERVAL", "1s")
        .start()
        .await;
    let id = server.create(json!({ "name": "sleepy" })).await;
    assert!(server.workspace(&id).await["stops_at"].is_string());
    server.until_phase(&id, "STANDBY").await;
    assert!(server.workspace(&id).await["archives_at"].is_string());
    server.until_phase(&id, "ARCHIVED").await;
    let awake = server.create(json!({ "name": "awake", "standby_ttl_seconds": 0 })).await;
    let_time_pass(std::time::Duration::from_secs(6)).await;
    assert_eq!(server.workspace(&awake).await["phase"], "RUNNING", "0 is never");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_database_of_a_stopped_server_is_one_file() {
    let mut server = Setup::new().start().await;
    let id = server.create(json!({ "name": "kept", "desired_state": "STANDBY" })).await;
    server.stop();
    let data = server.setup.data_dir();
    assert!(!data.join("codehub.db-wal").exists(), "the log was folded into the file");
    let elsewhere = data.join("copy.db");
    std::fs::copy(data.join("codehub.db"), &elsewhere).unwrap();
    std::fs::rename(&elsewhere, data.join("codehub.db")).unwrap();
    server.restart().await;
    assert_eq!(server.workspace(&id).await["name"], "kept");
}

/// The bus of a single server ends with it: what was done in the last minute has to be in the database by then.
#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_server_has_written_down_the_last_activity() {
    // Neither is due by itself before the test is over.
    let mut server =
        Setup::new().env("ACTIVITY_FLUSH_INTERVAL", "5m").env("COORDINATOR_TTL_INTERVAL", "5m").start().await;
    let id = server.create(json!({ "name": "busy" })).await;
    let access = |workspace: &serde_json::Value| workspace["last_access_at"].as_str().unwrap().to_owned();
    let created = access(&server.workspace(&id).await);
    let opened = server.client.get(server.url(&format!("/w/{id}/pid"))).bearer_auth(&server.token).send();
    assert_eq!(opened.await.unwrap().status(), StatusCode::OK);
    assert_eq!(access(&server.workspace(&id).await), created, "it is in memory only");
    server.stop();
    server.restart().await;
    let kept = access(&server.workspace(&id).await);
    assert!(kept > created, "{kept} is not later than {created}");
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_hold_when_many_ask_at_once() {
    let server = Setup::new().env("LIMITS_MAX_RUNNING_PER_USER", "3").start().await;
    let create = |number: usize| {
        let server = &server;
        async move { server.post("/workspaces", json!({ "name": format!("ws {number}") })).await }
    };
    let answers = futures::future::join_all((0..20).map(create)).await;
    let created = answers.iter().filter(|(status, _)| *status == StatusCode::CREATED).count();
    assert_eq!(created, 3);
    for (status, body) in &answers {
        if *status != StatusCode::CREATED {
            assert_eq!(
                (*status, body["error"]["code"].as_str()),
                (StatusCode::TOO_MANY_REQUESTS, Some("LIMIT_EXCEEDED"))
            );
        }
    }
    let list = server.get("/workspaces").await;
    assert_eq!(list["total"], 3, "a refused creation leaves nothing behind");
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_can_be_stopped_with_and_without_a_server() {
    let mut server = Setup::new().env("COORDINATOR_IDLE_INTERVAL", "1s").start().await;
    let ids = [server.create(json!({ "name": "one" })).await, server.create(json!({ "name": "two" })).await];
    assert_eq!(server.inside(&ids[0], "/write?note=kept").await.as_deref(), Some("ok"));
    let stop_all = |server: &Server| {
        let output = server.setup.command(&["stop-all", "--timeout", "40"]).output().unwrap();
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success(), "{said}");
        said
    };

    let said = stop_all(&server);
    assert!(said.contains("Stopping 2 workspaces.") && said.contains("are kept"), "{said}");
    assert!(server.processes().is_empty(), "the server ended them");
    assert_eq!(server.workspace(&ids[1]).await["phase"], "STANDBY");

    for id in &ids {
        server.go(id, "start").await;
    }
    server.stop();
    let log = std::fs::read_to_string(server.setup.log_file()).unwrap();
    assert!(log.contains("codehub stop-all"), "the last line says what goes on, and how it ends: {log}");
    assert!(!server.processes().is_empty(), "they go on without a server");
    stop_all(&server);
    assert!(server.processes().is_empty(), "ended without a server");
    assert!(stop_all(&server).contains("No workspace is running."));

    server.restart().await;
    let found = server.workspace(&ids[0]).await;
    assert_eq!((&found["phase"], &found["desired_state"]), (&json!("STANDBY"), &json!("STANDBY")));
    server.go(&ids[0], "start").await;
    assert_eq!(server.inside(&ids[0], "/read?note").await.as_deref(), Some("kept\n"));
}
