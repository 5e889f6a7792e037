//! Leases, the ledger, and the mode of a workspace.

use serde_json::json;

use super::TestApp;

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_is_taken_listed_and_given_back() {
    let app = TestApp::start().await;
    let (ann, bob) = (app.ann().await, app.person("bob", codehub_domain::user::Role::User).await);
    let id = app.workspace(&ann, "held", "RUNNING").await;
    let path = format!("/workspaces/{id}/keepalive");
    let before = app.get(&ann, &format!("/workspaces/{id}")).await.is(200);
    assert_eq!((&before["held_until"], &before["activity"]["holds"]), (&json!(null), &json!([])));

    let lease = app.post(&ann, &path, json!({ "seconds": 7200, "reason": "a long build" })).await.is(201);
    let held = app.get(&ann, &format!("/workspaces/{id}")).await.is(200);
    assert_eq!(held["held_until"], lease["until"]);
    assert_eq!(held["activity"]["active_because"]["kind"], "hold");
    assert_eq!(held["activity"]["active_because"]["text"], "kept awake: a long build");
    assert!(held["stops_at"].as_str() > before["stops_at"].as_str(), "{held}");
    assert_eq!(held["activity"]["sleeps_at"], held["stops_at"]);
    let listed = app.get(&ann, "/workspaces").await.is(200);
    assert_eq!(listed["items"][0]["stops_at"], held["stops_at"]);
    let listed = app.get(&ann, &path).await.is(200);
    assert_eq!((&listed["items"][0], &listed["total"]), (&lease, &json!(1)));

    for (body, field) in [
        (json!({ "seconds": 43_201 }), "seconds"),
        (json!({ "seconds": 0 }), "seconds"),
        (json!({ "seconds": 5, "reason": "x".repeat(201) }), "reason"),
    ] {
        let message = app.post(&ann, &path, body).await.error(400, "INVALID_REQUEST");
        assert!(message.contains(field), "{message}");
    }
    app.post(&bob, &path, json!({ "seconds": 5 })).await.error(403, "FORBIDDEN");
    let one = format!("{path}/{}", lease["id"].as_str().unwrap());
    app.delete(&bob, &one).await.error(403, "FORBIDDEN");
    app.delete(&ann, &one).await.is(204);
    app.delete(&ann, &one).await.error(404, "NOT_FOUND");
    app.post(&ann, &format!("/workspaces/{id}/snooze"), json!({})).await.is(201);
    assert_eq!(app.get(&ann, &path).await.is(200)["items"][0]["reason"], "snoozed");
    app.delete(&ann, &path).await.is(204);
    assert_eq!(app.get(&ann, &path).await.is(200)["items"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_sleeps_says_why_and_is_not_held() {
    let app = TestApp::start().await;
    let ann = app.ann().await;
    let id = app.workspace(&ann, "asleep", "RUNNING").await;
    let stopped = app.post(&ann, &format!("/workspaces/{id}/stop?wait=30"), json!({})).await.is(202);
    let why = &stopped["activity"]["stopped_because"];
    assert_eq!(
        (&why["reason"], &why["reason_code"]),
        (&json!("Stop requested"), &json!("stop_requested")),
        "{stopped}"
    );
    assert_eq!(why["actor"], format!("user:{}", ann.id));
    assert_eq!(stopped["activity"]["active_because"], json!(null));
    let lease = app.post(&ann, &format!("/workspaces/{id}/keepalive"), json!({ "seconds": 5 })).await;
    assert!(lease.error(409, "INVALID_STATE").contains("start it first"));
    let never_ran = app.workspace(&ann, "never ran", "STANDBY").await;
    let shown = app.get(&ann, &format!("/workspaces/{never_ran}")).await.is(200);
    assert_eq!(shown["activity"]["stopped_because"], json!(null), "its creation is no stop");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_may_count_connections() {
    let app = TestApp::start().await;
    let ann = app.ann().await;
    let id = app.workspace(&ann, "mode", "RUNNING").await;
    let path = format!("/workspaces/{id}");
    let workspace = app.get(&ann, &path).await.is(200);
    assert_eq!(
        (&workspace["activity_mode"], &workspace["activity"]["mode"]),
        (&json!(null), &json!("traffic"))
    );
    let edited = app.patch(&ann, &path, json!({ "activity_mode": "connections" })).await.is(200);
    assert_eq!(
        (&edited["activity_mode"], &edited["activity"]["mode"]),
        (&json!("connections"), &json!("connections"))
    );
    app.patch(&ann, &path, json!({ "activity_mode": "sometimes" })).await.error(400, "INVALID_REQUEST");
    let edited = app.patch(&ann, &path, json!({ "activity_mode": null })).await.is(200);
    assert_eq!(edited["activity_mode"], json!(null));
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_are_not_without_end() {
    let app = TestApp::start().await;
    let ann = app.ann().await;
    let id = app.workspace(&ann, "held", "RUNNING").await;
    let path = format!("/workspaces/{id}/keepalive");
    let mut first = None;
    for _ in 0..64 {
        let lease = app.post(&ann, &path, json!({ "seconds": 600 })).await.is(201);
        first.get_or_insert(lease);
    }
    for (path, body) in [(&path, json!({ "seconds": 600 })), (&format!("/workspaces/{id}/snooze"), json!({}))]
    {
        let message = app.post(&ann, path, body).await.error(429, "LIMIT_EXCEEDED");
        assert!(message.contains("give some of them back"), "{message}");
    }
    app.delete(&ann, &format!("{path}/{}", first.unwrap()["id"].as_str().unwrap())).await.is(204);
    app.post(&ann, &path, json!({ "seconds": 600 })).await.is(201);
}
