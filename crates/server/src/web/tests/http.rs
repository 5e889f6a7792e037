//! How pages answer: headers, origins, sign-in, redirects, refusals.

use ::http::{
    StatusCode,
    header::{
        CACHE_CONTROL, CONTENT_SECURITY_POLICY, ETAG, IF_NONE_MATCH, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    },
};
use codehub_domain::{
    Desired, ErrorReason, Failure, Operation, Phase,
    event::{Actor, Reason},
    limits::Limits,
    user::Role,
};
use codehub_store::{ReplicaNote, fake::by};

use super::{OURS, TestApp};
use crate::{app, auth::first_run, web::assets};

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

#[tokio::test]
async fn every_answer_has_the_policy() {
    let app = TestApp::new().await;
    let (_, cookie) = app.person("ann", Role::Admin).await;
    let asset = assets::url("app.css");
    for (path, cookies) in [
        ("/", cookie.as_str()),
        ("/", ""),
        ("/login", ""),
        ("/nothing", ""),
        ("/workspaces/x", &cookie),
        ("/logout", &cookie),
        (&asset, ""),
    ] {
        let answer = app.get(path, cookies).await;
        assert_eq!(answer.headers[CONTENT_SECURITY_POLICY], POLICY, "{path}");
        assert_eq!(answer.headers[X_CONTENT_TYPE_OPTIONS], "nosniff", "{path}");
        assert_eq!(answer.headers[REFERRER_POLICY], "same-origin", "{path}");
        assert_eq!(answer.headers.get_all(CACHE_CONTROL).iter().count(), 1, "{path}");
    }
}

#[tokio::test]
async fn assets_are_kept_for_ever_and_old_addresses_are_not() {
    let app = TestApp::new().await;
    for name in ["app.css", "app.js", "icon.svg"] {
        let answer = app.get(&assets::url(name), "").await;
        assert_eq!(answer.status, StatusCode::OK);
        assert!(answer.headers[CACHE_CONTROL].to_str().unwrap().contains("immutable"));
        let known = ::http::Request::get(assets::url(name)).header(IF_NONE_MATCH, &answer.headers[ETAG]);
        let again = app.send(known.body(axum::body::Body::empty()).unwrap()).await;
        assert_eq!((again.status, again.body.as_str()), (StatusCode::NOT_MODIFIED, ""));
        let old = app.get(&format!("/assets/old/{name}"), "").await;
        assert_eq!(old.headers[CACHE_CONTROL], "no-cache");
    }
    assert_eq!(app.get("/assets/x/../Cargo.toml", "").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn nothing_changes_by_a_get() {
    let app = TestApp::new().await;
    let (me, cookie) = app.person("ann", Role::Admin).await;
    let id = app.workspace(me, "box").await.id;
    for path in [
        "/logout".to_owned(),
        "/preferences".into(),
        "/account/password".into(),
        format!("/workspaces/{id}/start"),
        format!("/workspaces/{id}/stop"),
        format!("/workspaces/{id}/archive"),
        format!("/workspaces/{id}/recover"),
        format!("/users/{me}/role"),
        format!("/users/{me}/disabled"),
        format!("/users/{me}/password"),
    ] {
        assert_eq!(app.get(&path, &cookie).await.status, StatusCode::METHOD_NOT_ALLOWED, "{path}");
    }
}

#[tokio::test]
async fn forms_must_come_from_our_own_pages() {
    let app = TestApp::new().await;
    let (me, cookie) = app.person("ann", Role::Admin).await;
    let id = app.workspace(me, "box").await.id;
    let paths = [
        "/workspaces".to_owned(),
        format!("/workspaces/{id}/start"),
        format!("/workspaces/{id}/delete"),
        "/tokens".into(),
        "/users".into(),
        "/account/password".into(),
    ];
    for path in &paths {
        for origin in [None, Some("https://evil.example"), Some("null")] {
            let answer = app.post_from(origin, path, &cookie, "name=x").await;
            assert_eq!(answer.status, StatusCode::FORBIDDEN, "{path} from {origin:?}");
        }
    }
    for path in ["/login", "/logout", "/setup", "/preferences"] {
        let answer = app.post_from(Some("https://evil.example"), path, &cookie, "lang=ko").await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{path}");
    }
    assert!(app.app.store().workspace_get(id).await.unwrap().unwrap().deleted_at.is_none());
}

#[tokio::test]
async fn signing_in_goes_on_to_where_one_wanted_to_be() {
    let app = TestApp::new().await;
    app.person("ann", Role::User).await;
    let first = app.get("/tokens?x=1", "").await;
    assert_eq!((first.status, first.location()), (StatusCode::SEE_OTHER, "/login?next=/tokens%3Fx%3D1"));
    for (next, expected) in [
        ("%2Ftokens%3Fx%3D1", "/tokens?x=1"),
        ("%2F%2Fevil.example", "/"),
        ("https%3A%2F%2Fevil.example", "/"),
        ("%2F%5Cevil.example", "/"),
        ("", "/"),
    ] {
        let answer = app.post("/login", "", &format!("username=ann&password=password1&next={next}")).await;
        assert_eq!((answer.status, answer.location()), (StatusCode::SEE_OTHER, expected), "{next}");
        let cookie = answer.cookie("session").unwrap();
        let there = app.get("/login?next=//evil.example", &cookie).await;
        assert_eq!(there.location(), "/", "whoever is signed in is not sent elsewhere either");
    }
    let wrong = app.post("/login", "", "username=ann&password=wrong&next=//evil.example").await;
    assert_eq!(wrong.status, StatusCode::UNAUTHORIZED);
    assert!(wrong.cookie("session").is_none() && !wrong.body.contains("evil.example"));
}

#[tokio::test]
async fn the_first_run_ends_with_the_form_for_a_workspace() {
    let app = TestApp::new().await;
    let first_run::FirstRun::Link(link) = first_run::prepare(&app.app).await.unwrap() else { panic!() };
    let token = link.reveal().split("token=").nth(1).unwrap().to_owned();
    assert!(app.get("/login", "").await.body.contains("not-set-up"));
    assert!(app.get(&format!("/setup?token={token}"), "").await.body.contains("setup-form"));
    let form = |token: &str, again: &str| {
        format!("token={token}&username=ann&password=password1&password_again={again}")
    };
    let differ = app.post("/setup", "", &form(&token, "password2")).await;
    assert!(differ.status == StatusCode::BAD_REQUEST && differ.body.contains("field-error"));
    assert_eq!(app.post("/setup", "", &form("wrong", "password1")).await.status, StatusCode::FORBIDDEN);
    let done = app.post("/setup", "", &form(&token, "password1")).await;
    assert_eq!((done.status, done.location()), (StatusCode::SEE_OTHER, "/workspaces/new"));
    let cookies = format!("{}; {}", done.cookie("session").unwrap(), done.cookie("flash").unwrap());
    let page = app.get("/workspaces/new", &cookies).await;
    assert!(page.body.contains("data-testid=\"flash\"") && page.body.contains("workspace-form"));
    assert_eq!(page.cookie("flash").unwrap(), "flash=", "said once");
    assert_eq!(app.get("/setup?token=x", "").await.location(), "/login", "only once");
}

#[tokio::test]
async fn creating_keeps_what_was_typed_and_says_what_is_wrong() {
    let app = TestApp::new().await;
    let (_, cookie) = app.person("ann", Role::User).await;
    let wrong =
        app.post("/workspaces", &cookie, "name=+&description=kept&standby_ttl=x&standby_unit=m").await;
    assert_eq!(wrong.status, StatusCode::BAD_REQUEST);
    assert!(wrong.body.contains("value=\"kept\"") && wrong.body.contains("name-error"));
    assert!(wrong.body.contains("standby_ttl-error"));
    let made =
        app.post("/workspaces", &cookie, "name=box&desired_state=STANDBY&archive_ttl=2&archive_unit=h").await;
    assert_eq!(made.status, StatusCode::SEE_OTHER);
    let id = made.location().strip_prefix("/workspaces/").unwrap().parse().unwrap();
    let workspace = app.app.store().workspace_get(id).await.unwrap().unwrap();
    assert_eq!((workspace.desired, workspace.archive_ttl_seconds), (Desired::Standby, Some(7200)));
    let saved =
        app.post(&format!("/workspaces/{id}/edit"), &cookie, "name=other&memo=a%0D%0Ab&standby_ttl=").await;
    assert_eq!(saved.location(), format!("/workspaces/{id}"));
    let workspace = app.app.store().workspace_get(id).await.unwrap().unwrap();
    assert_eq!((workspace.name.as_str(), workspace.memo.as_str()), ("other", "a\nb"));
    assert_eq!(workspace.archive_ttl_seconds, None, "empty is the default again");
}

#[tokio::test]
async fn refusals_are_said_kindly_on_the_page_one_came_from() {
    let app = TestApp::new().await;
    let (me, cookie) = app.person("ann", Role::User).await;
    let made = app.workspace(me, "box").await;
    app.put(&made, |status| {
        status.phase = Phase::Standby;
        status.operation = Operation::Starting;
    })
    .await;
    let path = format!("/workspaces/{}/archive", made.id);
    let answer = app.post(&path, &cookie, "back=/%3Fq%3Dbox").await;
    assert_eq!((answer.status, answer.location()), (StatusCode::SEE_OTHER, "/?q=box"));
    let cookies = format!("{cookie}; {}", answer.cookie("flash").unwrap());
    let page = app.get_in("ko", "/?q=box", &cookies).await;
    assert!(page.body.contains("진행 중인 작업이 있습니다(시작하는 중)"), "{}", page.body);
    let elsewhere = app.post(&path, &cookie, "back=//evil.example").await;
    assert_eq!(elsewhere.location(), "/");
    let planted = app.get("/", &format!("{cookie}; flash=<b>hello</b>")).await;
    assert!(!planted.body.contains("hello") && !planted.body.contains("data-testid=\"flash\""));
}

#[tokio::test]
async fn what_is_not_ones_own_is_not_shown() {
    let app = TestApp::new().await;
    let (ann, anns) = app.person("ann", Role::User).await;
    let (_, bobs) = app.person("bob", Role::User).await;
    let (_, admins) = app.person("root", Role::Admin).await;
    let id = app.workspace(ann, "secret-box").await.id;
    for rest in ["", "/row", "/live", "/edit", "/delete", "/logs"] {
        let path = format!("/workspaces/{id}{rest}");
        assert_eq!(app.get(&path, &bobs).await.status, StatusCode::FORBIDDEN, "{path}");
        assert_eq!(app.get(&path, &anns).await.status, StatusCode::OK, "{path}");
        let admin = if rest == "/edit" { StatusCode::FORBIDDEN } else { StatusCode::OK };
        assert_eq!(app.get(&path, &admins).await.status, admin, "{path}");
    }
    assert!(!app.get("/?all=true", &bobs).await.body.contains("secret-box"), "only administrators see all");
    assert!(app.get("/?all=true", &admins).await.body.contains("secret-box"));
    for path in ["/users", "/system"] {
        assert_eq!(app.get(path, &bobs).await.status, StatusCode::FORBIDDEN, "{path}");
    }
    let start = format!("/workspaces/{id}/start");
    assert_eq!(app.post(&start, &admins, "").await.status, StatusCode::FORBIDDEN, "starting is the owner's");
}

/// A way into a workspace shows no messages: whoever is refused there is told on the workspace's own page.
#[tokio::test]
async fn who_is_refused_on_the_way_in_is_told_where_it_can_be_read() {
    let app = TestApp::with(&[("limits.max_running_per_user", "1")]).await;
    let (me, cookie) = app.person("ann", Role::User).await;
    let (first, second) = (app.workspace(me, "first").await.id, app.workspace(me, "second").await.id);
    for id in [first, second] {
        app.post(&format!("/workspaces/{id}/stop"), &cookie, "").await;
    }
    for way in ["/open", "/w"] {
        let start = async |id: codehub_domain::WorkspaceId| {
            app.post(&format!("/workspaces/{id}/start"), &cookie, &format!("back={way}/{id}")).await
        };
        let going = start(first).await;
        assert_eq!((going.location(), going.cookie("flash")), (&*format!("{way}/{first}"), None));
        let refused = start(second).await;
        assert_eq!(refused.location(), format!("/workspaces/{second}"));
        assert!(refused.cookie("flash").is_some());
    }
}

/// Administrators see who serves and who leads.
#[tokio::test]
async fn the_servers_are_listed() {
    let app = TestApp::new().await;
    let (_, admins) = app.person("root", Role::Admin).await;
    let note = |name: &str| ReplicaNote { name: name.into(), version: "9.8.7".into(), role: "api".into() };
    for name in [app::replica_name().as_str(), "elsewhere:7"] {
        app.app.store().replica_note(&note(name)).await.unwrap();
    }
    app.app.store().epoch_take("elsewhere:7").await.unwrap();
    let page = app.get("/system", &admins).await.body;
    assert_eq!(page.matches("data-testid=\"replica\"").count(), 2, "{page}");
    let (_, row) = page.split_once("data-name=\"elsewhere:7\"").unwrap();
    let (row, _) = row.split_once("</tr>").unwrap();
    assert!(row.contains("9.8.7") && row.contains("api") && row.contains("class=\"yes\""), "{row}");
    assert_eq!(page.matches("this one").count(), 1);
}

#[tokio::test]
async fn deleting_asks_first_and_then_does() {
    let app = TestApp::new().await;
    let (me, cookie) = app.person("ann", Role::User).await;
    let id = app.workspace(me, "box").await.id;
    let path = format!("/workspaces/{id}/delete");
    assert!(app.get(&path, &cookie).await.body.contains("confirm-yes"));
    assert!(app.app.store().workspace_get(id).await.unwrap().unwrap().deleted_at.is_none());
    let done = app.post(&path, &cookie, "").await;
    assert_eq!((done.status, done.location()), (StatusCode::SEE_OTHER, "/"));
    assert_eq!(app.get(&format!("/workspaces/{id}"), &cookie).await.status, StatusCode::NOT_FOUND);
    assert_eq!(app.get(&format!("/workspaces/{id}/row"), &cookie).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_token_is_shown_once() {
    let app = TestApp::new().await;
    let (_, cookie) = app.person("ann", Role::User).await;
    let made = app.post("/tokens", &cookie, "name=laptop&days=90").await;
    assert_eq!(made.status, StatusCode::CREATED);
    assert!(made.body.contains("chp_") && made.headers[CACHE_CONTROL] == "no-store");
    let list = app.get("/tokens", &cookie).await;
    assert!(list.body.contains("laptop") && !list.body.contains("chp_"));
    assert_eq!(app.post("/tokens", &cookie, "name=&days=90").await.status, StatusCode::BAD_REQUEST);
    assert_eq!(app.post("/tokens", &cookie, "name=x&days=12345").await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn administrators_see_and_revoke_the_tokens_of_others() {
    let app = TestApp::new().await;
    let (_, root) = app.person("root", Role::Admin).await;
    let (ann, hers) = app.person("ann", Role::User).await;
    app.post("/tokens", &hers, "name=laptop&days=90").await;
    let page = app.get(&format!("/users/{ann}"), &root).await;
    assert!(page.body.contains("user-tokens") && page.body.contains("laptop"), "{}", page.body);
    assert!(!page.body.contains("chp_"));
    let token = app.app.store().token_list(ann).await.unwrap()[0].id;
    let path = format!("/users/{ann}/tokens/{token}/delete");
    assert_eq!(app.get(&path, &hers).await.status, StatusCode::FORBIDDEN);
    assert_eq!(app.post(&path, &hers, "").await.status, StatusCode::FORBIDDEN);
    assert_eq!(
        app.post_from(Some("https://evil.example"), &path, &root, "").await.status,
        StatusCode::FORBIDDEN
    );
    assert!(app.get(&path, &root).await.body.contains("laptop"), "asks first");
    assert_eq!(app.app.store().token_list(ann).await.unwrap().len(), 1);
    let done = app.post(&path, &root, "").await;
    assert_eq!((done.status, done.location()), (StatusCode::SEE_OTHER, &*format!("/users/{ann}")));
    assert!(app.app.store().token_list(ann).await.unwrap().is_empty());
    assert_eq!(app.post(&path, &root, "").await.status, StatusCode::NOT_FOUND);
    assert_eq!(app.get("/users/x/tokens/y/delete", &root).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_changed_password_deletes_tokens_unless_the_box_is_ticked() {
    let app = TestApp::new().await;
    let (ann, mut cookie) = app.person("ann", Role::User).await;
    app.post("/tokens", &cookie, "name=laptop&days=90").await;
    assert!(app.get("/account", &cookie).await.body.contains("keep-tokens"));
    for (form, left) in [
        ("current=password1&password=password2&password_again=password2&keep_tokens=true", 1),
        ("current=password2&password=password3&password_again=password3", 0),
    ] {
        let changed = app.post("/account/password", &cookie, form).await;
        assert_eq!((changed.status, changed.location()), (StatusCode::SEE_OTHER, "/account"), "{form}");
        cookie = changed.cookie("session").unwrap();
        assert_eq!(app.app.store().token_list(ann).await.unwrap().len(), left, "{form}");
    }
}

#[tokio::test]
async fn administrators_cannot_lock_themselves_out() {
    let app = TestApp::new().await;
    let (me, cookie) = app.person("root", Role::Admin).await;
    let (bob, _) = app.person("bob", Role::User).await;
    for (rest, form) in [("role", "role=user"), ("disabled", "disabled=true"), ("delete", "")] {
        let answer = app.post(&format!("/users/{me}/{rest}"), &cookie, form).await;
        assert_eq!(answer.cookie("flash").unwrap(), "flash=not-yourself", "{rest}");
    }
    app.post(&format!("/users/{bob}/disabled"), &cookie, "disabled=true").await;
    assert!(app.app.store().user_get(bob).await.unwrap().unwrap().disabled);
    let taken = app
        .post("/users", &cookie, "username=BOB&password=password1&password_again=password1&role=user")
        .await;
    assert_eq!(taken.status, StatusCode::BAD_REQUEST);
    assert!(taken.body.contains("This username is taken."));
    let deleted = app.post(&format!("/users/{bob}/delete"), &cookie, "").await;
    assert_eq!(
        (deleted.location(), deleted.cookie("flash").unwrap().as_str()),
        ("/users", "flash=user-deleted")
    );
}

#[tokio::test]
async fn language_and_theme_are_chosen_and_kept() {
    let app = TestApp::new().await;
    app.person("ann", Role::User).await;
    assert!(app.get_in("ko-KR", "/login", "").await.body.contains("CodeHub 로그인"));
    let chosen = app.post("/preferences", "", "lang=ko&back=/login").await;
    assert_eq!((chosen.location(), chosen.cookie("lang").unwrap().as_str()), ("/login", "lang=ko"));
    assert!(app.get_in("en", "/login", "lang=ko").await.body.contains("<html lang=\"ko\""));
    let dark = app.post("/preferences", "", "theme=dark&back=//evil.example").await;
    assert_eq!((dark.location(), dark.cookie("theme").unwrap().as_str()), ("/", "theme=dark"));
    assert!(app.get("/login", "theme=dark").await.body.contains("data-theme=\"dark\""));
    assert!(!app.get("/login", "theme=%22%3E; lang=xx").await.body.contains("data-theme"));
    assert_eq!(
        app.post_from(Some(OURS), "/preferences", "", "lang=xx").await.status,
        StatusCode::BAD_REQUEST
    );
}

#[tokio::test]
async fn without_a_script_a_page_looks_again_only_while_something_is_under_way() {
    let app = TestApp::new().await;
    let (me, cookie) = app.person("ann", Role::User).await;
    let made = app.workspace(me, "box").await;
    assert!(app.get("/", &cookie).await.body.contains("http-equiv=\"refresh\""));
    app.put(&made, |status| status.phase = Phase::Running).await;
    assert!(!app.get("/", &cookie).await.body.contains("http-equiv=\"refresh\""));
    let page = app.get("/", &cookie).await.body;
    assert!(
        page.contains("href=\"#main\"") && page.contains("<main") && page.contains("aria-live=\"polite\"")
    );
}

/// What it was meant to become may be what went wrong: there are other ways than trying that again.
#[tokio::test]
async fn recovery_offers_to_go_another_way() {
    let app = TestApp::new().await;
    let (me, ann) = app.person("ann", Role::User).await;
    let (_, root) = app.person("root", Role::Admin).await;
    let store = app.app.store();
    let made = app.workspace(me, "too large").await;
    store
        .workspace_ask(
            by(),
            made.id,
            Desired::Archived,
            Limits::NONE,
            Actor::User(me),
            &Reason::ArchiveRequested,
        )
        .await
        .unwrap();
    let made = store.workspace_get(made.id).await.unwrap().unwrap();
    let made = app
        .put(&made, |status| {
            status.phase = Phase::Error;
            status.error = Some(Failure::new(ErrorReason::RetryExceeded, "no space left"));
        })
        .await;
    let page = format!("/workspaces/{}", made.id);
    let offers =
        |body: &str| ["RUNNING", "STANDBY", "ARCHIVED"].map(|it| body.contains(&format!("\"recover-{it}\"")));
    assert_eq!(
        offers(&app.get(&page, &ann).await.body),
        [true, true, false],
        "what it wants anyway is no choice"
    );
    assert_eq!(offers(&app.get(&page, &root).await.body), [false, true, false], "starting is the owner's");

    let path = format!("{page}/recover");
    let status = app.post(&path, &root, "desired_state=RUNNING").await.status;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert_eq!(store.workspace_get(made.id).await.unwrap().unwrap(), made);
    assert_eq!(app.post(&path, &ann, "desired_state=RUNNING").await.status, StatusCode::SEE_OTHER);
    let after = store.workspace_get(made.id).await.unwrap().unwrap();
    assert_eq!((after.desired, after.status.error), (Desired::Running, None));
}

#[tokio::test]
async fn keep_awake_is_offered_only_where_it_makes_sense() {
    let app = TestApp::new().await;
    let (me, ann) = app.person("ann", Role::User).await;
    let made = app.workspace(me, "w").await;
    let page = format!("/workspaces/{}", made.id);
    let mut workspace = made;
    for (phase, offered) in [(Phase::Running, true), (Phase::Error, false)] {
        workspace = app.put(&workspace, |status| status.phase = phase).await;
        let body = app.get(&page, &ann).await.body;
        assert_eq!(body.contains("data-testid=\"snooze\""), offered, "{phase}");
    }
}

#[tokio::test]
async fn the_list_is_filtered_by_label() {
    let app = TestApp::new().await;
    let (me, cookie) = app.person("ann", Role::User).await;
    let api = app.workspace(me, "box one").await.id;
    app.workspace(me, "box two").await;
    let form = format!("/workspaces/{api}/edit");
    let refused = app.post(&form, &cookie, "name=box+one&labels=Team%3A+red").await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    assert!(
        refused.body.contains("1 to 63 characters") && refused.body.contains("Team: red"),
        "{}",
        refused.body
    );
    app.post(&form, &cookie, "name=box+one&labels=team%3A+%3Capi%3E%0D%0Aurgent").await;
    assert!(app.get(&form, &cookie).await.body.contains("team: &lt;api&gt;\nurgent\n</textarea>"));
    for (path, one, two) in [
        ("/", true, true),
        ("/?label=team", true, false),
        ("/?label=team:%3Capi%3E", true, false),
        ("/?label=team:web", false, false),
        ("/?label=Not+a+label", true, true),
    ] {
        let page = app.get(path, &cookie).await.body;
        assert_eq!((page.contains("box one"), page.contains("box two")), (one, two), "{path}");
    }
    let page = app.get(&format!("/workspaces/{api}"), &cookie).await.body;
    assert!(page.contains("team: &lt;api&gt;") && page.contains("box-one"), "{page}");
}

#[tokio::test]
async fn signing_out_ends_the_session_behind_a_planted_cookie_and_claims_nothing_else() {
    let app = TestApp::new().await;
    let (_, cookie) = app.person("ann", Role::User).await;
    let out = app.post("/logout", &format!("session=planted; {cookie}"), "").await;
    assert_eq!((out.status, out.location()), (StatusCode::SEE_OTHER, "/login"));
    assert_eq!(out.cookie("flash").unwrap(), "flash=signed-out");
    assert_eq!(app.get("/", &cookie).await.location(), "/login");
    let nothing = app.post("/logout", "session=planted", "").await;
    assert_eq!(nothing.cookie("flash").unwrap(), "flash=no-session-ended");
    let none = app.post("/logout", "", "").await;
    assert_eq!(none.cookie("flash").unwrap(), "flash=signed-out");
}
