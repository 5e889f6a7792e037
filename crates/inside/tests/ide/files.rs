//! Listing, reading, saving, moving, deleting; and what must stay impossible.

use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{PermissionsExt, symlink};

use http::StatusCode;
use serde_json::Value;

use crate::harness::Ide;

async fn put(ide: &Ide, path: &str, header: Option<(&str, &str)>, body: &str) -> reqwest::Response {
    let mut request = ide.http.put(ide.url(&format!("api/file?path={path}"))).body(body.to_owned());
    if let Some((name, value)) = header {
        request = request.header(name, value);
    }
    request.send().await.unwrap()
}

async fn etag(ide: &Ide, path: &str) -> String {
    let response = ide.get(&format!("api/file?path={path}")).await;
    response.headers()["etag"].to_str().unwrap().to_owned()
}

#[tokio::test]
async fn lists_folders_first_and_names_of_any_bytes() {
    let ide = Ide::start().await;
    ide.write("b.txt", "12345");
    ide.write("zdir/inner", "");
    ide.write("한글 이름.md", "x");
    let odd = std::ffi::OsString::from_vec(b"odd-\xff\xfe.txt".to_vec());
    std::fs::write(ide.home.join(&odd), "odd").unwrap();

    let listing: Value = ide.get("api/tree?path=").await.json().await.unwrap();
    let entries = listing["entries"].as_array().unwrap();
    assert_eq!(entries[0]["name"], "zdir");
    assert_eq!(entries[0]["kind"], "dir");
    assert_eq!(entries[1]["size"], 5);
    let odd = entries.iter().find(|e| e["key"] == "odd-%FF%FE.txt").unwrap();
    assert_eq!(odd["name"], "odd-\u{fffd}\u{fffd}.txt");
    let read = ide.get("api/file?path=odd-%FF%FE.txt").await;
    assert_eq!(read.text().await.unwrap(), "odd");
    let korean = entries.iter().find(|e| e["name"] == "한글 이름.md").unwrap();
    let key = korean["key"].as_str().unwrap();
    assert_eq!(ide.get(&format!("api/file?path={key}")).await.text().await.unwrap(), "x");
}

#[tokio::test]
async fn nothing_outside_the_home_is_reachable() {
    let ide = Ide::start().await;
    let secret = ide.home.parent().unwrap().join("secret");
    std::fs::write(&secret, "secret").unwrap();
    std::fs::create_dir(ide.home.join("dir")).unwrap();
    symlink("../secret", ide.home.join("link")).unwrap();
    symlink("/etc", ide.home.join("etc")).unwrap();
    symlink("..", ide.home.join("up")).unwrap();
    symlink("../../secret", ide.home.join("dir/link")).unwrap();

    for path in ["..%2Fsecret", "../secret", "dir/../../secret", "%2Fetc%2Fpasswd", "a%00b", "."] {
        let response = ide.get(&format!("api/file?path={path}")).await;
        assert!(response.status().is_client_error(), "{path}");
    }
    for path in ["link", "etc/passwd", "up/secret", "dir/link"] {
        let refused = (403, "OUTSIDE_HOME".to_owned());
        for endpoint in ["file", "stat", "download"] {
            let response = ide.get(&format!("api/{endpoint}?path={path}")).await;
            assert_eq!(Ide::failure(response).await, refused, "{endpoint} {path}");
        }
        let response = put(&ide, path, None, "overwritten").await;
        assert_eq!(Ide::failure(response).await, refused, "PUT {path}");
    }
    for path in ["up", "etc"] {
        let response = ide.get(&format!("api/tree?path={path}")).await;
        assert_eq!(response.status(), StatusCode::FORBIDDEN);
        let response = put(&ide, &format!("{path}/new"), None, "x").await;
        assert_eq!(response.status(), StatusCode::FORBIDDEN);
    }
    let rename = ide.http.post(ide.url("api/rename?path=dir&to=up/dir"));
    assert_eq!(rename.send().await.unwrap().status(), StatusCode::FORBIDDEN);
    let mkdir = ide.http.post(ide.url("api/mkdir?path=up/made"));
    assert_eq!(mkdir.send().await.unwrap().status(), StatusCode::FORBIDDEN);
    // Deleting a link deletes the link.
    let delete = ide.http.delete(ide.url("api/file?path=link"));
    assert_eq!(delete.send().await.unwrap().status(), StatusCode::NO_CONTENT);
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "secret");

    // Nor through the deletion of a folder that holds links out.
    let delete = ide.http.delete(ide.url("api/file?path=dir"));
    assert_eq!(delete.send().await.unwrap().status(), StatusCode::NO_CONTENT);
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "secret");
    let delete = ide.http.delete(ide.url("api/file?path="));
    assert_eq!(delete.send().await.unwrap().status(), StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn only_text_of_sensible_size_opens() {
    let ide = Ide::start().await;
    std::fs::write(ide.home.join("binary"), b"a\0b").unwrap();
    std::fs::write(ide.home.join("latin1"), b"caf\xe9").unwrap();
    ide.write("large", &"x".repeat(16 * 1024 * 1024 + 1));
    ide.write("bom", "\u{feff}한글\r\n");
    let fifo = ide.home.join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
        .unwrap();
    for (path, status, code) in [
        ("binary", 415, "BINARY"),
        ("latin1", 415, "NOT_UTF8"),
        ("large", 413, "TOO_LARGE"),
        ("pipe", 415, "NOT_A_FILE"),
        ("missing", 404, "NOT_FOUND"),
    ] {
        let response = ide.get(&format!("api/file?path={path}")).await;
        assert_eq!(Ide::failure(response).await, (status, code.to_owned()), "{path}");
    }
    let bytes = ide.get("api/file?path=bom").await.bytes().await.unwrap();
    assert_eq!(&bytes[..], "\u{feff}한글\r\n".as_bytes());
}

#[tokio::test]
async fn a_save_replaces_atomically_and_only_what_was_loaded() {
    let ide = Ide::start().await;
    ide.write("sub/script", "old");
    let path = ide.home.join("sub/script");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o751)).unwrap();
    symlink("sub/script", ide.home.join("link")).unwrap();

    // Through the link, with the version that was loaded.
    let loaded = etag(&ide, "link").await;
    let saved = put(&ide, "link", Some(("if-match", &loaded)), "new").await;
    assert_eq!(saved.status(), StatusCode::OK);
    let version: Value = saved.json().await.unwrap();
    assert_eq!(ide.read("sub/script"), "new");
    assert!(ide.home.join("link").is_symlink());
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o751);
    assert_eq!(etag(&ide, "sub/script").await, format!("\"{}\"", version["version"].as_str().unwrap()));

    // The old version is no longer the one on disk.
    let stale = put(&ide, "link", Some(("if-match", &loaded)), "lost").await;
    assert_eq!(Ide::failure(stale).await, (412, "CHANGED_ON_DISK".to_owned()));
    let exists = put(&ide, "link", Some(("if-none-match", "*")), "lost").await;
    assert_eq!(Ide::failure(exists).await, (412, "EXISTS".to_owned()));
    assert_eq!(ide.read("sub/script"), "new");

    std::fs::remove_file(&path).unwrap();
    let gone = put(&ide, "link", Some(("if-match", &loaded)), "lost").await;
    assert_eq!(Ide::failure(gone).await, (412, "DELETED_ON_DISK".to_owned()));
    let forced = put(&ide, "sub/script", None, "again").await;
    assert_eq!(forced.status(), StatusCode::CREATED);

    // No half-written files are left behind, and none show in a listing.
    let names: Vec<_> = std::fs::read_dir(ide.home.join("sub")).unwrap().collect();
    assert_eq!(names.len(), 1);
}

#[tokio::test]
async fn of_two_saves_at_once_one_wins() {
    let ide = Ide::start().await;
    ide.write("f", "start");
    let loaded = etag(&ide, "f").await;
    let condition = Some(("if-match", loaded.as_str()));
    let saves = (0..8).map(|n| put(&ide, "f", condition, if n % 2 == 0 { "even" } else { "odd" }));
    let answers = futures::future::join_all(saves).await;
    let won = answers.iter().filter(|a| a.status() == StatusCode::OK).count();
    assert_eq!(won, 1);
}

#[tokio::test]
async fn creates_renames_and_deletes() {
    let ide = Ide::start().await;
    let post = |path: &str| ide.http.post(ide.url(path)).send();
    assert_eq!(post("api/mkdir?path=d").await.unwrap().status(), StatusCode::CREATED);
    let again = post("api/mkdir?path=d").await.unwrap();
    assert_eq!(Ide::failure(again).await, (409, "EXISTS".to_owned()));
    assert_eq!(put(&ide, "d/a.txt", None, "a").await.status(), StatusCode::CREATED);
    assert_eq!(put(&ide, "nodir/a.txt", None, "a").await.status(), StatusCode::NOT_FOUND);
    ide.write("b.txt", "b");

    let clash = post("api/rename?path=b.txt&to=d/a.txt").await.unwrap();
    assert_eq!(Ide::failure(clash).await, (409, "EXISTS".to_owned()));
    let moved = post("api/rename?path=b.txt&to=d/c%20d.txt").await.unwrap();
    assert_eq!(moved.status(), StatusCode::OK);
    assert_eq!(ide.read("d/c d.txt"), "b");
    let inside = post("api/rename?path=d&to=d/e").await.unwrap();
    assert_eq!(inside.status(), StatusCode::BAD_REQUEST);

    ide.write("d/deep/er/x", "");
    let delete = ide.http.delete(ide.url("api/file?path=d")).send().await.unwrap();
    assert_eq!(delete.status(), StatusCode::NO_CONTENT);
    assert!(!ide.home.join("d").exists());
    let missing = post("api/rename?to=x").await.unwrap();
    assert_eq!(Ide::failure(missing).await, (400, "MISSING_PARAMETER".to_owned()));
}

#[tokio::test]
async fn copies_files_and_folders_and_replaces_nothing() {
    use std::os::unix::fs::{PermissionsExt, symlink};

    let ide = Ide::start().await;
    ide.write("a/run.sh", "#!/bin/sh\n");
    ide.write("a/in/b", "b");
    std::fs::set_permissions(ide.home.join("a/run.sh"), std::fs::Permissions::from_mode(0o755)).unwrap();
    symlink("in/b", ide.home.join("a/link")).unwrap();
    let copy = async |from: &str, to: &str| {
        ide.http.post(ide.url(&format!("api/copy?path={from}&to={to}"))).send().await.unwrap()
    };
    assert_eq!(copy("a", "c").await.status(), StatusCode::CREATED);
    assert_eq!(ide.read("c/in/b"), "b");
    assert_eq!(std::fs::read_link(ide.home.join("c/link")).unwrap().to_str(), Some("in/b"));
    let mode = ide.home.join("c/run.sh").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
    assert_eq!(Ide::failure(copy("a", "c").await).await, (409, "EXISTS".to_owned()));
    assert_eq!(Ide::failure(copy("a", "a/in/a").await).await, (400, "INVALID".to_owned()));
    assert_eq!(Ide::failure(copy("none", "d").await).await, (404, "NOT_FOUND".to_owned()));
    let left: Vec<_> = std::fs::read_dir(&ide.home).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "nothing half-copied is left: {left:?}");
}
