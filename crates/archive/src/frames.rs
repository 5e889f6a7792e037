//! The compressed layer of an archive: independent zstd frames, made on
//! several threads and written in order.
//!
//! ```text
//! [mark] frame frame … [manifest piece] frame … [manifest piece] [index]
//! ```
//!
//! Every frame holds the same number of bytes of the tar stream (the last one
//! fewer) and has its own checksum, so a single file can be read, and known
//! to be right, from the few frames it is in. What is in brackets is in
//! skippable frames: `zstd -dc` passes over them, and the whole is still an
//! ordinary `tar.zst`. What begins with the mark must end with the index, so
//! an archive cut between two frames is no archive. In format 3 the stream is
//! not a tar stream but the chunks that are new, and there are pieces of the
//! table of chunks beside those of the manifest ([`super::chunked_pack`]).
//!
//! A fixed number of slots (a buffer for what goes in, one for what comes
//! out) goes round between the producer, the compressors and the writer.
//! Nothing else holds data, so memory is bounded and a slow sink slows the
//! producer down. How many threads there are does not change a byte.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use zstd::bulk::Compressor;
use zstd::zstd_safe::{CParameter, compress_bound};

use super::error::{ArchiveError, Result, caught, panicked};
use super::hash::{Hashed, hex, sha256};
use super::manifest::{CHUNKED_MAGIC, Chunked, Index, MAGIC, Part, Piece, Span};
use super::restore_workers::lock;

/// Bytes of the tar stream in a frame. Part of the format: the frame that
/// holds an offset is found by dividing.
pub(super) const FRAME: usize = 2 * 1024 * 1024;

/// Says "skip me" to every zstd reader.
const SKIPPABLE: u32 = 0x184D_2A5C;
pub(super) const SKIPPABLE_HEADER: usize = 8;

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

struct Slot {
    input: Vec<u8>,
    filled: usize,
    output: Vec<u8>,
    /// Of the output.
    digest: [u8; 32],
    /// What this is, if it is not a part of the stream.
    piece: Option<Attached>,
}

/// What is written between the frames.
enum Attached {
    /// A piece of the manifest.
    Files(Span),
    /// A piece of the table of chunks.
    Chunks,
}

type Numbered = (u64, Slot);

/// The producer's end: what is written here becomes frames.
pub(super) struct Frames {
    slot: Option<Slot>,
    number: u64,
    free: Receiver<Slot>,
    tasks: SyncSender<Numbered>,
    chunked: Option<Chunked>,
}

impl Frames {
    /// Room for the next bytes of the stream, never empty; [`Frames::filled`]
    /// says how many were put there.
    pub(super) fn room(&mut self) -> io::Result<&mut [u8]> {
        if self.slot.as_ref().is_some_and(|slot| slot.filled == FRAME) {
            self.hand_over()?;
        }
        let slot = match self.slot.take() {
            Some(slot) => slot,
            None => {
                let mut slot = self.free.recv().map_err(|_| io::ErrorKind::BrokenPipe)?;
                slot.input.resize(FRAME, 0);
                (slot.filled, slot.piece) = (0, None);
                slot
            }
        };
        let slot = self.slot.insert(slot);
        Ok(&mut slot.input[slot.filled..])
    }

    pub(super) fn filled(&mut self, bytes: usize) {
        if let Some(slot) = &mut self.slot {
            slot.filled += bytes;
        }
    }

    /// Writes a piece of the manifest after the frames that are full.
    pub(super) fn attach(&mut self, piece: Piece) -> io::Result<()> {
        self.insert(&piece.bytes, Attached::Files(piece.span))
    }

    /// Writes a piece of the table of chunks after the frames that are full.
    pub(super) fn attach_chunks(&mut self, table: &[u8]) -> io::Result<()> {
        self.insert(table, Attached::Chunks)
    }

    /// What the index of format 3 is to say of the chunks: how many bytes, and what else is referred to.
    pub(super) fn describe_chunks(&mut self, raw: u64, parts: Vec<Part>) {
        self.chunked = Some(Chunked { raw, parts, ..Chunked::default() });
    }

    fn insert(&mut self, bytes: &[u8], what: Attached) -> io::Result<()> {
        let mut slot = self.free.recv().map_err(|_| io::ErrorKind::BrokenPipe)?;
        slot.input.clear();
        slot.input.extend_from_slice(bytes);
        (slot.filled, slot.piece) = (bytes.len(), Some(what));
        self.send(slot)
    }

    fn hand_over(&mut self) -> io::Result<()> {
        match self.slot.take() {
            Some(slot) => self.send(slot),
            None => Ok(()),
        }
    }

    fn send(&mut self, slot: Slot) -> io::Result<()> {
        self.number += 1;
        self.tasks.send((self.number - 1, slot)).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl Write for Frames {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = self.room()?;
        let take = bytes.len().min(room.len());
        room[..take].copy_from_slice(&bytes[..take]);
        self.filled(take);
        Ok(take)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.hand_over()
    }
}

/// Bytes after the mark of format 3 that say how it is encrypted: all zero, for it is not. See ADR 29.
const RESERVED: [u8; 56] = [0; 56];

/// Runs `produce` and compresses what it writes into `sink`. The stream is
/// complete, and flushed, only when this succeeds. The last of what it returns
/// is the digest of the index. A producer of format 3 must call
/// [`Frames::describe_chunks`]; one of format 2 must not.
pub(super) fn compress<W: Write, T: Send>(
    sink: W,
    options: PackOptions,
    chunked: bool,
    produce: impl FnOnce(&mut Frames) -> Result<T> + Send,
) -> Result<(T, Hashed<W>, String)> {
    let workers = usize::try_from(options.workers.max(1)).unwrap_or(1);
    let (give_back, free) = channel();
    for _ in 0..workers + 2 {
        let slot = Slot { input: Vec::new(), filled: 0, output: Vec::new(), digest: [0; 32], piece: None };
        give_back.send(slot).map_err(|_| writing(io::ErrorKind::BrokenPipe.into()))?;
    }
    let (tasks, waiting) = sync_channel::<Numbered>(workers + 2);
    let waiting = Mutex::new(waiting);
    let (done, results) = channel::<Result<Numbered>>();
    let mut hashed = Hashed::new(sink);
    match chunked {
        true => write_skippable(&mut hashed, &[&CHUNKED_MAGIC[..], &RESERVED].concat())?,
        false => write_skippable(&mut hashed, MAGIC)?,
    }

    std::thread::scope(|scope| {
        let producer = scope.spawn(move || {
            let mut frames = Frames { slot: None, number: 0, free, tasks, chunked: None };
            let produced = produce(&mut frames)?;
            frames.flush().map_err(writing)?;
            Ok((produced, frames.number, frames.chunked))
        });
        for _ in 0..workers {
            let (done, waiting) = (done.clone(), &waiting);
            scope.spawn(move || work(options.level, waiting, &done));
        }
        drop(done);
        let written = write_in_order(&mut hashed, &results, &give_back);
        // Nobody takes results or gives slots back any more: whoever still works finds out.
        drop((results, give_back));
        let produced = producer.join().unwrap_or_else(|_| Err(panicked("cannot read the home")));
        // A producer without a sink fails too; the sink's reason is why.
        let index = written?;
        let (produced, handed_over, described) = produced?;
        let digest = index.write(&mut hashed, handed_over, described)?;
        hashed.flush().map_err(writing)?;
        Ok((produced, hashed, digest))
    })
}

fn work(level: i32, waiting: &Mutex<Receiver<Numbered>>, done: &Sender<Result<Numbered>>) {
    let mut compressor = None;
    loop {
        let next = lock(waiting).recv();
        let Ok((number, mut slot)) = next else { return };
        // Whoever waits for this frame must hear of it, whatever happens.
        let outcome = caught("cannot compress", || {
            squeeze(level, &mut compressor, &mut slot).map_err(compressing)?;
            Ok((number, slot))
        });
        if done.send(outcome).is_err() {
            return;
        }
    }
}

fn squeeze(level: i32, compressor: &mut Option<Compressor<'static>>, slot: &mut Slot) -> io::Result<()> {
    let compressor = match compressor {
        Some(compressor) => compressor,
        None => {
            let mut new = Compressor::new(level.clamp(1, 19))?;
            new.set_parameter(CParameter::ChecksumFlag(true))?;
            compressor.insert(new)
        }
    };
    let input = &slot.input[..slot.filled];
    slot.output.clear();
    slot.output.reserve(compress_bound(input.len()));
    compressor.compress_to_buffer(input, &mut slot.output)?;
    slot.digest = sha256(&slot.output);
    Ok(())
}

/// Returns what is needed to find things in the stream again.
fn write_in_order<W: Write>(
    sink: &mut Hashed<W>,
    results: &Receiver<Result<Numbered>>,
    give_back: &Sender<Slot>,
) -> Result<Unwritten> {
    let mut index = Index::default();
    let mut tables = Chunked::default();
    let (mut next, mut early) = (0, BTreeMap::new());
    for result in results {
        let (number, slot) = result?;
        early.insert(number, slot);
        while let Some(mut slot) = early.remove(&next) {
            next += 1;
            match slot.piece.take() {
                None => {
                    index.frames.push((sink.size(), length(&slot.output)?));
                    index.frame_digests.push(slot.digest);
                    sink.write_all(&slot.output).map_err(writing)?;
                }
                Some(what) => {
                    write_skippable(sink, &slot.output)?;
                    let len = length(&slot.output)?;
                    let start = sink.size() - u64::from(len);
                    match what {
                        Attached::Files(span) => {
                            index.pieces.push((start, len, span));
                            index.piece_digests.push(slot.digest);
                        }
                        Attached::Chunks => {
                            tables.tables.push((start, len));
                            tables.table_digests.push(slot.digest);
                        }
                    }
                }
            }
            // The producer may have ended already.
            let _ = give_back.send(slot);
        }
    }
    Ok(Unwritten { index, tables, written: next })
}

/// The index, once everything before it is in place.
struct Unwritten {
    index: Index,
    tables: Chunked,
    /// Frames and pieces before it.
    written: u64,
}

impl Unwritten {
    fn write<W: Write>(
        mut self,
        sink: &mut Hashed<W>,
        handed_over: u64,
        described: Option<Chunked>,
    ) -> Result<String> {
        if self.written != handed_over {
            return Err(writing(io::Error::other("a frame got lost")));
        }
        self.index.chunked =
            described.map(|described| Chunked { raw: described.raw, parts: described.parts, ..self.tables });
        let at = sink.size();
        let mut compressor = Compressor::new(3).map_err(compressing)?;
        compressor.set_parameter(CParameter::ChecksumFlag(true)).map_err(compressing)?;
        let mut payload = compressor.compress(&self.index.encode()).map_err(compressing)?;
        payload.extend_from_slice(&self.index.trailer(at));
        write_skippable(sink, &payload)?;
        Ok(hex(&sha256(&payload)))
    }
}

fn write_skippable<W: Write>(sink: &mut Hashed<W>, payload: &[u8]) -> Result<()> {
    sink.write_all(&SKIPPABLE.to_le_bytes()).map_err(writing)?;
    sink.write_all(&length(payload)?.to_le_bytes()).map_err(writing)?;
    sink.write_all(payload).map_err(writing)
}

fn length(bytes: &[u8]) -> Result<u32> {
    u32::try_from(bytes.len()).map_err(|_| writing(io::Error::other("a piece is too large")))
}

fn compressing(error: io::Error) -> ArchiveError {
    ArchiveError::local("cannot compress", error)
}

pub(super) fn writing(error: io::Error) -> ArchiveError {
    ArchiveError::local("cannot write the archive", error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_on_any_thread_is_an_error_and_nobody_waits_for_ever() {
        for workers in [1, 3] {
            let options = PackOptions { workers, ..PackOptions::default() };
            // More than there is: the compressor panics, while the producer has much more to say.
            let compressing = compress(io::sink(), options, false, |frames| {
                frames.room().map_err(writing)?;
                frames.filled(FRAME + 1);
                frames.flush().map_err(writing)?;
                for _ in 0..50 {
                    frames.write_all(&vec![0; FRAME]).map_err(writing)?;
                }
                Ok(())
            });
            let producing = compress(io::sink(), options, false, |frames| -> Result<()> {
                frames.write_all(&vec![0; 3 * FRAME]).map_err(writing)?;
                panic!("on purpose")
            });
            for outcome in [compressing, producing] {
                let error = outcome.map(|_| ()).unwrap_err();
                assert!(error.is_panic(), "{error}");
            }
        }
    }
}
