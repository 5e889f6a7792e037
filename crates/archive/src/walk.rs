//! A sorted walk over a home by directory handles.
//!
//! Names are resolved relative to an open directory, never by path, so a
//! path may be of any length and nothing can be swapped for a symlink on the
//! way down. Entries come in byte order of their names, a directory before
//! what it holds: the same home always gives the same sequence, and therefore
//! the same archive.
//!
//! What is found is looked at by others, later: see [`super::gather`]. So is
//! whether a directory changed in the meantime, for a home must be at rest
//! while it is archived.

use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, openat, statat};
use tokio_util::sync::CancellationToken;

use super::error::{ArchiveError, Result};

const OPEN_DIR: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Deeper than this, handles of outer directories are closed and opened
/// again on the way back, so depth cannot exhaust file descriptors.
const MAX_OPEN: usize = 64;

/// One step of the walk. Paths are relative to the home, without a leading or
/// trailing slash; the home itself is empty.
pub(super) enum WalkStep {
    /// A directory, open. What it holds follows.
    Enter { path: Vec<u8>, dir: Arc<OwnedFd>, stat: Stat },
    /// Anything else: its directory, its name in there, and what it seems to be.
    Item { path: Vec<u8>, dir: Arc<OwnedFd>, name: CString, kind: FileType },
    /// Everything the directory holds was named.
    Leave(Left),
}

/// A directory the walk has left, and how it was when it was entered.
pub(super) struct Left {
    path: Vec<u8>,
    dir: Arc<OwnedFd>,
    stat: Stat,
}

impl Left {
    /// To be called when everything in it was dealt with.
    pub(super) fn check(&self) -> Result<()> {
        let now = fstat(&self.dir).map_err(|e| ArchiveError::reading(&self.path, e))?;
        if !unchanged(&self.stat, &now) {
            return Err(ArchiveError::changed(&self.path, "entries were added or removed"));
        }
        Ok(())
    }
}

struct Frame {
    /// `None` while closed because the walk is far below.
    dir: Option<Arc<OwnedFd>>,
    stat: Stat,
    /// Sorted in reverse: the next name is the last.
    names: Vec<(CString, FileType)>,
    path_len: usize,
}

/// Calls `visit` for the home and everything in it.
pub(super) fn walk(
    root: &Path,
    cancel: &CancellationToken,
    visit: &mut dyn FnMut(WalkStep) -> Result<()>,
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
        let Some(dir) = &frame.dir else {
            return Err(ArchiveError::changed(&path, "directory handle lost"));
        };
        let Some((name, kind)) = frame.names.pop() else {
            leave(&mut stack, &path, visit)?;
            continue;
        };

        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name.to_bytes());
        let kind = match kind {
            // Not every file system says it in the listing.
            FileType::Unknown => statat(dir, &name, AtFlags::SYMLINK_NOFOLLOW)
                .map(|stat| FileType::from_raw_mode(stat.st_mode))
                .map_err(|e| ArchiveError::reading(&path, e))?,
            known => known,
        };
        if kind == FileType::Directory {
            let dir =
                openat(dir, &name, OPEN_DIR, Mode::empty()).map_err(|e| ArchiveError::reading(&path, e))?;
            let frame = enter(dir, &path, visit)?;
            stack.push(frame);
            if let Some(far) = stack.len().checked_sub(MAX_OPEN + 1) {
                stack[far].dir = None;
            }
        } else {
            visit(WalkStep::Item { path: path.clone(), dir: dir.clone(), name, kind })?;
        }
    }
    Ok(())
}

fn enter(dir: OwnedFd, path: &[u8], visit: &mut dyn FnMut(WalkStep) -> Result<()>) -> Result<Frame> {
    let reading = |e| ArchiveError::reading(path, e);
    let dir = Arc::new(dir);
    let stat = fstat(&dir).map_err(reading)?;
    visit(WalkStep::Enter { path: path.to_vec(), dir: dir.clone(), stat })?;
    let mut names = Vec::new();
    for entry in Dir::read_from(&dir).map_err(reading)? {
        let entry = entry.map_err(reading)?;
        let name = entry.file_name();
        if name != c"." && name != c".." {
            names.push((name.to_owned(), entry.file_type()));
        }
    }
    names.sort_unstable_by(|(a, _), (b, _)| b.cmp(a));
    Ok(Frame { dir: Some(dir), stat, names, path_len: path.len() })
}

/// Ends the innermost directory; the one around it is open again after that.
fn leave(stack: &mut Vec<Frame>, path: &[u8], visit: &mut dyn FnMut(WalkStep) -> Result<()>) -> Result<()> {
    let Some(Frame { dir: Some(dir), stat, .. }) = stack.pop() else {
        return Err(ArchiveError::changed(path, "directory handle lost"));
    };
    let reading = |e| ArchiveError::reading(path, e);
    if let Some(parent) = stack.last_mut().filter(|parent| parent.dir.is_none()) {
        let up = openat(&dir, c"..", OPEN_DIR, Mode::empty()).map_err(reading)?;
        let found = fstat(&up).map_err(reading)?;
        if (found.st_dev, found.st_ino) != (parent.stat.st_dev, parent.stat.st_ino) {
            return Err(ArchiveError::changed(path, "directory was moved"));
        }
        parent.dir = Some(Arc::new(up));
    }
    visit(WalkStep::Leave(Left { path: path.to_vec(), dir, stat }))
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
