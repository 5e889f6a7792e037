//! What people and disks do behind CodeHub's back: said out loud, never papered over.

use std::fs;

use codehub_testing::{let_time_pass, poll_every};
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::{
    docker::TestBucket,
    support::{Server, Setup},
};

async fn with_history(server: &Server) -> String {
    let id = server.create(json!({ "name": "precious" })).await;
    server.inside(&id, "/write?log=old").await.unwrap();
    server.go(&id, "archive").await;
    server.go(&id, "start").await;
    server.inside(&id, "/write?log=new").await.unwrap();
    server.go(&id, "stop").await;
    id
}

async fn recover(server: &Server, id: &str, body: Value) -> (StatusCode, Value) {
    server.post(&format!("/workspaces/{id}/recover?wait=30"), body).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vanished_volume_is_data_lost_and_never_an_older_home() {
    let server = Setup::new().start().await;
    let id = with_history(&server).await;
    fs::remove_dir_all(server.home(&id)).unwrap();
    server.post(&format!("/workspaces/{id}/start"), json!({})).await;
    let workspace = server.until_phase(&id, "ERROR").await;
    assert_eq!(workspace["error"]["reason"], "DataLost");
    assert_eq!(workspace["waiting"]["reason"], "NeedsRecovery");

    let (status, body) = recover(&server, &id, json!({})).await;
    assert_eq!((status, body["error"]["code"].as_str()), (StatusCode::CONFLICT, Some("INVALID_STATE")));
    let message = body["error"]["message"].as_str().unwrap();
    assert!(message.contains("restore_from") && message.contains("accept_data_loss"), "{message}");
    let (status, body) = server.post(&format!("/workspaces/{id}/start"), json!({})).await;
    assert_eq!(status, StatusCode::CONFLICT, "{body}");

    let (status, body) = recover(&server, &id, json!({ "restore_from": workspace["archive_key"] })).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{body}");
    server.until_arrived(&id).await;
    server.go(&id, "start").await;
    assert_eq!(
        server.inside(&id, "/read?log").await.as_deref(),
        Some("old\n"),
        "the archive that was asked for"
    );
}

/// Whoever has just put the home back is believed at once, not when somebody next looks.
#[tokio::test(flavor = "multi_thread")]
async fn a_home_that_was_put_back_is_found_when_recovery_is_asked_for() {
    // Nobody looks by themselves before the test is over.
    let server = Setup::new().env("COORDINATOR_IDLE_INTERVAL", "10m").start().await;
    let id = with_history(&server).await;
    let home = server.home(&id);
    let aside = server.setup.data.path().join("aside");
    fs::rename(&home, &aside).unwrap();
    server.post(&format!("/workspaces/{id}/start"), json!({})).await;
    server.until_phase(&id, "ERROR").await;
    let (status, body) = recover(&server, &id, json!({})).await;
    assert_eq!(status, StatusCode::CONFLICT, "it is still gone: {body}");
    fs::rename(&aside, &home).unwrap();
    // Where the loss was noticed before anybody asked for a start, that was refused.
    let (status, body) = recover(&server, &id, json!({ "desired_state": "RUNNING" })).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{body}");
    server.until_phase(&id, "RUNNING").await;
    assert_eq!(server.inside(&id, "/read?log").await.as_deref(), Some("old\nnew\n"), "the home as it was");

    server.go(&id, "archive").await;
    let files = server.archive_files(&id);
    let hidden = |path: &std::path::Path| format!("{}.hidden", path.display());
    files.iter().for_each(|path| fs::rename(path, hidden(path)).unwrap());
    server.post(&format!("/workspaces/{id}/start"), json!({})).await;
    server.until_phase(&id, "ERROR").await;
    files.iter().for_each(|path| fs::rename(hidden(path), path).unwrap());
    let wanted = json!({ "accept_data_loss": true, "desired_state": "RUNNING" });
    let (status, body) = recover(&server, &id, wanted).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{body}");
    server.until_phase(&id, "RUNNING").await;
    assert_eq!(server.inside(&id, "/read?log").await.as_deref(), Some("old\nnew\n"), "nothing was lost");
}

/// What does not run and is not started before somebody decides is in nobody's way.
#[tokio::test(flavor = "multi_thread")]
async fn an_error_takes_a_place_only_while_something_runs_and_a_stop_ends_that() {
    let server = Setup::new()
        .env("LIMITS_MAX_RUNNING_PER_USER", "1")
        .env("COORDINATOR_IDLE_INTERVAL", "1s")
        .start()
        .await;
    let id = server.create(json!({ "name": "broken", "desired_state": "STANDBY" })).await;
    let (home, aside) = (server.home(&id), server.setup.data.path().join("aside"));
    fs::rename(&home, &aside).unwrap();
    server.post(&format!("/workspaces/{id}/start"), json!({})).await;
    server.until_phase(&id, "ERROR").await;
    let (status, other) = server.post("/workspaces?wait=30", json!({ "name": "other" })).await;
    assert_eq!(status, StatusCode::CREATED, "nothing of the broken one runs: {other}");
    server.until_arrived(other["id"].as_str().unwrap()).await;
    fs::rename(&aside, &home).unwrap();
    let (status, body) = recover(&server, &id, json!({})).await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS, "recovered, it would run: {body}");
    server.go(other["id"].as_str().unwrap(), "stop").await;
    let (status, body) = recover(&server, &id, json!({})).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{body}");
    server.until_phase(&id, "RUNNING").await;

    // Now it is lost while it runs: what runs takes the place, is listed, and can be stopped.
    fs::rename(&home, &aside).unwrap();
    server.until_phase(&id, "ERROR").await;
    let (status, body) = server.post("/workspaces", json!({ "name": "third" })).await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS, "it still runs: {body}");
    assert_eq!(body["error"]["details"]["running"][0]["id"], id.as_str(), "{body}");
    fs::rename(&aside, &home).unwrap();
    server.go(&id, "stop").await;
    assert!(server.processes().is_empty(), "nothing runs on standby");
    let (status, body) = server.post("/workspaces", json!({ "name": "third" })).await;
    assert_eq!(status, StatusCode::CREATED, "{body}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_has_the_home_of_its_archive_and_goes_its_own_way() {
    let server = Setup::new().start().await;
    let id = with_history(&server).await;
    let archives = server.get(&format!("/workspaces/{id}/archives")).await;
    let first = &archives["items"][0];
    let path = format!("/workspaces/{id}/archives/{}", first["id"].as_str().unwrap());
    let files = server.get(&format!("{path}/files")).await;
    let log = files["items"].as_array().unwrap().iter().find(|file| file["name"] == "log").unwrap();
    assert_eq!((&log["kind"], &log["size"]), (&json!("file"), &json!(4)), "{files}");
    let content = server.download(&format!("{path}/file?path={}", log["path"].as_str().unwrap())).await;
    assert_eq!(content, b"old\n", "read from the archive");
    let wish = json!({ "name": "fork", "from_archive": first["key"] });
    let fork = server.create(wish).await;
    server.until_phase(&fork, "RUNNING").await;
    assert_eq!(server.inside(&fork, "/read?log").await.as_deref(), Some("old\n"), "as it was archived");
    server.inside(&fork, "/write?log=forked").await.unwrap();
    server.go(&id, "start").await;
    assert_eq!(server.inside(&id, "/read?log").await.as_deref(), Some("old\nnew\n"), "untouched");

    // Its volume vanishes: the archive it was made from is still a way back.
    server.go(&fork, "stop").await;
    fs::remove_dir_all(server.home(&fork)).unwrap();
    server.post(&format!("/workspaces/{fork}/start"), json!({})).await;
    let lost = server.until_phase(&fork, "ERROR").await;
    let (status, body) = recover(&server, &fork, json!({ "restore_from": lost["archive_key"] })).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{body}");
    server.until_arrived(&fork).await;
    server.go(&fork, "start").await;
    assert_eq!(server.inside(&fork, "/read?log").await.as_deref(), Some("old\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vanished_archive_is_data_lost_until_somebody_accepts_it() {
    let server = Setup::new().start().await;
    let id = with_history(&server).await;
    server.go(&id, "archive").await;
    for file in server.archive_files(&id) {
        fs::remove_file(file).unwrap();
    }
    server.post(&format!("/workspaces/{id}/start"), json!({})).await;
    let workspace = server.until_phase(&id, "ERROR").await;
    assert_eq!(workspace["error"]["reason"], "DataLost");
    let (status, body) = recover(&server, &id, json!({ "accept_data_loss": true })).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{body}");
    server.until_arrived(&id).await;
    server.go(&id, "start").await;
    assert_eq!(server.inside(&id, "/read?log").await, None, "an empty home, as accepted");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_archive_is_corrupted_and_left_untouched() {
    let server = Setup::new().start().await;
    let id = with_history(&server).await;
    server.go(&id, "archive").await;
    let key = server.workspace(&id).await["archive_key"].as_str().unwrap().to_owned();
    let files = server.archive_files(&id);
    let data = files.iter().find(|path| path.ends_with(&key)).expect("the archive's file");
    let good = fs::read(data).unwrap();
    let mut bad = good.clone();
    let middle = bad.len() / 2;
    bad[middle] ^= 1;
    fs::write(data, &bad).unwrap();
    server.post(&format!("/workspaces/{id}/start"), json!({})).await;
    let workspace = server.until_phase(&id, "ERROR").await;
    assert_eq!(workspace["error"]["reason"], "ArchiveCorrupted");
    assert_eq!(fs::read(data).unwrap(), bad, "the archive is left as it is");

    // Somebody repairs the disk.
    fs::write(data, &good).unwrap();
    let (status, body) = recover(&server, &id, json!({})).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{body}");
    server.until_arrived(&id).await;
    server.go(&id, "start").await;
    assert_eq!(server.inside(&id, "/read?log").await.as_deref(), Some("old\nnew\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_home_that_was_put_back_is_found_again() {
    let server = Setup::new().env("COORDINATOR_IDLE_INTERVAL", "1s").start().await;
    let id = with_history(&server).await;
    let home = server.home(&id);
    let aside = server.setup.data.path().join("aside");
    fs::rename(&home, &aside).unwrap();
    server.post(&format!("/workspaces/{id}/start"), json!({})).await;
    server.until_phase(&id, "ERROR").await;
    fs::rename(&aside, &home).unwrap();
    server.until(&id, "seen again", |it| it["conditions"]["storage.volume_ready"]["status"] == "True").await;
    let (status, body) = recover(&server, &id, json!({})).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{body}");
    server.until_arrived(&id).await;
    server.go(&id, "start").await;
    assert_eq!(server.inside(&id, "/read?log").await.as_deref(), Some("old\nnew\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_home_on_another_backend_is_left_alone_and_said_so() {
    let mut server = Setup::new().env("COORDINATOR_IDLE_INTERVAL", "1s").start().await;
    let id = server.create(json!({ "name": "moved", "desired_state": "STANDBY" })).await;
    server.kill();
    let sql = format!("UPDATE workspaces SET storage_backend = 'elsewhere' WHERE id = '{id}'");
    let script = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute(sys.argv[2]); c.commit()";
    let database = server.setup.data_dir().join("codehub.db");
    let done = std::process::Command::new("python3").args(["-c", script]).arg(database).arg(sql).status();
    assert!(done.unwrap().success());
    let home = server.home(&id);
    let aside = server.setup.data.path().join("aside");
    fs::rename(&home, &aside).unwrap();
    server.restart().await;
    let_time_pass(std::time::Duration::from_secs(3)).await;
    assert_eq!(server.workspace(&id).await["phase"], "STANDBY", "not seeing it here proves nothing");
    server.post(&format!("/workspaces/{id}/start"), json!({})).await;
    let failed = server.until_phase(&id, "ERROR").await;
    let message = failed["error"]["message"].as_str().unwrap();
    assert!(message.contains("lives on elsewhere"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_disk_that_is_not_mounted_is_not_an_empty_one() {
    let mut server = Setup::new().start().await;
    let id = with_history(&server).await;
    server.go(&id, "archive").await;
    server.kill();
    let (archives, aside) = (server.setup.data_dir().join("archives"), server.setup.data.path().join("disk"));
    fs::rename(&archives, &aside).unwrap();
    fs::create_dir(&archives).unwrap();
    let refused = server.setup.command(&["serve"]).output().unwrap();
    assert!(!refused.status.success());
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("mount it first") && said.contains(".codehub-archives"), "{said}");
    assert_eq!(fs::read_dir(&archives).unwrap().count(), 0, "nothing is made in its place");

    fs::remove_dir(&archives).unwrap();
    fs::rename(&aside, &archives).unwrap();
    server.restart().await;
    server.go(&id, "start").await;
    assert_eq!(server.inside(&id, "/read?log").await.as_deref(), Some("old\nnew\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn work_does_not_wait_for_an_archive_store_that_is_away() {
    let server = Setup::new().start().await;
    let id = with_history(&server).await;
    let (archives, aside) = (server.setup.data_dir().join("archives"), server.setup.data.path().join("disk"));
    fs::rename(&archives, &aside).unwrap();
    server.post(&format!("/workspaces/{id}/archive"), json!({})).await;
    let waits = server
        .until(&id, "failing", |it| it["error"]["reason"] == "Unreachable" && it["operation"] == "NONE")
        .await;
    assert_eq!(waits["phase"], "STANDBY");
    // Between two tries anybody may start it; one that is just going on is waited for.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while server.post(&format!("/workspaces/{id}/start"), json!({})).await.0 == StatusCode::CONFLICT {
        assert!(std::time::Instant::now() < deadline, "never between two tries");
        poll_every(std::time::Duration::from_millis(50)).await;
    }
    let running = server.until_arrived(&id).await;
    assert_eq!((&running["phase"], &running["error"]), (&json!("RUNNING"), &json!(null)));
    assert_eq!(server.inside(&id, "/read?log").await.as_deref(), Some("old\nnew\n"));

    // And it can be archived when the store is back.
    fs::rename(&aside, &archives).unwrap();
    server.go(&id, "archive").await;
    assert_eq!(server.workspace(&id).await["phase"], "ARCHIVED");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_bucket_is_not_the_loss_of_every_home() {
    let Some(bucket) = TestBucket::of_this_run().await else { return };
    let mut server = bucket.configure(Setup::new()).start().await;
    let id = with_history(&server).await;
    server.go(&id, "archive").await;
    server.kill();
    server.set_env("S3_PREFIX", "elsewhere");
    let mut command = server.setup.command(&["serve"]);
    let refused = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("S3_PREFIX") && said.contains("elsewhere"), "{said}");

    server.set_env("S3_PREFIX", "");
    server.restart().await;
    server.go(&id, "start").await;
    assert_eq!(server.inside(&id, "/read?log").await.as_deref(), Some("old\nnew\n"));
}
