//! A home as one tar.zst stream.
//!
//! Guarantees:
//! - The stream is ended properly only when every byte of the home was read
//!   as it stood: a file that grows, shrinks, changes or vanishes on the way
//!   and anything that cannot be read is an error.
//! - The same home gives the same bytes, whatever the machine.
//! - Memory is bounded by the compressor's jobs, one directory's names per
//!   level and the names of files with several hard links.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, openat, readlinkat};
use tokio_util::sync::CancellationToken;
use zstd::zstd_safe::CParameter;

use super::attrs;
use super::error::{ArchiveError, Result};
use super::hash::Hashed;
use super::header::{self, Header, Kind, Xattr};
use super::progress::Progress;
use super::sparse::{self, Segment};
use super::walk::{Found, Handle, unchanged, walk};

const READ_BUFFER: usize = 256 * 1024;

/// Input a compressor thread takes at a time. Fixed, because it shapes the
/// output, and small enough that a few of them fit in the memory budget.
const JOB_SIZE: u32 = 2 * 1024 * 1024;

/// How hard to compress, and with how many threads.
#[derive(Clone, Copy, Debug)]
pub struct PackOptions {
    /// zstd level, 1 to 19.
    pub level: i32,
    /// Compressor threads; their number does not change the output.
    pub workers: u32,
}

impl Default for PackOptions {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self { level: 3, workers: u32::try_from(cores.min(3)).unwrap_or(1) }
    }
}

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
    let mut packer = Packer::new(sink, options, progress, cancel)?;
    walk(root, cancel, &mut |found| packer.add(&found))?;
    packer.finish()
}

/// Writes an archive that holds nothing: restoring it leaves the target as
/// it is.
pub(super) fn pack_nothing(sink: impl Write) -> Result<PackSummary> {
    let (progress, cancel) = (Progress::new(), CancellationToken::new());
    Packer::new(sink, PackOptions::default(), &progress, &cancel)?.finish()
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

struct Packer<'a, W: Write> {
    out: zstd::Encoder<'static, Hashed<W>>,
    progress: &'a Progress,
    cancel: &'a CancellationToken,
    /// Files seen that have more names still to come.
    links: HashMap<(u64, u64), Linked>,
    uncompressed: u64,
    entries: u64,
    skipped: u64,
    head: Vec<u8>,
    buffer: Vec<u8>,
}

struct Linked {
    path: Vec<u8>,
    left: u64,
}

impl<'a, W: Write> Packer<'a, W> {
    fn new(
        sink: W,
        options: PackOptions,
        progress: &'a Progress,
        cancel: &'a CancellationToken,
    ) -> Result<Self> {
        let level = options.level.clamp(1, 19);
        let mut out = zstd::Encoder::new(Hashed::new(sink), level).map_err(compressing)?;
        out.include_checksum(true).map_err(compressing)?;
        for parameter in [CParameter::NbWorkers(options.workers.max(1)), CParameter::JobSize(JOB_SIZE)] {
            out.set_parameter(parameter).map_err(compressing)?;
        }
        Ok(Self {
            out,
            progress,
            cancel,
            links: HashMap::new(),
            uncompressed: 0,
            entries: 0,
            skipped: 0,
            head: Vec::new(),
            buffer: vec![0; READ_BUFFER],
        })
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
            let want = usize::try_from(left).map_or(READ_BUFFER, |left| left.min(READ_BUFFER));
            let got = match file.read(&mut self.buffer[..want]) {
                Ok(0) => return Err(ArchiveError::changed(path, "shrank")),
                Ok(got) => got,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(ArchiveError::reading(path, error)),
            };
            self.out.write_all(&self.buffer[..got]).map_err(writing)?;
            self.count(got as u64);
            left -= got as u64;
        }
        Ok(())
    }

    fn header(&mut self, path: &[u8], stat: &Stat, kind: Kind<'_>, xattrs: &[Xattr]) -> Result<()> {
        self.head.clear();
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
        Ok(())
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

    fn finish(mut self) -> Result<PackSummary> {
        self.out.write_all(&header::END).map_err(writing)?;
        self.count(header::END.len() as u64);
        let mut hashed = self.out.finish().map_err(writing)?;
        hashed.flush().map_err(writing)?;
        self.progress.finish();
        Ok(PackSummary {
            size: hashed.size(),
            sha256: hashed.sha256(),
            uncompressed: self.uncompressed,
            entries: self.entries,
            skipped: self.skipped,
        })
    }
}

fn size_of(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

fn compressing(error: io::Error) -> ArchiveError {
    ArchiveError::local("cannot compress", error)
}

fn writing(error: io::Error) -> ArchiveError {
    ArchiveError::local("cannot write the archive", error)
}
