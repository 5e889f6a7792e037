//! From stored bytes to a tar stream, on a thread of its own.
//!
//! Hashing and decompressing run ahead of the extraction by a few chunks.
//! The hash covers every stored byte: whoever sees the stream end without an
//! error knows that the whole object was read and that its frame is sound.

use std::io::{self, BufRead, BufReader, Read};
use std::sync::mpsc::{Receiver, SyncSender};

use tokio_util::sync::CancellationToken;

use super::error::{ArchiveError, Result};
use super::hash::Hashed;
use super::manifest::{Index, MAGIC, TRAILER};
use super::progress::Progress;

const CHUNK: usize = 256 * 1024;

/// Chunks decompressed ahead of the extraction.
pub(super) const AHEAD: usize = 8;

/// Largest window a frame may ask for (32 MiB): above what any level we
/// write needs, far below what a hostile frame may claim.
pub(super) const MAX_WINDOW_LOG: u32 = 25;

/// What was read, once all of it was.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) size: u64,
    pub(super) sha256: String,
    pub(super) uncompressed: u64,
}

/// Why decoding ended early.
pub(super) enum Ended {
    /// The extraction has no use for more.
    NotWanted,
    Failed(ArchiveError),
}

/// Decompresses all of `reader` into `chunks`: one frame and nothing after it
/// (format 1), or frames up to the trailer that ends an archive.
pub(super) fn decode(
    reader: impl Read,
    chunks: &SyncSender<Vec<u8>>,
    recycled: &Receiver<Vec<u8>>,
    max_uncompressed: u64,
) -> Result<Stored, Ended> {
    let mut source = BufReader::with_capacity(CHUNK, Source::new(reader));
    let mut uncompressed = 0;
    let mut out = Out { chunks, recycled, max_uncompressed, uncompressed: &mut uncompressed };
    source = out.frames(source, true)?;
    let more = match source.fill_buf() {
        Ok(rest) => !rest.is_empty(),
        Err(error) => return Err(Ended::Failed(source.get_mut().verdict(&error))),
    };
    if more {
        source = out.frames(source, false)?;
    }
    let source = source.into_inner();
    let (size, tail) = (source.hashed.size(), source.tail);
    if more && !Index::read_trailer(&tail).is_ok_and(|(at, magic)| at < size && magic == *MAGIC) {
        return Err(Ended::Failed(ArchiveError::corrupted("the end is missing, or bytes follow it")));
    }
    Ok(Stored { size, sha256: source.hashed.sha256(), uncompressed })
}

/// Passes all of `reader`, which is a tar stream, on to `chunks`.
pub(super) fn pass_on(
    reader: impl Read,
    chunks: &SyncSender<Vec<u8>>,
    recycled: &Receiver<Vec<u8>>,
    max_uncompressed: u64,
) -> Result<Stored, Ended> {
    let mut source = Source::new(reader);
    let mut uncompressed = 0;
    let mut out = Out { chunks, recycled, max_uncompressed, uncompressed: &mut uncompressed };
    while let Some(chunk) = out.fill(&mut source).map_err(|e| Ended::Failed(source.verdict(&e)))? {
        out.send(chunk)?;
    }
    let size = source.hashed.size();
    Ok(Stored { size, sha256: source.hashed.sha256(), uncompressed })
}

/// Where decompressed bytes go.
struct Out<'a> {
    chunks: &'a SyncSender<Vec<u8>>,
    recycled: &'a Receiver<Vec<u8>>,
    max_uncompressed: u64,
    uncompressed: &'a mut u64,
}

impl Out<'_> {
    /// Decompresses one frame, or all that follow.
    fn frames<R: Read>(
        &mut self,
        source: BufReader<Source<R>>,
        only_one: bool,
    ) -> Result<BufReader<Source<R>>, Ended> {
        let failed = |e| Ended::Failed(ArchiveError::local("cannot decompress", e));
        let mut decoder = zstd::Decoder::with_buffer(source).map_err(failed)?;
        decoder.window_log_max(MAX_WINDOW_LOG).map_err(failed)?;
        if only_one {
            decoder = decoder.single_frame();
        }
        loop {
            match self.fill(&mut decoder) {
                Ok(Some(chunk)) => self.send(chunk)?,
                Ok(None) => return Ok(decoder.finish()),
                Err(error) => {
                    let source = decoder.get_mut().get_mut();
                    return Err(Ended::Failed(source.verdict(&error)));
                }
            }
        }
    }

    /// The next bytes; `None` at the end.
    fn fill(&mut self, reader: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
        let mut chunk = self.recycled.try_recv().unwrap_or_default();
        chunk.resize(CHUNK, 0);
        let mut filled = 0;
        while filled < CHUNK {
            match reader.read(&mut chunk[filled..]) {
                Ok(0) => break,
                Ok(got) => filled += got,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        chunk.truncate(filled);
        Ok((filled > 0).then_some(chunk))
    }

    fn send(&mut self, chunk: Vec<u8>) -> Result<(), Ended> {
        *self.uncompressed += chunk.len() as u64;
        if *self.uncompressed > self.max_uncompressed {
            let most = self.max_uncompressed;
            return Err(Ended::Failed(ArchiveError::refused(format!("holds more than {most} bytes"))));
        }
        self.chunks.send(chunk).map_err(|_| Ended::NotWanted)
    }
}

/// The checksum of all of `reader`.
pub(super) fn digest(reader: impl Read, progress: &Progress, cancel: &CancellationToken) -> Result<String> {
    let mut source = Source::new(reader);
    let mut buffer = vec![0; CHUNK];
    loop {
        if cancel.is_cancelled() {
            return Err(ArchiveError::Cancelled);
        }
        match source.read(&mut buffer) {
            Ok(0) => return Ok(source.hashed.sha256()),
            Ok(got) => progress.touch(got as u64),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(source.verdict(&error)),
        }
    }
}

/// Remembers whether an error came from the source or from what it
/// delivered.
struct Source<R> {
    hashed: Hashed<R>,
    failure: Option<String>,
    /// The last bytes so far.
    tail: [u8; TRAILER],
}

impl<R> Source<R> {
    fn new(reader: R) -> Self {
        Self { hashed: Hashed::new(reader), failure: None, tail: [0; TRAILER] }
    }

    fn verdict(&mut self, error: &io::Error) -> ArchiveError {
        match self.failure.take() {
            Some(message) => ArchiveError::Unreachable { message },
            None => ArchiveError::corrupted(format!("cannot decompress: {error}")),
        }
    }
}

impl<R: Read> Read for Source<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let outcome = self.hashed.read(buffer);
        if let Err(error) = &outcome
            && error.kind() != io::ErrorKind::Interrupted
        {
            self.failure = Some(format!("cannot read the archive: {error}"));
        }
        if let Ok(got) = outcome {
            let new = &buffer[got.saturating_sub(TRAILER)..got];
            self.tail.copy_within(new.len().., 0);
            self.tail[TRAILER - new.len()..].copy_from_slice(new);
        }
        outcome
    }
}

/// The decompressed stream as the extraction reads it. A stream that broke
/// looks like one that ended; the decoder's own result tells them apart.
pub(super) struct Chunks {
    receiver: Receiver<Vec<u8>>,
    /// Buffers go back to be filled again.
    give_back: SyncSender<Vec<u8>>,
    chunk: Vec<u8>,
    at: usize,
    progress: Progress,
}

impl Chunks {
    pub(super) fn new(
        receiver: Receiver<Vec<u8>>,
        give_back: SyncSender<Vec<u8>>,
        progress: Progress,
    ) -> Self {
        Self { receiver, give_back, chunk: Vec::new(), at: 0, progress }
    }
}

impl BufRead for Chunks {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.at == self.chunk.len() {
            self.progress.advance(self.chunk.len() as u64);
            let next = self.receiver.recv().unwrap_or_default();
            // Full or closed: then it is freed instead.
            let _ = self.give_back.try_send(std::mem::replace(&mut self.chunk, next));
            self.at = 0;
        }
        Ok(&self.chunk[self.at..])
    }

    fn consume(&mut self, bytes: usize) {
        self.at += bytes;
    }
}

impl Read for Chunks {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.fill_buf()?.read(buffer)?;
        self.consume(got);
        Ok(got)
    }
}
