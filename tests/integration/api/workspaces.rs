//! Creating, showing, editing and deleting.

use codehub_domain::user::Role;
use serde_json::{Value, json};
use uuid::Uuid;

use super::TestApp;

#[tokio::test(flavor = "multi_thread")]
async fn a_new_workspace_is_shown_whole() {
    let app = TestApp::start().await;
    let ann = app.ann().await;
    let body = json!({ "name": "  My box ", "description": "d", "memo": "m", "standby_ttl_seconds": 900 });
    let created = app.post(&ann, "/workspaces?wait=20", body).await.is(201);
    let id = created["id"].as_str().unwrap();
    let shown = app.get(&ann, &format!("/workspaces/{id}")).await.is(200);
    for workspace in [&created, &shown] {
        assert_eq!((&workspace["name"], &workspace["slug"]), (&json!("My box"), &json!("my-box")));
        assert_eq!(workspace["owner"], json!({ "id": ann.id, "username": "ann" }));
        assert_eq!(workspace["phase"], "RUNNING");
        assert_eq!(workspace["status"], workspace["phase"]);
        assert_eq!(workspace["desired_state"], "RUNNING");
        assert_eq!(workspace["operation"], "NONE");
        assert_eq!(workspace["path"], format!("/w/{id}/"));
        assert_eq!(workspace["url"], app.url(&format!("/w/{id}/")));
        assert_eq!(workspace["conditions"]["infra.container_ready"]["status"], "True");
        assert_eq!(workspace["error"], Value::Null);
        assert_eq!(workspace["progress"], Value::Null);
        assert_eq!(workspace["waiting"], Value::Null);
        assert_eq!(workspace["archive_key"], Value::Null);
        assert_eq!(workspace["standby_ttl_seconds"], 900);
        assert_eq!(workspace["archive_ttl_seconds"], Value::Null);
        assert!(workspace["stops_at"].is_string() && workspace["archives_at"].is_null());
        assert!(workspace["created_at"].as_str().unwrap().ends_with('Z'), "UTC");
    }
    let fields = "id name slug labels description memo owner image_ref phase operation desired_state status url path conditions \
                  archive_key error progress waiting standby_ttl_seconds archive_ttl_seconds last_access_at phase_changed_at \
                  stops_at archives_at created_at updated_at activity activity_mode held_until";
    let mut expected: Vec<&str> = fields.split_whitespace().collect();
    expected.sort_unstable();
    let mut found: Vec<&str> = shown.as_object().unwrap().keys().map(String::as_str).collect();
    found.sort_unstable();
    assert_eq!(found, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_created_is_named() {
    let app = TestApp::with(&[("ttl.standby_min", "60"), ("ttl.standby_max", "1h")]).await;
    let ann = app.ann().await;
    for (body, field, words) in [
        (json!({}), "name", "missing"),
        (json!({ "name": " " }), "name", "1 to 255"),
        (json!({ "name": "x".repeat(256) }), "name", "255"),
        (json!({ "name": "a\u{7}b" }), "name", "control"),
        (json!({ "name": 5 }), "name", "expected a string"),
        (json!({ "name": "x", "nmae": "y" }), "nmae", "unknown field"),
        (json!({ "name": "x", "description": "d".repeat(501) }), "description", "500"),
        (json!({ "name": "x", "memo": "m".repeat(65 * 1024) }), "memo", "64 KiB"),
        (json!({ "name": "x", "desired_state": "PENDING" }), "desired_state", "RUNNING, STANDBY or ARCHIVED"),
        (json!({ "name": "x", "desired_state": "DELETED" }), "desired_state", "DELETE"),
        (json!({ "name": "x", "standby_ttl_seconds": 5 }), "standby_ttl_seconds", "60 to 3600 seconds"),
        (json!({ "name": "x", "standby_ttl_seconds": 0 }), "standby_ttl_seconds", "60 to 3600 seconds"),
        (json!({ "name": "x", "archive_ttl_seconds": -1 }), "archive_ttl_seconds", "invalid value"),
        (json!({ "name": "x", "image_ref": "evil/image" }), "image_ref", "offers"),
    ] {
        let answer = app.post(&ann, "/workspaces", body).await;
        assert_eq!(answer.body["error"]["details"]["field"], field, "{}", answer.body);
        let message = answer.error(400, "INVALID_REQUEST");
        assert!(message.contains(field) && message.contains(words), "{message}");
    }
    assert_eq!(app.get(&ann, "/workspaces").await.is(200)["total"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_edits_and_null_goes_back_to_the_default() {
    let app = TestApp::start().await;
    let ann = app.ann().await;
    let id = app.workspace(&ann, "one", "STANDBY").await;
    let path = format!("/workspaces/{id}");
    let edit =
        json!({ "name": " two ", "memo": "remember", "archive_ttl_seconds": 77, "standby_ttl_seconds": 0 });
    let edited = app.patch(&ann, &path, edit).await.is(200);
    assert_eq!((&edited["name"], &edited["memo"]), (&json!("two"), &json!("remember")));
    assert_eq!((&edited["archive_ttl_seconds"], &edited["standby_ttl_seconds"]), (&json!(77), &json!(0)));
    let edited = app.patch(&ann, &path, json!({ "archive_ttl_seconds": null })).await.is(200);
    assert_eq!((&edited["archive_ttl_seconds"], &edited["standby_ttl_seconds"]), (&json!(null), &json!(0)));
    assert_eq!(edited["name"], "two", "what is not said stays");
    app.patch(&ann, &path, json!({ "phase": "RUNNING" })).await.error(400, "INVALID_REQUEST");
    let started = app
        .patch(&ann, &format!("{path}?wait=20"), json!({ "desired_state": "RUNNING", "memo": "both" }))
        .await
        .is(200);
    assert_eq!(started["memo"], "both", "one request, one step");
    assert_eq!(started["phase"], "RUNNING");
}

#[tokio::test(flavor = "multi_thread")]
async fn other_peoples_workspaces_are_forbidden_and_unknown_ones_not_found() {
    let app = TestApp::start().await;
    let ann = app.ann().await;
    let bob = app.person("bob", Role::User).await;
    let root = app.person("root", Role::Admin).await;
    let id = app.workspace(&ann, "ann's", "STANDBY").await;
    let path = format!("/workspaces/{id}");
    app.get(&bob, &path).await.error(403, "FORBIDDEN");
    app.patch(&bob, &path, json!({ "name": "mine" })).await.error(403, "FORBIDDEN");
    app.delete(&bob, &path).await.error(403, "FORBIDDEN");
    for verb in ["start", "stop", "archive", "recover"] {
        app.post(&bob, &format!("{path}/{verb}"), json!({})).await.error(403, "FORBIDDEN");
    }
    for part in ["history", "archives", "logs"] {
        app.get(&bob, &format!("{path}/{part}")).await.error(403, "FORBIDDEN");
    }
    for nothing in
        [Uuid::now_v7().to_string(), "nonsense".into(), id.to_uppercase(), "a%2Fb".into(), "%ff".into()]
    {
        app.get(&ann, &format!("/workspaces/{nothing}")).await.error(404, "NOT_FOUND");
        app.post(&ann, &format!("/workspaces/{nothing}/start"), json!({})).await.error(404, "NOT_FOUND");
        app.delete(&ann, &format!("/workspaces/{nothing}")).await.error(404, "NOT_FOUND");
    }

    // Administrators look after them, but do not work in them.
    assert_eq!(app.get(&root, &path).await.is(200)["owner"]["username"], "ann");
    app.patch(&root, &path, json!({ "name": "mine" })).await.error(403, "FORBIDDEN");
    app.post(&root, &format!("{path}/start"), json!({})).await.error(403, "FORBIDDEN");
    app.post(&root, &format!("{path}/stop"), json!({})).await.is(202);
    app.get(&root, &format!("{path}/history")).await.is(200);
    app.delete(&root, &format!("{path}?wait=20")).await.is(204);
    app.get(&root, &path).await.error(404, "NOT_FOUND");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_workspace_is_not_found_by_anything() {
    let app = TestApp::start().await;
    let ann = app.ann().await;
    let id = app.workspace(&ann, "short", "RUNNING").await;
    let path = format!("/workspaces/{id}");
    app.delete(&ann, &path).await.is(204);
    app.get(&ann, &path).await.error(404, "NOT_FOUND");
    app.delete(&ann, &path).await.error(404, "NOT_FOUND");
    app.patch(&ann, &path, json!({ "name": "x" })).await.error(404, "NOT_FOUND");
    for verb in ["start", "stop", "archive", "recover"] {
        app.post(&ann, &format!("{path}/{verb}"), json!({})).await.error(404, "NOT_FOUND");
    }
    for part in ["history", "archives", "logs"] {
        app.get(&ann, &format!("{path}/{part}")).await.error(404, "NOT_FOUND");
    }
    assert_eq!(app.get(&ann, "/workspaces").await.is(200)["items"], json!([]));
}
