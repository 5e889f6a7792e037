//! `GET api/tree?path=`: one directory, folders first.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use axum::Json;
use axum::extract::{RawQuery, State};
use rustix::fs::{AtFlags, Dir, FileType, OFlags};
use serde::Serialize;

use super::Files;
use crate::error::{ApiError, Result, blocking};
use crate::home::Home;
use crate::path::{RelPath, encode_name, is_temp, query_path};

/// More entries than this are cut, and the answer says so.
const MAX_ENTRIES: usize = 10_000;

#[derive(Serialize)]
pub(super) struct Listing {
    entries: Vec<Entry>,
    /// True when the directory has more entries than are listed.
    truncated: bool,
}

#[derive(Serialize)]
struct Entry {
    /// For people; lossy when the name is not UTF-8.
    name: String,
    /// For requests; percent-encoded bytes.
    key: String,
    kind: Kind,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    link: bool,
    size: u64,
}

#[derive(Serialize, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Dir,
    File,
    /// A link that is broken or leads outside the home.
    Link,
    /// Sockets, pipes, devices.
    Other,
}

pub(super) async fn tree(State(files): State<Files>, RawQuery(query): RawQuery) -> Result<Json<Listing>> {
    let path = query_path(query.as_deref(), "path")?;
    blocking(move || list(&files.home, &path)).await.map(Json)
}

fn list(home: &Home, path: &RelPath) -> Result<Listing> {
    let fd = home.open_dir(path)?;
    let wrap = |errno| ApiError::from_errno(errno, &path.shown());
    let mut entries = Vec::new();
    let mut truncated = false;
    for item in Dir::read_from(&fd).map_err(wrap)? {
        let item = item.map_err(wrap)?;
        let name = item.file_name().to_bytes();
        if name == b"." || name == b".." || is_temp(name) {
            continue;
        }
        if entries.len() == MAX_ENTRIES {
            truncated = true;
            break;
        }
        if let Some(entry) = entry(home, path, &fd, name) {
            entries.push(entry);
        }
    }
    entries.sort_by_cached_key(|e| (e.kind != Kind::Dir, e.name.to_lowercase(), e.key.clone()));
    Ok(Listing { entries, truncated })
}

/// `None` when the entry vanished meanwhile.
fn entry(home: &Home, parent: &RelPath, dir: &OwnedFd, name: &[u8]) -> Option<Entry> {
    let os_name = OsStr::from_bytes(name);
    let mut stat = rustix::fs::statat(dir.as_fd(), os_name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    let link = FileType::from_raw_mode(stat.st_mode) == FileType::Symlink;
    let mut kind = kind_of(&stat);
    if link && let Some(target) = link_target(home, parent, os_name) {
        kind = kind_of(&target);
        stat = target;
    }
    Some(Entry {
        name: String::from_utf8_lossy(name).into_owned(),
        key: encode_name(name),
        kind,
        link,
        size: u64::try_from(stat.st_size).unwrap_or(0),
    })
}

fn link_target(home: &Home, parent: &RelPath, name: &OsStr) -> Option<rustix::fs::Stat> {
    let fd = home.open_at(&parent.join(name), OFlags::PATH).ok()?;
    rustix::fs::fstat(fd).ok()
}

fn kind_of(stat: &rustix::fs::Stat) -> Kind {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Kind::Dir,
        FileType::RegularFile => Kind::File,
        FileType::Symlink => Kind::Link,
        _ => Kind::Other,
    }
}
