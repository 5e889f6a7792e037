//! The tar stream that an archive of format 3 stands for, made while it is read.
//!
//! Entries come from the manifest, their bytes from frames of several objects.
//! Whoever fetches the frames ([`super::objects`]) and whoever uses them here
//! keep the same few of them by the same rule ([`FrameCache`]), so frames
//! arrive exactly in the order in which they are missing here, fetched and
//! decompressed ahead on other threads, and memory stays bounded.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use sha2::{Digest, Sha256};
use tokio::runtime::Handle;
use tokio::sync::mpsc::Receiver;
use tokio::task::JoinHandle;

use super::chunked_manifest::{ChunkedEntry, Extent};
use super::error::{ArchiveError, Result, panicked};
use super::frames::FRAME;
use super::hash::hex;
use super::header;
use super::restore_workers::lock;

/// Frames kept after their first use: one for each archive that the home was put together from, and some.
pub(super) const CACHED: usize = 12;

/// A frame: of which part, and its number in there.
pub(super) type FrameId = (u32, u64);

/// The frames used last.
pub(super) struct FrameCache<T>(VecDeque<(FrameId, T)>);

impl<T: Clone> FrameCache<T> {
    pub(super) fn new() -> Self {
        Self(VecDeque::with_capacity(CACHED + 1))
    }

    /// A frame, which is now the one used last.
    pub(super) fn get(&mut self, id: FrameId) -> Option<T> {
        let at = self.0.iter().position(|(kept, _)| *kept == id)?;
        let entry = self.0.remove(at)?;
        let found = entry.1.clone();
        self.0.push_back(entry);
        Some(found)
    }

    pub(super) fn put(&mut self, id: FrameId, frame: T) {
        self.0.push_back((id, frame));
        if self.0.len() > CACHED {
            self.0.pop_front();
        }
    }
}

/// The pieces of frames that an extent consists of: which frame, from where to where in it.
pub(super) fn frames_of(extent: Extent) -> impl Iterator<Item = (FrameId, std::ops::Range<usize>)> {
    let frame = FRAME as u64;
    let end = extent.offset + extent.len;
    let numbers = if extent.len == 0 { 0..0 } else { extent.offset / frame..end.div_ceil(frame) };
    numbers.map(move |number| {
        let start = number * frame;
        let within = |at: u64| usize::try_from(at - start).unwrap_or(FRAME);
        ((extent.part, number), within(extent.offset.max(start))..within(end.min(start + frame)))
    })
}

/// What the fetching side sends, in order.
pub(super) enum Event {
    /// The next entries.
    Entries(Vec<ChunkedEntry>),
    /// The next frame that is missing.
    Frame(FrameId, JoinHandle<Result<Bytes>>),
    /// That was all.
    End,
}

enum Step {
    Bytes(Bytes),
    Piece(FrameId, std::ops::Range<usize>),
}

/// What has been read of a [`ChunkedTar`], and what went wrong: seen from outside.
#[derive(Clone, Default)]
pub(super) struct Outcome(Arc<Mutex<Seen>>);

#[derive(Default)]
struct Seen {
    size: u64,
    sha256: Option<String>,
    failure: Option<ArchiveError>,
}

impl Outcome {
    /// What broke the stream, if something did.
    pub(super) fn failure(&self) -> Option<ArchiveError> {
        lock(&self.0).failure.take()
    }

    /// Size and digest of a stream that was read to its end.
    pub(super) fn whole(&self) -> Option<(u64, String)> {
        let seen = lock(&self.0);
        seen.sha256.clone().map(|sha256| (seen.size, sha256))
    }
}

/// The stream. An error of it is told in full by its [`Outcome`].
pub(super) struct ChunkedTar {
    events: Receiver<Event>,
    runtime: Handle,
    cache: FrameCache<Bytes>,
    entries: std::vec::IntoIter<ChunkedEntry>,
    steps: VecDeque<Step>,
    current: Bytes,
    ended: bool,
    sha256: Sha256,
    size: u64,
    outcome: Outcome,
}

impl ChunkedTar {
    pub(super) fn new(events: Receiver<Event>, runtime: Handle, outcome: Outcome) -> Self {
        Self {
            events,
            runtime,
            cache: FrameCache::new(),
            entries: Vec::new().into_iter(),
            steps: VecDeque::new(),
            current: Bytes::new(),
            ended: false,
            sha256: Sha256::new(),
            size: 0,
            outcome,
        }
    }

    /// The next bytes; `None` at the end.
    fn advance(&mut self) -> Result<Option<Bytes>> {
        loop {
            if let Some(step) = self.steps.pop_front() {
                let bytes = match step {
                    Step::Bytes(bytes) => bytes,
                    Step::Piece(id, range) => {
                        let frame = self.frame(id)?;
                        if range.end > frame.len() {
                            return Err(ArchiveError::corrupted("a file is said to be behind the end"));
                        }
                        frame.slice(range)
                    }
                };
                return Ok(Some(bytes));
            }
            if let Some(entry) = self.entries.next() {
                self.plan(&entry)?;
                continue;
            }
            if self.ended {
                return Ok(None);
            }
            match self.events.blocking_recv() {
                Some(Event::Entries(entries)) => self.entries = entries.into_iter(),
                Some(Event::End) => {
                    self.ended = true;
                    self.steps.push_back(Step::Bytes(Bytes::from_static(&header::END)));
                }
                Some(Event::Frame(..)) => return Err(out_of_step()),
                // Why it ended early is for the fetching side to say.
                None => return Err(ArchiveError::Cancelled),
            }
        }
    }

    fn plan(&mut self, entry: &ChunkedEntry) -> Result<()> {
        self.steps.push_back(Step::Bytes(entry.head()?.into()));
        for extent in &entry.extents {
            self.steps.extend(frames_of(*extent).map(|(id, range)| Step::Piece(id, range)));
        }
        let padding = header::padding(entry.stored());
        if padding > 0 {
            self.steps.push_back(Step::Bytes(Bytes::from_static(&[0; header::BLOCK]).slice(..padding)));
        }
        Ok(())
    }

    fn frame(&mut self, id: FrameId) -> Result<Bytes> {
        if let Some(frame) = self.cache.get(id) {
            return Ok(frame);
        }
        let frame = match self.events.blocking_recv() {
            Some(Event::Frame(next, frame)) if next == id => frame,
            Some(_) => return Err(out_of_step()),
            None => return Err(ArchiveError::Cancelled),
        };
        let frame = self.runtime.block_on(frame).unwrap_or_else(|_| Err(panicked("cannot read a frame")))?;
        self.cache.put(id, frame.clone());
        Ok(frame)
    }
}

fn out_of_step() -> ArchiveError {
    ArchiveError::local("cannot read the archive", io::Error::other("frames came in another order"))
}

impl Read for ChunkedTar {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() {
            match self.advance() {
                Ok(Some(bytes)) => self.current = bytes,
                Ok(None) => {
                    let mut seen = lock(&self.outcome.0);
                    (seen.size, seen.sha256) = (self.size, Some(hex(&self.sha256.clone().finalize())));
                    return Ok(0);
                }
                Err(error) => {
                    let said = io::Error::other(error.to_string());
                    lock(&self.outcome.0).failure.get_or_insert(error);
                    return Err(said);
                }
            }
        }
        let take = self.current.len().min(buffer.len());
        buffer[..take].copy_from_slice(&self.current.split_to(take));
        self.sha256.update(&buffer[..take]);
        self.size += take as u64;
        Ok(take)
    }
}
