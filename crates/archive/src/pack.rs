//! A home as one tar.zst stream.
//!
//! Guarantees:
//! - The stream is ended properly only when every byte of the home was read
//!   as it stood: a file that grows, shrinks, changes or vanishes on the way
//!   and anything that cannot be read is an error.
//! - The same home gives the same bytes, whatever the machine.
//! - Memory is bounded by the compressor's slots, what is read ahead, one
//!   directory's names per level and the names of files with several hard
//!   links.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Stat, statat};
use tokio_util::sync::CancellationToken;

use super::error::{ArchiveError, Result};
use super::frames::{Frames, PackOptions, compress, writing};
use super::gather::{Batch, Bytes, Entry, Item, check_unchanged, encode, gather, size_of};
use super::hash::Hashed;
use super::header::{self, TarKind};
use super::manifest::{ArchivedFile, FileKind, Manifest, TAR_FORMAT};
use super::progress::Progress;
use super::sparse::Segment;
use super::walk::{WalkStep, walk};

/// What went into a finished stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackSummary {
    /// Bytes given to the sink.
    pub size: u64,
    /// Of those bytes, lower-case hexadecimal.
    pub sha256: String,
    /// Bytes of the tar stream.
    pub uncompressed: u64,
    /// Files, directories and links, the home directory itself included.
    pub entries: u64,
    /// Sockets, devices and FIFOs left out.
    pub skipped: u64,
    /// Of the index at the end, lower-case hexadecimal.
    pub index_sha256: String,
    /// The format of the stream.
    pub format: u32,
    /// Operations whose archives' objects hold parts of this one, in order; from format 3 on.
    pub parts: Vec<String>,
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
    let (packed, stored, index) = compress(sink, options, false, |frames| {
        let mut packer = Packer::new(frames, progress, cancel);
        gather(root, Bytes::Tar, cancel, &mut |batch| packer.add(batch))?;
        packer.finish()
    })?;
    progress.finish();
    Ok(packed.stored_as(stored, index))
}

/// Writes an archive that holds nothing: restoring it leaves the target as
/// it is.
pub(super) fn pack_nothing(sink: impl Write) -> Result<PackSummary> {
    let (progress, cancel) = (Progress::new(), CancellationToken::new());
    let (packed, stored, index) = compress(sink, PackOptions::default(), false, |frames| {
        Packer::new(frames, &progress, &cancel).finish()
    })?;
    Ok(packed.stored_as(stored, index))
}

/// What archiving `root` will amount to, near enough for a progress bar.
/// Stops counting after `max_entries`.
pub(super) fn estimate(root: &Path, max_entries: u64, cancel: &CancellationToken) -> Result<u64> {
    const PER_ENTRY: u64 = 3 * header::BLOCK as u64;
    let stop = CancellationToken::new();
    let (mut bytes, mut entries) = (0, 0);
    let outcome = walk(root, &stop, &mut |step| {
        match step {
            WalkStep::Leave(_) => return Ok(()),
            WalkStep::Item { path, dir, name, kind: FileType::RegularFile } => {
                let stat = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW);
                let stat = stat.map_err(|e| ArchiveError::reading(&path, e))?;
                let stored = u64::try_from(stat.st_blocks).unwrap_or(0) * 512;
                bytes += stored.min(size_of(&stat));
            }
            WalkStep::Enter { .. } | WalkStep::Item { .. } => {}
        }
        bytes += PER_ENTRY;
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

/// The size of a home is only estimated this far into it.
const ESTIMATE_ENTRIES: u64 = 200_000;

/// What archiving the home at `root` will amount to, near enough for a progress bar.
pub fn estimate_home(root: &Path, cancel: &CancellationToken) -> Result<u64> {
    estimate(root, ESTIMATE_ENTRIES, cancel)
}

/// What a producer knows of a finished stream.
struct Packed {
    uncompressed: u64,
    entries: u64,
    skipped: u64,
}

impl Packed {
    fn stored_as<W>(self, stored: Hashed<W>, index_sha256: String) -> PackSummary {
        PackSummary {
            size: stored.size(),
            sha256: stored.sha256(),
            uncompressed: self.uncompressed,
            entries: self.entries,
            skipped: self.skipped,
            index_sha256,
            format: TAR_FORMAT,
            parts: Vec::new(),
        }
    }
}

struct Packer<'a> {
    out: &'a mut Frames,
    progress: &'a Progress,
    cancel: &'a CancellationToken,
    manifest: Manifest,
    links: Links,
    uncompressed: u64,
    entries: u64,
    skipped: u64,
}

/// Files seen that have more names still to come.
#[derive(Default)]
pub(super) struct Links(HashMap<(u64, u64), Linked>);

struct Linked {
    path: Vec<u8>,
    left: u64,
}

impl Links {
    /// The first name of something that has another now; `None` when this is its first.
    pub(super) fn first_name(&mut self, stat: &Stat, file: &ArchivedFile) -> Option<Vec<u8>> {
        // The width of these differs between architectures.
        #[expect(clippy::unnecessary_cast)]
        let (inode, names) = ((stat.st_dev as u64, stat.st_ino as u64), stat.st_nlink as u64);
        if names < 2 || file.kind == FileKind::Directory {
            return None;
        }
        let Some(first) = self.0.get_mut(&inode) else {
            self.0.insert(inode, Linked { path: file.path.clone(), left: names - 1 });
            return None;
        };
        first.left = first.left.saturating_sub(1);
        let (target, last) = (first.path.clone(), first.left == 0);
        if last {
            self.0.remove(&inode);
        }
        Some(target)
    }
}

impl<'a> Packer<'a> {
    fn new(out: &'a mut Frames, progress: &'a Progress, cancel: &'a CancellationToken) -> Self {
        Self {
            out,
            progress,
            cancel,
            manifest: Manifest::default(),
            links: Links::default(),
            uncompressed: 0,
            entries: 0,
            skipped: 0,
        }
    }

    fn add(&mut self, batch: &mut Batch) -> Result<()> {
        let mut bytes = &batch.bytes[..];
        for item in batch.items.drain(..) {
            match item {
                Item::Skipped => self.skipped += 1,
                Item::Left(left) => left.check()?,
                Item::Entry(entry) => {
                    let (own, others) = bytes.split_at(entry.len);
                    bytes = others;
                    if !self.add_link(&entry)? {
                        self.add_entry(entry, own)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Writes another name of a file that is in the archive already; false
    /// when this is its first.
    fn add_link(&mut self, entry: &Entry) -> Result<bool> {
        let (stat, file) = (&entry.stat, &entry.file);
        let Some(target) = self.links.first_name(stat, file) else { return Ok(false) };
        let mut head = Vec::new();
        encode(&file.path, stat, TarKind::HardLink { target: &target }, &[], &mut head)?;
        let size = size_of(stat);
        let link = ArchivedFile { kind: FileKind::HardLink, size, target, ..file.clone() };
        self.write_entry(link, &head)?;
        Ok(true)
    }

    fn add_entry(&mut self, entry: Entry, bytes: &[u8]) -> Result<()> {
        let Entry { stat, file, rest, .. } = entry;
        let path = rest.is_some().then(|| file.path.clone());
        self.write_entry(file, bytes)?;
        let (Some(rest), Some(path)) = (rest, path) else {
            return Ok(());
        };
        for segment in &rest.segments {
            self.copy(&path, &rest.file, *segment)?;
        }
        self.pad(rest.segments.iter().map(|s| s.len).sum())?;
        check_unchanged(&path, &stat, &rest.file)
    }

    /// Writes what is ready of an entry, and lists it.
    fn write_entry(&mut self, mut file: ArchivedFile, bytes: &[u8]) -> Result<()> {
        file.offset = self.uncompressed;
        self.out.write_all(bytes).map_err(writing)?;
        self.count(bytes.len() as u64);
        self.entries += 1;
        match self.manifest.add(&file) {
            Some(piece) => self.out.attach(piece).map_err(writing),
            None => Ok(()),
        }
    }

    /// Copies one stretch of a file, all of it or an error.
    fn copy(&mut self, path: &[u8], file: &File, segment: Segment) -> Result<()> {
        let (mut at, end) = (segment.offset, segment.offset + segment.len);
        while at < end {
            if self.cancel.is_cancelled() {
                return Err(ArchiveError::Cancelled);
            }
            let room = self.out.room().map_err(writing)?;
            let want = usize::try_from(end - at).map_or(room.len(), |left| left.min(room.len()));
            let got = match file.read_at(&mut room[..want], at) {
                Ok(0) => return Err(ArchiveError::changed(path, "shrank")),
                Ok(got) => got,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(ArchiveError::reading(path, error)),
            };
            self.out.filled(got);
            self.count(got as u64);
            at += got as u64;
        }
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
