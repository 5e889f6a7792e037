//! The restore target, and no way out of it.
//!
//! Everything is reached through directory handles that were opened beneath
//! the target, one name at a time and never through a symlink. A name is
//! made once: whatever exists already is in the way, so an archive cannot
//! replace a directory by a symlink and then write through it.
//!
//! Archives are in walk order, so the handles from the target down to the
//! current directory are kept. A directory gets its mode and time when the
//! walk has left it and nothing will be written to it any more (see
//! [`super::restore_workers`]); if an archive comes back to it all the same, it is put
//! back to what it was.

use std::collections::HashSet;
use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{
    AtFlags, Mode, OFlags, ResolveFlags, Stat, fstat, linkat, mkdirat, openat, openat2, statat,
};
use rustix::io::Errno;

use super::attrs::{self, Attrs};
use super::error::{ArchiveError, Result, show};
use super::restore_workers::{Dir, RestoreWorkers};

const DIR: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Handles kept open; further out they are closed and found again.
const MAX_OPEN: usize = 64;

/// A path from an archive that is safe to resolve: relative, no `..`, no
/// empty names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SafePath(Vec<CString>);

impl SafePath {
    pub(super) fn parse(raw: &[u8]) -> Result<Self> {
        let refuse = |why: &str| Err(ArchiveError::refused(format!("{}: {why}", show(raw))));
        if raw.is_empty() {
            return refuse("empty path");
        }
        if raw.starts_with(b"/") {
            return refuse("absolute path");
        }
        let mut names = Vec::new();
        for name in raw.split(|byte| *byte == b'/') {
            match name {
                b"" | b"." => {}
                b".." => return refuse("leads upwards"),
                _ => match CString::new(name) {
                    Ok(name) => names.push(name),
                    Err(_) => return refuse("name contains NUL"),
                },
            }
        }
        Ok(Self(names))
    }

    /// Whether it is the target itself.
    pub(super) fn is_home(&self) -> bool {
        self.0.is_empty()
    }

    /// Directory and name; `None` for the target itself.
    pub(super) fn split(&self) -> Option<(&[CString], &CString)> {
        self.0.split_last().map(|(name, dir)| (dir, name))
    }

    fn bytes(names: &[CString]) -> Vec<u8> {
        names.iter().map(|n| n.to_bytes()).collect::<Vec<_>>().join(&b'/')
    }
}

struct Frame {
    name: CString,
    /// `None` while closed because the walk is far below.
    dir: Option<Arc<Dir>>,
    id: (u64, u64),
    /// Set on leaving.
    attrs: Attrs,
}

pub(super) struct ConfinedTarget {
    root: Arc<Dir>,
    workers: Arc<RestoreWorkers>,
    root_attrs: Option<Attrs>,
    /// From the target's child down to the current directory.
    stack: Vec<Frame>,
    /// Directories made because something is in them, which may still get an
    /// entry of their own.
    implied: HashSet<Vec<u8>>,
    openat2: bool,
}

impl ConfinedTarget {
    /// Whose the target is: user and group.
    pub(super) fn owner(&self) -> Result<(u32, u32)> {
        let stat = fstat(self.root.as_fd());
        let stat = stat.map_err(|e| ArchiveError::local("cannot look at the restore target", e))?;
        Ok((stat.st_uid, stat.st_gid))
    }

    /// Opens the target, which must be an empty directory.
    pub(super) fn open(target: &Path) -> Result<Self> {
        let local = |e| ArchiveError::local("cannot open the restore target", e);
        let root = rustix::fs::open(target, DIR | OFlags::RDONLY, Mode::empty()).map_err(local)?;
        for entry in rustix::fs::Dir::read_from(&root).map_err(local)? {
            let entry = entry.map_err(local)?;
            if entry.file_name() != c"." && entry.file_name() != c".." {
                return Err(local(Errno::NOTEMPTY));
            }
        }
        let gid = fstat(&root).map_err(local)?.st_gid;
        Ok(Self {
            root: Dir::new(root, gid),
            workers: RestoreWorkers::new(),
            root_attrs: None,
            stack: Vec::new(),
            implied: HashSet::new(),
            openat2: true,
        })
    }

    /// Those who help to fill it.
    pub(super) fn workers(&self) -> Arc<RestoreWorkers> {
        self.workers.clone()
    }

    /// Makes resolution do without `openat2`, as on kernels before 5.6.
    #[cfg(test)]
    pub(super) fn without_openat2(mut self) -> Self {
        self.openat2 = false;
        self
    }

    /// The open directory `names`; what is missing on the way is made.
    pub(super) fn enter(&mut self, names: &[CString]) -> Result<Arc<Dir>> {
        let common = self.stack.iter().zip(names);
        let common = common.take_while(|(frame, name)| frame.name == **name).count();
        self.leave_to(common)?;
        for at in common..names.len() {
            let path = SafePath::bytes(&names[..=at]);
            let made = match mkdirat(self.current()?, &names[at], Mode::from_raw_mode(0o755)) {
                Ok(()) => true,
                Err(Errno::EXIST) => {
                    // Back in a directory that was left: it must be as it was going to be.
                    self.workers.settle()?;
                    false
                }
                Err(error) => return Err(ArchiveError::creating(&path, error)),
            };
            let stat = self.push(&names[at], &path)?;
            if let Some(frame) = self.stack.last_mut() {
                frame.attrs = put_back(&stat);
            }
            if made {
                self.implied.insert(path);
            }
        }
        self.current().cloned()
    }

    /// Makes a directory and stays in it; `attrs` are set on leaving.
    pub(super) fn make_dir(&mut self, path: &SafePath, attrs: Attrs) -> Result<()> {
        let Some((parents, name)) = path.split() else {
            return match self.root_attrs.replace(attrs) {
                None => Ok(()),
                Some(_) => Err(ArchiveError::creating(b".", Errno::EXIST)),
            };
        };
        let bytes = SafePath::bytes(&path.0);
        if self.implied.remove(&bytes) {
            self.enter(&path.0)?;
        } else {
            mkdirat(self.enter(parents)?, name, Mode::RWXU).map_err(|e| ArchiveError::creating(&bytes, e))?;
            self.push(name, &bytes)?;
        }
        if let Some(frame) = self.stack.last_mut() {
            frame.attrs = attrs;
        }
        Ok(())
    }

    /// Gives something already restored another name.
    pub(super) fn link(&mut self, path: &SafePath, target: &SafePath) -> Result<()> {
        let bytes = SafePath::bytes(&path.0);
        let refuse = |why: &str| {
            let (from, to) = (show(&bytes), show(&SafePath::bytes(&target.0)));
            ArchiveError::refused(format!("{from}: hard link to {to}, {why}"))
        };
        let (Some((parents, name)), Some((old_parents, old_name))) = (path.split(), target.split()) else {
            return Err(refuse("the target itself"));
        };
        self.workers.settle()?;
        let old_dir = self.resolve(old_parents).map_err(|error| match error {
            Errno::NOENT | Errno::LOOP | Errno::NOTDIR | Errno::XDEV => refuse("which is not in the archive"),
            _ => ArchiveError::creating(&bytes, error),
        })?;
        let dir = self.enter(parents)?;
        linkat(&old_dir, old_name, &dir, name, AtFlags::empty()).map_err(|error| {
            let is_dir = statat(&old_dir, old_name, AtFlags::SYMLINK_NOFOLLOW)
                .is_ok_and(|s| rustix::fs::FileType::from_raw_mode(s.st_mode).is_dir());
            match error {
                Errno::NOENT => refuse("which is not in the archive"),
                Errno::PERM if is_dir => refuse("a directory"),
                _ => ArchiveError::creating(&bytes, error),
            }
        })
    }

    /// Leaves every directory but the target itself.
    pub(super) fn leave_all(&mut self) -> Result<()> {
        self.leave_to(0)
    }

    /// Sets the target's own attributes; returns the target.
    pub(super) fn finish(self) -> Result<Arc<Dir>> {
        if let Some(attrs) = &self.root_attrs {
            attrs
                .apply(self.root.as_fd(), self.workers.as_root)
                .map_err(|e| ArchiveError::dressing(b".", e))?;
        }
        Ok(self.root)
    }

    fn current(&self) -> Result<&Arc<Dir>> {
        match self.stack.last() {
            None => Ok(&self.root),
            Some(Frame { dir: Some(dir), .. }) => Ok(dir),
            Some(frame) => Err(ArchiveError::creating(frame.name.to_bytes(), Errno::BADF)),
        }
    }

    fn push(&mut self, name: &CString, path: &[u8]) -> Result<Stat> {
        let creating = |e| ArchiveError::creating(path, e);
        let flags = DIR | OFlags::RDONLY;
        let current = self.current()?;
        let opened = open_one(current.as_fd(), name, flags, self.openat2);
        let dir = opened.map_err(creating)?;
        let stat = fstat(&dir).map_err(creating)?;
        self.stack.push(Frame {
            name: name.clone(),
            dir: Some(Dir::new(dir, stat.st_gid)),
            id: identity(&stat),
            attrs: Attrs::default(),
        });
        if let Some(far) = self.stack.len().checked_sub(MAX_OPEN + 1) {
            // Nobody may be at work in what is opened anew later.
            self.workers.settle()?;
            self.stack[far].dir = None;
        }
        Ok(stat)
    }

    fn leave_to(&mut self, depth: usize) -> Result<()> {
        while self.stack.len() > depth {
            let Some(frame) = self.stack.pop() else { break };
            let creating = |e| ArchiveError::creating(frame.name.to_bytes(), e);
            let dir = frame.dir.as_ref().ok_or_else(|| creating(Errno::BADF))?;
            if let Some(parent) = self.stack.last_mut().filter(|p| p.dir.is_none()) {
                let up = openat(dir, c"..", DIR | OFlags::RDONLY, Mode::empty());
                let up = up.map_err(creating)?;
                let found = fstat(&up).map_err(creating)?;
                if identity(&found) != parent.id {
                    return Err(creating(Errno::STALE));
                }
                parent.dir = Some(Dir::new(up, found.st_gid));
            }
            dir.leave(frame.name.clone(), frame.attrs, self.workers.as_root)?;
        }
        Ok(())
    }

    /// An existing directory, from the target down.
    fn resolve(&self, names: &[CString]) -> rustix::io::Result<OwnedFd> {
        let flags = DIR | OFlags::PATH;
        let mut dir = openat(self.root.as_fd(), c".", flags, Mode::empty())?;
        let path = SafePath::bytes(names);
        if self.openat2 && !path.is_empty() && path.len() < 4000 {
            let path = CString::new(path).map_err(|_| Errno::INVAL)?;
            match open_beneath(dir.as_fd(), &path, flags) {
                Err(Errno::NOSYS | Errno::PERM) => {}
                other => return other,
            }
        }
        for name in names {
            dir = open_one(dir.as_fd(), name, flags, self.openat2)?;
        }
        Ok(dir)
    }
}

/// One name. Without `openat2` the flags alone do: a single name cannot
/// lead anywhere else unless it is a symlink.
fn open_one(
    dir: BorrowedFd<'_>,
    name: &CString,
    flags: OFlags,
    with_openat2: bool,
) -> rustix::io::Result<OwnedFd> {
    if with_openat2 {
        match open_beneath(dir, name, flags) {
            // An old kernel, or a sandbox that does not know the call.
            Err(Errno::NOSYS | Errno::PERM) => {}
            other => return other,
        }
    }
    openat(dir, name, flags, Mode::empty())
}

fn open_beneath(dir: BorrowedFd<'_>, path: &CString, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    openat2(dir, path, flags, Mode::empty(), resolve)
}

fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

/// What returning to a directory must not change.
fn put_back(stat: &Stat) -> Attrs {
    Attrs {
        mode: stat.st_mode & 0o7777,
        uid: stat.st_uid,
        gid: stat.st_gid,
        mtime: attrs::mtime(stat),
        xattrs: Vec::new(),
    }
}
