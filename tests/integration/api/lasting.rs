//! What stays open (event streams, followed logs) ends with the right to it, however that ends.

use codehub_store::fake::by;
use std::time::{Duration, Instant};

use codehub_domain::{TokenId, user::Role};
use codehub_server::auth::secret;
use codehub_store::{UserEdit, prelude::*, sqlite::SqliteStore};
use codehub_testing::let_time_pass;
use futures::{FutureExt as _, future::BoxFuture};
use reqwest::Method;
use serde_json::json;
use uuid::Uuid;

use super::{Person, TestApp};

/// Opens it; the future ends when the server ends it.
async fn open(app: &TestApp, who: &Person, path: &str) -> BoxFuture<'static, ()> {
    let request = app.request(who, Method::GET, path).timeout(Duration::from_secs(60));
    let answer = request.send().await.unwrap();
    assert_eq!(answer.status(), 200, "{path}");
    tokio::spawn(async move { drop(answer.bytes().await) }).map(|_| ()).boxed()
}

/// Everything that lasts, opened by somebody.
async fn all(app: &TestApp, who: &Person, workspace: &str) -> Vec<(String, BoxFuture<'static, ()>)> {
    let mut opened = Vec::new();
    for path in ["/events".to_owned(), format!("/workspaces/{workspace}/logs?follow=true")] {
        let stream = open(app, who, &path).await;
        opened.push((path, stream));
    }
    opened
}

async fn end(streams: Vec<(String, BoxFuture<'static, ()>)>) {
    for (path, stream) in streams {
        tokio::time::timeout(Duration::from_secs(10), stream)
            .await
            .unwrap_or_else(|_| panic!("{path} lasts"));
    }
}

async fn lasts(streams: &mut [(String, BoxFuture<'static, ()>)]) {
    let_time_pass(Duration::from_millis(300)).await;
    for (path, stream) in streams {
        assert!(stream.now_or_never().is_none(), "{path} has ended");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disabled_person_hears_no_more_and_others_go_on() {
    let app = TestApp::start().await;
    let (ann, bob) = (app.ann().await, app.person("bob", Role::User).await);
    let (hers, his) =
        (app.workspace(&ann, "hers", "STANDBY").await, app.workspace(&bob, "his", "STANDBY").await);
    let (hers, mut his) = (all(&app, &ann, &hers).await, all(&app, &bob, &his).await);
    let root = app.person("root", Role::Admin).await;
    app.patch(&root, &format!("/users/{}", ann.id), json!({ "disabled": true })).await.is(200);
    end(hers).await;
    lasts(&mut his).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_runs_out_takes_its_streams_along() {
    let app = TestApp::start().await;
    let ann = app.ann().await;
    let id = app.workspace(&ann, "hers", "STANDBY").await;
    let token = secret::new_token();
    let token_id = TokenId::from_uuid(Uuid::now_v7());
    let made = Instant::now();
    let session = app.session(ann.id).await.0;
    app.app
        .store()
        .token_create(by(), token_id, session, "short", &secret::hash(&token), Some(2))
        .await
        .unwrap();
    let short = all(&app, &Person { id: ann.id, token }, &id).await;
    let mut long = all(&app, &ann, &id).await;
    end(short).await;
    assert!(made.elapsed() > Duration::from_millis(1900), "{:?}", made.elapsed());
    lasts(&mut long).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_administrator_no_more_sees_no_more_of_other_peoples_logs() {
    let app = TestApp::start().await;
    let (ann, root) = (app.ann().await, app.person("root", Role::Admin).await);
    let eve = app.person("eve", Role::Admin).await;
    let (hers, own) =
        (app.workspace(&ann, "hers", "STANDBY").await, app.workspace(&eve, "own", "STANDBY").await);
    let logs = open(&app, &eve, &format!("/workspaces/{hers}/logs?follow=true")).await;
    let mut own = all(&app, &eve, &own).await;
    app.patch(&root, &format!("/users/{}", eve.id), json!({ "role": "user" })).await.is(200);
    end(vec![("somebody else's log".into(), logs)]).await;
    lasts(&mut own).await;
}

/// `codehub admin` writes to the same file from another process.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_command_line_does_is_noticed() {
    let app = TestApp::start().await;
    let ann = app.ann().await;
    let id = app.workspace(&ann, "hers", "STANDBY").await;
    let streams = all(&app, &ann, &id).await;
    let command_line = SqliteStore::open(app.data().join("codehub.db")).await.unwrap();
    let edit = UserEdit { disabled: Some(true), ..UserEdit::default() };
    command_line.user_edit(by(), ann.id, edit).await.unwrap();
    end(streams).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_password_ends_what_its_tokens_opened() {
    let app = TestApp::start().await;
    let (ann, bob) = (app.ann().await, app.person("bob", Role::User).await);
    let root = app.person("root", Role::Admin).await;
    let (hers, his) =
        (app.workspace(&ann, "hers", "STANDBY").await, app.workspace(&bob, "his", "STANDBY").await);
    let (hers, mut his) = (all(&app, &ann, &hers).await, all(&app, &bob, &his).await);
    app.patch(&root, &format!("/users/{}", ann.id), json!({ "password": "battery staple" })).await.is(200);
    end(hers).await;
    lasts(&mut his).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_an_administrator_revokes_takes_its_streams_along() {
    let app = TestApp::start().await;
    let (ann, root) = (app.ann().await, app.person("root", Role::Admin).await);
    let id = app.workspace(&ann, "hers", "STANDBY").await;
    let streams = all(&app, &ann, &id).await;
    let tokens = app.get(&root, &format!("/users/{}/tokens", ann.id)).await.is(200);
    let token = tokens["items"][0]["id"].as_str().unwrap();
    app.delete(&root, &format!("/users/{}/tokens/{token}", ann.id)).await.is(204);
    end(streams).await;
}
