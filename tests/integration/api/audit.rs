//! What was done, as administrators read it.

use codehub_domain::user::Role;
use codehub_testing::eventually;
use serde_json::{Value, json};

use super::{Person, TestApp};

async fn events(app: &TestApp, admin: &Person, query: &str) -> Vec<Value> {
    let page = app.get(admin, &format!("/audit?limit=200{query}")).await.is(200);
    page["items"].as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn signing_in_and_failing_to_is_written_down() {
    let app = TestApp::start().await;
    let root = app.person("root", Role::Admin).await;
    let ann = app.person_with_password("ann", Role::User, "correct horse").await;
    for (name, password, times) in
        [("ann", "correct horse", 1), ("ann", "wrong-guess", 2), ("nobody-typed-this", "x", 2)]
    {
        for _ in 0..times {
            let body = json!({ "username": name, "password": password });
            app.client.post(app.url("/api/v1/auth/login")).json(&body).send().await.unwrap();
        }
    }
    let failed = events(&app, &root, "&action=login.failed").await;
    assert_eq!(failed.len(), 2, "{failed:?}");
    let of_ann = failed.iter().find(|event| event["object"]["id"] == json!(ann.id)).unwrap();
    assert_eq!((of_ann["count"].as_u64(), of_ann["outcome"].as_str()), (Some(2), Some("failed")));
    let unknown = failed.iter().find(|event| event["object"].is_null()).unwrap();
    assert_eq!(unknown["count"], 2, "names that nobody has are one event");
    assert_eq!(unknown["actor"]["kind"], "anonymous");
    assert!(unknown["address"].as_str().is_some_and(|address| address.starts_with("127.")));
    let all = format!("{:?}", events(&app, &root, "").await);
    for secret in ["wrong-guess", "nobody-typed-this", "correct horse"] {
        assert!(!all.contains(secret), "{secret} is in the trail");
    }
    let ok = events(&app, &root, &format!("&action=login.ok&actor={}", ann.id)).await;
    let newest = &ok[0];
    assert_eq!((newest["actor"]["name"].as_str(), newest["outcome"].as_str()), (Some("ann"), Some("ok")));
    assert!(
        newest["actor"]["session"].is_string()
            && newest["request_id"].is_string()
            && newest["replica"].is_string()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn acts_and_refusals_have_their_actor() {
    let app = TestApp::start().await;
    let (root, ann, bob) = (
        app.person("root", Role::Admin).await,
        app.person("ann", Role::User).await,
        app.person("bob", Role::User).await,
    );
    let id = app.workspace(&ann, "mine", "ARCHIVED").await;
    for _ in 0..3 {
        app.post(&bob, &format!("/workspaces/{id}/start"), json!({})).await.error(403, "FORBIDDEN");
    }
    let new = json!({ "username": "x", "password": "long enough" });
    app.post(&bob, "/users", new).await.error(403, "FORBIDDEN");
    let of_workspace = events(&app, &root, &format!("&object={id}")).await;
    let created = of_workspace.iter().find(|event| event["action"] == "workspace.created").unwrap();
    assert_eq!(
        (created["actor"]["kind"].as_str(), created["actor"]["name"].as_str()),
        (Some("token"), Some("ann"))
    );
    assert!(created["actor"]["token"].is_string());
    let denied = events(&app, &root, "&outcome=denied&actor=bob").await;
    let what: Vec<_> =
        denied.iter().map(|event| (event["action"].as_str().unwrap(), event["count"].as_u64())).collect();
    assert!(
        what.contains(&("workspace.started", Some(3))) && what.contains(&("user.created", Some(1))),
        "{what:?}"
    );
    assert!(denied.iter().all(|event| event["code"] == "FORBIDDEN"));

    for person in [&ann, &bob] {
        app.get(person, "/audit").await.error(403, "FORBIDDEN");
    }
    for (query, says) in [
        ("actor=no-such-person", "operator"),
        ("action=workspace.eaten", "workspace.started"),
        ("outcome=maybe", "denied"),
        ("from=yesterday", "2030-01-31T12:00:00Z"),
        ("cursor=x", "cursor"),
        ("limit=0", "1 to 200"),
        ("who=me", "actor"),
    ] {
        let message = app.get(&root, &format!("/audit?{query}")).await.error(400, "INVALID_REQUEST");
        assert!(message.contains(says), "{query}: {message}");
    }
    // In pages, none twice.
    let mut seen = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = app.get(&root, &format!("/audit?limit=2{cursor}")).await.is(200);
        seen.extend(
            page["items"].as_array().unwrap().iter().map(|event| event["id"].as_str().unwrap().to_owned()),
        );
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert!(seen.is_sorted_by(|one, next| one > next) && seen.len() >= 6, "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn archives_are_recorded_when_they_become_a_home() {
    let app = TestApp::start().await;
    let ann = app.person("ann", Role::User).await;
    let id = app.workspace(&ann, "mine", "ARCHIVED").await;
    let mut key = None;
    eventually("it is archived", async || {
        let found = app.get(&ann, &format!("/workspaces/{id}")).await.is(200);
        key = found["archive_key"].as_str().map(|key| key.parse().unwrap());
        found["phase"] == "ARCHIVED" && key.is_some()
    })
    .await;
    assert!(app.app.store().archive_record(key.unwrap()).await.unwrap().is_some());
}
