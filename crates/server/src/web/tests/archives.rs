//! Archives kept, looked into, downloaded from, copied and gone back to.

use std::{collections::BTreeSet, ffi::OsStr, fs, os::unix::ffi::OsStrExt as _, path::Path};

use ::http::{
    StatusCode,
    header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS},
};
use codehub_domain::{
    ArchiveKey, ErrorReason, Failure, Operation, Phase, Timestamp, Truth, UserId, Workspace,
    activity::ActivityMode, condition, user::Role,
};
use uuid::Uuid;

use super::{Answer, TestApp};

fn all<'a>(html: &'a str, attribute: &str) -> Vec<&'a str> {
    let parts = html.split(&format!(" {attribute}=\"")).skip(1).collect::<Vec<_>>();
    parts.into_iter().filter_map(|rest| rest.split('"').next()).collect()
}

fn has(answer: &Answer, testid: &str) -> bool {
    all(&answer.body, "data-testid").contains(&testid)
}

fn at(key: ArchiveKey, rest: &str) -> String {
    format!("/workspaces/{}/archives/{}/{rest}", key.workspace, key.op)
}

/// Names that are no text, names that are not nice, links, and a page that would be dangerous to show.
fn fill(home: &Path) {
    fs::create_dir_all(home.join("zoo/deep er")).unwrap();
    fs::create_dir(home.join("apps")).unwrap();
    fs::write(home.join("zoo/deep er/leaf.txt"), "leaf").unwrap();
    fs::write(home.join("a b&c=d+e%41.txt"), "nice").unwrap();
    fs::write(home.join("page.html"), "<script>alert(1)</script>").unwrap();
    fs::write(home.join("한글.md"), "# 글").unwrap();
    let odd = home.join(OsStr::from_bytes(b"odd-\xff"));
    fs::create_dir(&odd).unwrap();
    fs::write(odd.join(OsStr::from_bytes(b"\xfe.bin")), [0, 159, 146, 150, 255]).unwrap();
    fs::hard_link(home.join("page.html"), home.join("same.html")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", home.join("link")).unwrap();
}

struct Place {
    app: TestApp,
    me: UserId,
    ann: String,
    workspace: Workspace,
    key: ArchiveKey,
}

async fn place() -> Place {
    let app = TestApp::new().await;
    let (me, ann) = app.person("ann", Role::User).await;
    let workspace = app.workspace(me, "box").await;
    let key = app.archive(&workspace, fill).await;
    let workspace = app
        .put(&workspace, |status| {
            status.phase = Phase::Archived;
            status.archive_key = Some(key);
            status.home.truth = Truth::Archive;
        })
        .await;
    Place { app, me, ann, workspace, key }
}

/// The home was on its volume and is not there any more, or the machine only took too long.
async fn broken(at: &Place, reason: ErrorReason) -> Workspace {
    let found = reason != ErrorReason::DataLost;
    at.app
        .put(&at.workspace, |status| {
            status.phase = Phase::Error;
            status.home.truth = Truth::Volume;
            status.error = Some(Failure::new(reason, "so it is"));
            condition::set(&mut status.conditions.volume_ready, found, "x", "", Timestamp::UNIX_EPOCH);
        })
        .await
}

#[tokio::test]
async fn archives_are_listed_newest_first_with_what_each_may_do() {
    let place = place().await;
    let (app, id) = (&place.app, place.workspace.id);
    let (_, bob) = app.person("bob", Role::User).await;
    let (_, root) = app.person("root", Role::Admin).await;
    let newer = app.archive(&place.workspace, |_| {}).await;
    let path = format!("/workspaces/{id}/archives");
    let list = app.get(&path, &place.ann).await;
    assert_eq!(all(&list.body, "data-key"), [newer.to_string(), place.key.to_string()]);
    assert_eq!(list.body.matches(">current<").count(), 1);
    assert!(list.body.find(">current<") > list.body.find(&place.key.to_string()), "the older one is");
    let detail = app.get(&format!("/workspaces/{id}"), &place.ann).await;
    assert!(all(&detail.body, "href").contains(&path.as_str()), "the page is found");
    let expected = |answer: &Answer| ["browse", "fork", "go-back"].map(|id| has(answer, id));
    assert_eq!(expected(&list), [true, true, false], "there is nothing to go back from");
    assert_eq!(
        expected(&app.get(&path, &root).await),
        [false, false, false],
        "looking inside is the owner's"
    );
    assert_eq!(app.get(&path, &bob).await.status, StatusCode::FORBIDDEN);
    broken(&place, ErrorReason::DataLost).await;
    assert_eq!(expected(&app.get(&path, &place.ann).await), [true, true, true]);
    assert_eq!(expected(&app.get(&path, &root).await), [false, false, true], "recovering is also theirs");
    let korean = app.get_in("ko", &path, &place.ann).await;
    assert!(korean.body.contains("내용 보기") && korean.body.contains("이 보관본 복원"));
}

#[tokio::test]
async fn only_the_owner_looks_inside() {
    let place = place().await;
    let app = &place.app;
    let (_, bob) = app.person("bob", Role::User).await;
    let (_, root) = app.person("root", Role::Admin).await;
    for rest in ["files", "files?path=zoo", "file?path=page.html"] {
        let path = at(place.key, rest);
        assert_eq!(app.get(&path, &place.ann).await.status, StatusCode::OK, "{rest}");
        for other in [&bob, &root] {
            assert_eq!(app.get(&path, other).await.status, StatusCode::FORBIDDEN, "{rest}");
        }
        let stranger = app.get(&path, "").await;
        assert!(stranger.location().starts_with("/login?next=/workspaces/"), "{}", stranger.location());
    }
    let fork = format!("/workspaces/new?from_archive={}", place.key);
    for other in [&bob, &root] {
        assert_eq!(app.get(&fork, other).await.status, StatusCode::NOT_FOUND);
        let made = app.post("/workspaces", other, &format!("name=x&from_archive={}", place.key)).await;
        assert_eq!(made.status, StatusCode::CONFLICT);
        assert!(made.body.contains("That archive no longer exists"), "{}", made.body);
    }
}

#[tokio::test]
async fn files_are_shown_directories_first_whatever_they_are_called() {
    let place = place().await;
    let (app, ann) = (&place.app, &place.ann);
    let home = app.get(&at(place.key, "files"), ann).await;
    let names = all(&home.body, "data-name");
    let shown = "apps odd-\u{fffd} zoo | a b&amp;c=d+e%41.txt link page.html same.html 한글.md";
    assert_eq!(names.join(" "), shown.replace(" |", ""));
    assert!(home.body.contains("/etc/passwd") && home.body.contains("25 B"), "{}", home.body);
    // Every link leads somewhere: directories to their content, files to their bytes.
    let inside = at(place.key, "");
    let links: Vec<String> =
        all(&home.body, "href").into_iter().filter(|to| to.starts_with(&inside)).map(str::to_owned).collect();
    assert_eq!(links.len(), 3 + 4, "not the symbolic link: {links:?}");
    for link in &links {
        assert_eq!(app.get(link, ann).await.status, StatusCode::OK, "{link}");
    }
    let odd = links.iter().find(|link| link.contains("%FF")).unwrap();
    let odd = app.get(odd, ann).await;
    let file = all(&odd.body, "href").into_iter().find(|to| to.contains("%FE")).unwrap().to_owned();
    assert_eq!(app.get(&file, ann).await.bytes, [0, 159, 146, 150, 255]);
    let deep = app.get(&at(place.key, "files?path=zoo%2Fdeep%20er/"), ann).await;
    let crumbs = [at(place.key, "files?path="), at(place.key, "files?path=zoo")];
    assert!(crumbs.iter().all(|to| all(&deep.body, "href").contains(&to.as_str())), "{}", deep.body);
    assert_eq!(all(&deep.body, "data-name"), ["leaf.txt"]);
    let empty = app.get_in("ko", &at(place.key, "files?path=apps"), ann).await;
    assert!(has(&empty, "nothing-here") && empty.body.contains("비어 있습니다."));
    let other = ArchiveKey { op: codehub_domain::OpId::from_uuid(Uuid::now_v7()), ..place.key };
    for (path, status) in [
        (at(place.key, "files?path=nothing"), StatusCode::NOT_FOUND),
        (at(place.key, "files?path=../.."), StatusCode::NOT_FOUND),
        (at(other, "files"), StatusCode::NOT_FOUND),
        (at(other, "restore"), StatusCode::NOT_FOUND),
        (at(place.key, "file?path=nothing"), StatusCode::NOT_FOUND),
        (at(place.key, "file?path=zoo"), StatusCode::BAD_REQUEST),
        (at(place.key, "file?path=link"), StatusCode::BAD_REQUEST),
        (at(place.key, "file"), StatusCode::BAD_REQUEST),
        (format!("/workspaces/{}/archives/x/files", place.key.workspace), StatusCode::NOT_FOUND),
        (format!("/workspaces/x/archives/{}/files", place.key.op), StatusCode::NOT_FOUND),
    ] {
        assert_eq!(app.get(&path, ann).await.status, status, "{path}");
    }
}

#[tokio::test]
async fn a_file_is_for_saving_and_never_shown_here() {
    let place = place().await;
    for (path, name, length) in [
        ("page.html", "page%2Ehtml", "25"),
        ("same.html", "same%2Ehtml", "25"),
        ("odd-%FF/%FE.bin", "%EF%BF%BD%2Ebin", "5"),
    ] {
        let answer = place.app.get(&at(place.key, &format!("file?path={path}")), &place.ann).await;
        assert_eq!(answer.status, StatusCode::OK);
        assert_eq!(answer.headers[CONTENT_TYPE], "application/octet-stream");
        assert_eq!(answer.headers[CONTENT_DISPOSITION], format!("attachment; filename*=UTF-8''{name}"));
        assert_eq!(answer.headers[CONTENT_LENGTH], length);
        assert_eq!(answer.headers.get_all(X_CONTENT_TYPE_OPTIONS).iter().count(), 1);
        assert_eq!(answer.headers[X_CONTENT_TYPE_OPTIONS], "nosniff");
        assert_eq!(answer.headers[CACHE_CONTROL], "no-store");
    }
}

#[tokio::test]
async fn a_large_directory_comes_in_pages() {
    let place = place().await;
    let expected: BTreeSet<String> = (0..1_203).map(|n| format!("file {n}")).collect();
    let names = expected.clone();
    let key = place
        .app
        .archive(&place.workspace, move |home| {
            for name in names {
                fs::write(home.join(name), "").unwrap();
            }
        })
        .await;
    let (mut path, mut seen, mut pages) = (at(key, "files"), Vec::new(), 0);
    loop {
        let page = place.app.get(&path, &place.ann).await;
        assert_eq!(has(&page, "first-page"), pages > 0);
        seen.extend(all(&page.body, "data-name").into_iter().map(str::to_owned));
        pages += 1;
        let Some(next) =
            page.body.split("<a class=\"button\" href=\"").find(|to| to.contains("rel=\"next\""))
        else {
            break;
        };
        path = next.split('"').next().unwrap().replace("&amp;", "&");
    }
    assert_eq!((pages, seen.len()), (3, expected.len()));
    assert_eq!(BTreeSet::from_iter(seen), expected);
}

#[tokio::test]
async fn a_workspace_is_copied_from_an_archive() {
    let place = place().await;
    let (app, ann) = (&place.app, &place.ann);
    let form = "name=box&standby_ttl=2&standby_unit=h&activity_mode=connections";
    app.post(&format!("/workspaces/{}/edit", place.workspace.id), ann, form).await;
    let page = app.get(&format!("/workspaces/new?from_archive={}", place.key), ann).await;
    let values = all(&page.body, "value");
    assert!(values.contains(&"Copy of box") && values.contains(&place.key.to_string().as_str()));
    assert!(has(&page, "source") && page.body.contains("value=\"connections\" selected"), "{}", page.body);
    let wrong = app.post("/workspaces", ann, &format!("name=&from_archive={}", place.key)).await;
    assert_eq!(wrong.status, StatusCode::BAD_REQUEST);
    assert!(has(&wrong, "source") && wrong.body.contains(&place.key.to_string()), "the choice is kept");
    let made = app.post("/workspaces", ann, &format!("name=fork&from_archive={}", place.key)).await;
    let id = made.location().strip_prefix("/workspaces/").unwrap().parse().unwrap();
    let fork = app.app.store().workspace_get(id).await.unwrap().unwrap();
    assert_eq!(
        (fork.owner, fork.status.archive_key, fork.status.home.truth),
        (place.me, Some(place.key), Truth::Archive)
    );
    let gone = ArchiveKey { op: codehub_domain::OpId::from_uuid(Uuid::now_v7()), ..place.key };
    for nothing in [gone.to_string(), "x".into(), format!("{}/", place.key)] {
        let path = format!("/workspaces/new?from_archive={nothing}");
        assert_eq!(app.get(&path, ann).await.status, StatusCode::NOT_FOUND, "{nothing}");
    }
    let gone = app.post("/workspaces", ann, &format!("name=fork&from_archive={gone}")).await;
    assert_eq!(gone.status, StatusCode::CONFLICT);
    assert_eq!(
        app.post("/workspaces", ann, "name=fork&from_archive=x").await.status,
        StatusCode::BAD_REQUEST
    );
}

#[tokio::test]
async fn going_back_is_offered_in_an_error_and_asks_first() {
    for (reason, accepts) in [(ErrorReason::Timeout, true), (ErrorReason::DataLost, false)] {
        let place = place().await;
        let (app, ann, id) = (&place.app, &place.ann, place.workspace.id);
        let page = at(place.key, "restore");
        let early = app.get(&page, ann).await;
        assert_eq!(early.location(), format!("/workspaces/{id}/archives"));
        assert_eq!(early.cookie("flash").unwrap(), "flash=not-in-error");
        let before = broken(&place, reason).await;
        let confirm = app.get(&page, ann).await;
        assert_eq!(all(&confirm.body, "name").contains(&"accept_data_loss"), accepts, "{reason}");
        assert!(all(&confirm.body, "action").contains(&format!("/workspaces/{id}/recover").as_str()));
        let send = async |loss: &str| {
            let form = format!("restore_from={}{loss}", place.key);
            app.post(&format!("/workspaces/{id}/recover"), ann, &form).await;
            app.app.store().workspace_get(id).await.unwrap().unwrap().status
        };
        if accepts {
            assert_eq!(send("").await, before.status, "a home is not dropped without being asked");
        }
        let after = send(if accepts { "&accept_data_loss=yes" } else { "&understood=yes" }).await;
        assert_eq!((after.archive_key, after.home.truth), (Some(place.key), Truth::Archive), "{reason}");
        assert_eq!((after.error, after.operation), (None, Operation::None));
    }
}

#[tokio::test]
async fn an_image_is_chosen_where_there_are_several() {
    let with = async |kind: &'static str, allowed: &'static str| {
        let app = TestApp::with(&[
            ("runtime.kind", kind),
            ("runtime.image", "ours"),
            ("runtime.images_allowed", allowed),
        ])
        .await;
        let (_, ann) = app.person("ann", Role::User).await;
        let page = app.get("/workspaces/new", &ann).await;
        (app, ann, page)
    };
    for (kind, allowed) in [("docker", ""), ("docker", "ours"), ("process", "other,team/*")] {
        assert!(!has(&with(kind, allowed).await.2, "field-image_ref"), "{kind} {allowed}");
    }
    let (_, _, named) = with("docker", "other,ours").await;
    assert!(
        named.body.contains("<option value=\"ours\" selected")
            && named.body.contains("<option value=\"other\"")
    );
    let (app, ann, patterns) = with("docker", "other,team/*").await;
    assert!(patterns.body.contains("list=\"images\"") && patterns.body.contains("team/*"));
    for (image, stored) in [("", Some("ours")), ("team/one", Some("team/one")), ("theirs", None)] {
        let answer = app.post("/workspaces", &ann, &format!("name=box&image_ref={image}")).await;
        match stored {
            None => {
                assert!(answer.status == StatusCode::BAD_REQUEST && answer.body.contains("image_ref-error"));
            }
            Some(stored) => {
                let id = answer.location().strip_prefix("/workspaces/").unwrap().parse().unwrap();
                assert_eq!(app.app.store().workspace_get(id).await.unwrap().unwrap().image_ref, stored);
            }
        }
    }
}

#[tokio::test]
async fn what_counts_as_use_is_chosen_and_can_be_the_default_again() {
    let place = place().await;
    let (app, path) = (&place.app, format!("/workspaces/{}/edit", place.workspace.id));
    for (word, mode) in [("connections", Some(ActivityMode::Connections)), ("", None)] {
        app.post(&path, &place.ann, &format!("name=box&activity_mode={word}")).await;
        let stored = app.app.store().workspace_get(place.workspace.id).await.unwrap().unwrap();
        assert_eq!(stored.activity_mode, mode);
        let page = app.get(&path, &place.ann).await;
        assert!(page.body.contains(&format!("value=\"{word}\" selected")), "{}", page.body);
    }
    let wrong = app.post(&path, &place.ann, "name=box&activity_mode=always").await;
    assert!(wrong.status == StatusCode::BAD_REQUEST && wrong.body.contains("activity_mode-error"));
}
