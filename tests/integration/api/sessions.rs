//! Signing in: cookies, forgeries, guessing, and the first run.

use codehub_domain::user::Role;
use codehub_server::auth::first_run::{self, FirstRun};
use reqwest::{Method, RequestBuilder};
use serde_json::json;

use super::{Answer, TestApp};

const PASSWORD: &str = "correct horse";

async fn login(app: &TestApp, username: &str, password: &str) -> Answer {
    let body = json!({ "username": username, "password": password });
    app.send(app.client.post(app.url("/api/v1/auth/login")).json(&body)).await
}

fn cookie_of(answer: &Answer) -> String {
    answer.headers["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned()
}

fn with_cookie(app: &TestApp, method: Method, path: &str, cookie: &str) -> RequestBuilder {
    app.client.request(method, app.url(&format!("/api/v1{path}"))).header("cookie", cookie)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_from_sign_in_to_sign_out() {
    let app = TestApp::start().await;
    app.person_with_password("ann", Role::User, PASSWORD).await;
    let answer = login(&app, "Ann", PASSWORD).await;
    let set = answer.headers["set-cookie"].to_str().unwrap().to_owned();
    assert!(set.contains("HttpOnly") && set.contains("SameSite=Lax") && set.contains("Path=/"), "{set}");
    assert!(!set.contains("Secure"), "plain http");
    let cookie = cookie_of(&answer);
    assert_eq!(answer.is(200)["user"]["username"], "ann");
    let me = app.send(with_cookie(&app, Method::GET, "/auth/session", &cookie)).await.is(200);
    assert_eq!(me["user"]["username"], "ann");

    // Signing in again makes a new session and ends the one before.
    let body = json!({ "username": "ann", "password": PASSWORD });
    let again = app.send(with_cookie(&app, Method::POST, "/auth/login", &cookie).json(&body)).await;
    let newer = cookie_of(&again);
    assert_ne!(newer, cookie);
    app.send(with_cookie(&app, Method::GET, "/auth/session", &cookie)).await.error(401, "UNAUTHORIZED");

    let two = format!("{newer}; {newer}");
    app.send(with_cookie(&app, Method::GET, "/auth/session", &two)).await.error(401, "SEVERAL_SESSIONS");

    let out = app.send(with_cookie(&app, Method::POST, "/auth/logout", &newer)).await;
    assert!(out.headers["set-cookie"].to_str().unwrap().contains("Max-Age=0"));
    out.is(204);
    app.send(with_cookie(&app, Method::GET, "/auth/session", &newer)).await.error(401, "UNAUTHORIZED");
}

#[tokio::test(flavor = "multi_thread")]
async fn signing_out_ends_every_session_among_the_cookies() {
    let app = TestApp::start().await;
    app.person_with_password("ann", Role::User, PASSWORD).await;
    let gone = async |cookie: &str| {
        app.send(with_cookie(&app, Method::GET, "/auth/session", cookie)).await.error(401, "UNAUTHORIZED");
    };
    for planted in ["session=planted", "session=", "session=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"] {
        for first in [true, false] {
            let real = cookie_of(&login(&app, "ann", PASSWORD).await);
            let both = if first { format!("{planted}; {real}") } else { format!("{real}; {planted}") };
            let out = app.send(with_cookie(&app, Method::POST, "/auth/logout", &both)).await;
            let places = out.headers.get_all("set-cookie").iter().map(|set| set.to_str().unwrap());
            let places: Vec<_> = places.filter_map(|set| set.split("; ").nth(1)).collect();
            for path in ["Path=/", "Path=/api", "Path=/api/v1/auth/", "Path=/api/v1/auth/logout"] {
                assert!(places.contains(&path), "{path} in {places:?}");
            }
            out.is(204);
            gone(&real).await;
        }
        // Nothing was ended, so that is not claimed; but the cookie goes.
        let out = app.send(with_cookie(&app, Method::POST, "/auth/logout", planted)).await;
        assert!(out.headers["set-cookie"].to_str().unwrap().contains("Max-Age=0"));
        out.error(401, "UNAUTHORIZED");
    }
    let (one, two) = (login(&app, "ann", PASSWORD).await, login(&app, "ann", PASSWORD).await);
    let (one, two) = (cookie_of(&one), cookie_of(&two));
    app.send(with_cookie(&app, Method::POST, "/auth/logout", &format!("{one}; {two}"))).await.is(204);
    gone(&one).await;
    gone(&two).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cookie_may_write_from_our_own_pages_only() {
    let app = TestApp::start().await;
    app.person_with_password("ann", Role::User, PASSWORD).await;
    let cookie = cookie_of(&login(&app, "ann", PASSWORD).await);
    let create = |headers: &[(&'static str, String)]| {
        let mut request = with_cookie(&app, Method::POST, "/workspaces", &cookie)
            .json(&json!({ "name": "x", "desired_state": "STANDBY" }));
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        app.send(request)
    };
    create(&[]).await.error(403, "FORBIDDEN");
    create(&[("origin", "https://evil.example".into())]).await.error(403, "FORBIDDEN");
    create(&[("origin", "null".into())]).await.error(403, "FORBIDDEN");
    create(&[("sec-fetch-site", "cross-site".into())]).await.error(403, "FORBIDDEN");
    create(&[("sec-fetch-site", "same-site".into())]).await.error(403, "FORBIDDEN");
    create(&[("origin", app.url(""))]).await.is(201);
    create(&[("sec-fetch-site", "same-origin".into())]).await.is(201);
    app.send(with_cookie(&app, Method::GET, "/workspaces", &cookie)).await.is(200);
    let login_from_elsewhere = app
        .client
        .post(app.url("/api/v1/auth/login"))
        .header("origin", "https://evil.example")
        .json(&json!({ "username": "ann", "password": PASSWORD }));
    app.send(login_from_elsewhere).await.error(403, "FORBIDDEN");
}

#[tokio::test(flavor = "multi_thread")]
async fn guessing_is_slowed_down_and_tells_nothing() {
    let app = TestApp::start().await;
    app.person_with_password("ann", Role::User, PASSWORD).await;
    let wrong = login(&app, "ann", "wrong horse").await.error(401, "UNAUTHORIZED");
    let unknown = login(&app, "nobody", "wrong horse").await.error(401, "UNAUTHORIZED");
    assert_eq!(wrong, unknown, "alike in text");
    login(&app, "ann", PASSWORD).await.is(200);
    for _ in 0..5 {
        login(&app, "ann", "wrong horse").await.error(401, "UNAUTHORIZED");
    }
    let refused = login(&app, "ann", PASSWORD).await;
    let retry_after: u64 = refused.headers["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=30).contains(&retry_after), "{retry_after}");
    let refused = refused.error(429, "TOO_MANY_ATTEMPTS");
    // A name that nobody has waits alike.
    for _ in 0..4 {
        login(&app, "nobody", "wrong horse").await.error(401, "UNAUTHORIZED");
    }
    let unknown = login(&app, "nobody", "wrong horse").await.error(429, "TOO_MANY_ATTEMPTS");
    let words = |text: &str| text.replace(|c: char| c.is_ascii_digit(), "");
    assert_eq!(words(&refused), words(&unknown), "alike in text");
    // Somebody else behind the same address does not wait.
    app.person_with_password("bob", Role::User, PASSWORD).await;
    login(&app, "bob", PASSWORD).await.is(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_right_password_forgives_typing_errors() {
    let app = TestApp::start().await;
    app.person_with_password("ann", Role::User, PASSWORD).await;
    for _ in 0..3 {
        for _ in 0..4 {
            login(&app, "ann", "wrong horse").await.error(401, "UNAUTHORIZED");
        }
        login(&app, "ann", PASSWORD).await.is(200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn somebody_elsewhere_cannot_lock_a_person_out() {
    let app = TestApp::with(&[("trusted_proxies", "127.0.0.1")]).await;
    app.person_with_password("ann", Role::User, PASSWORD).await;
    let login_from = |address: &'static str, password: &'static str| {
        let body = json!({ "username": "ann", "password": password });
        app.send(
            app.client.post(app.url("/api/v1/auth/login")).header("x-forwarded-for", address).json(&body),
        )
    };
    for _ in 0..5 {
        login_from("198.51.100.1", "wrong horse").await.error(401, "UNAUTHORIZED");
    }
    login_from("198.51.100.1", PASSWORD).await.error(429, "TOO_MANY_ATTEMPTS");
    login_from("198.51.100.2", PASSWORD).await.is(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_password_ends_the_other_sessions() {
    let app = TestApp::start().await;
    let ann = app.person_with_password("ann", Role::User, PASSWORD).await;
    let elsewhere = cookie_of(&login(&app, "ann", PASSWORD).await);
    let here = cookie_of(&login(&app, "ann", PASSWORD).await);
    let change = |current: &str, new: &str| {
        let body = json!({ "current_password": current, "new_password": new });
        let request = with_cookie(&app, Method::POST, "/auth/password", &here).header("origin", app.url(""));
        app.send(request.json(&body))
    };
    change("wrong horse", "battery staple").await.error(401, "UNAUTHORIZED");
    change(PASSWORD, "short").await.error(400, "INVALID_REQUEST");
    let answer = change(PASSWORD, "battery staple").await;
    let newest = cookie_of(&answer);
    answer.is(200);
    for (cookie, status) in [(&elsewhere, 401), (&here, 401), (&newest, 200)] {
        assert_eq!(app.send(with_cookie(&app, Method::GET, "/auth/session", cookie)).await.status, status);
    }
    app.get(&ann, "/auth/session").await.error(401, "UNAUTHORIZED");
    login(&app, "ann", "battery staple").await.is(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_administrator_needs_the_token_and_comes_once() {
    let app = TestApp::start().await;
    let FirstRun::Link(link) = first_run::prepare(&app.app).await.unwrap() else { panic!("a link") };
    let (base, token) = link.reveal().split_once("/setup?token=").unwrap();
    assert_eq!(base, app.url(""));
    let setup = |token: &str, username: &str, password: &str| {
        let body = json!({ "token": token, "username": username, "password": password });
        app.send(app.client.post(app.url("/api/v1/setup")).json(&body))
    };
    let needed = async || app.send(app.client.get(app.url("/api/v1/setup"))).await.is(200)["needed"].clone();
    assert_eq!(needed().await, true);
    setup("wrong", "root", PASSWORD).await.error(403, "FORBIDDEN");
    setup(token, "root", "short").await.error(400, "INVALID_REQUEST");
    setup(token, "not a name", PASSWORD).await.error(400, "INVALID_REQUEST");
    let answer = setup(token, "root", PASSWORD).await;
    let cookie = cookie_of(&answer);
    assert_eq!(answer.is(201)["user"]["role"], "admin");
    app.send(with_cookie(&app, Method::GET, "/users", &cookie)).await.is(200);
    setup(token, "second", PASSWORD).await.error(409, "SETUP_DONE");
    setup("wrong", "second", PASSWORD).await.error(409, "SETUP_DONE");
    assert_eq!(needed().await, false);
    assert!(matches!(first_run::prepare(&app.app).await.unwrap(), FirstRun::NotNeeded));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configured_administrator_is_created_once() {
    let app = TestApp::with(&[("admin.username", "boss"), ("admin.password", PASSWORD)]).await;
    assert!(matches!(first_run::prepare(&app.app).await.unwrap(), FirstRun::Created(_)));
    assert!(matches!(first_run::prepare(&app.app).await.unwrap(), FirstRun::NotNeeded));
    assert_eq!(login(&app, "boss", PASSWORD).await.is(200)["user"]["role"], "admin");
}
