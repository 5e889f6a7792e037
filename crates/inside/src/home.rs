//! The home directory as a root that nothing climbs out of.
//!
//! Every path is opened relative to one directory descriptor. The kernel does
//! the work where it can (`openat2` with `RESOLVE_BENEATH`); where it cannot
//! (old kernel, a seccomp filter, or an absolute symlink that in fact points
//! back into the home) we walk the path one part at a time, holding each
//! directory open and never letting the kernel follow a link by itself. Both
//! ways hold against links being swapped underneath us.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::error::{ApiError, Result};
use crate::path::RelPath;

/// The kernel's own limit on symlinks in one path.
const MAX_LINKS: usize = 40;

/// A home directory, cheap to clone.
#[derive(Clone)]
pub(crate) struct Home {
    inner: Arc<Inner>,
}

struct Inner {
    root: OwnedFd,
    /// Absolute and without symlinks; for the shell's cwd and absolute links.
    real: PathBuf,
}

/// A directory held open, and the name of something (perhaps missing) in it.
pub(crate) struct Located {
    pub(crate) dir: OwnedFd,
    pub(crate) name: OsString,
}

impl Home {
    pub(crate) fn open(path: &Path) -> std::io::Result<Self> {
        let real = path.canonicalize()?;
        let root =
            rustix::fs::open(&real, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { inner: Arc::new(Inner { root, real }) })
    }

    pub(crate) fn real_path(&self) -> &Path {
        &self.inner.real
    }

    /// Opens `path`, following links that stay inside the home.
    pub(crate) fn open_at(&self, path: &RelPath, flags: OFlags) -> Result<OwnedFd> {
        let flags = flags | OFlags::CLOEXEC;
        let fast = rustix::fs::openat2(
            &self.inner.root,
            path.to_path_buf(),
            flags,
            Mode::empty(),
            ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS,
        );
        let result = match fast {
            Err(Errno::NOSYS | Errno::PERM | Errno::XDEV | Errno::AGAIN) => self.open_walking(path, flags),
            other => other,
        };
        result.map_err(|errno| ApiError::from_errno(errno, &path.shown()))
    }

    pub(crate) fn open_dir(&self, path: &RelPath) -> Result<OwnedFd> {
        self.open_at(path, OFlags::RDONLY | OFlags::DIRECTORY)
    }

    /// The directory of `path` and its last name, links in the last name not followed:
    /// what creating, renaming and deleting work on.
    pub(crate) fn locate_entry(&self, path: &RelPath) -> Result<Located> {
        let Some(name) = path.name() else {
            return Err(ApiError::bad_request("BAD_PATH", "the home directory itself cannot be changed"));
        };
        let dir = self.open_dir(&path.parent())?;
        Ok(Located { dir, name: name.to_owned() })
    }

    /// Where a write to `path` must land once every link is followed. The last
    /// name may not exist yet.
    pub(crate) fn locate_target(&self, path: &RelPath) -> Result<Located> {
        let shown = path.shown();
        match self.walk(path) {
            Ok((dir, Some(name))) => Ok(Located { dir, name }),
            Ok((_, None)) => Err(ApiError::from_errno(Errno::ISDIR, &shown)),
            Err(errno) => Err(ApiError::from_errno(errno, &shown)),
        }
    }

    fn open_walking(&self, path: &RelPath, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let (dir, name) = self.walk(path)?;
        let name = name.unwrap_or_else(|| OsString::from("."));
        rustix::fs::openat(dir, name, flags | OFlags::NOFOLLOW, Mode::empty())
    }

    /// Follows `path` part by part. Returns the last directory and the final
    /// name in it, which is not a link (or does not exist); `None` when the
    /// path ends at a directory reached through `..`, `.` or the home itself.
    fn walk(&self, path: &RelPath) -> rustix::io::Result<(OwnedFd, Option<OsString>)> {
        let mut todo: VecDeque<OsString> = path.parts().iter().cloned().collect();
        let mut stack: Vec<OwnedFd> = vec![self.reopen_root()?];
        let mut links = 0;
        while let Some(part) = todo.pop_front() {
            if part == ".." {
                if stack.len() == 1 {
                    return Err(Errno::XDEV);
                }
                stack.pop();
                continue;
            }
            let dir = stack.last().ok_or(Errno::XDEV)?;
            match read_link(dir, &part)? {
                Some(target) => {
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(Errno::LOOP);
                    }
                    if target.is_absolute() {
                        stack.truncate(1);
                    }
                    for part in self.link_parts(&target)?.into_iter().rev() {
                        todo.push_front(part);
                    }
                }
                None if todo.is_empty() => {
                    let dir = stack.pop().ok_or(Errno::XDEV)?;
                    return Ok((dir, Some(part)));
                }
                None => {
                    let next = rustix::fs::openat(
                        dir,
                        &part,
                        OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
                        Mode::empty(),
                    )?;
                    stack.push(next);
                }
            }
        }
        Ok((stack.pop().ok_or(Errno::XDEV)?, None))
    }

    fn reopen_root(&self) -> rustix::io::Result<OwnedFd> {
        rustix::io::fcntl_dupfd_cloexec(&self.inner.root, 0)
    }

    /// The parts of a link's target; an absolute one must point into the home.
    fn link_parts(&self, target: &Path) -> rustix::io::Result<Vec<OsString>> {
        let relative = if target.is_absolute() {
            target.strip_prefix(&self.inner.real).map_err(|_| Errno::XDEV)?
        } else {
            target
        };
        let mut parts = Vec::new();
        for component in relative.components() {
            match component {
                Component::Normal(name) => parts.push(name.to_owned()),
                Component::ParentDir => parts.push(OsString::from("..")),
                Component::CurDir => {}
                Component::RootDir | Component::Prefix(_) => return Err(Errno::XDEV),
            }
        }
        Ok(parts)
    }
}

/// The target of `name` in `dir` if it is a symlink; `None` for anything else,
/// and for nothing at all.
fn read_link(dir: &OwnedFd, name: &OsStr) -> rustix::io::Result<Option<PathBuf>> {
    match rustix::fs::readlinkat(dir, name, Vec::new()) {
        Ok(target) => Ok(Some(PathBuf::from(OsString::from_vec(target.into_bytes())))),
        Err(Errno::INVAL | Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// A path through /proc that reaches exactly the open descriptor; for the few
/// kernel interfaces (inotify) that take only paths.
pub(crate) fn proc_path(fd: &impl AsFd) -> PathBuf {
    use std::os::fd::AsRawFd;
    PathBuf::from(format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd()))
}

/// A version token: changes whenever the content was replaced or rewritten.
pub(crate) fn version(stat: &rustix::fs::Stat) -> String {
    format!("{:x}.{:x}-{:x}-{:x}", stat.st_mtime, stat.st_mtime_nsec, stat.st_size, stat.st_ino)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn home() -> (tempfile::TempDir, Home) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("home/sub")).unwrap();
        std::fs::write(dir.path().join("home/sub/a"), "a").unwrap();
        std::fs::write(dir.path().join("secret"), "s").unwrap();
        let home = Home::open(&dir.path().join("home")).unwrap();
        (dir, home)
    }

    fn rel(path: &str) -> RelPath {
        RelPath::decode(path).unwrap()
    }

    /// Both ways of resolving must agree, so each case runs through both.
    fn opens(home: &Home, path: &str) -> bool {
        let fast = home.open_at(&rel(path), OFlags::RDONLY).is_ok();
        let slow = home.open_walking(&rel(path), OFlags::RDONLY).is_ok();
        assert_eq!(fast, slow, "both resolvers agree on {path}");
        fast
    }

    #[test]
    fn links_are_followed_inside_and_refused_outside() {
        let (dir, home) = home();
        let root = dir.path().join("home");
        symlink("sub/a", root.join("inside")).unwrap();
        symlink("../secret", root.join("outside")).unwrap();
        symlink("../secret", root.join("sub/up")).unwrap();
        symlink("../../secret", root.join("sub/upup")).unwrap();
        symlink("/etc/passwd", root.join("absolute")).unwrap();
        symlink("/", root.join("slash")).unwrap();
        symlink(home.real_path().join("sub"), root.join("absinside")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        symlink("sub/../../home/sub/a", root.join("wander")).unwrap();

        assert!(opens(&home, "inside"));
        assert!(opens(&home, "absinside/a"));
        for bad in ["outside", "sub/upup", "absolute", "slash/etc", "loop", "wander", "missing", "sub/up"] {
            assert!(!opens(&home, bad), "{bad} must not open");
        }
    }

    #[test]
    fn a_write_through_a_link_lands_on_its_target() {
        let (dir, home) = home();
        let root = dir.path().join("home");
        symlink("sub/a", root.join("inside")).unwrap();
        symlink("sub/new", root.join("dangling")).unwrap();
        symlink("../secret", root.join("outside")).unwrap();
        assert_eq!(home.locate_target(&rel("inside")).unwrap().name, "a");
        assert_eq!(home.locate_target(&rel("dangling")).unwrap().name, "new");
        assert!(home.locate_target(&rel("outside")).is_err());
    }
}
