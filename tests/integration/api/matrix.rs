//! Who may do what: every route, asked by every kind of caller. The routes are read from the source, so that a new one
//! without a line here fails.

use std::{collections::BTreeMap, fs, path::Path};

use codehub_domain::user::Role;
use reqwest::{Method, StatusCode, redirect::Policy};
use serde_json::json;
use uuid::Uuid;

use super::TestApp;

/// For nobody, the owner's session, the owner's token, somebody else's session, an administrator's session: `-` sign in
/// first, `F` 403, `H` 404, `Y` answered.
const MATRIX: &str = "
GET    /                                                    -YYYY
GET    /account                                             -YYYY
POST   /account/password                                    -YYYY
GET    /api/docs                                            YYYYY
GET    /api/docs/docs.css                                   YYYYY
GET    /api/docs/docs.js                                    YYYYY
GET    /api/v1/audit                                        -FFFY
POST   /api/v1/auth/device                                  YYYYY
POST   /api/v1/auth/device/token                            YYYYY
POST   /api/v1/auth/login                                   YYYYY
POST   /api/v1/auth/logout                                  YYYYY
POST   /api/v1/auth/password                                -YYYY
GET    /api/v1/auth/session                                 -YYYY
GET    /api/v1/auth/tokens                                  -YYYY
POST   /api/v1/auth/tokens                                  -YFYY
DELETE /api/v1/auth/tokens/{id}                             -YYHH
GET    /api/v1/events                                       -YYYY
GET    /api/v1/openapi.json                                 YYYYY
GET    /api/v1/setup                                        YYYYY
POST   /api/v1/setup                                        YYYYY
GET    /api/v1/system                                       -FFFY
GET    /api/v1/users                                        -FFFY
POST   /api/v1/users                                        -FFFY
DELETE /api/v1/users/{id}                                   -FFFY
GET    /api/v1/users/{id}                                   -FFFY
PATCH  /api/v1/users/{id}                                   -FFFY
GET    /api/v1/users/{id}/tokens                            -FFFY
DELETE /api/v1/users/{id}/tokens/{token_id}                 -FFFY
GET    /api/v1/workspaces                                   -YYYY
POST   /api/v1/workspaces                                   -YYYY
DELETE /api/v1/workspaces/{id}                              -YYFY
GET    /api/v1/workspaces/{id}                              -YYFY
PATCH  /api/v1/workspaces/{id}                              -YYFF
POST   /api/v1/workspaces/{id}/archive                      -YYFY
GET    /api/v1/workspaces/{id}/archives                     -YYFY
GET    /api/v1/workspaces/{id}/archives/{archive}/file      -HHFF
GET    /api/v1/workspaces/{id}/archives/{archive}/files     -HHFF
GET    /api/v1/workspaces/{id}/exec                         -YYFF
POST   /api/v1/workspaces/{id}/exec                         -YYFF
GET    /api/v1/workspaces/{id}/files                        -YYFF
PUT    /api/v1/workspaces/{id}/files                        -YYFF
GET    /api/v1/workspaces/{id}/history                      -YYFY
DELETE /api/v1/workspaces/{id}/keepalive                    -YYFY
GET    /api/v1/workspaces/{id}/keepalive                    -YYFY
POST   /api/v1/workspaces/{id}/keepalive                    -YYFF
DELETE /api/v1/workspaces/{id}/keepalive/{hold}             -HHFH
GET    /api/v1/workspaces/{id}/logs                         -YYFY
GET    /api/v1/workspaces/{id}/ports                        -YYFF
PUT    /api/v1/workspaces/{id}/ports/{port}                 -YYFF
POST   /api/v1/workspaces/{id}/recover                      -YYFY
POST   /api/v1/workspaces/{id}/snooze                       -YYFF
POST   /api/v1/workspaces/{id}/start                        -YYFF
POST   /api/v1/workspaces/{id}/stop                         -YYFY
GET    /api/v1/workspaces/{id}/tcp/{port}                   -YYFF
GET    /api/v1/workspaces/{id}/usage                        -YYFF
GET    /assets/{version}/{name}                             YYYYY
GET    /device                                              -YYYY
POST   /device                                              -YFYY
GET    /favicon.ico                                         YYYYY
GET    /flash                                               -YYYY
GET    /healthz                                             YYYYY
GET    /help                                                YYYYY
GET    /login                                               YYYYY
POST   /login                                               YYYYY
POST   /logout                                              YYYYY
GET    /metrics                                             FFFFY
POST   /preferences                                         YYYYY
GET    /readyz                                              YYYYY
GET    /setup                                               YYYYY
POST   /setup                                               YYYYY
GET    /system                                              -FFFY
GET    /system/cleanup                                      -FFFY
GET    /tokens                                              -YYYY
POST   /tokens                                              -YFYY
GET    /tokens/{id}/delete                                  -YYHH
POST   /tokens/{id}/delete                                  -YYHH
GET    /users                                               -FFFY
POST   /users                                               -FFFY
GET    /users/{id}                                          -FFFY
GET    /users/{id}/delete                                   -FFFY
POST   /users/{id}/delete                                   -FFFY
POST   /users/{id}/disabled                                 -FFFY
POST   /users/{id}/password                                 -FFFY
POST   /users/{id}/role                                     -FFFY
GET    /users/{id}/tokens/{token}/delete                    -FFFY
POST   /users/{id}/tokens/{token}/delete                    -FFFY
GET    /workspaces                                          YYYYY
POST   /workspaces                                          -YYYY
POST   /workspaces/bulk                                     -YYYY
GET    /workspaces/new                                      -YYYY
GET    /workspaces/{id}                                     -YYFY
POST   /workspaces/{id}/archive                             -YYFY
GET    /workspaces/{id}/archives                            -YYFY
GET    /workspaces/{id}/archives/{archive}/file             -HHFF
GET    /workspaces/{id}/archives/{archive}/files            -HHFF
GET    /workspaces/{id}/archives/{archive}/restore          -HHFH
GET    /workspaces/{id}/delete                              -YYFY
POST   /workspaces/{id}/delete                              -YYFY
GET    /workspaces/{id}/edit                                -YYFF
POST   /workspaces/{id}/edit                                -YYFF
GET    /workspaces/{id}/history                             -YYFY
GET    /workspaces/{id}/inside                              -YYFF
GET    /workspaces/{id}/live                                -YYFY
GET    /workspaces/{id}/logs                                -YYFY
POST   /workspaces/{id}/ports/{port}                        -YYFF
POST   /workspaces/{id}/recover                             -YYFY
POST   /workspaces/{id}/release                             -YYFY
GET    /workspaces/{id}/row                                 -YYFY
POST   /workspaces/{id}/snooze                              -YYFF
POST   /workspaces/{id}/start                               -YYFF
POST   /workspaces/{id}/stop                                -YYFY
";

const CALLERS: [&str; 5] = ["nobody", "the owner", "the owner's token", "somebody else", "an administrator"];

/// Every `.route("path", method(handler)…)` below a directory of the server's source.
fn routes() -> BTreeMap<(String, String), ()> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = BTreeMap::new();
    let mut todo = vec![source.join("api"), source.join("web")];
    while let Some(directory) = todo.pop() {
        for entry in fs::read_dir(directory).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() && !path.ends_with("tests") {
                todo.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let in_api = path.starts_with(source.join("api")) && !path.ends_with("health.rs");
                for (route, method) in routes_in(&fs::read_to_string(&path).unwrap()) {
                    let whole =
                        if in_api && !route.starts_with("/api") { format!("/api/v1{route}") } else { route };
                    // What answers whatever nothing else does.
                    if method != "any" {
                        found.insert((whole, method.to_uppercase()), ());
                    }
                }
            }
        }
    }
    found
}

fn routes_in(text: &str) -> Vec<(String, &'static str)> {
    let mut found = Vec::new();
    for part in text.split(".route(\"").skip(1) {
        let (path, rest) = part.split_once('"').unwrap();
        let mut depth = 1;
        let end = rest.find(|c| {
            depth += i32::from(c == '(') - i32::from(c == ')');
            depth == 0
        });
        let handlers = &rest[..end.unwrap()];
        for method in ["get", "post", "patch", "put", "delete", "any"] {
            let named = handlers
                .match_indices(&format!("{method}("))
                .any(|(at, _)| !handlers[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_'));
            if named {
                found.push((path.to_owned(), method));
            }
        }
    }
    found
}

/// One cell, by a workspace, a user and tokens made for it.
async fn cell(app: &TestApp, caller: usize, method: &Method, route: &str) -> char {
    let n = Uuid::now_v7();
    let owner = app.person(&format!("owner-{n}"), Role::User).await;
    let workspace = {
        let body = json!({ "name": "x", "desired_state": "STANDBY" });
        app.post(&owner, "/workspaces", body).await.is(201)["id"].as_str().unwrap().to_owned()
    };
    let token = app.get(&owner, "/auth/tokens").await.is(200);
    let token = token["items"][0]["id"].as_str().unwrap_or_else(|| panic!("{token}")).to_owned();
    // The one whom routes about users are about.
    let victim = app.person(&format!("victim-{n}"), Role::User).await;
    let tokens_of_victim = app.app.store().token_list(victim.id).await.unwrap();
    let about_users = route.contains("/users/");
    let id = if about_users {
        victim.id.to_string()
    } else if route.contains("/tokens/{id}") {
        token
    } else {
        workspace
    };
    let archive = Uuid::now_v7().to_string();
    let path = route
        .replace("{id}", &id)
        .replace("{token_id}", &tokens_of_victim[0].id.to_string())
        .replace("{token}", &tokens_of_victim[0].id.to_string())
        .replace("{archive}", &archive)
        .replace("{hold}", &Uuid::now_v7().to_string())
        .replace("{port}", "3000")
        .replace("{version}", "x")
        .replace("{name}", "app.css");
    let client = reqwest::Client::builder().redirect(Policy::none()).build().unwrap();
    // From elsewhere, through a proxy that says so: to programs on this machine more is told.
    let mut request = client.request(method.clone(), app.url(&path)).header("origin", app.url(""));
    request = request.header("x-forwarded-for", "192.0.2.1");
    let who = match caller {
        0 => None,
        1 => Some(app.session(owner.id).await.1),
        2 => {
            request = request.bearer_auth(&owner.token);
            None
        }
        3 => Some(app.session(app.person(&format!("other-{n}"), Role::User).await.id).await.1),
        _ => Some(app.session(app.person(&format!("admin-{n}"), Role::Admin).await.id).await.1),
    };
    if let Some(cookie) = who {
        request = request.header("cookie", cookie);
    }
    if *method != Method::GET {
        request = if route.starts_with("/api") {
            // Where what is sent is looked at before who may send it, it has to be right.
            let holds = route.ends_with("/keepalive") && *method == Method::POST;
            request.json(&if holds { json!({ "seconds": 60, "reason": "test" }) } else { json!({}) })
        } else {
            let form = if route == "/tokens" { "name=x&days=30" } else { "" };
            request.header("content-type", "application/x-www-form-urlencoded").body(form)
        };
    }
    let answer = request.send().await.unwrap();
    let to = answer.headers().get("location").map(|to| to.to_str().unwrap()).unwrap_or_default();
    match answer.status() {
        StatusCode::UNAUTHORIZED if !route.ends_with("/login") => '-',
        StatusCode::SEE_OTHER
            if to.starts_with("/login") && !route.starts_with("/setup") && route != "/logout" =>
        {
            '-'
        }
        StatusCode::FORBIDDEN => 'F',
        StatusCode::NOT_FOUND => 'H',
        StatusCode::METHOD_NOT_ALLOWED => panic!("{method} {route} is not there"),
        status if status.is_server_error() => panic!("{method} {route} by {}: {status}", CALLERS[caller]),
        _ => 'Y',
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_answers_every_caller_as_the_matrix_says() {
    let app = TestApp::with(&[("trusted_proxies", "127.0.0.1")]).await;
    // Somebody has to be there, or the pages lead to the set-up; and an administrator who may be left.
    let made = app.person("root", Role::Admin).await;
    assert!(matches!(app.app.store().user_get(made.id).await, Ok(Some(_))));
    let mut expected = BTreeMap::new();
    for line in MATRIX.trim().lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [method, route, cells] = words[..] else { panic!("{line}") };
        expected.insert((route.to_owned(), method.to_owned()), cells.to_owned());
    }
    let routes = routes();
    assert!(routes.len() > 80, "the source is read: {}", routes.len());
    let mut wrong = Vec::new();
    for (route, method) in routes.keys() {
        let parsed: Method = method.parse().unwrap();
        let mut cells = String::new();
        for caller in 0..CALLERS.len() {
            cells.push(cell(&app, caller, &parsed, route).await);
        }
        let said = expected.remove(&(route.clone(), method.clone()));
        if said.as_deref() != Some(&cells) {
            wrong.push(format!("{method:6} {route:52} {cells}  (said: {said:?})"));
        }
    }
    wrong.extend(
        expected
            .keys()
            .map(|(route, method)| format!("{method} {route} is in the matrix and not in the source")),
    );
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
