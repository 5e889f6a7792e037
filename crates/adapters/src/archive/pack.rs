//! A home as one tar.zst stream.
//!
//! Guarantees:
//! - The stream is ended properly only when every byte of the home was read
//!   as it stood: a file that grows, shrinks, changes or vanishes on the way
//!   and anything that cannot be read is an error.
//! - The same home gives the same bytes, whatever the machine.
//! - Memory is bounded by the compressor's slots, one directory's names per
//!   level and the names of files with several hard links.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, openat, readlinkat};
use tokio_util::sync::CancellationToken;

use super::attrs;
use super::error::{ArchiveError, Result};
use super::frames::{Frames, PackOptions, compress, writing};
use super::hash::Hashed;
use super::header::{self, Header, Kind, Xattr};
use super::manifest::{ArchivedFile, FileKind, Manifest};
use super::progress::Progress;
use super::sparse::{self, Segment};
use super::walk::{Found, Handle, unchanged, walk};

/// What went into a finished stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackSummary {
    /// Bytes given to the sink.
    pub size: u64,
    /// Of those bytes, lower-case hexadecimal.
    pub sha256: String,
    /// Bytes of the tar stream.
    pub uncompressed: u64,
    pub entries: u64,
    /// Sockets, devices and FIFOs left out.
    pub skipped: u64,
}

/// Writes the home at `root` to `sink`. Blocks; run it on a thread of its
/// own. On an error the sink has received an unfinished stream.
pub fn pack(
    root: &Path,
    sink: impl Write,
    options: PackOptions,
    progress: &Progress,
    cancel: &CancellationToken,
) -> Result<PackSummary> {
    let (packed, stored) = compress(sink, options, |frames| {
        let mut packer = Packer::new(frames, progress, cancel);
        walk(root, cancel, &mut |found| packer.add(&found))?;
        packer.finish()
    })?;
    progress.finish();
    Ok(packed.stored_as(stored))
}

/// Writes an archive that holds nothing: restoring it leaves the target as
/// it is.
pub(super) fn pack_nothing(sink: impl Write) -> Result<PackSummary> {
    let (progress, cancel) = (Progress::new(), CancellationToken::new());
    let (packed, stored) =
        compress(sink, PackOptions::default(), |frames| Packer::new(frames, &progress, &cancel).finish())?;
    Ok(packed.stored_as(stored))
}

/// What archiving `root` will amount to, near enough for a progress bar.
/// Stops counting after `max_entries`.
pub(super) fn estimate(root: &Path, max_entries: u64, cancel: &CancellationToken) -> Result<u64> {
    const PER_ENTRY: u64 = 3 * header::BLOCK as u64;
    let stop = CancellationToken::new();
    let (mut bytes, mut entries) = (0, 0);
    let outcome = walk(root, &stop, &mut |found| {
        let stored = u64::try_from(found.stat.st_blocks).unwrap_or(0) * 512;
        bytes += PER_ENTRY;
        if FileType::from_raw_mode(found.stat.st_mode) == FileType::RegularFile {
            bytes += stored.min(size_of(found.stat));
        }
        entries += 1;
        if entries >= max_entries || cancel.is_cancelled() {
            stop.cancel();
        }
        Ok(())
    });
    match outcome {
        Err(ArchiveError::Cancelled) if !cancel.is_cancelled() => Ok(bytes),
        other => other.map(|()| bytes),
    }
}

/// What archiving the home at `root` will amount to, near enough for a progress bar.
pub(crate) fn estimate_home(root: &Path, cancel: &CancellationToken) -> Result<u64> {
    estimate(root, super::object::ESTIMATE_ENTRIES, cancel)
}

/// What a producer knows of a finished stream.
struct Packed {
    uncompressed: u64,
    entries: u64,
    skipped: u64,
}

impl Packed {
    fn stored_as<W>(self, stored: Hashed<W>) -> PackSummary {
        PackSummary {
            size: stored.size(),
            sha256: stored.sha256(),
            uncompressed: self.uncompressed,
            entries: self.entries,
            skipped: self.skipped,
        }
    }
}

struct Packer<'a> {
    out: &'a mut Frames,
    progress: &'a Progress,
    cancel: &'a CancellationToken,
    manifest: Manifest,
    /// Files seen that have more names still to come.
    links: HashMap<(u64, u64), Linked>,
    uncompressed: u64,
    entries: u64,
    skipped: u64,
    head: Vec<u8>,
}

struct Linked {
    path: Vec<u8>,
    left: u64,
}

impl<'a> Packer<'a> {
    fn new(out: &'a mut Frames, progress: &'a Progress, cancel: &'a CancellationToken) -> Self {
        Self {
            out,
            progress,
            cancel,
            manifest: Manifest::default(),
            links: HashMap::new(),
            uncompressed: 0,
            entries: 0,
            skipped: 0,
            head: Vec::new(),
        }
    }

    fn add(&mut self, found: &Found<'_>) -> Result<()> {
        let reading = |e: rustix::io::Errno| ArchiveError::reading(found.path, e);
        let (dir, name) = match found.handle {
            Handle::Directory(dir) => {
                let xattrs = attrs::read_xattrs(dir).map_err(reading)?;
                return self.header(found.path, found.stat, Kind::Directory, &xattrs);
            }
            Handle::Within(dir, name) => (dir, name),
        };
        match FileType::from_raw_mode(found.stat.st_mode) {
            FileType::RegularFile | FileType::Symlink if self.add_link(found)? => Ok(()),
            FileType::Symlink => {
                let target = readlinkat(dir, name, Vec::new()).map_err(reading)?;
                let target = target.as_bytes();
                self.header(found.path, found.stat, Kind::Symlink { target }, &[])
            }
            FileType::RegularFile => {
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
                let file = openat(dir, name, flags, Mode::empty()).map_err(reading)?;
                self.add_file(found, File::from(file))
            }
            _ => {
                self.skipped += 1;
                Ok(())
            }
        }
    }

    /// Writes another name of a file that is in the archive already; false
    /// when this is its first.
    fn add_link(&mut self, found: &Found<'_>) -> Result<bool> {
        // The width of these differs between architectures.
        #[expect(clippy::unnecessary_cast)]
        let (inode, names) =
            ((found.stat.st_dev as u64, found.stat.st_ino as u64), found.stat.st_nlink as u64);
        if names < 2 {
            return Ok(false);
        }
        let Some(first) = self.links.get_mut(&inode) else {
            let path = found.path.to_vec();
            let left = names - 1;
            self.links.insert(inode, Linked { path, left });
            return Ok(false);
        };
        first.left = first.left.saturating_sub(1);
        let (target, last) = (first.path.clone(), first.left == 0);
        if last {
            self.links.remove(&inode);
        }
        let kind = Kind::HardLink { target: &target };
        self.header(found.path, found.stat, kind, &[])?;
        Ok(true)
    }

    fn add_file(&mut self, found: &Found<'_>, mut file: File) -> Result<()> {
        let path = found.path;
        let reading = |e: rustix::io::Errno| ArchiveError::reading(path, e);
        let stat = fstat(&file).map_err(reading)?;
        if !unchanged(found.stat, &stat) {
            return Err(ArchiveError::changed(path, "replaced or written to"));
        }
        let size = size_of(&stat);
        let xattrs = attrs::read_xattrs(file.as_fd()).map_err(reading)?;
        let has_holes = u64::try_from(stat.st_blocks).unwrap_or(0) * 512 < size;
        let segments = match has_holes {
            true => sparse::scan(file.as_fd(), size).map_err(reading)?,
            false => None,
        };
        match segments {
            None => {
                self.header(path, &stat, Kind::File { size }, &xattrs)?;
                // The hole scan moves the offset; read from the start.
                self.copy(path, &mut file, Segment { offset: 0, len: size }, has_holes)?;
                self.pad(size)?;
            }
            Some(segments) => {
                let kind = Kind::Sparse { size, segments: &segments };
                self.header(path, &stat, kind, &xattrs)?;
                for segment in &segments {
                    self.copy(path, &mut file, *segment, true)?;
                }
                self.pad(segments.iter().map(|s| s.len).sum())?;
            }
        }
        let after = fstat(&file).map_err(reading)?;
        if !unchanged(&stat, &after) {
            return Err(ArchiveError::changed(path, "written to"));
        }
        Ok(())
    }

    /// Copies one stretch of a file, all of it or an error.
    fn copy(&mut self, path: &[u8], file: &mut File, segment: Segment, seek: bool) -> Result<()> {
        if seek {
            rustix::fs::seek(&*file, rustix::fs::SeekFrom::Start(segment.offset))
                .map_err(|e| ArchiveError::reading(path, e))?;
        }
        let mut left = segment.len;
        while left > 0 {
            if self.cancel.is_cancelled() {
                return Err(ArchiveError::Cancelled);
            }
            let room = self.out.room().map_err(writing)?;
            let want = usize::try_from(left).map_or(room.len(), |left| left.min(room.len()));
            let got = match file.read(&mut room[..want]) {
                Ok(0) => return Err(ArchiveError::changed(path, "shrank")),
                Ok(got) => got,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(ArchiveError::reading(path, error)),
            };
            self.out.filled(got);
            self.count(got as u64);
            left -= got as u64;
        }
        Ok(())
    }

    fn header(&mut self, path: &[u8], stat: &Stat, kind: Kind<'_>, xattrs: &[Xattr]) -> Result<()> {
        self.head.clear();
        let listed = listed(path, stat, &kind, self.uncompressed);
        let header = Header {
            path,
            kind,
            mode: stat.st_mode & 0o7777,
            uid: stat.st_uid,
            gid: stat.st_gid,
            mtime: attrs::mtime(stat),
            xattrs,
        };
        let too_large = || io::Error::other("its name and extended attributes are too large");
        header::encode(&header, &mut self.head).ok_or_else(|| ArchiveError::reading(path, too_large()))?;
        self.out.write_all(&self.head).map_err(writing)?;
        self.count(self.head.len() as u64);
        self.entries += 1;
        match self.manifest.add(&listed) {
            Some(piece) => self.out.attach(piece).map_err(writing),
            None => Ok(()),
        }
    }

    fn pad(&mut self, size: u64) -> Result<()> {
        let zeros = &[0; header::BLOCK][..header::padding(size)];
        self.out.write_all(zeros).map_err(writing)?;
        self.count(zeros.len() as u64);
        Ok(())
    }

    fn count(&mut self, bytes: u64) {
        self.uncompressed += bytes;
        self.progress.advance(bytes);
    }

    fn finish(mut self) -> Result<Packed> {
        self.out.write_all(&header::END).map_err(writing)?;
        self.count(header::END.len() as u64);
        self.out.flush().map_err(writing)?;
        if let Some(piece) = self.manifest.rest() {
            self.out.attach(piece).map_err(writing)?;
        }
        Ok(Packed { uncompressed: self.uncompressed, entries: self.entries, skipped: self.skipped })
    }
}

/// The entry as the manifest has it.
fn listed(path: &[u8], stat: &Stat, kind: &Kind<'_>, offset: u64) -> ArchivedFile {
    let (kind, size, target): (_, _, &[u8]) = match *kind {
        Kind::Directory => (FileKind::Directory, 0, b""),
        Kind::File { size } | Kind::Sparse { size, .. } => (FileKind::File, size, b""),
        Kind::Symlink { target } => (FileKind::Symlink, 0, target),
        Kind::HardLink { target } => (FileKind::HardLink, size_of(stat), target),
    };
    let mode = stat.st_mode & 0o7777;
    let (mtime_seconds, mtime_nanoseconds) = (0, 0);
    let (path, target) = (path.to_vec(), target.to_vec());
    ArchivedFile { path, kind, size, mode, mtime_seconds, mtime_nanoseconds, target, offset }
        .with_mtime(attrs::mtime(stat))
}

fn size_of(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}
