//! What pages show, and what they must never contain.

use codehub_domain::{
    Desired, ErrorReason, Failure, Operation, Phase, Progress, Timestamp, Truth, Workspace, condition,
    fields::Violation,
    user::{Role, User},
};
use codehub_store::fake::by;
use maud::Markup;

use super::{
    super::{
        forms,
        i18n::Lang,
        recover::Ways,
        row::{Buttons, Row},
        view::PageContext,
    },
    TestApp,
};
use crate::web::error::WebError;

fn view(lang: &str) -> PageContext {
    let mut headers = http::HeaderMap::new();
    headers.insert("accept-language", lang.parse().unwrap());
    PageContext::new(&headers, &http::Uri::from_static("/"))
}

async fn subjects() -> (TestApp, [User; 3], Workspace) {
    let app = TestApp::new().await;
    let mut people = Vec::new();
    for (name, role) in [("owner", Role::User), ("admin", Role::Admin), ("other", Role::User)] {
        let (id, _) = app.person(name, role).await;
        people.push(app.app.store().user_get(id).await.unwrap().unwrap());
    }
    let workspace = app.workspace(people[0].id, "box").await;
    (app, people.try_into().unwrap(), workspace)
}

fn in_state(workspace: &Workspace, phase: Phase, operation: Operation, desired: Desired) -> Workspace {
    let mut workspace = workspace.clone();
    workspace.status.phase = phase;
    workspace.status.operation = operation;
    workspace.desired = desired;
    if phase == Phase::Error {
        workspace.status.error = Some(Failure::new(ErrorReason::Timeout, "too long"));
    }
    if matches!(phase, Phase::Deleting | Phase::Deleted) {
        workspace.deleted_at = Some(workspace.created_at);
    }
    workspace
}

fn row(app: &TestApp, user: &User, workspace: &Workspace, lang: &str) -> Markup {
    let expiry = app.app.expiry(workspace);
    Row { workspace, user, owner: Some("owner"), expiry, size: Some(40_000), awake: None, back: "/" }
        .render(&view(lang))
}

/// The buttons a row has, by their test ids.
fn shown(markup: &Markup) -> Vec<&'static str> {
    ["open", "recover-link", "start", "stop", "archive", "delete"]
        .into_iter()
        .filter(|id| markup.0.contains(&format!("data-testid=\"{id}\"")))
        .collect()
}

#[tokio::test]
async fn every_state_has_its_buttons() {
    let (app, [owner, admin, other], workspace) = subjects().await;
    let settled = |phase| match phase {
        Phase::Running => Desired::Running,
        Phase::Archived => Desired::Archived,
        Phase::Pending | Phase::Standby | Phase::Error | Phase::Deleting | Phase::Deleted => Desired::Standby,
    };
    for &phase in Phase::ALL {
        for &operation in Operation::ALL {
            let workspace = in_state(&workspace, phase, operation, settled(phase));
            let expected: (&[&str], &[&str]) = match (phase, operation) {
                (Phase::Deleting | Phase::Deleted, _) => (&[], &[]),
                // Deleting is the one thing an error does not stand in the way of.
                (Phase::Error, Operation::None) => (&["recover-link", "delete"], &["recover-link", "delete"]),
                (Phase::Pending, Operation::None) => (&["start", "delete"], &["delete"]),
                (Phase::Archived, Operation::None) => (&["start", "delete"], &["delete"]),
                (Phase::Standby, Operation::None) => {
                    (&["open", "start", "archive", "delete"], &["archive", "delete"])
                }
                (Phase::Running, Operation::None) => {
                    (&["open", "stop", "archive", "delete"], &["stop", "archive", "delete"])
                }
                // The proxy waits for a start that is under way; nothing else can be asked for.
                (Phase::Standby, Operation::Starting) => (&["open"], &[]),
                (_, _) => (&[], &[]),
            };
            for lang in ["en", "ko"] {
                assert_eq!(
                    shown(&row(&app, &owner, &workspace, lang)),
                    expected.0,
                    "owner: {phase} {operation}"
                );
                assert_eq!(
                    shown(&row(&app, &admin, &workspace, lang)),
                    expected.1,
                    "admin: {phase} {operation}"
                );
            }
            assert_eq!(Buttons::of(&other, &workspace), Buttons::default(), "{phase} {operation}");
        }
    }
}

#[tokio::test]
async fn a_row_says_what_is_under_way_and_how_far() {
    let (app, [owner, ..], workspace) = subjects().await;
    let mut busy = in_state(&workspace, Phase::Archived, Operation::Restoring, Desired::Running);
    busy.status.progress = Some(Progress { done: 25, total: 100, rate: 5 });
    let html = row(&app, &owner, &busy, "en").0;
    assert!(html.contains("Restoring") && html.contains("<progress max=\"100\" value=\"25\""), "{html}");
    assert!(html.contains("15 seconds left") && html.contains("data-busy"), "{html}");
    busy.status.progress = Some(Progress { done: 0, total: 0, rate: 0 });
    let html = row(&app, &owner, &busy, "en").0;
    assert!(html.contains("<progress aria-label") && !html.contains("0 B"), "{html}");
    let waiting = in_state(&workspace, Phase::Standby, Operation::None, Desired::Running);
    assert!(row(&app, &owner, &waiting, "en").0.contains("About to start"));
    let idle = in_state(&workspace, Phase::Running, Operation::None, Desired::Running);
    let html = row(&app, &owner, &idle, "ko").0;
    assert!(html.contains("data-testid=\"countdown\"") && html.contains("대기 전환"), "{html}");
}

#[tokio::test]
async fn the_ways_out_are_the_domains() {
    let (_app, _, workspace) = subjects().await;
    let mut status = in_state(&workspace, Phase::Error, Operation::None, Desired::Running).status;
    status.home.truth = Truth::Volume;
    condition::set(&mut status.conditions.volume_ready, true, "Found", "", Timestamp::UNIX_EPOCH);
    let key =
        codehub_domain::ArchiveKey::of(workspace.id, codehub_domain::OpId::from_uuid(uuid::Uuid::now_v7()));
    let archive = codehub_runtime::archives::ListedArchive {
        key,
        size: 1,
        modified_at: Timestamp::UNIX_EPOCH,
        complete: true,
    };
    let ways = |again, empty, restoring_drops| Some(Ways { again, empty, restoring_drops });
    assert_eq!(Ways::of(&status, Some(&archive)), ways(true, false, true), "a timeout: the home is there");
    status.error = Some(Failure::new(ErrorReason::DataLost, "gone"));
    condition::set(&mut status.conditions.volume_ready, false, "NotFound", "", Timestamp::UNIX_EPOCH);
    assert_eq!(Ways::of(&status, Some(&archive)), ways(true, true, false), "lost: it may have been put back");
    status.home.truth = Truth::Archive;
    status.error = Some(Failure::new(ErrorReason::ArchiveCorrupted, "bad"));
    assert_eq!(Ways::of(&status, Some(&archive)), ways(true, true, false), "damaged: all three");
    status.operation = Operation::Restoring;
    assert_eq!(Ways::of(&status, Some(&archive)), None);
}

const HOSTILE: &str = "\"><script>alert(1)</script><img src=x onerror=alert(2)>'&";

/// Every page there is, with everything on it that people can name.
async fn all_pages(app: &TestApp) -> Vec<(String, String)> {
    let (me, cookie) = app.person("admin", Role::Admin).await;
    let plain = app.workspace(me, HOSTILE).await;
    let broken = app.workspace(me, HOSTILE).await;
    app.put(&broken, |status| {
        status.phase = Phase::Error;
        status.home.truth = Truth::Volume;
        status.error = Some(Failure::new(ErrorReason::DataLost, HOSTILE));
        condition::set(&mut status.conditions.healthy, false, "DataLost", HOSTILE, Timestamp::UNIX_EPOCH);
    })
    .await;
    let archive = app
        .archive(&broken, |home| {
            // It has a slash in it, so this is a directory and a file.
            let path = home.join(HOSTILE);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, HOSTILE).unwrap();
            std::os::unix::fs::symlink(HOSTILE, home.join("link")).unwrap();
        })
        .await;
    let token = codehub_domain::TokenId::from_uuid(uuid::Uuid::now_v7());
    let session = codehub_domain::SessionId::from_uuid(uuid::Uuid::now_v7());
    app.app.store().session_create(by(), session, me, &[8; 32], 60).await.unwrap();
    app.app.store().token_create(by(), token, session, HOSTILE, &[7; 32], None).await.unwrap().unwrap();
    app.app.store().setting_put(codehub_coordinator::gc::BRAKE_SETTING, HOSTILE).await.unwrap();
    let (other, _) = app.person("other", Role::User).await;
    let mut pages = vec!["/login?next=/x".to_owned(), "/nothing".into(), "/setup?token=x".into()];
    for path in [
        "/",
        "/?all=true",
        "/?q=%22%3E%3Cscript%3E",
        "/workspaces/new",
        "/tokens",
        "/users",
        "/account",
        "/system",
    ] {
        pages.push(path.into());
    }
    for id in [plain.id, broken.id] {
        for rest in ["", "/row", "/live", "/edit", "/delete", "/logs", "/archives"] {
            pages.push(format!("/workspaces/{id}{rest}"));
        }
    }
    let (in_archive, of_it) =
        (format!("/workspaces/{}/archives/{}", broken.id, archive.op), HOSTILE.find('/'));
    let directory = crate::archived_http::encoded(&HOSTILE.as_bytes()[..of_it.unwrap()]);
    pages.extend([
        format!("/workspaces/new?from_archive={archive}"),
        format!("{in_archive}/files"),
        format!("{in_archive}/files?path={directory}"),
        format!("{in_archive}/restore"),
    ]);
    pages.extend([
        format!("/tokens/{token}/delete"),
        format!("/users/{other}"),
        format!("/users/{other}/delete"),
    ]);
    let mut drawn = Vec::new();
    for path in pages {
        let signed_out = path.starts_with("/login") || path.starts_with("/setup");
        let answer = app.get(&path, if signed_out { "" } else { &cookie }).await;
        assert!(
            answer.status.is_success() || answer.status.is_redirection() || path == "/nothing",
            "{path}: {}",
            answer.status
        );
        drawn.push((path, answer.body));
    }
    drawn
}

#[tokio::test]
async fn what_people_type_is_never_markup() {
    let app = TestApp::new().await;
    for (path, html) in all_pages(&app).await {
        assert!(!html.contains("<script>alert") && !html.contains("<img"), "{path}: {html}");
    }
}

#[tokio::test]
async fn pages_keep_to_their_own_policy() {
    let app = TestApp::new().await;
    for (path, html) in all_pages(&app).await {
        assert!(!html.contains(" style="), "{path} has an inline style");
        for event in [" onclick=", " onsubmit=", " onload=", " onchange="] {
            assert!(!html.contains(event), "{path} has an inline handler");
        }
        for tag in html.split("<script").skip(1) {
            assert!(tag.starts_with(" type=\"module\" src=\"/assets/"), "{path} has an inline script");
        }
    }
}

#[tokio::test]
async fn only_searching_is_a_form_that_gets() {
    let app = TestApp::new().await;
    let mut forms_seen = 0;
    for (path, html) in all_pages(&app).await {
        for form in html.split("<form").skip(1) {
            let tag = form.split('>').next().unwrap();
            let searches = tag.contains("method=\"get\"") && tag.contains("role=\"search\"");
            assert!(searches || tag.contains("method=\"post\""), "{path}: <form{tag}>");
            forms_seen += 1;
        }
    }
    assert!(forms_seen > 20, "{forms_seen}");
}

#[tokio::test]
async fn ids_are_unique_and_labels_have_their_fields() {
    let app = TestApp::new().await;
    for (path, html) in all_pages(&app).await {
        let values = |attribute: &str| -> Vec<String> {
            html.split(&format!(" {attribute}=\""))
                .skip(1)
                .map(|rest| rest.split('"').next().unwrap().to_owned())
                .collect()
        };
        let mut ids = values("id");
        for label in values("for") {
            assert!(ids.contains(&label), "{path}: nothing is called {label}");
        }
        let count = ids.len();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), count, "{path}: an id is there twice");
    }
}

#[test]
fn errors_speak_every_language() {
    for error in WebError::ALL {
        let (en, ko) = (
            super::super::i18n::trouble::error(Lang::En, error),
            super::super::i18n::trouble::error(Lang::Ko, error),
        );
        assert!(!en.0.is_empty() && !ko.1.is_empty() && en != ko, "{error:?}");
    }
    for reason in ErrorReason::ALL {
        let meaning = |lang| super::super::i18n::trouble::reason_meaning(lang, *reason);
        assert_ne!(meaning(Lang::En), meaning(Lang::Ko), "{reason}");
    }
    assert!(forms::Problem::Rule(Violation::Empty { max: 1 }).text(Lang::Ko).contains("이름"));
}
