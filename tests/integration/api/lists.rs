//! Pages, filters and what is wrong with them.

use codehub_domain::user::Role;
use serde_json::json;

use super::TestApp;

#[tokio::test(flavor = "multi_thread")]
async fn pages_follow_each_other_newest_first() {
    let app = TestApp::start().await;
    let ann = app.ann().await;
    for number in 0..5 {
        let body = json!({ "name": format!("Box {number}"), "desired_state": "STANDBY" });
        app.post(&ann, "/workspaces", body).await.is(201);
    }
    let mut seen = Vec::new();
    let mut path = String::from("/workspaces?limit=2");
    loop {
        let page = app.get(&ann, &path).await.is(200);
        assert_eq!(page["total"], 5);
        seen.extend(
            page["items"].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap().to_owned()),
        );
        match page["next_cursor"].as_str() {
            Some(cursor) => path = format!("/workspaces?limit=2&cursor={cursor}"),
            None => break,
        }
    }
    assert_eq!(seen, ["Box 4", "Box 3", "Box 2", "Box 1", "Box 0"]);
    let found = app.get(&ann, "/workspaces?q=bOX%203").await.is(200);
    assert_eq!((&found["total"], &found["items"][0]["name"]), (&json!(1), &json!("Box 3")));
    assert_eq!(app.get(&ann, "/workspaces?q=%25").await.is(200)["total"], 0, "no pattern");
    assert_eq!(app.get(&ann, "/workspaces?phase=RUNNING").await.is(200)["total"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_filters_are_named() {
    let app = TestApp::start().await;
    let ann = app.ann().await;
    for (query, field) in [
        ("limit=0", "limit"),
        ("limit=201", "limit"),
        ("limit=many", "limit"),
        ("cursor=nonsense", "cursor"),
        ("cursor=", "cursor"),
        ("phase=running", "phase"),
        ("phase=", "phase"),
        ("all=yes", "all"),
        ("label=", "label"),
        ("label=Team", "label"),
        ("colour=red", "colour"),
    ] {
        let answer = app.get(&ann, &format!("/workspaces?{query}")).await;
        assert_eq!(answer.body["error"]["details"]["field"], field, "{query}: {}", answer.body);
        answer.error(400, "INVALID_REQUEST");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn everybodys_are_for_administrators() {
    let app = TestApp::start().await;
    let ann = app.ann().await;
    let root = app.person("root", Role::Admin).await;
    app.workspace(&ann, "ann's", "STANDBY").await;
    assert_eq!(app.get(&root, "/workspaces").await.is(200)["total"], 0, "one's own, unless asked");
    let all = app.get(&root, "/workspaces?all=true").await.is(200);
    assert_eq!(all["items"][0]["owner"]["username"], "ann");
    app.get(&ann, "/workspaces?all=true").await.error(403, "FORBIDDEN");
    assert_eq!(app.get(&ann, "/workspaces?all=false").await.is(200)["total"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_are_given_edited_and_filtered_by() {
    let app = TestApp::start().await;
    let ann = app.ann().await;
    let new = |name: &str, labels: serde_json::Value| json!({ "name": name, "desired_state": "STANDBY", "labels": labels });
    let api =
        app.post(&ann, "/workspaces", new("My API", json!({ "team": "api", "tier": "" }))).await.is(201);
    assert_eq!((&api["slug"], &api["labels"]["team"]), (&json!("my-api"), &json!("api")));
    let web = app.post(&ann, "/workspaces", new("My API", json!({ "team": "web" }))).await.is(201);
    assert_eq!(web["slug"], "my-api-2");
    let names = async |filter: &str| {
        let page = app.get(&ann, &format!("/workspaces?label={filter}")).await.is(200);
        page["items"].as_array().unwrap().iter().map(|item| item["slug"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(names("team").await, ["my-api-2", "my-api"]);
    assert_eq!(names("team:api").await, ["my-api"]);
    assert_eq!(names("tier").await, ["my-api"]);
    assert_eq!(names("team:none").await, [json!(null); 0]);

    let path = format!("/workspaces/{}", web["id"].as_str().unwrap());
    let kept = app.patch(&ann, &path, json!({ "memo": "labels stay" })).await.is(200);
    assert_eq!(kept["labels"], json!({ "team": "web" }));
    let edited = app.patch(&ann, &path, json!({ "labels": { "tier": "1" } })).await.is(200);
    assert_eq!(edited["labels"], json!({ "tier": "1" }), "all of them are named");
    assert_eq!(names("tier:1").await, ["my-api-2"]);
    for wrong in [json!({ "Team": "x" }), json!({ "": "x" }), json!({ "k": "v".repeat(256) })] {
        let answer = app.patch(&ann, &path, json!({ "labels": wrong })).await;
        assert_eq!(answer.body["error"]["details"]["field"], "labels", "{}", answer.body);
        answer.error(400, "INVALID_REQUEST");
    }
}
