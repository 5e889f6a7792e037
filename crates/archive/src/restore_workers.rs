//! Hands for a restore: threads that make the small things while the stream
//! is read on.
//!
//! Reading an archive is sequential, making a hundred thousand files need
//! not be: the reader makes every directory itself and hands files and
//! symlinks over, in batches, with the directory they belong in. What is
//! handed over is bounded in number and bytes.
//!
//! A directory gets its attributes when the reader has left it and the last
//! thing in it is made, by whoever comes last. Whoever needs everything
//! handed over so far to exist (a hard link, an archive that comes back to a
//! directory) calls [`RestoreWorkers::settle`].

use std::collections::VecDeque;
use std::ffi::CString;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rustix::fs::{Mode, OFlags, SeekFrom, ftruncate, openat, seek, symlinkat};

use super::attrs::Attrs;
use super::error::{ArchiveError, Result, caught};
use super::sparse::Segment;

/// Larger files are written by the reader itself, straight from the stream.
pub(super) const SMALL: u64 = 512 * 1024;

const BATCH_JOBS: usize = 32;
const BATCH_BYTES: usize = 512 * 1024;

/// Batches waiting or being worked on.
const BATCHES: usize = 12;

/// More hands than this wait for the file system anyway.
const MOST_THREADS: usize = 4;

/// A directory of the target, open, and how many still work in it.
pub(super) struct Dir {
    fd: OwnedFd,
    /// Its group when it was entered: what is made in it may inherit that.
    gid: u32,
    state: Mutex<DirState>,
}

struct DirState {
    users: usize,
    /// Set on the last leave, with the name for messages.
    last: Option<(Attrs, CString)>,
}

impl Dir {
    /// In use by one: the reader.
    pub(super) fn new(fd: OwnedFd, gid: u32) -> Arc<Self> {
        Arc::new(Self { fd, gid, state: Mutex::new(DirState { users: 1, last: None }) })
    }

    /// The reader is done here: `attrs` are to be set when everybody is.
    pub(super) fn leave(&self, name: CString, attrs: Attrs, as_root: bool) -> Result<()> {
        lock(&self.state).last = Some((attrs, name));
        self.release(as_root)
    }

    fn release(&self, as_root: bool) -> Result<()> {
        let last = {
            let mut state = lock(&self.state);
            state.users -= 1;
            if state.users > 0 { None } else { state.last.take() }
        };
        match last {
            Some((attrs, name)) => {
                attrs.apply(self.fd.as_fd(), as_root).map_err(|e| ArchiveError::dressing(name.to_bytes(), e))
            }
            None => Ok(()),
        }
    }
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Something to make, all of it in hand.
pub(super) struct Job {
    /// The entry's number in the archive: of several errors the first counts.
    pub(super) number: u64,
    pub(super) path: Vec<u8>,
    pub(super) name: CString,
    pub(super) attrs: Attrs,
    pub(super) what: What,
}

pub(super) enum What {
    Symlink(Vec<u8>),
    /// The segments' data, one after the other, in a file of `size`.
    File {
        size: u64,
        segments: Vec<Segment>,
        data: Vec<u8>,
    },
}

type Batch = Vec<(Arc<Dir>, Job)>;

pub(super) struct RestoreWorkers {
    pub(super) as_root: bool,
    /// Whom new files belong to.
    own: (u32, u32),
    state: Mutex<State>,
    work: Condvar,
    room: Condvar,
    /// The reader's: not handed over yet.
    collecting: Mutex<(Batch, usize)>,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Batch>,
    /// Waiting, or being worked on.
    unfinished: usize,
    closed: bool,
    failure: Option<(u64, ArchiveError)>,
}

impl RestoreWorkers {
    pub(super) fn new() -> Arc<Self> {
        let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
        Arc::new(Self {
            as_root: uid.is_root(),
            own: (uid.as_raw(), gid.as_raw()),
            state: Mutex::default(),
            work: Condvar::new(),
            room: Condvar::new(),
            collecting: Mutex::default(),
        })
    }

    /// How many threads should [`RestoreWorkers::work`].
    pub(super) fn threads() -> usize {
        std::thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS)
    }

    /// Hands a job over; waits while too much is unfinished. An error is one
    /// of an earlier job.
    pub(super) fn submit(&self, dir: &Arc<Dir>, job: Job) -> Result<(), Failed> {
        let bytes = match &job.what {
            What::Symlink(target) => target.len(),
            What::File { data, .. } => data.len(),
        };
        let full = {
            let mut collecting = lock(&self.collecting);
            lock(&dir.state).users += 1;
            collecting.0.push((dir.clone(), job));
            collecting.1 += bytes;
            collecting.0.len() >= BATCH_JOBS || collecting.1 >= BATCH_BYTES
        };
        if full { self.hand_over() } else { Ok(()) }
    }

    fn hand_over(&self) -> Result<(), Failed> {
        let batch = std::mem::take(&mut *lock(&self.collecting)).0;
        let mut state = lock(&self.state);
        while state.unfinished >= BATCHES && state.failure.is_none() {
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.failure.is_some() {
            return Err(Failed);
        }
        if !batch.is_empty() {
            state.unfinished += 1;
            state.waiting.push_back(batch);
            self.work.notify_one();
        }
        Ok(())
    }

    /// Waits until everything handed over so far is made.
    pub(super) fn settle(&self) -> Result<(), Failed> {
        self.hand_over()?;
        let mut state = lock(&self.state);
        while state.unfinished > 0 && state.failure.is_none() {
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.failure.is_some() { Err(Failed) } else { Ok(()) }
    }

    /// Lets the threads end when what it returns is dropped, be it by a panic.
    /// What is not begun then is dropped too: after an error nobody wants it,
    /// and without one there is nothing left.
    pub(super) fn closing(&self) -> Closing<'_> {
        Closing(self)
    }

    /// The first thing that went wrong here, and at which entry.
    pub(super) fn failure(&self) -> Option<(u64, ArchiveError)> {
        lock(&self.state).failure.take()
    }

    /// Works until the crew is closed.
    pub(super) fn work(&self) {
        loop {
            let batch = {
                let mut state = lock(&self.state);
                loop {
                    if state.closed {
                        return;
                    }
                    match state.waiting.pop_front() {
                        Some(batch) => break batch,
                        None => state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner),
                    }
                }
            };
            let failure = batch.into_iter().find_map(|(dir, job)| {
                let make = || job.make(&dir, self.as_root, self.own).and_then(|()| dir.release(self.as_root));
                // Whoever waits for this batch must hear of it, whatever happens.
                caught("cannot restore", make).err().map(|error| (job.number, error))
            });
            let mut state = lock(&self.state);
            state.unfinished -= 1;
            if let Some(failure) = failure {
                let first = state.failure.as_ref().is_none_or(|(number, _)| failure.0 < *number);
                if first {
                    state.failure = Some(failure);
                }
            }
            self.room.notify_all();
        }
    }

    /// Whether a new file in `dir` would have to be given to somebody.
    pub(super) fn gives_away(&self, dir: &Dir, attrs: &Attrs) -> bool {
        gives_away(dir, attrs, self.as_root, self.own)
    }
}

/// See [`RestoreWorkers::closing`].
pub(super) struct Closing<'a>(&'a RestoreWorkers);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        lock(&self.0.state).closed = true;
        self.0.work.notify_all();
    }
}

/// A job has failed; [`RestoreWorkers::failure`] says how.
#[derive(Debug)]
pub(super) struct Failed;

impl From<Failed> for ArchiveError {
    /// Only seen where the crew's own, earlier error gets lost.
    fn from(_: Failed) -> Self {
        Self::Cancelled
    }
}

fn gives_away(dir: &Dir, attrs: &Attrs, as_root: bool, own: (u32, u32)) -> bool {
    as_root && !((attrs.uid, attrs.gid) == own && dir.gid == own.1)
}

impl Job {
    fn make(&self, dir: &Dir, as_root: bool, own: (u32, u32)) -> Result<()> {
        let creating = |e| ArchiveError::creating(&self.path, e);
        let dressing = |e| ArchiveError::dressing(&self.path, e);
        let chown = gives_away(dir, &self.attrs, as_root, own);
        match &self.what {
            What::Symlink(target) => {
                symlinkat(target.as_slice(), dir, &self.name).map_err(creating)?;
                self.attrs.apply_to_link(dir.as_fd(), &self.name, chown).map_err(dressing)
            }
            What::File { size, segments, data } => {
                let file = create(dir, &self.name, &self.path)?;
                let mut rest = &data[..];
                fill(&self.path, &file, *size, segments, &mut |mut file, segment| {
                    let here = rest.split_off(..usize::try_from(segment.len).unwrap_or(usize::MAX));
                    let here =
                        here.ok_or_else(|| ArchiveError::corrupted("a file is shorter than it says"))?;
                    file.write_all(here).map_err(|e| ArchiveError::local("cannot write the home", e))
                })?;
                self.attrs.apply(file.as_fd(), chown).map_err(dressing)
            }
        }
    }
}

/// A new file, for its data.
pub(super) fn create(dir: &Dir, name: &CString, path: &[u8]) -> Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(dir, name, flags, Mode::RUSR | Mode::WUSR);
    Ok(File::from(file.map_err(|e| ArchiveError::creating(path, e))?))
}

/// Writes the segments of a file; everything between them stays a hole.
pub(super) fn fill(
    path: &[u8],
    file: &File,
    size: u64,
    segments: &[Segment],
    write: &mut dyn FnMut(&File, Segment) -> Result<()>,
) -> Result<()> {
    let mut end = 0;
    for segment in segments {
        if segment.offset != end {
            seek(file, SeekFrom::Start(segment.offset)).map_err(|e| ArchiveError::creating(path, e))?;
        }
        write(file, *segment)?;
        end = segment.offset + segment.len;
    }
    // A hole at the end, or an empty last segment that was not written.
    let wrote_to_end = segments.last().is_some_and(|last| last.len > 0) && end == size;
    if !wrote_to_end && size > 0 {
        ftruncate(file, size).map_err(|e| ArchiveError::creating(path, e))?;
    }
    Ok(())
}

/// A panic elsewhere leaves nothing half-changed here.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_and_nobody_waits_for_ever() {
        let scratch = tempfile::tempdir().unwrap();
        let fd = rustix::fs::open(scratch.path(), OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let (workers, dir) = (RestoreWorkers::new(), Dir::new(fd, 0));
        let job = |number: u64| Job {
            number,
            path: b"name".to_vec(),
            name: CString::new(format!("name-{number}")).unwrap(),
            attrs: Attrs::default(),
            what: What::Symlink(b"target".to_vec()),
        };
        std::thread::scope(|scope| {
            let _closing = workers.closing();
            for _ in 0..2 {
                scope.spawn(|| workers.work());
            }
            workers.submit(&dir, job(7)).unwrap();
            // One user too few: whoever releases it panics.
            lock(&dir.state).users = 0;
            assert!(workers.settle().is_err());
            let (number, error) = workers.failure().unwrap();
            assert_eq!(number, 7);
            assert!(error.is_panic(), "{error}");
            // The others still work.
            lock(&dir.state).users = 1;
            workers.submit(&dir, job(8)).unwrap();
            workers.settle().unwrap();
        });
        assert!(scratch.path().join("name-8").is_symlink());
    }
}
