//! A sorted walk over a home by directory handles.
//!
//! Names are resolved relative to an open directory, never by path, so a
//! path may be of any length and nothing can be swapped for a symlink on the
//! way down. Entries come in byte order of their names, a directory before
//! what it holds: the same home always gives the same sequence, and therefore
//! the same archive.
//!
//! Directories that change while they are open here are reported: a home
//! must be at rest while it is archived.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, openat, statat};
use tokio_util::sync::CancellationToken;

use super::error::{ArchiveError, Result};

const OPEN_DIR: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Deeper than this, handles of outer directories are closed and opened
/// again on the way back, so depth cannot exhaust file descriptors.
const MAX_OPEN: usize = 64;

/// One thing found in the home.
pub(super) struct Found<'a> {
    /// Relative to the home, without a leading or trailing slash; empty for
    /// the home itself.
    pub(super) path: &'a [u8],
    pub(super) stat: &'a Stat,
    pub(super) handle: Handle<'a>,
}

pub(super) enum Handle<'a> {
    /// The directory itself, open.
    Directory(BorrowedFd<'a>),
    /// Anything else: its directory, and its name in there.
    Within(BorrowedFd<'a>, &'a CStr),
}

struct Frame {
    /// `None` while closed because the walk is far below.
    dir: Option<OwnedFd>,
    stat: Stat,
    /// Sorted in reverse: the next name is the last.
    names: Vec<CString>,
    path_len: usize,
}

/// Calls `visit` for the home and everything in it.
pub(super) fn walk(
    root: &Path,
    cancel: &CancellationToken,
    visit: &mut dyn FnMut(Found<'_>) -> Result<()>,
) -> Result<()> {
    let open = rustix::fs::open(root, OPEN_DIR, Mode::empty());
    let dir = open.map_err(|e| ArchiveError::local("cannot open the home directory", e))?;
    let mut path = Vec::new();
    let mut stack = vec![enter(dir, &path, visit)?];

    while let Some(frame) = stack.last_mut() {
        if cancel.is_cancelled() {
            return Err(ArchiveError::Cancelled);
        }
        path.truncate(frame.path_len);
        let dir = match &frame.dir {
            Some(dir) => dir.as_fd(),
            None => return Err(ArchiveError::changed(&path, "directory handle lost")),
        };
        let Some(name) = frame.names.pop() else {
            leave(&mut stack, &path)?;
            continue;
        };

        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name.to_bytes());
        let stat =
            statat(dir, &name, AtFlags::SYMLINK_NOFOLLOW).map_err(|e| ArchiveError::reading(&path, e))?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            let dir =
                openat(dir, &name, OPEN_DIR, Mode::empty()).map_err(|e| ArchiveError::reading(&path, e))?;
            let frame = enter(dir, &path, visit)?;
            stack.push(frame);
            if let Some(far) = stack.len().checked_sub(MAX_OPEN + 1) {
                stack[far].dir = None;
            }
        } else {
            visit(Found { path: &path, stat: &stat, handle: Handle::Within(dir, &name) })?;
        }
    }
    Ok(())
}

fn enter(dir: OwnedFd, path: &[u8], visit: &mut dyn FnMut(Found<'_>) -> Result<()>) -> Result<Frame> {
    let reading = |e| ArchiveError::reading(path, e);
    let stat = fstat(&dir).map_err(reading)?;
    visit(Found { path, stat: &stat, handle: Handle::Directory(dir.as_fd()) })?;
    let mut names = Vec::new();
    for entry in Dir::read_from(&dir).map_err(reading)? {
        let entry = entry.map_err(reading)?;
        let name = entry.file_name();
        if name != c"." && name != c".." {
            names.push(name.to_owned());
        }
    }
    names.sort_unstable_by(|a, b| b.cmp(a));
    Ok(Frame { dir: Some(dir), stat, names, path_len: path.len() })
}

/// Ends the innermost directory: it must be as it was when it was entered,
/// and the one around it must be open again.
fn leave(stack: &mut Vec<Frame>, path: &[u8]) -> Result<()> {
    let Some(Frame { dir: Some(dir), stat, .. }) = stack.pop() else {
        return Err(ArchiveError::changed(path, "directory handle lost"));
    };
    let reading = |e| ArchiveError::reading(path, e);
    if !unchanged(&stat, &fstat(&dir).map_err(reading)?) {
        return Err(ArchiveError::changed(path, "entries were added or removed"));
    }
    let Some(parent) = stack.last_mut() else {
        return Ok(());
    };
    if parent.dir.is_none() {
        let up = openat(&dir, c"..", OPEN_DIR, Mode::empty()).map_err(reading)?;
        let found = fstat(&up).map_err(reading)?;
        if (found.st_dev, found.st_ino) != (parent.stat.st_dev, parent.stat.st_ino) {
            return Err(ArchiveError::changed(path, "directory was moved"));
        }
        parent.dir = Some(up);
    }
    Ok(())
}

/// Same thing, same content as far as the kernel can tell.
pub(super) fn unchanged(before: &Stat, after: &Stat) -> bool {
    let key = |s: &Stat| {
        (
            (s.st_dev, s.st_ino, s.st_mode, s.st_size),
            (s.st_mtime, s.st_mtime_nsec, s.st_ctime, s.st_ctime_nsec),
        )
    };
    key(before) == key(after)
}
