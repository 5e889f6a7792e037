//! `DELETE api/file?path=`: removes a file, a link, or a directory with all in it.
//!
//! Works on open directories only, so a directory swapped for a link in the
//! middle cannot send the deletion elsewhere.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use axum::extract::{RawQuery, State};
use http::StatusCode;
use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;

use super::Files;
use crate::error::{ApiError, Result, blocking};
use crate::path::query_path;

/// Deeper trees than this are refused rather than risking the stack.
const MAX_DEPTH: usize = 512;

pub(super) async fn delete(State(files): State<Files>, RawQuery(query): RawQuery) -> Result<StatusCode> {
    let path = query_path(query.as_deref(), "path")?;
    blocking(move || {
        let at = files.home.locate_entry(&path)?;
        remove(&at.dir, &at.name, 0).map_err(|errno| ApiError::from_errno(errno, &path.shown()))?;
        Ok(StatusCode::NO_CONTENT)
    })
    .await
}

pub(super) fn remove(dir: &OwnedFd, name: &OsStr, depth: usize) -> rustix::io::Result<()> {
    match rustix::fs::unlinkat(dir, name, AtFlags::empty()) {
        // Linux says EISDIR; POSIX allows EPERM.
        Err(Errno::ISDIR | Errno::PERM) => {}
        other => return other,
    }
    if depth > MAX_DEPTH {
        return Err(Errno::NAMETOOLONG);
    }
    let inner = rustix::fs::openat(
        dir,
        name,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    for item in Dir::read_from(&inner)? {
        let item = item?;
        let child = item.file_name().to_bytes();
        if child == b"." || child == b".." {
            continue;
        }
        match remove(&inner, OsStr::from_bytes(child), depth + 1) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
    }
    rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR)
}
