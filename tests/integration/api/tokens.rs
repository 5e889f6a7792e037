//! Tokens do not make tokens, end with the password, and are revoked by administrators.

use codehub_domain::user::Role;
use codehub_server::auth::planted;
use codehub_store::fake::by;
use codehub_store::{UserEdit, prelude::*, sqlite::SqliteStore};
use reqwest::Method;
use serde_json::{Value, json};

use super::{Person, TestApp};

const PASSWORD: &str = "correct horse";
const FORM: &str = "application/x-www-form-urlencoded";

/// How many tokens somebody has, without asking the API.
async fn count(app: &TestApp, who: &Person) -> usize {
    app.app.store().token_list(who.id).await.unwrap().len()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_makes_no_tokens_by_any_way() {
    let app = TestApp::start().await;
    for (name, role) in [("ann", Role::User), ("root", Role::Admin)] {
        let who = app.person(name, role).await;
        let message =
            app.post(&who, "/auth/tokens", json!({ "name": "child" })).await.error(403, "FORBIDDEN");
        assert!(message.contains("a token cannot create tokens") && message.contains("sign in"), "{message}");
        // A token counts where there is one, whatever cookie comes with it.
        let (_, cookie) = app.session(who.id).await;
        let both = app.page_request(&cookie, Method::POST, "/auth/tokens").bearer_auth(&who.token);
        app.send(both.json(&json!({ "name": "child" }))).await.error(403, "FORBIDDEN");
        // Bodies are not looked at before.
        app.send(app.request(&who, Method::POST, "/auth/tokens")).await.error(403, "FORBIDDEN");
        // The dashboard's form takes tokens as the API does, but not for this.
        let form = app.client.post(app.url("/tokens")).bearer_auth(&who.token).header("origin", app.url(""));
        let answer = form.header("content-type", FORM).body("name=child&days=0").send().await.unwrap();
        assert_eq!(answer.status(), 403);
        assert!(!answer.text().await.unwrap().contains("chp_"));
        // Nor does a token become a session.
        let page = app.client.get(app.url("/")).bearer_auth(&who.token).send().await.unwrap();
        assert!(!page.headers().contains_key("set-cookie"), "{:?}", page.headers());
        assert_eq!(count(&app, &who).await, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_password_deletes_tokens_unless_they_are_kept() {
    let app = TestApp::start().await;
    let ann = app.person_with_password("ann", Role::User, PASSWORD).await;
    let bob = app.person("bob", Role::User).await;
    let change = async |from: &str, to: &str, keep: Value| {
        let mut body = json!({ "current_password": from, "new_password": to });
        if !keep.is_null() {
            body["keep_tokens"] = keep;
        }
        app.post(&ann, "/auth/password", body).await
    };
    change("wrong horse", "battery staple", json!(false)).await.error(401, "UNAUTHORIZED");
    change(PASSWORD, "battery staple", json!("yes")).await.error(400, "INVALID_REQUEST");
    assert_eq!(count(&app, &ann).await, 1, "nothing has changed");
    change(PASSWORD, "battery staple", json!(true)).await.is(200);
    app.get(&ann, "/auth/session").await.is(200);
    // Unless said, they go; also the one that asked.
    change("battery staple", PASSWORD, Value::Null).await.is(200);
    app.get(&ann, "/auth/session").await.error(401, "UNAUTHORIZED");
    assert_eq!(count(&app, &ann).await, 0);
    app.get(&bob, "/auth/session").await.is(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_set_by_an_administrator_deletes_tokens() {
    let app = TestApp::start().await;
    let (root, ann) = (app.person("root", Role::Admin).await, app.ann().await);
    let path = format!("/users/{}", ann.id);
    for body in [json!({ "role": "admin" }), json!({ "role": "user" }), json!({})] {
        app.patch(&root, &path, body).await.is(200);
        app.get(&ann, "/auth/session").await.is(200);
    }
    let keeping = json!({ "password": PASSWORD, "keep_tokens": true });
    app.patch(&root, &path, keeping).await.error(400, "INVALID_REQUEST");
    app.patch(&root, &path, json!({ "password": PASSWORD })).await.is(200);
    app.get(&ann, "/auth/session").await.error(401, "UNAUTHORIZED");
    assert_eq!(count(&app, &ann).await, 0);
    app.get(&root, "/auth/session").await.is(200);
}

/// `codehub admin user passwd` writes to the same file from another process.
#[tokio::test(flavor = "multi_thread")]
async fn a_password_set_on_the_command_line_deletes_tokens() {
    let app = TestApp::start().await;
    let ann = app.ann().await;
    app.get(&ann, "/auth/session").await.is(200);
    let command_line = SqliteStore::open(app.data().join("codehub.db")).await.unwrap();
    let edit = UserEdit { password_hash: Some("-".into()), ..UserEdit::default() };
    command_line.user_edit(by(), ann.id, edit).await.unwrap();
    app.get(&ann, "/auth/session").await.error(401, "UNAUTHORIZED");
}

#[tokio::test(flavor = "multi_thread")]
async fn administrators_list_and_revoke_tokens() {
    let app = TestApp::start().await;
    let (root, ann, bob) =
        (app.person("root", Role::Admin).await, app.ann().await, app.person("bob", Role::User).await);
    let listed = |who: &Person| format!("/users/{}/tokens", who.id);
    let tokens = app.get(&root, &listed(&ann)).await.is(200);
    assert_eq!((&tokens["total"], &tokens["items"][0]["name"]), (&json!(1), &json!("test")));
    assert!(tokens["items"][0]["last_used_at"].is_null(), "{tokens}");
    assert!(!tokens.to_string().contains("chp_") && !tokens.to_string().contains("hash"), "{tokens}");
    let token = tokens["items"][0]["id"].as_str().unwrap();
    let path = format!("{}/{token}", listed(&ann));
    // Nobody but administrators, not even for oneself: those have /auth/tokens.
    for who in [&ann, &bob] {
        app.get(who, &listed(&ann)).await.error(403, "FORBIDDEN");
        app.delete(who, &path).await.error(403, "FORBIDDEN");
    }
    let nobody = Person { id: ann.id, token: "chp_nonsense".into() };
    app.get(&nobody, &listed(&ann)).await.error(401, "UNAUTHORIZED");
    app.delete(&nobody, &path).await.error(401, "UNAUTHORIZED");
    // With the cookie only from our own pages.
    let (_, cookie) = app.session(root.id).await;
    let elsewhere = app.client.delete(app.url(&format!("/api/v1{path}"))).header("cookie", &cookie);
    app.send(elsewhere.header("origin", "https://evil.example")).await.error(403, "FORBIDDEN");
    // A token is found below its owner only.
    app.delete(&root, &format!("{}/{token}", listed(&bob))).await.error(404, "NOT_FOUND");
    for nothing in ["/users/nonsense/tokens", "/users/0190a5d0-ac96-774b-bcce-b302099a8057/tokens"] {
        app.get(&root, nothing).await.error(404, "NOT_FOUND");
    }
    app.delete(&root, &format!("{}/nonsense", listed(&ann))).await.error(404, "NOT_FOUND");
    app.get(&ann, "/auth/session").await.is(200);

    app.delete(&root, &path).await.is(204);
    app.get(&ann, "/auth/session").await.error(401, "UNAUTHORIZED");
    app.delete(&root, &path).await.error(404, "NOT_FOUND");
    assert_eq!(app.get(&root, &listed(&ann)).await.is(200)["total"], 0);
    app.send(app.page_request(&cookie, Method::GET, &listed(&bob))).await.is(200);
}

/// A stolen session that makes tokens as fast as it can while its owner changes the password.
#[tokio::test(flavor = "multi_thread")]
async fn no_token_is_left_behind_a_changed_password() {
    let app = TestApp::start().await;
    let ann = app.person_with_password("ann", Role::User, PASSWORD).await;
    let (_, stolen) = app.session(ann.id).await;
    let thieves: Vec<_> = (0..4)
        .map(|_| {
            let request =
                app.page_request(&stolen, Method::POST, "/auth/tokens").json(&json!({ "name": "x" }));
            let request = request.build().unwrap();
            let client = app.client.clone();
            tokio::spawn(async move {
                let (mut made, mut refused) = (0, 0);
                while refused < 3 {
                    match client.execute(request.try_clone().unwrap()).await.unwrap().status().as_u16() {
                        201 => made += 1,
                        401 => refused += 1,
                        other => panic!("{other}"),
                    }
                }
                made
            })
        })
        .collect();
    let body = json!({ "current_password": PASSWORD, "new_password": "battery staple" });
    app.post(&ann, "/auth/password", body).await.is(200);
    let mut made = 0;
    for thief in thieves {
        made += thief.await.unwrap();
    }
    assert!(made > 0, "they were not even there");
    assert_eq!(count(&app, &ann).await, 0);
}

/// Somebody who knows the old password and signs in as fast as they can while it changes.
#[tokio::test(flavor = "multi_thread")]
async fn no_session_is_left_behind_a_changed_password() {
    let app = TestApp::start().await;
    let ann = app.person_with_password("ann", Role::User, PASSWORD).await;
    let new_hash = app.app.passwords.hash("battery staple").await.unwrap();
    let begun = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
    let thieves: Vec<_> = (0..6)
        .map(|_| {
            let body = json!({ "username": "ann", "password": PASSWORD });
            let request = app.client.post(app.url("/api/v1/auth/login")).json(&body).build().unwrap();
            let (client, begun) = (app.client.clone(), begun.clone());
            tokio::spawn(async move {
                let mut cookies = Vec::new();
                loop {
                    let answer = client.execute(request.try_clone().unwrap()).await.unwrap();
                    if answer.status() != 200 {
                        return cookies;
                    }
                    begun.add_permits(1);
                    let cookie = answer.headers()["set-cookie"].to_str().unwrap();
                    cookies.push(cookie.split(';').next().unwrap().to_owned());
                }
            })
        })
        .collect();
    // In the midst of it.
    begun.acquire_many(8).await.unwrap().forget();
    let edit = UserEdit { password_hash: Some(new_hash), ..UserEdit::default() };
    app.app.store().user_edit(by(), ann.id, edit).await.unwrap();
    for thief in thieves {
        for cookie in thief.await.unwrap() {
            app.send(app.page_request(&cookie, Method::GET, "/auth/session"))
                .await
                .error(401, "UNAUTHORIZED");
        }
    }
}

/// What signing in says to the browser about everything that is stored for this address.
#[tokio::test(flavor = "multi_thread")]
async fn signing_in_evicts_planted_workers_once_per_browser() {
    let app = TestApp::start().await;
    app.person_with_password("ann", Role::User, PASSWORD).await;
    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let sign_in = async |cookie: &str, password: &str| {
        let form = format!("username=ann&password={}", password.replace(' ', "+"));
        let request = client.post(app.url("/login")).header("origin", app.url("")).header("cookie", cookie);
        request.header("content-type", FORM).body(form).send().await.unwrap()
    };
    let evicts = |answer: &reqwest::Response| answer.headers().get("clear-site-data").cloned();
    let wrong = sign_in("", "wrong horse").await;
    assert_eq!((wrong.status().as_u16(), evicts(&wrong)), (401, None), "a wrong password proves nothing");
    let first = sign_in("", PASSWORD).await;
    assert_eq!(evicts(&first).unwrap(), "\"cache\", \"storage\"");
    let set: Vec<_> =
        first.headers().get_all("set-cookie").iter().map(|value| value.to_str().unwrap()).collect();
    let mark = set.iter().find(|cookie| cookie.starts_with("clean=")).unwrap();
    assert!(mark.contains("; Path=/login; HttpOnly"), "not for workspaces, nor scripts: {mark}");
    assert_eq!(set.len(), 3, "the session, the browser's own, and the mark");
    let mark = mark.split(';').next().unwrap();
    for (cookie, again) in
        [(mark, false), ("clean=1", true), ("clean=", true), (&*format!("clean=1; {mark}"), false)]
    {
        let answer = sign_in(cookie, PASSWORD).await;
        assert_eq!((answer.status().as_u16(), evicts(&answer).is_some()), (303, again), "{cookie}");
    }
    // No page of ours signs in by the API: in a browser it is a worker or script of somebody else's.
    let api = app.client.post(app.url("/api/v1/auth/login")).header("cookie", mark);
    let api = app.send(api.json(&json!({ "username": "ann", "password": PASSWORD }))).await;
    assert!(api.headers.contains_key("clear-site-data"));
    let mut headers = reqwest::header::HeaderMap::new();
    planted::evict(&mut headers);
    assert_eq!(headers["clear-site-data"], api.headers["clear-site-data"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_outside_workspaces_is_a_service_worker() {
    let app = TestApp::start().await;
    let ann = app.ann().await;
    for path in [
        "/",
        "/login",
        "/nothing",
        "/sw.js",
        "/favicon.ico",
        "/assets/x/app.js",
        "/api/docs/docs.js",
        "/api/v1/openapi.json",
        "/api/v1/workspaces",
        "/api/nothing",
        "/healthz",
        "/metrics",
        "/wx/",
        "/w",
        "//w/x/",
        "/W/x/",
    ] {
        for (name, value) in
            [("Service-Worker", "script"), ("SERVICE-WORKER", "SCRIPT"), ("service-worker", "")]
        {
            for method in [Method::GET, Method::HEAD, Method::POST] {
                let request = app.client.request(method.clone(), app.url(path)).bearer_auth(&ann.token);
                let answer = request.header(name, value).send().await.unwrap();
                assert_eq!(answer.status(), 403, "{method} {path} {name}: {value}");
                assert!(!answer.headers().contains_key("service-worker-allowed"));
            }
        }
        let plain = app.client.get(app.url(path)).bearer_auth(&ann.token).send().await.unwrap();
        assert_ne!(plain.status(), 403, "{path}");
    }
}
