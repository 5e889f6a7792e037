//! `POST api/copy?path=&to=`: a file, a link, or a directory with all in it.
//!
//! The copy grows under a temporary name and takes its own when it is whole, so a copy that breaks off leaves nothing
//! that looks like one. Links are copied as links; sockets and devices are left out. Never replaces anything (409).

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Json;
use axum::extract::{RawQuery, State};
use http::StatusCode;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use serde_json::{Value, json};

use super::{Files, remove};
use crate::error::{ApiError, Result, blocking};
use crate::path::{TEMP_PREFIX, is_temp, query_path};

/// Deeper trees than this are refused rather than risking the stack.
const MAX_DEPTH: usize = 256;

pub(super) async fn copy(
    State(files): State<Files>,
    RawQuery(query): RawQuery,
) -> Result<(StatusCode, Json<Value>)> {
    let from = query_path(query.as_deref(), "path")?;
    let to = query_path(query.as_deref(), "to")?;
    // A folder copied into itself would find its own copy, and copy that.
    if to.parts().starts_with(from.parts()) && to != from {
        return Err(ApiError::from_errno(Errno::INVAL, &from.shown()));
    }
    blocking(move || {
        let source = files.home.locate_entry(&from)?;
        let target = files.home.locate_entry(&to)?;
        if rustix::fs::statat(&target.dir, &target.name, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
            return Err(ApiError::from_errno(Errno::EXIST, &to.shown()));
        }
        let temp = temp_name();
        let done = entry(&source.dir, &source.name, &target.dir, &temp, 0).and_then(|()| {
            match rustix::fs::renameat_with(
                &target.dir,
                &temp,
                &target.dir,
                &target.name,
                RenameFlags::NOREPLACE,
            ) {
                // Some file systems do not know NOREPLACE; that nothing is there was seen above.
                Err(Errno::INVAL | Errno::NOSYS) => {
                    rustix::fs::renameat(&target.dir, &temp, &target.dir, &target.name)
                }
                other => other,
            }
        });
        done.map_err(|errno| {
            let _ = remove::remove(&target.dir, &temp, 0);
            ApiError::from_errno(errno, &if errno == Errno::EXIST { to.shown() } else { from.shown() })
        })?;
        Ok((StatusCode::CREATED, Json(json!({}))))
    })
    .await
}

fn temp_name() -> OsString {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    OsString::from(format!("{TEMP_PREFIX}copy-{}-{number}", std::process::id()))
}

fn entry(from: &OwnedFd, name: &OsStr, to: &OwnedFd, new: &OsStr, depth: usize) -> rustix::io::Result<()> {
    if depth > MAX_DEPTH {
        return Err(Errno::NAMETOOLONG);
    }
    let stat = rustix::fs::statat(from, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let mode = Mode::from_raw_mode(stat.st_mode & 0o777);
    let open = |dir: &OwnedFd, name: &OsStr, flags| {
        rustix::fs::openat(dir, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, mode)
    };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => {
            let source = open(from, name, OFlags::RDONLY | OFlags::DIRECTORY)?;
            // Writable while it is filled; what it was comes at the end.
            rustix::fs::mkdirat(to, new, Mode::RWXU)?;
            let target = open(to, new, OFlags::RDONLY | OFlags::DIRECTORY)?;
            for item in Dir::read_from(&source)? {
                let item = item?;
                let child = item.file_name().to_bytes();
                if child == b"." || child == b".." || is_temp(child) {
                    continue;
                }
                let child = OsStr::from_bytes(child);
                match entry(&source, child, &target, child, depth + 1) {
                    Ok(()) | Err(Errno::NOENT) => {} // gone meanwhile
                    Err(errno) => return Err(errno),
                }
            }
            rustix::fs::fchmod(&target, mode)
        }
        FileType::RegularFile => {
            let mut source = File::from(open(from, name, OFlags::RDONLY | OFlags::NONBLOCK)?);
            let target = open(to, new, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)?;
            let mut target = File::from(target);
            std::io::copy(&mut source, &mut target)
                .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
            rustix::fs::fchmod(&target, mode)
        }
        FileType::Symlink => {
            let link = rustix::fs::readlinkat(from, name, Vec::new())?;
            rustix::fs::symlinkat(OsString::from_vec(link.into_bytes()), to, new)
        }
        _ => Ok(()),
    }
}
