//! `PUT api/file?path=`: a save from the editor or an upload, atomically.
//!
//! The body streams into a temporary file next to the target, is synced, and
//! takes the target's place by rename; a reader sees the old or the new content
//! and nothing between, whatever dies when. `If-Match` makes it conditional on
//! the version that was loaded, `If-None-Match: *` on the file not existing;
//! otherwise the answer is 412 and nothing changes.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Json;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use futures::StreamExt;
use http::{HeaderMap, StatusCode, header};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use super::Files;
use crate::error::{ApiError, Result, blocking};
use crate::home::{Located, version};
use crate::path::{RelPath, TEMP_PREFIX, query_path};

/// What must hold for the write to go through.
#[derive(Clone)]
enum Condition {
    None,
    Absent,
    Version(String),
}

pub(super) async fn put(
    State(files): State<Files>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<Value>)> {
    let path = query_path(query.as_deref(), "path")?;
    let condition = condition(&headers)?;

    let target = {
        let (files, path, condition) = (files.clone(), path.clone(), condition.clone());
        blocking(move || {
            let target = files.home.locate_target(&path)?;
            let old = current(&target, &path)?;
            check(&condition, old.as_ref(), &path)?;
            Partial::create(target, old.as_ref(), &path)
        })
        .await?
    };
    let file = target.file(&path)?;
    receive(body, file, &path).await?;
    let (status, stat) = blocking(move || target.commit(&files, &condition, &path)).await?;
    Ok((status, Json(json!({ "version": version(&stat), "size": stat.st_size }))))
}

/// Writes `content` as a save does, over this version only. Returns the new version.
pub(crate) fn write_over(files: &Files, path: &RelPath, expected: &str, content: &[u8]) -> Result<String> {
    let condition = Condition::Version(expected.to_owned());
    let target = files.home.locate_target(path)?;
    let old = current(&target, path)?;
    check(&condition, old.as_ref(), path)?;
    let partial = Partial::create(target, old.as_ref(), path)?;
    partial.file(path)?.write_all(content).map_err(|error| ApiError::from_io(&error, &path.shown()))?;
    let stat = partial.commit(files, &condition, path)?.1;
    Ok(version(&stat))
}

async fn receive(body: Body, file: File, path: &RelPath) -> Result<()> {
    let shown = path.shown();
    let mut file = tokio::fs::File::from_std(file);
    let mut chunks = body.into_data_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| {
            ApiError::bad_request("UPLOAD_BROKEN", format!("the upload of “{shown}” was cut off: {error}"))
        })?;
        file.write_all(&chunk).await.map_err(|error| ApiError::from_io(&error, &shown))?;
    }
    file.flush().await.map_err(|error| ApiError::from_io(&error, &shown))
}

fn condition(headers: &HeaderMap) -> Result<Condition> {
    let text = |name: http::HeaderName| -> Result<Option<String>> {
        headers
            .get(&name)
            .map(|value| {
                value
                    .to_str()
                    .map(|text| text.trim().to_owned())
                    .map_err(|_| ApiError::bad_request("BAD_HEADER", format!("{name} is not plain text")))
            })
            .transpose()
    };
    if let Some(value) = text(header::IF_MATCH)? {
        return Ok(Condition::Version(value.trim_matches('"').to_owned()));
    }
    match text(header::IF_NONE_MATCH)?.as_deref() {
        None => Ok(Condition::None),
        Some("*") => Ok(Condition::Absent),
        Some(_) => Err(ApiError::bad_request("BAD_HEADER", "If-None-Match is only understood as “*”")),
    }
}

/// The regular file there now, if any.
fn current(target: &Located, path: &RelPath) -> Result<Option<Stat>> {
    match rustix::fs::statat(&target.dir, &target.name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(Some(stat)),
            FileType::Directory => Err(ApiError::from_errno(Errno::ISDIR, &path.shown())),
            _ => Err(ApiError::new(
                StatusCode::CONFLICT,
                "NOT_A_FILE",
                format!("“{}” is not a regular file", path.shown()),
            )),
        },
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(ApiError::from_errno(errno, &path.shown())),
    }
}

fn check(condition: &Condition, old: Option<&Stat>, path: &RelPath) -> Result<()> {
    match (condition, old) {
        (Condition::None, _) | (Condition::Absent, None) => Ok(()),
        (Condition::Absent, Some(_)) => Err(ApiError::new(
            StatusCode::PRECONDITION_FAILED,
            "EXISTS",
            format!("“{}” already exists", path.shown()),
        )),
        (Condition::Version(expected), Some(stat)) if *expected == version(stat) => Ok(()),
        (Condition::Version(_), Some(_)) => Err(ApiError::changed(&path.shown())),
        (Condition::Version(_), None) => Err(ApiError::new(
            StatusCode::PRECONDITION_FAILED,
            "DELETED_ON_DISK",
            format!("“{}” was deleted since it was loaded", path.shown()),
        )),
    }
}

/// A half-written file; removed when dropped before its commit, as when the
/// browser goes away in the middle of an upload.
struct Partial {
    target: Located,
    temp: OsString,
    file: Arc<OwnedFd>,
    committed: bool,
}

impl Partial {
    fn create(target: Located, old: Option<&Stat>, path: &RelPath) -> Result<Self> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let wrap = |errno| ApiError::from_errno(errno, &path.shown());
        // Without write permission on the file itself a rename would still go
        // through; people expect a read-only file to refuse a save.
        if old.is_some() {
            rustix::fs::openat(
                &target.dir,
                &target.name,
                OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC,
                Mode::empty(),
            )
            .map_err(wrap)?;
        }
        let temp = OsString::from(format!(
            "{TEMP_PREFIX}{}-{}",
            std::process::id(),
            COUNTER.fetch_add(1, Ordering::Relaxed)
        ));
        // A new file gets the usual mode through the umask; a replacement
        // starts private and takes over the old mode and owner.
        let mode = if old.is_some() { 0o600 } else { 0o666 };
        let file = rustix::fs::openat(
            &target.dir,
            &temp,
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::from_raw_mode(mode),
        )
        .map_err(wrap)?;
        let partial = Self { target, temp, file: Arc::new(file), committed: false };
        if let Some(old) = old {
            let owner = rustix::fs::Uid::from_raw(old.st_uid);
            let group = rustix::fs::Gid::from_raw(old.st_gid);
            // Only root may give files away; then the saver simply owns it.
            let _ = rustix::fs::fchown(&partial.file, Some(owner), Some(group));
            rustix::fs::fchmod(&partial.file, Mode::from_raw_mode(old.st_mode & 0o7777)).map_err(wrap)?;
        }
        Ok(partial)
    }

    fn file(&self, path: &RelPath) -> Result<File> {
        rustix::io::fcntl_dupfd_cloexec(&self.file, 0)
            .map(File::from)
            .map_err(|errno| ApiError::from_errno(errno, &path.shown()))
    }

    fn commit(mut self, files: &Files, condition: &Condition, path: &RelPath) -> Result<(StatusCode, Stat)> {
        let wrap = |errno| ApiError::from_errno(errno, &path.shown());
        rustix::fs::fsync(&self.file).map_err(wrap)?;
        let guard = files.commit.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let old = current(&self.target, path)?;
        check(condition, old.as_ref(), path)?;
        let dir = &self.target.dir;
        rustix::fs::renameat(dir, &self.temp, dir, &self.target.name).map_err(wrap)?;
        drop(guard);
        self.committed = true;
        let stat = rustix::fs::fstat(&self.file).map_err(wrap)?;
        // The directory was perhaps opened as a mere path; some file systems
        // cannot sync directories at all. The content itself is safe already.
        if let Ok(dir) =
            rustix::fs::openat(dir, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        {
            let _ = rustix::fs::fsync(dir);
        }
        let status = if old.is_some() { StatusCode::OK } else { StatusCode::CREATED };
        Ok((status, stat))
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.committed {
            let _ = rustix::fs::unlinkat(&self.target.dir, &self.temp, AtFlags::empty());
        }
    }
}
