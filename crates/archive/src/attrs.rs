//! Metadata of a file as the file system has it: reading it for an archive,
//! setting it after a restore.

use std::ffi::CString;
use std::os::fd::BorrowedFd;

use rustix::fs::{
    AtFlags, Gid, Mode, Stat, Timespec, Timestamps, UTIME_OMIT, Uid, XattrFlags, chownat, fchmod, fchown,
    fgetxattr, flistxattr, fsetxattr, futimens, utimensat,
};
use rustix::io::Errno;
use rustix::path::Arg;

use super::header::{Mtime, Xattr};

/// What is set on an entry once its content is in place.
#[derive(Clone, Debug, Default)]
pub(super) struct Attrs {
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) mtime: Mtime,
    pub(super) xattrs: Vec<Xattr>,
}

/// The modification time of a stat.
pub(super) fn mtime(stat: &Stat) -> Mtime {
    Mtime { seconds: stat.st_mtime, nanoseconds: u32::try_from(stat.st_mtime_nsec).unwrap_or(0) }
}

/// Attributes that belong to the home rather than to the host it is on:
/// security labels and file system internals stay behind.
fn travels(name: &[u8]) -> bool {
    name.starts_with(b"user.")
        || name.starts_with(b"trusted.")
        || name == b"security.capability"
        || name.starts_with(b"system.posix_acl_")
}

/// Every attribute that travels, sorted by name.
pub(super) fn read_xattrs(file: BorrowedFd<'_>) -> rustix::io::Result<Vec<Xattr>> {
    let mut list = Vec::new();
    match growing(&mut list, |buffer| flistxattr(file, buffer)) {
        Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
        other => other?,
    }
    let mut names: Vec<&[u8]> = list.split(|byte| *byte == 0).collect();
    names.retain(|name| travels(name));
    names.sort_unstable();
    let mut xattrs = Vec::new();
    for name in names {
        let mut value = Vec::new();
        growing(&mut value, |buffer| fgetxattr(file, name, buffer))?;
        xattrs.push(Xattr { name: name.to_vec(), value });
    }
    Ok(xattrs)
}

/// Calls with a buffer that grows until the answer fits. The common case, no
/// attributes at all, is one call.
fn growing(
    buffer: &mut Vec<u8>,
    mut call: impl FnMut(&mut [u8]) -> rustix::io::Result<usize>,
) -> rustix::io::Result<()> {
    let mut size = 1024;
    loop {
        buffer.resize(size, 0);
        match call(buffer) {
            Ok(len) => {
                buffer.truncate(len);
                return Ok(());
            }
            // The kernel never returns more than 64 KiB for either call.
            Err(Errno::RANGE) if size < 128 * 1024 => size *= 4,
            Err(error) => return Err(error),
        }
    }
}

/// Whose the home was when it was archived, and whose it is now: user and group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owners {
    pub(super) archived: (u32, u32),
    pub(super) restored: (u32, u32),
}

impl Owners {
    /// Whose something is now that was theirs, user and group each.
    pub(super) fn of(self, (uid, gid): (u32, u32)) -> (u32, u32) {
        let Self { archived, restored } = self;
        (if uid == archived.0 { restored.0 } else { uid }, if gid == archived.1 { restored.1 } else { gid })
    }
}

impl Attrs {
    /// As root may set it. Root could make programs that give whoever runs them the rights of another user, so it
    /// does not: no setuid or setgid on files, no capabilities. What was the home's owner's is the new home's
    /// owner's, so that a home from a container can be used by local processes; everything else stays whose it was.
    pub(super) fn for_root(mut self, directory: bool, owners: Option<Owners>) -> Self {
        if !directory {
            self.mode &= !0o6000;
        }
        self.xattrs.retain(|xattr| xattr.name != b"security.capability");
        if let Some(owners) = owners {
            (self.uid, self.gid) = owners.of((self.uid, self.gid));
        }
        self
    }

    /// Sets everything on an open file or directory; the owner only if `chown`.
    ///
    /// The order is the kernel's: a change of owner clears setuid and
    /// capabilities, so it goes first; `user.` attributes need a mode that
    /// still allows writing; the time goes last.
    pub(super) fn apply(&self, file: BorrowedFd<'_>, chown: bool) -> rustix::io::Result<()> {
        if chown {
            fchown(file, Some(Uid::from_raw(self.uid)), Some(Gid::from_raw(self.gid)))?;
        }
        for xattr in self.xattrs.iter().filter(|x| travels(&x.name)) {
            let name = CString::new(xattr.name.clone()).map_err(|_| Errno::INVAL)?;
            match fsetxattr(file, name.as_c_str(), &xattr.value, XattrFlags::empty()) {
                // Capabilities and the like: set where the kernel allows it.
                Err(Errno::PERM) if !name.as_bytes().starts_with(b"user.") => {}
                other => other?,
            }
        }
        fchmod(file, Mode::from_raw_mode(self.mode))?;
        futimens(file, &self.times())
    }

    /// Owner and time of a symlink; it has no mode, and no attributes a user
    /// could set.
    pub(super) fn apply_to_link(
        &self,
        dir: BorrowedFd<'_>,
        name: impl Arg + Copy,
        chown: bool,
    ) -> rustix::io::Result<()> {
        if chown {
            chownat(
                dir,
                name,
                Some(Uid::from_raw(self.uid)),
                Some(Gid::from_raw(self.gid)),
                AtFlags::SYMLINK_NOFOLLOW,
            )?;
        }
        utimensat(dir, name, &self.times(), AtFlags::SYMLINK_NOFOLLOW)
    }

    fn times(&self) -> Timestamps {
        Timestamps {
            last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
            last_modification: Timespec {
                tv_sec: self.mtime.seconds,
                tv_nsec: self.mtime.nanoseconds.into(),
            },
        }
    }
}
