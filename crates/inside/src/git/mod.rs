//! The machine's `git` for the page: what changed, what it was before, staging, committing, discarding.
//!
//! It runs with the workspace's own rights, as in a terminal, so a hostile repository gains nothing here that it would
//! not gain there. Looking never writes and runs nothing that a repository names; committing runs its hooks, as
//! `git commit` does.
//!
//! * [`run`] starts `git` with a time limit, bounded output and nobody to prompt.
//! * [`status`] reads what it says about a repository.
//!
//! | request | does |
//! |---|---|
//! | `GET api/git/repositories` | the repositories in the home |
//! | `GET api/git/status?path=` | branch and changed files of the repository around a path |
//! | `GET api/git/file?path=&at=` | a file as of `head` or `index` |
//! | `POST api/git/{stage,unstage,discard}` | `{"repository","paths"}` |
//! | `POST api/git/commit` | `{"repository","message"}` |

mod repositories;
mod run;
mod status;

use std::collections::BTreeSet;

use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use http::{StatusCode, header};
use rustix::fs::{FileType, OFlags};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::{ApiError, Result, blocking};
use crate::files::MAX_TEXT_BYTES;
use crate::home::Home;
use crate::path::{RelPath, query_path, query_value};
use run::{Git, Output};

const MAX_PATHS: usize = 10_000;
const MAX_MESSAGE: usize = 64 * 1024;

pub(crate) fn router(home: Home) -> Router {
    Router::new()
        .route("/api/git/repositories", get(repositories::list))
        .route("/api/git/status", get(status))
        .route("/api/git/file", get(file))
        .route("/api/git/stage", post(stage))
        .route("/api/git/unstage", post(unstage))
        .route("/api/git/discard", post(discard))
        .route("/api/git/commit", post(commit))
        .with_state(Git::new(home))
}

/// Paths of one repository, as encoded as everywhere.
#[derive(Deserialize)]
struct Chosen {
    repository: String,
    paths: Vec<String>,
}

impl Chosen {
    /// The repository, and the paths in it the way `git` takes them from its input.
    fn read(&self) -> Result<(RelPath, Vec<u8>)> {
        use std::os::unix::ffi::OsStrExt;
        let repository = RelPath::decode(&self.repository)?;
        if self.paths.is_empty() || self.paths.len() > MAX_PATHS {
            return Err(ApiError::bad_request("BAD_PATHS", format!("“paths” names 1 to {MAX_PATHS} files")));
        }
        let mut input = Vec::new();
        for path in &self.paths {
            let path = RelPath::decode(path)?;
            let inner = path.parts().strip_prefix(repository.parts()).filter(|parts| !parts.is_empty());
            let inner = inner.ok_or_else(|| {
                ApiError::bad_request("BAD_PATHS", format!("“{}” is not in the repository", path.shown()))
            })?;
            let inner: std::path::PathBuf = inner.iter().collect();
            input.extend_from_slice(inner.as_os_str().as_bytes());
            input.push(0);
        }
        Ok((repository, input))
    }
}

/// Where to run `git` for a path: the directory itself, or the one around a file that may be gone.
async fn directory_of(home: &Home, path: RelPath) -> Result<RelPath> {
    let home = home.clone();
    blocking(move || {
        let mut at = path;
        loop {
            let found = home.open_at(&at, OFlags::PATH).ok().and_then(|fd| rustix::fs::fstat(fd).ok());
            match found {
                Some(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => return Ok(at),
                _ if at.parts().is_empty() => return Ok(at),
                _ => at = at.parent(),
            }
        }
    })
    .await
}

async fn status(State(git): State<Git>, RawQuery(query): RawQuery) -> Result<Json<Value>> {
    let path = query_path(query.as_deref(), "path")?;
    let dir = directory_of(git.home(), path).await?;
    let Some(root) = git.root_of(&dir).await? else {
        return Ok(Json(json!({ "available": git.available().await, "repository": null })));
    };
    let arguments = ["status", "--porcelain=v2", "--branch", "-z", "--untracked-files=all", "--no-renames"];
    let Output { bytes, truncated } = git.look(&root, &arguments).await?;
    let status = status::parse(&bytes, &root, truncated);
    Ok(Json(json!({ "available": true, "repository": root.encoded(), "status": status })))
}

/// A file as it was: `head` is what was committed last, `index` what is staged. Empty where it was not.
async fn file(State(git): State<Git>, RawQuery(query): RawQuery) -> Result<Response> {
    let path = query_path(query.as_deref(), "path")?;
    let at = match query_value(query.as_deref(), "at") {
        Some("index") => ":0",
        Some("head") | None => "HEAD",
        Some(other) => {
            return Err(ApiError::bad_request(
                "BAD_PARAMETER",
                format!("at={other}: expected head or index"),
            ));
        }
    };
    let dir = directory_of(git.home(), path.parent()).await?;
    let Some(root) = git.root_of(&dir).await? else { return Err(not_a_repository(&path)) };
    let inner = path.parts().strip_prefix(root.parts()).unwrap_or_default();
    let inner: std::path::PathBuf = inner.iter().collect();
    let Some(inner) = inner.to_str() else {
        return Err(ApiError::bad_request("NOT_UTF8", format!("the name “{}” is not UTF-8", path.shown())));
    };
    // Never through filters or converters that the repository names.
    let content = match git.look(&root, &["cat-file", "blob", &format!("{at}:{inner}")]).await {
        Ok(output) if output.truncated || output.bytes.len() as u64 > MAX_TEXT_BYTES => {
            return Err(ApiError::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "TOO_LARGE",
                "the version in git is too large to show",
            ));
        }
        Ok(output) => output.bytes,
        Err(error) if error.code == "GIT_FAILED" => Vec::new(),
        Err(error) => return Err(error),
    };
    if content.contains(&0) || std::str::from_utf8(&content).is_err() {
        return Err(ApiError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "BINARY",
            "the version in git is not text",
        ));
    }
    Ok(([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], content).into_response())
}

fn not_a_repository(path: &RelPath) -> ApiError {
    ApiError::new(
        StatusCode::NOT_FOUND,
        "NOT_A_REPOSITORY",
        format!("“{}” is not in a git repository", path.shown()),
    )
}

const FROM_INPUT: [&str; 2] = ["--pathspec-from-file=-", "--pathspec-file-nul"];

async fn stage(State(git): State<Git>, Json(chosen): Json<Chosen>) -> Result<StatusCode> {
    let (root, paths) = chosen.read()?;
    git.change(&root, &["add", "--all", FROM_INPUT[0], FROM_INPUT[1]], paths).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn unstage(State(git): State<Git>, Json(chosen): Json<Chosen>) -> Result<StatusCode> {
    let (root, paths) = chosen.read()?;
    // Before the first commit there is nothing to go back to.
    let first = git.look(&root, &["rev-parse", "--verify", "--quiet", "HEAD"]).await.is_err();
    let command: &[&str] = if first { &["rm", "--cached", "--quiet", "-r"] } else { &["reset", "--quiet"] };
    git.change(&root, &[command, &FROM_INPUT].concat(), paths).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Puts files back to what is staged or committed; deletes those that git does not know. The page asks before.
async fn discard(State(git): State<Git>, Json(chosen): Json<Chosen>) -> Result<StatusCode> {
    let (root, paths) = chosen.read()?;
    let known = git.look(&root, &["ls-files", "-z"]).await?;
    if known.truncated {
        return Err(ApiError::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "TOO_LARGE",
            "the repository has too many files for this; use the terminal",
        ));
    }
    let known: BTreeSet<&[u8]> = known.bytes.split(|byte| *byte == 0).collect();
    let (mut tracked, mut strange) = (Vec::new(), Vec::new());
    for path in paths.split(|byte| *byte == 0).filter(|path| !path.is_empty()) {
        let list = if known.contains(path) { &mut tracked } else { &mut strange };
        list.extend_from_slice(path);
        list.push(0);
    }
    if !tracked.is_empty() {
        git.change(&root, &["restore", "--worktree", FROM_INPUT[0], FROM_INPUT[1]], tracked).await?;
    }
    for path in strange.split(|byte| *byte == 0).filter(|path| !path.is_empty()) {
        let path = String::from_utf8(path.to_vec()).map_err(|_| {
            ApiError::bad_request("NOT_UTF8", "a name is not UTF-8; delete that file in the terminal")
        })?;
        git.change(&root, &["clean", "--force", "--quiet", "--", &path], Vec::new()).await?;
    }
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Deserialize)]
struct Commit {
    repository: String,
    message: String,
}

async fn commit(State(git): State<Git>, Json(commit): Json<Commit>) -> Result<Json<Value>> {
    let root = RelPath::decode(&commit.repository)?;
    let message = commit.message.trim();
    if message.is_empty() || message.len() > MAX_MESSAGE {
        return Err(ApiError::bad_request(
            "BAD_MESSAGE",
            format!("a commit message has 1 to {MAX_MESSAGE} bytes"),
        ));
    }
    git.change(&root, &["commit", "--quiet", "--file=-"], message.as_bytes().to_vec()).await?;
    let id = git.look(&root, &["rev-parse", "--short", "HEAD"]).await?;
    Ok(Json(json!({ "id": String::from_utf8_lossy(&id.bytes).trim() })))
}
