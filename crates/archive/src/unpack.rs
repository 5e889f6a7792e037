//! A home from its tar.zst stream.
//!
//! Guarantees, when it returns success:
//! - every stored byte was read and hashed, the frame and the tar stream
//!   ended properly and nothing followed them;
//! - nothing outside the target was touched, whatever the archive says;
//! - content and metadata are as they were archived, and durable.
//!
//! On an error the target holds something unfinished and is to be thrown
//! away. Owners are restored when running as root, except that what was the
//! home's owner's becomes the target's owner's, and that no program gets
//! rights of its own (setuid, setgid, capabilities); otherwise everything
//! belongs to whoever runs this.

use std::ffi::CString;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use rustix::fs::syncfs;
use rustix::io::Errno;
use tokio_util::sync::CancellationToken;

use super::attrs::{Attrs, Owners};
use super::chunked_manifest::read_chunked_piece;
use super::confined_target::{ConfinedTarget, SafePath};
use super::error::{ArchiveError, Result, panicked};
use super::manifest::{CHUNKED_MAGIC, Index};
use super::progress::Progress;
use super::reader::{Entry, EntryKind, Reader};
use super::restore_workers::{Job, RestoreWorkers, SMALL, What, create, fill};
use super::source::{AHEAD, Chunks, Ended, Stored, decode, pass_on};
use super::sparse::Segment;

/// What an archive may grow into. A restore from a store uses the numbers of
/// the meta object, so anything beyond them stops at once.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of the tar stream.
    pub uncompressed: u64,
    /// Files, directories and links.
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
    /// Files, directories and links, the home directory itself included.
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
    unpack_into(reader, ConfinedTarget::open(target)?, limits, progress, cancel)
}

/// Restores the plain tar stream that an archive of format 3 is read as, like [`unpack`]. The digest and size in the
/// summary are the stream's.
pub fn unpack_tar(
    reader: impl Read + Send,
    target: &Path,
    limits: Limits,
    progress: &Progress,
    cancel: &CancellationToken,
) -> Result<UnpackSummary> {
    let target = ConfinedTarget::open(target)?;
    extract(target, limits, progress, cancel, |chunks, recycled| {
        pass_on(reader, &chunks, &recycled, limits.uncompressed)
    })
}

pub(super) fn unpack_into(
    reader: impl Read + Send,
    target: ConfinedTarget,
    limits: Limits,
    progress: &Progress,
    cancel: &CancellationToken,
) -> Result<UnpackSummary> {
    extract(target, limits, progress, cancel, |chunks, recycled| {
        decode(reader, &chunks, &recycled, limits.uncompressed)
    })
}

/// Restores the tar stream that `produce` sends, on a thread of its own.
fn extract(
    target: ConfinedTarget,
    limits: Limits,
    progress: &Progress,
    cancel: &CancellationToken,
    produce: impl FnOnce(SyncSender<Vec<u8>>, Receiver<Vec<u8>>) -> Result<Stored, Ended> + Send,
) -> Result<UnpackSummary> {
    let (sender, receiver) = sync_channel(AHEAD);
    let (give_back, recycled) = sync_channel(AHEAD);
    let workers = target.workers();
    let owner = target.owner()?;
    let (decoded, extracted) = std::thread::scope(|scope| {
        let decoder = scope.spawn(move || produce(sender, recycled));
        let closing = workers.closing();
        for _ in 0..RestoreWorkers::threads() {
            scope.spawn(|| workers.work());
        }
        let chunks = Chunks::new(receiver, give_back, progress.clone());
        let unpacker = Unpacker {
            reader: Reader::new(chunks),
            target,
            workers: &workers,
            cancel,
            number: 0,
            owner,
            owners: None,
        };
        let extracted = unpacker.run(limits.entries);
        drop(closing);
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
        Err(_) => return Err(panicked("cannot decompress")),
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
    target: ConfinedTarget,
    workers: &'a RestoreWorkers,
    cancel: &'a CancellationToken,
    /// Of the entry at hand, from one.
    number: u64,
    /// Whose the target is.
    owner: (u32, u32),
    /// Known once the home itself was read.
    owners: Option<Owners>,
}

impl Unpacker<'_> {
    /// Of all that went wrong, what comes first in the archive is why.
    fn run(mut self, max_entries: u64) -> Result<u64> {
        let (workers, outcome) = (self.workers, self.entries(max_entries));
        let outcome = outcome.and_then(|()| {
            self.workers.settle()?;
            Ok(self.number)
        });
        match (outcome, workers.failure()) {
            (Ok(entries), None) => {
                let root = self.target.finish()?;
                syncfs(&root).map_err(|e| ArchiveError::local("cannot write the home to disk", e))?;
                Ok(entries)
            }
            (Err(error), Some((number, _))) if number >= self.number && !handed_back(&error) => Err(error),
            (_, Some((_, failure))) => Err(failure),
            (Err(error), None) => Err(error),
        }
    }

    fn entries(&mut self, max_entries: u64) -> Result<()> {
        while let Some(entry) = self.reader.next()? {
            self.check_cancelled()?;
            self.number += 1;
            if self.number > max_entries {
                let message = format!("holds more than {max_entries} entries");
                return Err(ArchiveError::refused(message));
            }
            self.restore(entry)?;
        }
        self.target.leave_all()
    }

    fn restore(&mut self, entry: Entry) -> Result<()> {
        let path = SafePath::parse(&entry.path)?;
        let Entry { kind, mut attrs, path: raw } = entry;
        if self.workers.as_root {
            let directory = matches!(kind, EntryKind::Directory);
            if directory && path.is_home() {
                self.owners = Some(Owners { archived: (attrs.uid, attrs.gid), restored: self.owner });
            }
            attrs = attrs.for_root(directory, self.owners);
        }
        if let EntryKind::Directory = kind {
            return self.target.make_dir(&path, attrs);
        }
        let Some((parents, name)) = path.split() else {
            return Err(ArchiveError::refused("the home is not a directory"));
        };
        let what = match kind {
            EntryKind::Directory => return Ok(()),
            EntryKind::HardLink { target } => return self.target.link(&path, &SafePath::parse(&target)?),
            EntryKind::Symlink { target } if target.is_empty() => {
                return Err(ArchiveError::creating(&raw, Errno::INVAL));
            }
            EntryKind::Symlink { target } => What::Symlink(target),
            EntryKind::File { size, segments } => {
                let stored: u64 = segments.iter().map(|segment| segment.len).sum();
                if stored > SMALL {
                    return self.restore_large(&raw, parents, name, &attrs, size, &segments);
                }
                let mut data = Vec::with_capacity(usize::try_from(stored).unwrap_or(0));
                self.reader.data(stored, &mut |piece| {
                    data.extend_from_slice(piece);
                    Ok(())
                })?;
                What::File { size, segments, data }
            }
        };
        let dir = self.target.enter(parents)?;
        let job = Job { number: self.number, path: raw, name: name.clone(), attrs, what };
        Ok(self.workers.submit(&dir, job)?)
    }

    /// Written as it comes.
    fn restore_large(
        &mut self,
        raw: &[u8],
        parents: &[CString],
        name: &CString,
        attrs: &Attrs,
        size: u64,
        segments: &[Segment],
    ) -> Result<()> {
        let dir = self.target.enter(parents)?;
        let file = create(&dir, name, raw)?;
        let (reader, cancel) = (&mut self.reader, self.cancel);
        fill(raw, &file, size, segments, &mut |mut file, segment| {
            reader.data(segment.len, &mut |piece| {
                if cancel.is_cancelled() {
                    return Err(ArchiveError::Cancelled);
                }
                file.write_all(piece).map_err(|e| ArchiveError::local("cannot write the home", e))
            })
        })?;
        let chown = self.workers.gives_away(&dir, attrs);
        attrs.apply(file.as_fd(), chown).map_err(|e| ArchiveError::dressing(raw, e))
    }

    fn check_cancelled(&self) -> Result<()> {
        match self.cancel.is_cancelled() {
            true => Err(ArchiveError::Cancelled),
            false => Ok(()),
        }
    }
}

/// The reader stopped because the crew had failed: see [`super::restore_workers::Failed`].
fn handed_back(error: &ArchiveError) -> bool {
    matches!(error, ArchiveError::Cancelled)
}

/// For fuzzing: takes `tar` for a tar stream and restores it beside a canary.
/// Panics when the canary does not survive. Takes it for a manifest, too, whose
/// entries become heads of a tar stream.
#[doc(hidden)]
pub fn fuzz_reader(tar: &[u8]) {
    let _ = read_chunked_piece(tar, &mut |entry| entry.head().map(|_| true));
    let _ = Index::decode(tar, *CHUNKED_MAGIC);
    let Ok(scratch) = tempdir_for_fuzzing() else { return };
    let (canary, target) = (scratch.join("canary"), scratch.join("target"));
    let ready = std::fs::write(&canary, b"alive").and_then(|()| std::fs::create_dir(&target));
    let (progress, cancel) = (Progress::new(), CancellationToken::new());
    if let (Ok(()), Ok(stored)) = (ready, zstd::encode_all(tar, 1)) {
        let limits = Limits { uncompressed: 16 << 20, entries: 1_000 };
        let restore = |stored: &[u8]| {
            if let Err(error) = unpack(stored, &target, limits, &progress, &cancel) {
                assert!(!error.is_panic(), "{error}");
            }
        };
        restore(&stored);
        // The stored bytes as they are, too.
        let _ = std::fs::remove_dir_all(&target);
        let _ = std::fs::create_dir(&target);
        restore(tar);
        let beside = std::fs::read_dir(&scratch).map_or(0, Iterator::count);
        let alive = std::fs::read(&canary).is_ok_and(|bytes| bytes == b"alive");
        assert!(alive && beside <= 2, "the archive got out of its target");
    }
    let _ = std::fs::remove_dir_all(&scratch);
}

fn tempdir_for_fuzzing() -> std::io::Result<std::path::PathBuf> {
    static NUMBER: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let name = format!("codehub-fuzz-{}-{number}", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::create_dir(&path)?;
    Ok(path)
}
