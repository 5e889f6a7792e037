//! Reads what the walk finds, ahead of the stream and on several threads.
//!
//! A stream has an order, reading need not: one thread walks and cuts what it
//! finds into batches, others open, look and read, and the batches come back
//! in the order of the walk. Small files are read whole, headers and all;
//! larger ones come open, for the stream to read them as it goes.
//!
//! What is read ahead is bounded in entries, bytes and open files.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use rustix::buffer::spare_capacity;
use rustix::fs::{Advice, AtFlags, FileType, Mode, OFlags, Stat, fadvise, fstat, openat, readlinkat, statat};
use rustix::io::{Errno, pread};
use tokio_util::sync::CancellationToken;

use super::attrs;
use super::error::{ArchiveError, Result, caught, panicked};
use super::hash::sha256;
use super::header::{self, Header, Mtime, TarKind, Xattr};
use super::manifest::{ArchivedFile, FileKind};
use super::restore_workers::lock;
use super::sparse::{self, Segment};
use super::walk::{Left, WalkStep, unchanged, walk};

/// Readers wait for the disk more than they work.
const THREADS: usize = 4;

/// Steps of the walk in a batch, and batches ahead of the stream.
const BATCH: usize = 24;
const AHEAD: usize = 8;

/// Larger files are not read here.
pub(super) const SMALL: u64 = 128 * 1024;

/// Bytes in a batch after which even small files are not.
const BATCH_BYTES: usize = 1024 * 1024;

/// The kernel is asked to fetch this much of a larger file.
const FETCH: u64 = 2 * 1024 * 1024;

/// What a batch's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bytes {
    /// Entries of a tar stream: headers, contents, padding.
    Tar,
    /// The contents of small files and nothing else, each with its digest.
    Contents,
}

/// Some consecutive steps of the walk, read.
pub(super) struct Batch {
    as_what: Bytes,
    /// What goes into the stream, one entry after the other.
    pub(super) bytes: Vec<u8>,
    pub(super) items: Vec<Item>,
}

pub(super) enum Item {
    Entry(Entry),
    /// To be checked when everything before it is in the stream.
    Left(Left),
    /// A socket, device or FIFO.
    Skipped,
}

pub(super) struct Entry {
    pub(super) stat: Stat,
    /// Where it is in the stream is not known yet.
    pub(super) file: ArchivedFile,
    /// How many of the batch's bytes belong to it.
    pub(super) len: usize,
    /// Of those, where they are a content.
    pub(super) digest: Option<[u8; 32]>,
    pub(super) xattrs: Vec<Xattr>,
    pub(super) rest: Option<Rest>,
}

/// Data that is to follow.
pub(super) struct Rest {
    pub(super) file: File,
    pub(super) segments: Vec<Segment>,
}

/// Passes all of the home at `root` to `take`, in the order of the walk.
pub(super) fn gather(
    root: &Path,
    as_what: Bytes,
    cancel: &CancellationToken,
    take: &mut dyn FnMut(&mut Batch) -> Result<()>,
) -> Result<()> {
    let (order, batches) = sync_channel::<Receiver<Result<Batch>>>(AHEAD);
    let (tasks, waiting) = channel();
    let (waiting, used) = (Mutex::new(waiting), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        let walker = scope.spawn(move || {
            let mut cutter = Cutter { steps: Vec::new(), order, tasks };
            walk(root, cancel, &mut |step| cutter.add(step))?;
            cutter.hand_over()
        });
        for _ in 0..THREADS {
            scope.spawn(|| work(as_what, &waiting, &used));
        }
        let lost = || panicked("cannot read the home");
        // Ending this early ends the walk, and that ends the threads.
        let taken: Result<()> = batches.into_iter().try_for_each(|batch| {
            let mut batch = batch.recv().map_err(|_| lost())??;
            take(&mut batch)?;
            lock(&used).push(batch.bytes);
            Ok(())
        });
        let walked = walker.join().unwrap_or_else(|_| Err(lost()));
        taken?;
        walked
    })
}

struct Task {
    steps: Vec<WalkStep>,
    done: SyncSender<Result<Batch>>,
}

/// The walker's end.
struct Cutter {
    steps: Vec<WalkStep>,
    order: SyncSender<Receiver<Result<Batch>>>,
    tasks: Sender<Task>,
}

impl Cutter {
    fn add(&mut self, step: WalkStep) -> Result<()> {
        self.steps.push(step);
        if self.steps.len() < BATCH { Ok(()) } else { self.hand_over() }
    }

    /// Waits while too much is ahead. Fails when nobody wants any more: why,
    /// is for them to say.
    fn hand_over(&mut self) -> Result<()> {
        let steps = std::mem::take(&mut self.steps);
        let (done, outcome) = sync_channel(1);
        self.order.send(outcome).map_err(|_| ArchiveError::Cancelled)?;
        self.tasks.send(Task { steps, done }).map_err(|_| ArchiveError::Cancelled)
    }
}

/// Fills batches, in buffers that were used before where there are any.
fn work(as_what: Bytes, waiting: &Mutex<Receiver<Task>>, used: &Mutex<Vec<Vec<u8>>>) {
    loop {
        let next = lock(waiting).recv();
        let Ok(Task { steps, done }) = next else { return };
        let read = caught("cannot read the home", || {
            let mut bytes = lock(used).pop().unwrap_or_default();
            bytes.clear();
            let mut batch = Batch { as_what, bytes, items: Vec::with_capacity(steps.len()) };
            steps.into_iter().try_for_each(|step| batch.add(step))?;
            Ok(batch)
        });
        // Not wanted any more: the next task is, or there is none.
        let _ = done.send(read);
    }
}

impl Batch {
    fn add(&mut self, step: WalkStep) -> Result<()> {
        let item = match step {
            WalkStep::Leave(left) => Item::Left(left),
            WalkStep::Enter { path, dir, stat } => {
                let xattrs = attrs::read_xattrs(dir.as_fd()).map_err(|e| ArchiveError::reading(&path, e))?;
                Item::Entry(self.head(path, stat, TarKind::Directory, xattrs)?)
            }
            WalkStep::Item { path, dir, name, kind: FileType::RegularFile } => {
                Item::Entry(self.file(path, &dir, &name)?)
            }
            WalkStep::Item { path, dir, name, kind: FileType::Symlink } => {
                let reading = |e| ArchiveError::reading(&path, e);
                let stat = statat(&dir, &name, AtFlags::SYMLINK_NOFOLLOW).map_err(reading)?;
                let target = readlinkat(&dir, &name, Vec::new()).map_err(reading)?;
                let target = target.as_bytes();
                Item::Entry(self.head(path, stat, TarKind::Symlink { target }, Vec::new())?)
            }
            WalkStep::Item { .. } => Item::Skipped,
        };
        self.items.push(item);
        Ok(())
    }

    fn file(&mut self, path: Vec<u8>, dir: &OwnedFd, name: &CStr) -> Result<Entry> {
        let reading = |e: Errno| ArchiveError::reading(&path, e);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(dir, name, flags, Mode::empty()).map_err(reading)?;
        let stat = fstat(&file).map_err(reading)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(ArchiveError::changed(&path, "replaced"));
        }
        let xattrs = attrs::read_xattrs(file.as_fd()).map_err(reading)?;
        let size = size_of(&stat);
        let holes = match u64::try_from(stat.st_blocks).unwrap_or(0) * 512 < size {
            true => sparse::scan(file.as_fd(), size).map_err(reading)?,
            false => None,
        };
        if let Some(segments) = holes {
            let entry = self.head(path, stat, TarKind::Sparse { size, segments: &segments }, xattrs)?;
            return Ok(Entry { rest: Some(Rest { file: file.into(), segments }), ..entry });
        }
        let mut entry = self.head(path, stat, TarKind::File { size }, xattrs)?;
        if size > SMALL || self.bytes.len() > BATCH_BYTES {
            // Only a hint, and not every file system takes it.
            let _ = fadvise(&file, 0, NonZeroU64::new(size.min(FETCH)), Advice::WillNeed);
            entry.rest = Some(Rest { file: file.into(), segments: vec![Segment { offset: 0, len: size }] });
        } else {
            let content = self.content(&entry, &file)?;
            if self.as_what == Bytes::Contents {
                entry.digest = Some(sha256(&self.bytes[self.bytes.len() - content..]));
            }
            entry.len += content;
        }
        Ok(entry)
    }

    /// Appends the header of an entry, in a tar stream.
    fn head(&mut self, path: Vec<u8>, stat: Stat, kind: TarKind<'_>, xattrs: Vec<Xattr>) -> Result<Entry> {
        let start = self.bytes.len();
        if self.as_what == Bytes::Tar {
            encode(&path, &stat, kind, &xattrs, &mut self.bytes)?;
        }
        let (kind, size, target) = match kind {
            TarKind::Directory => (FileKind::Directory, 0, Vec::new()),
            TarKind::File { size } | TarKind::Sparse { size, .. } => (FileKind::File, size, Vec::new()),
            TarKind::Symlink { target } => (FileKind::Symlink, 0, target.to_vec()),
            TarKind::HardLink { target } => (FileKind::HardLink, size_of(&stat), target.to_vec()),
        };
        let Mtime { seconds, nanoseconds } = attrs::mtime(&stat);
        let file = ArchivedFile {
            path,
            kind,
            size,
            mode: stat.st_mode & 0o7777,
            mtime_seconds: seconds,
            mtime_nanoseconds: nanoseconds,
            target,
            offset: 0,
        };
        Ok(Entry { stat, file, len: self.bytes.len() - start, digest: None, xattrs, rest: None })
    }

    /// Appends all of a small file, padded in a tar stream; how many bytes that is.
    fn content(&mut self, entry: &Entry, file: &OwnedFd) -> Result<usize> {
        let (path, start) = (&entry.file.path, self.bytes.len());
        let size = usize::try_from(entry.file.size).unwrap_or(usize::MAX);
        let padding = match self.as_what {
            Bytes::Tar => header::padding(entry.file.size),
            Bytes::Contents => 0,
        };
        self.bytes.reserve(size + padding);
        let mut got = 0;
        while got < size {
            match pread(file, spare_capacity(&mut self.bytes), got as u64) {
                Ok(0) => return Err(ArchiveError::changed(path, "shrank")),
                Ok(more) => got += more,
                Err(Errno::INTR) => {}
                Err(error) => return Err(ArchiveError::reading(path, error)),
            }
        }
        if got > size {
            return Err(ArchiveError::changed(path, "grew"));
        }
        check_unchanged(path, &entry.stat, file)?;
        self.bytes.resize(start + size + padding, 0);
        Ok(size + padding)
    }
}

/// Appends everything that precedes the data of an entry.
pub(super) fn encode(
    path: &[u8],
    stat: &Stat,
    kind: TarKind<'_>,
    xattrs: &[Xattr],
    out: &mut Vec<u8>,
) -> Result<()> {
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
    header::encode(&header, out).ok_or_else(|| ArchiveError::reading(path, too_large()))
}

/// A file must be as it was when it was opened.
pub(super) fn check_unchanged(path: &[u8], before: &Stat, file: impl AsFd) -> Result<()> {
    let after = fstat(file).map_err(|e| ArchiveError::reading(path, e))?;
    if unchanged(before, &after) { Ok(()) } else { Err(ArchiveError::changed(path, "written to")) }
}

pub(super) fn size_of(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}
