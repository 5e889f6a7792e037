//! Git from the page: status, versions, staging, committing, discarding.

use std::process::Command;

use http::StatusCode;
use serde_json::{Value, json};

use crate::harness::Ide;

/// Runs git in the home's repository `p`, as somebody in a terminal would.
fn git(ide: &Ide, arguments: &[&str]) -> String {
    let output = Command::new("git").arg("-C").arg(ide.home.join("p")).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

async fn repository() -> Option<Ide> {
    if Command::new("git").arg("version").output().is_err() {
        codehub_testing::skip("no git");
        return None;
    }
    let ide = Ide::start().await;
    ide.write("p/a.txt", "one\ntwo\n");
    ide.write("p/d/b.txt", "b\n");
    git(&ide, &["init", "--quiet", "--initial-branch=main"]);
    git(&ide, &["config", "user.name", "A"]);
    git(&ide, &["config", "user.email", "a@example.com"]);
    Some(ide)
}

async fn status(ide: &Ide) -> Value {
    ide.get("api/git/status?path=p").await.json().await.unwrap()
}

fn files(status: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let files = status["status"]["files"].as_array().unwrap();
    files.iter().map(|f| (text(&f["path"]), text(&f["staged"]) + f["working"].as_str().unwrap())).collect()
}

async fn act(ide: &Ide, what: &str, paths: &[&str]) -> StatusCode {
    let body = json!({ "repository": "p", "paths": paths });
    ide.http.post(ide.url(&format!("api/git/{what}"))).json(&body).send().await.unwrap().status()
}

async fn commit(ide: &Ide, message: &str) -> reqwest::Response {
    let body = json!({ "repository": "p", "message": message });
    ide.http.post(ide.url("api/git/commit")).json(&body).send().await.unwrap()
}

fn pair(path: &str, letters: &str) -> (String, String) {
    (path.to_owned(), letters.to_owned())
}

#[tokio::test]
async fn from_the_first_file_to_a_commit() {
    let Some(ide) = repository().await else { return };
    let now = status(&ide).await;
    assert_eq!((now["repository"].as_str(), now["status"]["branch"].as_str()), (Some("p"), Some("main")));
    assert!(now["status"]["head"].is_null());
    assert_eq!(files(&now), [pair("p/a.txt", ".?"), pair("p/d/b.txt", ".?")]);

    // Before the first commit, too, staging can be taken back.
    assert_eq!(act(&ide, "stage", &["p/a.txt", "p/d/b.txt"]).await, StatusCode::NO_CONTENT);
    assert_eq!(act(&ide, "unstage", &["p/d/b.txt"]).await, StatusCode::NO_CONTENT);
    assert_eq!(files(&status(&ide).await), [pair("p/a.txt", "A."), pair("p/d/b.txt", ".?")]);
    act(&ide, "stage", &["p/d/b.txt"]).await;
    assert_eq!(commit(&ide, "  the first\n\nwith # a body  ").await.status(), StatusCode::OK);
    assert_eq!(git(&ide, &["log", "--format=%B"]).trim(), "the first\n\nwith # a body");
    assert!(files(&status(&ide).await).is_empty());

    ide.write("p/a.txt", "one\n2\n");
    act(&ide, "stage", &["p/a.txt"]).await;
    ide.write("p/a.txt", "one\nII\n");
    std::fs::remove_file(ide.home.join("p/d/b.txt")).unwrap();
    assert_eq!(files(&status(&ide).await), [pair("p/a.txt", "MM"), pair("p/d/b.txt", ".D")]);
    let at =
        async |at: &str| ide.get(&format!("api/git/file?path=p/a.txt&at={at}")).await.text().await.unwrap();
    assert_eq!((at("head").await, at("index").await), ("one\ntwo\n".to_owned(), "one\n2\n".to_owned()));
    let missing = ide.get("api/git/file?path=p/none&at=head").await;
    assert_eq!((missing.status(), missing.text().await.unwrap()), (StatusCode::OK, String::new()));

    ide.write("p/new", "x");
    assert_eq!(act(&ide, "discard", &["p/a.txt", "p/d/b.txt", "p/new"]).await, StatusCode::NO_CONTENT);
    assert_eq!(ide.read("p/a.txt"), "one\n2\n", "what is staged stays");
    assert_eq!(ide.read("p/d/b.txt"), "b\n");
    assert!(!ide.home.join("p/new").exists());
    assert_eq!(files(&status(&ide).await), [pair("p/a.txt", "M.")]);
    act(&ide, "unstage", &["p/a.txt"]).await;
    assert_eq!(files(&status(&ide).await), [pair("p/a.txt", ".M")]);
}

#[tokio::test]
async fn names_are_names_and_not_patterns_or_options() {
    let Some(ide) = repository().await else { return };
    for name in ["p/*", "p/--force", "p/:(top)x", "p/ü b"] {
        ide.write(name, "x");
    }
    act(&ide, "stage", &["p/*", "p/--force", "p/%3A(top)x", "p/%C3%BC%20b"]).await;
    let now = files(&status(&ide).await);
    let staged: Vec<_> = now.iter().filter(|(_, letters)| letters == "A.").map(|(path, _)| &**path).collect();
    assert_eq!(staged, ["p/*", "p/--force", "p/%3A(top)x", "p/%C3%BC%20b"]);
    // Untracked files with such names are deleted alone.
    act(&ide, "unstage", &["p/*"]).await;
    assert_eq!(act(&ide, "discard", &["p/*"]).await, StatusCode::NO_CONTENT);
    assert!(!ide.home.join("p/*").exists() && ide.home.join("p/a.txt").exists());
    for path in ["q/a", "p", "../x"] {
        assert_eq!(act(&ide, "stage", &[path]).await, StatusCode::BAD_REQUEST, "{path}");
    }
}

#[tokio::test]
async fn looking_runs_nothing_that_the_repository_names_and_takes_no_lock() {
    let Some(ide) = repository().await else { return };
    let trace = ide.home.join("ran");
    git(&ide, &["config", "core.fsmonitor", &format!("touch {}", trace.display())]);
    git(&ide, &["config", "diff.external", &format!("touch {}", trace.display())]);
    git(&ide, &["-c", "core.fsmonitor=false", "add", "-A"]);
    git(&ide, &["-c", "core.fsmonitor=false", "commit", "--quiet", "-m", "x"]);
    let index = std::fs::metadata(ide.home.join("p/.git/index")).unwrap().modified().unwrap();
    ide.write("p/a.txt", "changed\n");
    ide.write("p/d/b.txt", "b\n");
    assert_eq!(files(&status(&ide).await), [pair("p/a.txt", ".M")]);
    ide.get("api/git/file?path=p/a.txt&at=head").await;
    assert!(!trace.exists());
    assert_eq!(std::fs::metadata(ide.home.join("p/.git/index")).unwrap().modified().unwrap(), index);
}

#[tokio::test]
async fn a_refused_commit_says_why() {
    use std::os::unix::fs::PermissionsExt;
    let Some(ide) = repository().await else { return };
    let (code, _) = (commit(&ide, "nothing").await, ());
    assert_eq!(Ide::failure(code).await.1, "GIT_FAILED");
    assert_eq!(Ide::failure(commit(&ide, " ").await).await, (400, "BAD_MESSAGE".to_owned()));
    act(&ide, "stage", &["p/a.txt"]).await;
    ide.write("p/.git/hooks/pre-commit", "#!/bin/sh\necho the hook says no >&2\nexit 1\n");
    let hook = ide.home.join("p/.git/hooks/pre-commit");
    std::fs::set_permissions(hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    let body: Value = commit(&ide, "x").await.json().await.unwrap();
    assert_eq!(body["error"]["message"], "the hook says no");
}

#[tokio::test]
async fn without_a_repository_there_is_none() {
    let Some(ide) = repository().await else { return };
    ide.write("plain/a", "");
    ide.write("deep/q/.git/HEAD", "");
    let now: Value = ide.get("api/git/status?path=plain/a").await.json().await.unwrap();
    assert_eq!((now["available"].as_bool(), now["repository"].is_null()), (Some(true), true));
    let list: Value = ide.get("api/git/repositories").await.json().await.unwrap();
    assert_eq!(list["repositories"], json!(["deep/q", "p"]));
    // A repository around the home is not the workspace's.
    let around =
        Command::new("git").args(["init", "--quiet"]).current_dir(ide.home.parent().unwrap()).status();
    assert!(around.unwrap().success());
    let now: Value = ide.get("api/git/status?path=plain").await.json().await.unwrap();
    assert!(now["repository"].is_null());
}
