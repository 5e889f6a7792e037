//! Users and tokens.

use codehub_domain::user::Role;
use reqwest::Method;
use serde_json::json;

use super::{Person, TestApp};

#[tokio::test(flavor = "multi_thread")]
async fn administrators_manage_users() {
    let app = TestApp::start().await;
    let root = app.person("root", Role::Admin).await;
    let body = json!({ "username": "ann", "password": "correct horse" });
    let ann = app.post(&root, "/users", body.clone()).await.is(201);
    assert_eq!((&ann["role"], &ann["disabled"]), (&json!("user"), &json!(false)));
    assert!(ann.get("password").is_none() && ann.get("password_hash").is_none());
    app.post(&root, "/users", json!({ "username": "ANN", "password": "correct horse" }))
        .await
        .error(409, "NAME_TAKEN");
    for (body, field) in [
        (json!({ "username": "a b", "password": "correct horse" }), "username"),
        (json!({ "username": "bob", "password": "short" }), "password"),
        (json!({ "username": "bob", "password": "correct horse", "role": "boss" }), "role"),
    ] {
        let answer = app.post(&root, "/users", body).await;
        assert_eq!(answer.body["error"]["details"]["field"], field, "{}", answer.body);
        let message = answer.error(400, "INVALID_REQUEST");
        assert!(!message.contains("correct horse"));
    }
    let id = ann["id"].as_str().unwrap();
    let edited =
        app.patch(&root, &format!("/users/{id}"), json!({ "role": "admin", "disabled": true })).await.is(200);
    assert_eq!((&edited["role"], &edited["disabled"]), (&json!("admin"), &json!(true)));
    assert_eq!(app.get(&root, &format!("/users/{id}")).await.is(200), edited);
    assert_eq!(app.get(&root, "/users?limit=1").await.is(200)["total"], 2);
    app.delete(&root, &format!("/users/{id}")).await.is(204);
    app.get(&root, &format!("/users/{id}")).await.error(404, "NOT_FOUND");
    app.patch(&root, "/users/nonsense", json!({})).await.error(404, "NOT_FOUND");
}

#[tokio::test(flavor = "multi_thread")]
async fn somebody_can_always_administer() {
    let app = TestApp::start().await;
    let root = app.person("root", Role::Admin).await;
    let path = format!("/users/{}", root.id);
    app.patch(&root, &path, json!({ "disabled": true })).await.error(409, "INVALID_STATE");
    app.patch(&root, &path, json!({ "role": "user" })).await.error(409, "INVALID_STATE");
    app.delete(&root, &path).await.error(409, "INVALID_STATE");
}

#[tokio::test(flavor = "multi_thread")]
async fn users_with_workspaces_stay_and_disabled_ones_are_locked_out() {
    let app = TestApp::start().await;
    let root = app.person("root", Role::Admin).await;
    let ann = app.ann().await;
    app.workspace(&ann, "hers", "STANDBY").await;
    let path = format!("/users/{}", ann.id);
    let message = app.delete(&root, &path).await.error(409, "INVALID_STATE");
    assert!(message.contains("1 workspace"), "{message}");
    app.patch(&root, &path, json!({ "disabled": true })).await.is(200);
    app.get(&ann, "/workspaces").await.error(401, "UNAUTHORIZED");
    app.patch(&root, &path, json!({ "disabled": false })).await.is(200);
    app.get(&ann, "/workspaces").await.is(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_administrators_see_users_and_the_system() {
    let app = TestApp::start().await;
    let ann = app.ann().await;
    app.get(&ann, "/users").await.error(403, "FORBIDDEN");
    app.post(&ann, "/users", json!({ "username": "x", "password": "correct horse" }))
        .await
        .error(403, "FORBIDDEN");
    app.patch(&ann, &format!("/users/{}", ann.id), json!({ "role": "admin" })).await.error(403, "FORBIDDEN");
    app.get(&ann, "/system").await.error(403, "FORBIDDEN");
    let root = app.person("root", Role::Admin).await;
    app.workspace(&ann, "one", "STANDBY").await;
    let system = app.get(&root, "/system").await.is(200);
    assert_eq!((&system["workspaces"]["STANDBY"], &system["workspaces"]["RUNNING"]), (&json!(1), &json!(0)));
    assert_eq!((&system["backends"]["store"]["kind"], &system["users"]), (&json!("sqlite"), &json!(2)));
    assert!(system["version"].is_string() && system["replicas"][0]["name"].is_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_shown_once_and_stop_working_when_deleted() {
    let app = TestApp::start().await;
    let ann = app.ann().await;
    let bob = app.person("bob", Role::User).await;
    let (_, cookie) = app.session(ann.id).await;
    let make = |body| app.send(app.page_request(&cookie, Method::POST, "/auth/tokens").json(&body));
    let created = make(json!({ "name": "laptop", "expires_in_seconds": 60 })).await.is(201);
    let token = created["token"].as_str().unwrap().to_owned();
    assert!(token.starts_with("chp_") && created["expires_at"].is_string());
    let laptop = Person { id: ann.id, token: token.clone() };
    assert_eq!(app.get(&laptop, "/auth/session").await.is(200)["user"]["username"], "ann");
    let listed = app.get(&ann, "/auth/tokens").await.is(200);
    assert_eq!(listed["total"], 2);
    assert!(!listed.to_string().contains(&token), "never again");
    let path = format!("/auth/tokens/{}", created["id"].as_str().unwrap());
    app.delete(&bob, &path).await.error(404, "NOT_FOUND");
    app.delete(&ann, &path).await.is(204);
    app.get(&laptop, "/auth/session").await.error(401, "UNAUTHORIZED");
    for body in [json!({ "name": "" }), json!({ "name": "x", "expires_in_seconds": 0 })] {
        make(body).await.error(400, "INVALID_REQUEST");
    }
    let nobody = Person { id: ann.id, token: "chp_nonsense".into() };
    app.send(app.request(&nobody, Method::GET, "/workspaces")).await.error(401, "UNAUTHORIZED");
}
