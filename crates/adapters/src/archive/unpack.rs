//! A home from its tar.zst stream.
//!
//! Guarantees, when it returns success:
//! - every stored byte was read and hashed, the frame and the tar stream
//!   ended properly and nothing followed them;
//! - nothing outside the target was touched, whatever the archive says;
//! - content and metadata are as they were archived, and durable.
//!
//! On an error the target holds something unfinished and is to be thrown
//! away. Owners are restored when running as root; otherwise everything
//! belongs to whoever runs this.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::mpsc::sync_channel;

use rustix::fs::{Mode, OFlags, SeekFrom, ftruncate, openat, seek, symlinkat, syncfs};
use rustix::io::Errno;
use tokio_util::sync::CancellationToken;

use super::beneath::{Beneath, SafePath};
use super::error::{ArchiveError, Result};
use super::progress::Progress;
use super::reader::{Entry, EntryKind, Reader};
use super::source::{AHEAD, Chunks, Ended, Stored, decode};
use super::sparse::Segment;

/// What an archive may grow into. A restore from a store uses the numbers of
/// the meta object, so anything beyond them stops at once.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of the tar stream.
    pub uncompressed: u64,
    pub entries: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { uncompressed: 16 << 40, entries: 1 << 30 }
    }
}

/// What was restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnpackSummary {
    /// Stored bytes read.
    pub size: u64,
    /// Of those bytes, lower-case hexadecimal.
    pub sha256: String,
    /// Bytes of the tar stream.
    pub uncompressed: u64,
    pub entries: u64,
}

/// Restores the archive in `reader` into the empty directory `target`.
/// Blocks; run it on a thread of its own.
pub fn unpack(
    reader: impl Read + Send,
    target: &Path,
    limits: Limits,
    progress: &Progress,
    cancel: &CancellationToken,
) -> Result<UnpackSummary> {
    unpack_into(reader, Beneath::open(target)?, limits, progress, cancel)
}

pub(super) fn unpack_into(
    reader: impl Read + Send,
    target: Beneath,
    limits: Limits,
    progress: &Progress,
    cancel: &CancellationToken,
) -> Result<UnpackSummary> {
    let (sender, receiver) = sync_channel(AHEAD);
    let (decoded, extracted) = std::thread::scope(|scope| {
        let decoder = scope.spawn(move || decode(reader, &sender, limits.uncompressed));
        let unpacker =
            Unpacker { reader: Reader::new(Chunks::new(receiver, progress.clone())), target, cancel };
        let extracted = unpacker.run(limits.entries);
        (decoder.join(), extracted)
    });
    // When both sides failed, the decoder's reason came first: the other end
    // only saw its stream stop.
    let stored: Stored = match decoded {
        Ok(Ok(stored)) => stored,
        Ok(Err(Ended::Failed(error))) => return Err(error),
        Ok(Err(Ended::NotWanted)) => {
            extracted?;
            return Err(ArchiveError::corrupted("bytes follow the last entry"));
        }
        Err(_) => {
            let source = std::io::Error::other("decoder thread panicked");
            return Err(ArchiveError::local("cannot decompress", source));
        }
    };
    Ok(UnpackSummary {
        size: stored.size,
        sha256: stored.sha256,
        uncompressed: stored.uncompressed,
        entries: extracted?,
    })
}

struct Unpacker<'a> {
    reader: Reader<Chunks>,
    target: Beneath,
    cancel: &'a CancellationToken,
}

impl Unpacker<'_> {
    fn run(mut self, max_entries: u64) -> Result<u64> {
        let mut entries = 0;
        while let Some(entry) = self.reader.next()? {
            self.check_cancelled()?;
            entries += 1;
            if entries > max_entries {
                let message = format!("holds more than {max_entries} entries");
                return Err(ArchiveError::refused(message));
            }
            self.restore(entry)?;
        }
        let root = self.target.finish()?;
        syncfs(&root).map_err(|e| ArchiveError::local("cannot write the home to disk", e))?;
        Ok(entries)
    }

    fn restore(&mut self, entry: Entry) -> Result<()> {
        let path = SafePath::parse(&entry.path)?;
        let Entry { kind, attrs, .. } = entry;
        if let EntryKind::Directory = kind {
            return self.target.make_dir(&path, attrs);
        }
        let Some((parents, name)) = path.split() else {
            return Err(ArchiveError::refused("the home is not a directory"));
        };
        let creating = |e| ArchiveError::creating(&entry.path, e);
        let dressing = |e| ArchiveError::dressing(&entry.path, e);
        let as_root = self.target.as_root();
        match kind {
            EntryKind::Directory => Ok(()),
            EntryKind::HardLink { target } => self.target.link(&path, &SafePath::parse(&target)?),
            EntryKind::Symlink { target } if target.is_empty() => Err(creating(Errno::INVAL)),
            EntryKind::Symlink { target } => {
                let dir = self.target.enter(parents)?;
                symlinkat(target, dir, name).map_err(creating)?;
                attrs.apply_to_link(dir, name, as_root).map_err(dressing)
            }
            EntryKind::File { size, segments } => {
                let dir = self.target.enter(parents)?;
                let flags =
                    OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let mode = Mode::RUSR | Mode::WUSR;
                let file = File::from(openat(dir, name, flags, mode).map_err(creating)?);
                self.fill(&entry.path, &file, size, &segments)?;
                attrs.apply(file.as_fd(), as_root).map_err(dressing)
            }
        }
    }

    /// Writes the data of a file; everything between the segments stays a
    /// hole.
    fn fill(&mut self, path: &[u8], mut file: &File, size: u64, segments: &[Segment]) -> Result<()> {
        let mut end = 0;
        for segment in segments {
            if segment.offset != end {
                seek(file, SeekFrom::Start(segment.offset)).map_err(|e| ArchiveError::creating(path, e))?;
            }
            let cancel = self.cancel;
            self.reader.data(segment.len, &mut |piece| {
                if cancel.is_cancelled() {
                    return Err(ArchiveError::Cancelled);
                }
                file.write_all(piece).map_err(|e| ArchiveError::local("cannot write the home", e))
            })?;
            end = segment.offset + segment.len;
        }
        // A hole at the end, or an empty last segment that was not written.
        let wrote_to_end = segments.last().is_some_and(|last| last.len > 0) && end == size;
        if !wrote_to_end && size > 0 {
            ftruncate(file, size).map_err(|e| ArchiveError::creating(path, e))?;
        }
        Ok(())
    }

    fn check_cancelled(&self) -> Result<()> {
        match self.cancel.is_cancelled() {
            true => Err(ArchiveError::Cancelled),
            false => Ok(()),
        }
    }
}
