//! Looking into an archive without restoring it.
//!
//! The index at the end of the object says where the list of files is and
//! where each frame; a listing reads the pieces it needs, a download the
//! frames its file is in. The index is held against the digest that the
//! caller knows, and every piece and frame against the digest that the index
//! has of it (none in older archives, whose frames carry a checksum only).
//! Of format 3 the bytes are read as for a restore ([`super::chunked`]).
//! Archives of format 1 have no list and cannot be looked into.

use std::collections::VecDeque;
use std::io::{self, BufReader, Read};
use std::ops::Range;

use bytes::Bytes;
use futures::stream::BoxStream;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;

use super::ObjectArchives;
use super::transfer::{read_range, read_through};
use crate::chunked_manifest::read_chunked_piece;
use crate::error::{ArchiveError, Result, show};
use crate::frames::{FRAME, SKIPPABLE_HEADER};
use crate::hash::{hex, sha256};
use crate::manifest::{
    ArchivedFile, FileKind, Index, MAX_RAW, TRAILER, child, is_below, read_piece, walk_order,
};
use crate::meta::{ArchiveMeta, Expected};
use crate::reader::{EntryKind, Reader};
use crate::source::MAX_WINDOW_LOG;

/// A part of a directory's content, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilePage {
    /// In the order of the archive.
    pub files: Vec<ArchivedFile>,
    /// There are more after the last one.
    pub more: bool,
}

/// The bytes of a file. A stream that ends without an error is the file.
pub type FileStream = BoxStream<'static, Result<Bytes>>;

/// Chunks on their way to whoever downloads.
const CHUNKS_AHEAD: usize = 4;
const CHUNK: usize = 256 * 1024;

/// An archive opened for looking into.
struct Opened {
    index: Index,
    /// Where the frames end.
    end: u64,
    meta: ArchiveMeta,
}

impl Opened {
    /// Reads a piece of the list of files, of whatever format.
    fn read(&self, piece: &[u8], visit: &mut dyn FnMut(ArchivedFile) -> Result<bool>) -> Result<()> {
        match self.index.chunked {
            None => read_piece(piece, visit),
            Some(_) => read_chunked_piece(piece, &mut |entry| visit(entry.file)),
        }
    }
}

impl ObjectArchives {
    /// What is in the directory `dir` of an archive (empty: the home), names
    /// after `after`; `None` when the archive has no such directory.
    pub async fn files(
        &self,
        key: &str,
        expected: &Expected,
        dir: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Option<FilePage>> {
        let opened = self.open_index(key, expected).await?;
        let (mut page, mut found) = (FilePage::default(), false);
        for (at, (start, len, span)) in opened.index.pieces.iter().enumerate() {
            let ended = walk_order(&span.last, dir).is_lt();
            let not_begun = walk_order(&span.first, dir).is_gt() && !is_below(&span.first, dir);
            let inside = is_below(&span.first, dir)
                && is_below(&span.last, dir)
                && child(&span.first, dir) == child(&span.last, dir)
                && !is_child(&span.first, dir);
            if ended || inside || not_begun {
                continue;
            }
            let digest = opened.index.piece_digests.get(at);
            let bytes = self.piece(key, *start..start + u64::from(*len), digest).await?;
            opened.read(&bytes, &mut |entry| {
                if entry.path == dir {
                    found = entry.kind == FileKind::Directory;
                } else if is_child(&entry.path, dir)
                    && after.is_none_or(|after| child(&entry.path, dir) > after)
                {
                    if page.files.len() == limit {
                        page.more = true;
                        return Ok(false);
                    }
                    page.files.push(entry);
                }
                Ok(true)
            })?;
            if page.more {
                break;
            }
        }
        // The home itself is not an entry of an empty archive.
        Ok((found || dir.is_empty()).then_some(page))
    }

    /// A file of an archive and its bytes; `None` when there is no such path,
    /// no stream when it is not a file.
    pub async fn file(
        &self,
        key: &str,
        expected: &Expected,
        path: &[u8],
    ) -> Result<Option<(ArchivedFile, Option<FileStream>)>> {
        let opened = self.open_index(key, expected).await?;
        let Some(entry) = self.find(key, &opened, path).await? else {
            return Ok(None);
        };
        let holder = match entry.kind {
            FileKind::Directory | FileKind::Symlink => return Ok(Some((entry, None))),
            FileKind::File => entry.clone(),
            FileKind::HardLink => match self.find(key, &opened, &entry.target).await? {
                Some(first) if first.kind == FileKind::File => first,
                _ => return Err(ArchiveError::corrupted("a hard link leads nowhere")),
            },
        };
        if opened.index.chunked.is_some() {
            let stream = self.chunked_stream(key, &opened, &holder.path).await?;
            return Ok(Some((ArchivedFile { size: holder.size, ..entry }, Some(stream))));
        }
        let behind = || ArchiveError::corrupted("a file is said to be behind the end");
        let first = usize::try_from(holder.offset / FRAME as u64).map_err(|_| behind())?;
        let Opened { index: Index { mut frames, mut frame_digests, .. }, end, .. } = opened;
        let start = frames.get(first).ok_or_else(behind)?.0;
        frames.drain(..first);
        frame_digests.drain(..first.min(frame_digests.len()));
        let entry = ArchivedFile { size: holder.size, ..entry };
        let known = frames.into_iter().zip(frame_digests).collect();
        Ok(Some((entry, Some(self.stream(key, start..end, known, holder)?))))
    }

    /// Decodes from the frame that holds the entry's header on.
    fn stream(
        &self,
        key: &str,
        range: Range<u64>,
        known: VecDeque<Known>,
        entry: ArchivedFile,
    ) -> Result<FileStream> {
        let (sender, receiver) = mpsc::channel(CHUNKS_AHEAD);
        let (store, location) = (self.store.clone(), self.data(key)?);
        let (chunks, at) = (sender.clone(), range.start);
        tokio::spawn(async move {
            let cancel = CancellationToken::new();
            let outcome = read_through(&store, &location, range, &cancel, move |pieces, _| {
                if known.is_empty() {
                    send_file(pieces, &entry, &chunks)
                } else {
                    send_file(HeldFrames::new(pieces, at, known), &entry, &chunks)
                }
            });
            if let Err(error) = outcome.await {
                // Whoever asked may be gone.
                let _ = sender.send(Err(error)).await;
            }
        });
        Ok(Box::pin(ReceiverStream::new(receiver)))
    }

    async fn find(&self, key: &str, opened: &Opened, path: &[u8]) -> Result<Option<ArchivedFile>> {
        let Some(bytes) = self.piece_with(key, opened, path).await? else { return Ok(None) };
        let mut found = None;
        opened.read(&bytes, &mut |entry| {
            if entry.path == path {
                found = Some(entry);
            }
            Ok(found.is_none())
        })?;
        Ok(found)
    }

    /// The piece of the list of files that a path must be in.
    async fn piece_with(&self, key: &str, opened: &Opened, path: &[u8]) -> Result<Option<Vec<u8>>> {
        for (at, (start, len, span)) in opened.index.pieces.iter().enumerate() {
            if walk_order(&span.first, path).is_gt() || walk_order(&span.last, path).is_lt() {
                continue;
            }
            let digest = opened.index.piece_digests.get(at);
            return self.piece(key, *start..start + u64::from(*len), digest).await.map(Some);
        }
        Ok(None)
    }

    /// A file of an archive of format 3, which is in its list.
    async fn chunked_stream(&self, key: &str, opened: &Opened, path: &[u8]) -> Result<FileStream> {
        let bytes = self.piece_with(key, opened, path).await?.ok_or_else(damaged)?;
        let mut found = None;
        read_chunked_piece(&bytes, &mut |entry| {
            if entry.file.path == path {
                found = Some(entry);
            }
            Ok(found.is_none())
        })?;
        self.stream_chunked(key, &opened.meta, found.ok_or_else(damaged)?).await
    }

    async fn open_index(&self, key: &str, expected: &Expected) -> Result<Opened> {
        let Some(meta) = self.head(key).await? else {
            return Err(ArchiveError::NotFound { key: key.into() });
        };
        meta.hold_against(key, expected)?;
        let Some(digest) = &expected.index_sha256 else { return Err(ArchiveError::NotListed) };
        let (index, end) = self.index_of(key, meta.size, digest).await?;
        Ok(Opened { index, end, meta })
    }

    /// The index of an object of this size, which must have this digest, and where it begins.
    pub(super) async fn index_of(&self, key: &str, size: u64, digest: &str) -> Result<(Index, u64)> {
        let (at, magic, stored) = self.stored_index(key, size).await?;
        let found = hex(&sha256(&stored));
        if found != *digest {
            let message = format!("{key}: its index has checksum {found}, expected {digest}");
            return Err(ArchiveError::Corrupted { message });
        }
        let index = Index::decode(&decoded(&stored[..stored.len() - TRAILER])?, magic)?;
        let tables = index.chunked.iter().flat_map(|chunked| &chunked.tables);
        let tables = tables.map(|(start, len)| start.checked_add((*len).into()));
        let frames = index.frames.iter().map(|(start, len)| start.checked_add((*len).into()));
        let pieces = index.pieces.iter().map(|(start, len, _)| start.checked_add((*len).into()));
        if frames.chain(pieces).chain(tables).any(|end| end.is_none_or(|end| end > at)) {
            return Err(damaged());
        }
        Ok((index, at))
    }

    /// Where the index begins, which format's it is, and the bytes that its digest is of: itself and the trailer.
    async fn stored_index(&self, key: &str, size: u64) -> Result<(u64, [u8; 8], Bytes)> {
        let after_frames = size.checked_sub(TRAILER as u64).ok_or_else(damaged)?;
        let (at, magic) = Index::read_trailer(&self.range(key, after_frames..size).await?)?;
        let start = at.checked_add(SKIPPABLE_HEADER as u64).filter(|start| *start < after_frames);
        let start = start.filter(|start| size - start <= MAX_RAW as u64).ok_or_else(damaged)?;
        Ok((at, magic, self.range(key, start..size).await?))
    }

    pub(super) async fn index_digest(&self, key: &str, meta: &ArchiveMeta) -> Result<String> {
        Ok(hex(&sha256(&self.stored_index(key, meta.size).await?.2)))
    }

    /// `digest` is what the index has of it, where it has one.
    async fn piece(&self, key: &str, range: Range<u64>, digest: Option<&[u8; 32]>) -> Result<Vec<u8>> {
        if range.end - range.start > MAX_RAW as u64 {
            return Err(damaged());
        }
        let stored = self.range(key, range).await?;
        match digest {
            Some(digest) => decoded(&held(stored, digest, key)?),
            None => decoded(&stored),
        }
    }

    async fn range(&self, key: &str, range: Range<u64>) -> Result<Bytes> {
        read_range(&self.store, &self.data(key)?, range).await
    }
}

/// Start and length of a frame, and what it must be.
type Known = ((u64, u32), [u8; 32]);

/// Frames out of a stream that begins at the first of them: each is passed on only when it is the one that was
/// archived. What lies between them (pieces of the list of files) is left out.
struct HeldFrames<R> {
    inner: R,
    at: u64,
    known: VecDeque<Known>,
    frame: io::Cursor<Vec<u8>>,
}

impl<R: Read> HeldFrames<R> {
    fn new(inner: R, at: u64, known: VecDeque<Known>) -> Self {
        Self { inner, at, known, frame: io::Cursor::default() }
    }

    /// Whether there was another one.
    fn next(&mut self) -> io::Result<bool> {
        let Some(((start, len), digest)) = self.known.pop_front() else { return Ok(false) };
        let wrong = || io::Error::from(io::ErrorKind::InvalidData);
        let between = start.checked_sub(self.at).ok_or_else(wrong)?;
        io::copy(&mut self.inner.by_ref().take(between), &mut io::sink())?;
        let frame = self.frame.get_mut();
        frame.clear();
        self.inner.by_ref().take(len.into()).read_to_end(frame)?;
        if sha256(frame) != digest {
            return Err(wrong());
        }
        self.at = start + u64::from(len);
        self.frame.set_position(0);
        Ok(true)
    }
}

impl<R: Read> Read for HeldFrames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let got = self.frame.read(buffer)?;
            if got > 0 || buffer.is_empty() || !self.next()? {
                return Ok(got);
            }
        }
    }
}

/// What was stored, if it is what was archived.
pub(super) fn held(stored: Bytes, digest: &[u8; 32], key: &str) -> Result<Bytes> {
    match sha256(&stored) == *digest {
        true => Ok(stored),
        false => Err(ArchiveError::corrupted(format!(
            "{key}: a part of its list of files is not what was archived"
        ))),
    }
}

pub(super) fn decoded(stored: &[u8]) -> Result<Vec<u8>> {
    let mut decoder = zstd::Decoder::new(stored).map_err(|_| damaged())?;
    decoder.window_log_max(MAX_WINDOW_LOG).map_err(|_| damaged())?;
    let mut bytes = Vec::new();
    decoder.take(MAX_RAW as u64 + 1).read_to_end(&mut bytes).map_err(|_| damaged())?;
    if bytes.len() > MAX_RAW { Err(damaged()) } else { Ok(bytes) }
}

fn is_child(path: &[u8], dir: &[u8]) -> bool {
    is_below(path, dir) && path.ends_with(child(path, dir)) && {
        let depth = if dir.is_empty() { 0 } else { dir.len() + 1 };
        path.len() - depth == child(path, dir).len()
    }
}

/// Finds the entry in the stream of its frame and passes its data on.
fn send_file(pieces: impl Read, entry: &ArchivedFile, chunks: &mpsc::Sender<Result<Bytes>>) -> Result<()> {
    let failed = |_| ArchiveError::corrupted("a frame is damaged");
    let mut decoder = zstd::Decoder::new(pieces).map_err(failed)?;
    decoder.window_log_max(MAX_WINDOW_LOG).map_err(failed)?;
    let mut stream = BufReader::with_capacity(CHUNK, decoder);
    let skip = entry.offset % FRAME as u64;
    let skipped = io::copy(&mut stream.by_ref().take(skip), &mut io::sink()).map_err(failed)?;
    if skipped != skip {
        return Err(damaged());
    }
    let mut reader = Reader::new(stream);
    let found = reader.next()?.filter(|found| found.path == entry.path);
    let Some(EntryKind::File { size, segments }) = found.map(|found| found.kind) else {
        let path = show(&entry.path);
        return Err(ArchiveError::corrupted(format!("{path}: is not where it is said to be")));
    };
    let send = |bytes: Bytes| chunks.blocking_send(Ok(bytes)).map_err(|_| ArchiveError::Cancelled);
    let zeros = Bytes::from_static(&[0; 64 * 1024]);
    let hole = |mut len: u64| {
        while len > 0 {
            let take = usize::try_from(len).map_or(zeros.len(), |len| len.min(zeros.len()));
            send(zeros.slice(..take))?;
            len -= take as u64;
        }
        Ok(())
    };
    let mut end = 0;
    for segment in segments {
        hole(segment.offset - end)?;
        reader.data(segment.len, &mut |piece| send(Bytes::copy_from_slice(piece)))?;
        end = segment.offset + segment.len;
    }
    hole(size - end)
}

fn damaged() -> ArchiveError {
    ArchiveError::corrupted("its list of files is damaged")
}
