//! `GET api/file?path=`: a text file for the editor, with its version as ETag;
//! `GET api/stat?path=`: kind, size and version alone.
//!
//! The editor is for UTF-8 text of a sensible size. Anything else is refused
//! with a code the page turns into an explanation and a download link.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use rustix::fs::{FileType, OFlags, Stat};
use serde_json::{Value, json};

use super::{Files, MAX_TEXT_BYTES};
use crate::error::{ApiError, Result, blocking};
use crate::home::{Home, version};
use crate::path::{RelPath, query_path};

/// A file with a NUL byte this early is binary, as most tools judge it.
const SNIFF_BYTES: usize = 8 * 1024;

pub(super) async fn file(State(files): State<Files>, RawQuery(query): RawQuery) -> Result<Response> {
    let path = query_path(query.as_deref(), "path")?;
    let (text, etag) = blocking(move || read_text(&files.home, &path)).await?;
    let headers = [
        (header::CONTENT_TYPE, "text/plain; charset=utf-8".to_owned()),
        (header::ETAG, format!("\"{etag}\"")),
        (header::CACHE_CONTROL, "no-store".to_owned()),
    ];
    Ok((headers, text).into_response())
}

pub(super) async fn stat(State(files): State<Files>, RawQuery(query): RawQuery) -> Result<Json<Value>> {
    let path = query_path(query.as_deref(), "path")?;
    blocking(move || {
        let fd = files.home.open_at(&path, OFlags::PATH)?;
        let stat = fstat(&fd, &path)?;
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => "dir",
            FileType::RegularFile => "file",
            _ => "other",
        };
        Ok(Json(json!({ "kind": kind, "size": stat.st_size, "version": version(&stat) })))
    })
    .await
}

/// Opens a regular file for reading; `extra` is for flags such as `NOFOLLOW`. Never waits on a pipe, never opens a device.
pub(crate) fn open_regular(home: &Home, path: &RelPath, extra: OFlags) -> Result<(File, Stat)> {
    let fd = home.open_at(path, OFlags::RDONLY | OFlags::NONBLOCK | extra)?;
    let stat = fstat(&fd, path)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok((File::from(fd), stat)),
        FileType::Directory => Err(ApiError::from_errno(rustix::io::Errno::ISDIR, &path.shown())),
        _ => Err(ApiError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "NOT_A_FILE",
            format!("“{}” is a pipe, socket or device, not a file", path.shown()),
        )),
    }
}

pub(super) fn fstat(fd: &OwnedFd, path: &RelPath) -> Result<Stat> {
    rustix::fs::fstat(fd).map_err(|errno| ApiError::from_errno(errno, &path.shown()))
}

fn read_text(home: &Home, path: &RelPath) -> Result<(String, String)> {
    let (file, stat) = open_regular(home, path, OFlags::empty())?;
    let too_large = || {
        ApiError::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "TOO_LARGE",
            format!(
                "“{}” is larger than the {} MiB the editor opens",
                path.shown(),
                MAX_TEXT_BYTES / (1024 * 1024)
            ),
        )
    };
    if u64::try_from(stat.st_size).unwrap_or(0) > MAX_TEXT_BYTES {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    // One byte more than allowed, so that a file growing meanwhile is noticed.
    file.take(MAX_TEXT_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| ApiError::from_io(&error, &path.shown()))?;
    if bytes.len() as u64 > MAX_TEXT_BYTES {
        return Err(too_large());
    }
    if bytes[..bytes.len().min(SNIFF_BYTES)].contains(&0) {
        return Err(ApiError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "BINARY",
            format!("“{}” is a binary file", path.shown()),
        ));
    }
    let text = String::from_utf8(bytes).map_err(|_| {
        ApiError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "NOT_UTF8",
            format!("“{}” is not UTF-8 text, the only encoding this editor writes", path.shown()),
        )
    })?;
    Ok((text, version(&stat)))
}
