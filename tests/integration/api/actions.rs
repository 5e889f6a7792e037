//! Asking for states: start, stop, archive, recover, and waiting for them.

use std::time::{Duration, Instant};

use codehub_domain::{ErrorReason, Failure, Phase, user::Role};
use codehub_store::Saved;
use codehub_testing::poll_every;
use serde_json::{Value, json};

use super::TestApp;

#[tokio::test(flavor = "multi_thread")]
async fn the_whole_circle_with_wait() {
    let app = TestApp::start().await;
    let ann = app.ann().await;
    let id = app.workspace(&ann, "circle", "RUNNING").await;
    for (verb, phase) in
        [("stop", "STANDBY"), ("archive", "ARCHIVED"), ("start", "RUNNING"), ("archive", "ARCHIVED")]
    {
        let path = format!("/workspaces/{id}/{verb}?wait=30");
        let workspace = app.post(&ann, &path, json!({})).await.is(202);
        assert_eq!((&workspace["phase"], &workspace["operation"]), (&json!(phase), &json!("NONE")), "{verb}");
    }
    let archives = app.get(&ann, &format!("/workspaces/{id}/archives")).await.is(200);
    let items = archives["items"].as_array().unwrap();
    assert_eq!(items.len(), 2, "{archives}");
    let workspace = app.get(&ann, &format!("/workspaces/{id}")).await.is(200);
    assert_eq!((&items[0]["key"], &items[0]["current"]), (&workspace["archive_key"], &json!(true)));
    assert_eq!(items[1]["current"], false);
    let history = app.get(&ann, &format!("/workspaces/{id}/history")).await.is(200);
    let newest = &history["items"][0];
    assert_eq!((&newest["operation"], &newest["to"]), (&json!("ARCHIVING"), &json!("ARCHIVED")), "{newest}");
    assert!(
        newest["at"].is_string()
            && newest["reason"].is_string()
            && newest["from"].is_string()
            && newest["actor"] == "controller"
    );
    let asked =
        history["items"].as_array().unwrap().iter().filter(|e| e["actor"] == format!("user:{}", ann.id));
    assert!(asked.count() >= 4, "{history}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operation_under_way_refuses_other_wishes_and_names_itself() {
    let app = TestApp::start().await;
    let ann = app.ann().await;
    let id = app.workspace(&ann, "busy", "STANDBY").await;
    let path = format!("/workspaces/{id}");
    app.gate.freeze();
    app.post(&ann, &format!("{path}/start"), json!({})).await.is(202);
    let busy = || async { app.get(&ann, &path).await.is(200)["operation"] == "STARTING" };
    let deadline = Instant::now() + Duration::from_secs(10);
    app.gate.wake();
    // Held between the save of the operation and its effect.
    while !busy().await {
        assert!(Instant::now() < deadline);
        poll_every(Duration::from_millis(1)).await;
    }
    app.gate.freeze();
    if busy().await {
        let message = app.post(&ann, &format!("{path}/stop"), json!({})).await.error(409, "INVALID_STATE");
        assert!(message.contains("STARTING"), "{message}");
        app.delete(&ann, &path).await.error(409, "INVALID_STATE");
        app.patch(&ann, &path, json!({ "desired_state": "ARCHIVED", "name": "no" }))
            .await
            .error(409, "INVALID_STATE");
        let same = app.post(&ann, &format!("{path}/start"), json!({})).await.is(202);
        assert_eq!((&same["name"], &same["desired_state"]), (&json!("busy"), &json!("RUNNING")));
        app.patch(&ann, &path, json!({ "name": "renamed" })).await.is(200);
        let before = Instant::now();
        let waited = app.post(&ann, &format!("{path}/start?wait=1"), json!({})).await.is(202);
        assert_eq!(waited["operation"], "STARTING", "time is up: as it is");
        assert!(before.elapsed() >= Duration::from_secs(1));
    }
    app.gate.wake();
    let arrived = app.get(&ann, &format!("{path}?wait=20")).await.is(200);
    assert_eq!(arrived["phase"], "RUNNING");
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_is_bounded_and_checked() {
    let app = TestApp::start().await;
    let ann = app.ann().await;
    let id = app.workspace(&ann, "w", "STANDBY").await;
    for wrong in ["121", "-1", "x", ""] {
        let message = app
            .post(&ann, &format!("/workspaces/{id}/start?wait={wrong}"), json!({}))
            .await
            .error(400, "INVALID_REQUEST");
        assert!(message.contains("wait") && message.contains("120"), "{message}");
    }
    assert_eq!(app.get(&ann, &format!("/workspaces/{id}")).await.is(200)["desired_state"], "STANDBY");
    let before = Instant::now();
    app.post(&ann, &format!("/workspaces/{id}/stop?wait=60"), json!({})).await.is(202);
    assert!(before.elapsed() < Duration::from_secs(30), "it has arrived already");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limit_lists_ones_own_running_workspaces_only() {
    let app =
        TestApp::with(&[("limits.max_running_per_user", "1"), ("limits.max_running_global", "2")]).await;
    let ann = app.ann().await;
    let bob = app.person("bob", Role::User).await;
    let first = app.workspace(&ann, "first", "RUNNING").await;
    let asleep = app.workspace(&ann, "asleep", "STANDBY").await;
    let refused = app.post(&ann, "/workspaces", json!({ "name": "second" })).await;
    assert_eq!(refused.body["error"]["details"]["running"], json!([{ "id": first, "name": "first" }]));
    refused.error(429, "LIMIT_EXCEEDED");
    app.post(&ann, &format!("/workspaces/{asleep}/start"), json!({})).await.error(429, "LIMIT_EXCEEDED");
    app.patch(&ann, &format!("/workspaces/{asleep}"), json!({ "desired_state": "RUNNING" }))
        .await
        .error(429, "LIMIT_EXCEEDED");
    app.workspace(&bob, "bob's", "RUNNING").await;
    let carl = app.person("carl", Role::User).await;
    let refused = app.post(&carl, "/workspaces", json!({ "name": "none left" })).await;
    assert_eq!(refused.body["error"]["details"]["running"], json!([]), "never somebody else's");
    refused.error(429, "LIMIT_EXCEEDED");
    assert_eq!(app.get(&carl, "/workspaces").await.is(200)["total"], 0);
    app.post(&ann, &format!("/workspaces/{first}/stop?wait=20"), json!({})).await.is(202);
    app.post(&ann, &format!("/workspaces/{asleep}/start"), json!({})).await.is(202);
}

#[tokio::test(flavor = "multi_thread")]
async fn recovery_is_for_errors_and_its_archive_must_exist() {
    let app = TestApp::start().await;
    let ann = app.ann().await;
    let id = app.workspace(&ann, "fine", "ARCHIVED").await;
    let other = app.workspace(&ann, "other", "ARCHIVED").await;
    let path = format!("/workspaces/{id}/recover");
    app.post(&ann, &path, json!({})).await.error(409, "INVALID_STATE");
    let request = app.request(&ann, reqwest::Method::POST, &path);
    app.send(request).await.error(409, "INVALID_STATE");
    let key_of_other = app.get(&ann, &format!("/workspaces/{other}")).await.is(200)["archive_key"].clone();
    let no_such_key = format!("{id}/{}/home.tar.zst", uuid::Uuid::now_v7());
    for (key, words) in [
        (json!("nonsense"), "archive key"),
        (key_of_other, "another workspace"),
        (json!(no_such_key), "no such archive"),
    ] {
        let message =
            app.post(&ann, &path, json!({ "restore_from": key })).await.error(400, "INVALID_REQUEST");
        assert!(message.contains("restore_from") && message.contains(words), "{message}");
    }
    app.post(&ann, &path, json!({ "accept": true })).await.error(400, "INVALID_REQUEST");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_is_made_from_an_archive_of_ones_own() {
    let app = TestApp::start().await;
    let ann = app.ann().await;
    let bob = app.person("bob", Role::User).await;
    let source = app.workspace(&ann, "source", "ARCHIVED").await;
    let key = app.get(&ann, &format!("/workspaces/{source}")).await.is(200)["archive_key"].clone();
    let no_such_key = format!("{source}/{}/home.tar.zst", uuid::Uuid::now_v7());
    for (who, key, words) in [
        (&ann, json!("nonsense"), "archive key"),
        (&ann, json!(no_such_key), "no such archive"),
        (&bob, key.clone(), "no such archive"),
    ] {
        let wish = json!({ "name": "fork", "from_archive": key });
        let message = app.post(who, "/workspaces", wish).await.error(400, "INVALID_REQUEST");
        assert!(message.contains("from_archive") && message.contains(words), "{message}");
    }
    let archive = key.as_str().unwrap().split('/').nth(1).unwrap().to_owned();
    let inside = format!("/workspaces/{source}/archives/{archive}");
    assert_eq!(app.get(&ann, &format!("{inside}/files")).await.is(200)["items"], json!([]));
    app.get(&ann, &format!("{inside}/files?path=nothing")).await.error(404, "NOT_FOUND");
    app.get(&ann, &format!("{inside}/file?path=nothing")).await.error(404, "NOT_FOUND");
    app.get(&ann, &format!("{inside}/files?limit=0")).await.error(400, "INVALID_REQUEST");
    app.get(&ann, &format!("{inside}/files?what=1")).await.error(400, "INVALID_REQUEST");
    let other = uuid::Uuid::now_v7();
    for missing in [
        format!("{other}/archives/{archive}"),
        format!("{source}/archives/{other}"),
        format!("{source}/archives/x"),
    ] {
        app.get(&ann, &format!("/workspaces/{missing}/files")).await.error(404, "NOT_FOUND");
    }
    let admin = app.person("root", Role::Admin).await;
    for who in [&bob, &admin] {
        app.get(who, &format!("{inside}/files")).await.error(403, "FORBIDDEN");
        app.get(who, &format!("{inside}/file?path=x")).await.error(403, "FORBIDDEN");
    }
    let wish = json!({ "name": "fork", "from_archive": key, "desired_state": "STANDBY" });
    let fork = app.post(&ann, "/workspaces?wait=20", wish).await.is(201);
    assert_eq!((&fork["phase"], &fork["archive_key"]), (&json!("STANDBY"), &key));
    let path = format!("/workspaces/{}", fork["id"].as_str().unwrap());
    let own = app.post(&ann, &format!("{path}/archive?wait=20"), json!({})).await.is(202);
    assert_eq!(own["phase"], "ARCHIVED");
    assert_ne!(own["archive_key"], key, "its own archive from now on");
}

/// Puts a workspace into ERROR, as a coordinator would; ours has stopped.
async fn failed(app: &TestApp, id: &str) {
    app.leading.cancel();
    let store = app.app.store();
    let epoch = store.epoch_take("test").await.unwrap();
    let workspace = store.workspace_get(id.parse().unwrap()).await.unwrap().unwrap();
    let mut status = workspace.status.clone();
    status.phase = Phase::Error;
    status.error = Some(Failure::new(ErrorReason::RetryExceeded, "the store is full"));
    let saved = store.workspace_save(epoch, &workspace, &status, &[]).await.unwrap();
    assert!(matches!(saved, Saved::Saved(_)), "{saved:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn recovery_may_ask_for_another_state() {
    let app = TestApp::with(&[("limits.max_running_per_user", "1")]).await;
    let ann = app.ann().await;
    let root = app.person("root", Role::Admin).await;
    let id = app.workspace(&ann, "too large", "STANDBY").await;
    app.workspace(&ann, "in the way", "RUNNING").await;
    let bob = app.person("bob", Role::User).await;
    let of_bob = app.workspace(&bob, "too large as well", "STANDBY").await;
    failed(&app, &id).await;
    let path = format!("/workspaces/{id}/recover");
    for state in ["DELETED", "PENDING", "running"] {
        let message =
            app.post(&ann, &path, json!({ "desired_state": state })).await.error(400, "INVALID_REQUEST");
        assert!(message.contains("desired_state"), "{message}");
    }
    app.post(&root, &path, json!({ "desired_state": "RUNNING" })).await.error(403, "FORBIDDEN");
    app.post(&ann, &path, json!({ "desired_state": "RUNNING" })).await.error(429, "LIMIT_EXCEEDED");
    let still = app.get(&ann, &format!("/workspaces/{id}")).await.is(200);
    assert_eq!(
        (&still["error"]["reason"], &still["desired_state"]),
        (&json!("RetryExceeded"), &json!("STANDBY"))
    );

    app.post(&root, &path, json!({ "desired_state": "ARCHIVED" })).await.is(202);
    failed(&app, &id).await;
    let stays = app.post(&ann, &path, json!({})).await.is(202);
    assert_eq!(
        (&stays["desired_state"], &stays["error"]),
        (&json!("ARCHIVED"), &Value::Null),
        "unless asked"
    );

    failed(&app, &of_bob).await;
    let goes =
        app.post(&bob, &format!("/workspaces/{of_bob}/recover"), json!({ "desired_state": "RUNNING" })).await;
    let goes = goes.is(202);
    assert_eq!((&goes["desired_state"], &goes["error"]), (&json!("RUNNING"), &Value::Null));
    let history = app.get(&bob, &format!("/workspaces/{of_bob}/history")).await.is(200);
    let reasons: Vec<_> = (0..2).map(|n| history["items"][n]["reason_code"].clone()).collect();
    assert_eq!(reasons, ["requested_with_recovery", "recovery_requested"]);
}
