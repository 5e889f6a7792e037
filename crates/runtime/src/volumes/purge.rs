//! Removing a directory tree that somebody else filled.
//!
//! The tree is hostile as far as this module is concerned: directories without permissions, links to
//! elsewhere, a depth no recursion and no file descriptor table would bear. So nothing recurses and no
//! path is longer than two names: a directory found inside is moved up beside the one being emptied,
//! and gets its turn later. Links are removed, never followed. Whoever runs into an error goes on with
//! the rest and reports the first one; a second run continues where the first one stopped.

use std::{
    ffi::CString,
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    path::Path,
};

use rustix::{
    fs::{AtFlags, CWD, Dir, Mode, OFlags, chmod, fchmod, fstat, open, openat, renameat, unlinkat},
    io::Errno,
};

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const HANDLE: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Removes `bin`, a directory that holds nothing but what is to be removed. Fine if it is not there.
pub(super) fn remove_tree(bin: &Path) -> io::Result<()> {
    let fd = match open(bin, DIRECTORY, Mode::empty()) {
        Ok(fd) => fd,
        Err(Errno::NOENT) => return Ok(()),
        Err(Errno::NOTDIR | Errno::LOOP) => return gone(unlinkat(CWD, bin, AtFlags::empty())),
        Err(Errno::ACCESS) => {
            unlock(bin)?;
            open(bin, DIRECTORY, Mode::empty())?
        }
        Err(error) => return Err(error.into()),
    };
    Purge { bin: fd, moved: 0, first_error: None }.run()?;
    gone(unlinkat(CWD, bin, AtFlags::REMOVEDIR))
}

/// Gives the owner all rights on a directory, without following a link and without needing to read it.
pub(super) fn unlock(dir: &Path) -> io::Result<()> {
    unlock_fd(&open(dir, HANDLE, Mode::empty())?)
}

fn unlock_fd(handle: &OwnedFd) -> io::Result<()> {
    // The one way to change the mode of exactly this inode that every kernel knows.
    let exact = format!("/proc/self/fd/{}", handle.as_raw_fd());
    Ok(chmod(exact, Mode::RWXU)?)
}

fn gone(result: rustix::io::Result<()>) -> io::Result<()> {
    match result {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

struct Purge {
    bin: OwnedFd,
    /// How many directories were moved up: their names.
    moved: u64,
    first_error: Option<io::Error>,
}

impl Purge {
    fn run(mut self) -> io::Result<()> {
        make_writable(&self.bin)?;
        loop {
            let names = entries(&self.bin)?;
            if names.is_empty() {
                return Ok(());
            }
            let before = self.moved;
            let mut removed = false;
            for name in names {
                match self.empty(&name) {
                    Ok(()) => removed = true,
                    Err(error) => self.note(error),
                }
            }
            if !removed && self.moved == before {
                return Err(self.first_error.take().unwrap_or_else(|| io::Error::other("no progress")));
            }
        }
    }

    fn note(&mut self, error: io::Error) {
        self.first_error.get_or_insert(error);
    }

    /// Empties and removes one entry of the bin.
    fn empty(&mut self, name: &CString) -> io::Result<()> {
        match unlinkat(&self.bin, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(Errno::ISDIR | Errno::PERM) => {}
            Err(error) => return Err(error.into()),
        }
        let dir = match openat(&self.bin, name, DIRECTORY, Mode::empty()) {
            Ok(dir) => dir,
            Err(Errno::NOENT) => return Ok(()),
            Err(Errno::ACCESS) => {
                unlock_fd(&openat(&self.bin, name, HANDLE, Mode::empty())?)?;
                openat(&self.bin, name, DIRECTORY, Mode::empty())?
            }
            Err(error) => return Err(error.into()),
        };
        make_writable(&dir)?;
        loop {
            let names = entries(&dir)?;
            if names.is_empty() {
                break;
            }
            let mut stuck = None;
            let mut progress = false;
            for child in names {
                match self.remove_child(&dir, &child) {
                    Ok(()) => progress = true,
                    Err(error) => stuck = Some(error),
                }
            }
            if let (false, Some(error)) = (progress, stuck) {
                return Err(error);
            }
        }
        gone(unlinkat(&self.bin, name, AtFlags::REMOVEDIR))
    }

    fn remove_child(&mut self, dir: &OwnedFd, name: &CString) -> io::Result<()> {
        match unlinkat(dir, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(Errno::ISDIR | Errno::PERM) => {}
            Err(error) => return Err(error.into()),
        }
        match unlinkat(dir, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(Errno::NOTEMPTY | Errno::EXIST | Errno::ACCESS) => {}
            Err(error) => return Err(error.into()),
        }
        match self.move_up(dir, name) {
            Err(Errno::ACCESS | Errno::PERM) => {
                unlock_fd(&openat(dir, name, HANDLE, Mode::empty())?)?;
                self.move_up(dir, name).map_err(io::Error::from)
            }
            Err(Errno::NOENT) => Ok(()),
            other => other.map_err(io::Error::from),
        }
    }

    fn move_up(&mut self, dir: &OwnedFd, name: &CString) -> rustix::io::Result<()> {
        loop {
            self.moved += 1;
            // A directory of an earlier, interrupted run may have that name: not empty, so not replaced.
            match renameat(dir, name, &self.bin, format!("d{}", self.moved)) {
                Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => {}
                other => return other,
            }
        }
    }
}

fn make_writable(dir: &OwnedFd) -> io::Result<()> {
    let mode = Mode::from_raw_mode(fstat(dir)?.st_mode);
    if !mode.contains(Mode::RWXU) {
        fchmod(dir, Mode::RWXU)?;
    }
    Ok(())
}

/// A bounded batch of names: a directory may hold millions.
fn entries(dir: &OwnedFd) -> io::Result<Vec<CString>> {
    const BATCH: usize = 4096;
    let mut names = Vec::new();
    let mut reading = Dir::read_from(dir.as_fd())?;
    while let Some(entry) = reading.read() {
        let entry = entry?;
        let name = entry.file_name();
        if name != c"." && name != c".." {
            names.push(name.to_owned());
            if names.len() == BATCH {
                break;
            }
        }
    }
    Ok(names)
}
