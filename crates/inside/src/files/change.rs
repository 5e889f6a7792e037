//! `POST api/mkdir?path=` and `POST api/rename?path=&to=`.

use axum::Json;
use axum::extract::{RawQuery, State};
use http::StatusCode;
use rustix::fs::{AtFlags, Mode, RenameFlags};
use rustix::io::Errno;
use serde_json::{Value, json};

use super::Files;
use crate::error::{ApiError, Result, blocking};
use crate::path::query_path;

pub(super) async fn mkdir(
    State(files): State<Files>,
    RawQuery(query): RawQuery,
) -> Result<(StatusCode, Json<Value>)> {
    let path = query_path(query.as_deref(), "path")?;
    blocking(move || {
        let at = files.home.locate_entry(&path)?;
        rustix::fs::mkdirat(&at.dir, &at.name, Mode::from_raw_mode(0o777))
            .map_err(|errno| ApiError::from_errno(errno, &path.shown()))?;
        Ok((StatusCode::CREATED, Json(json!({}))))
    })
    .await
}

/// Moves `path` to `to`. Never replaces anything: a rename that would is 409.
pub(super) async fn rename(State(files): State<Files>, RawQuery(query): RawQuery) -> Result<Json<Value>> {
    let from = query_path(query.as_deref(), "path")?;
    let to = query_path(query.as_deref(), "to")?;
    blocking(move || {
        let source = files.home.locate_entry(&from)?;
        let target = files.home.locate_entry(&to)?;
        let moved = rustix::fs::renameat_with(
            &source.dir,
            &source.name,
            &target.dir,
            &target.name,
            RenameFlags::NOREPLACE,
        );
        match moved {
            // Some file systems do not know NOREPLACE: look first, then move.
            Err(Errno::INVAL | Errno::NOSYS) => {
                if rustix::fs::statat(&target.dir, &target.name, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
                    return Err(ApiError::from_errno(Errno::EXIST, &to.shown()));
                }
                rustix::fs::renameat(&source.dir, &source.name, &target.dir, &target.name)
                    .map_err(|errno| ApiError::from_errno(errno, &from.shown()))
            }
            Err(Errno::EXIST) => Err(ApiError::from_errno(Errno::EXIST, &to.shown())),
            other => other.map_err(|errno| ApiError::from_errno(errno, &from.shown())),
        }?;
        Ok(Json(json!({})))
    })
    .await
}
