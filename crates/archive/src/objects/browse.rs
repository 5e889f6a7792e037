//! Looking into an archive without restoring it.
//!
//! The index at the end of the object says where the list of files is and
//! where each frame; a listing reads the pieces it needs, a download the
//! frames its file is in. Every piece and frame carries its own checksum.
//! Archives of format 1 have no list and cannot be looked into.

use std::io::{BufReader, Read};
use std::ops::Range;

use bytes::Bytes;
use futures::stream::BoxStream;
use object_store::ObjectStoreExt;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;

use super::ObjectArchives;
use super::transfer::{Pieces, read_through};
use crate::error::{ArchiveError, Result, show};
use crate::frames::{FRAME, SKIPPABLE_HEADER};
use crate::manifest::{
    ArchivedFile, FileKind, Index, MAX_RAW, TRAILER, child, is_below, read_piece, walk_order,
};
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
}

impl ObjectArchives {
    /// What is in the directory `dir` of an archive (empty: the home), names
    /// after `after`; `None` when the archive has no such directory.
    pub async fn files(
        &self,
        key: &str,
        dir: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Option<FilePage>> {
        let opened = self.open_index(key).await?;
        let (mut page, mut found) = (FilePage::default(), false);
        for (start, len, span) in &opened.index.pieces {
            let ended = walk_order(&span.last, dir).is_lt();
            let not_begun = walk_order(&span.first, dir).is_gt() && !is_below(&span.first, dir);
            let inside = is_below(&span.first, dir)
                && is_below(&span.last, dir)
                && child(&span.first, dir) == child(&span.last, dir)
                && !is_child(&span.first, dir);
            if ended || inside || not_begun {
                continue;
            }
            let bytes = self.piece(key, *start..start + u64::from(*len)).await?;
            read_piece(&bytes, &mut |entry| {
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
    pub async fn file(&self, key: &str, path: &[u8]) -> Result<Option<(ArchivedFile, Option<FileStream>)>> {
        let opened = self.open_index(key).await?;
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
        let frame = usize::try_from(holder.offset / FRAME as u64).ok();
        let start = frame.and_then(|frame| opened.index.frames.get(frame));
        let start = start.ok_or_else(|| ArchiveError::corrupted("a file is said to be behind the end"))?.0;
        let entry = ArchivedFile { size: holder.size, ..entry };
        Ok(Some((entry, Some(self.stream(key, start..opened.end, holder)?))))
    }

    /// Decodes from the frame that holds the entry's header on.
    fn stream(&self, key: &str, range: Range<u64>, entry: ArchivedFile) -> Result<FileStream> {
        let (sender, receiver) = mpsc::channel(CHUNKS_AHEAD);
        let (store, location) = (self.store.clone(), self.data(key)?);
        let chunks = sender.clone();
        tokio::spawn(async move {
            let cancel = CancellationToken::new();
            let outcome = read_through(&store, &location, range, &cancel, move |pieces, _| {
                send_file(pieces, &entry, &chunks)
            });
            if let Err(error) = outcome.await {
                // Whoever asked may be gone.
                let _ = sender.send(Err(error)).await;
            }
        });
        Ok(Box::pin(ReceiverStream::new(receiver)))
    }

    async fn find(&self, key: &str, opened: &Opened, path: &[u8]) -> Result<Option<ArchivedFile>> {
        for (start, len, span) in &opened.index.pieces {
            if walk_order(&span.first, path).is_gt() || walk_order(&span.last, path).is_lt() {
                continue;
            }
            let bytes = self.piece(key, *start..start + u64::from(*len)).await?;
            let mut found = None;
            read_piece(&bytes, &mut |entry| {
                if entry.path == path {
                    found = Some(entry);
                }
                Ok(found.is_none())
            })?;
            return Ok(found);
        }
        Ok(None)
    }

    async fn open_index(&self, key: &str) -> Result<Opened> {
        let Some(meta) = self.head(key).await? else {
            return Err(ArchiveError::NotFound { key: key.into() });
        };
        if meta.format < 2 {
            return Err(ArchiveError::NotListed);
        }
        let after_frames = meta.size.checked_sub(TRAILER as u64).ok_or_else(damaged)?;
        let trailer = self.range(key, after_frames..meta.size).await?;
        let at = Index::read_trailer(&trailer)?;
        let start = at.checked_add(SKIPPABLE_HEADER as u64).filter(|start| *start < after_frames);
        let bytes = self.piece(key, start.ok_or_else(damaged)?..after_frames).await?;
        let index = Index::decode(&bytes)?;
        let frames = index.frames.iter().map(|(start, len)| start.checked_add((*len).into()));
        let pieces = index.pieces.iter().map(|(start, len, _)| start.checked_add((*len).into()));
        if frames.chain(pieces).any(|end| end.is_none_or(|end| end > at)) {
            return Err(damaged());
        }
        Ok(Opened { index, end: at })
    }

    async fn piece(&self, key: &str, range: Range<u64>) -> Result<Vec<u8>> {
        if range.end - range.start > MAX_RAW as u64 {
            return Err(damaged());
        }
        let stored = self.range(key, range).await?;
        let mut decoder = zstd::Decoder::new(&stored[..]).map_err(|_| damaged())?;
        decoder.window_log_max(MAX_WINDOW_LOG).map_err(|_| damaged())?;
        let mut bytes = Vec::new();
        decoder.take(MAX_RAW as u64 + 1).read_to_end(&mut bytes).map_err(|_| damaged())?;
        if bytes.len() > MAX_RAW { Err(damaged()) } else { Ok(bytes) }
    }

    async fn range(&self, key: &str, range: Range<u64>) -> Result<Bytes> {
        let bytes = self.store.get_range(&self.data(key)?, range.clone()).await;
        let bytes = bytes.map_err(|error| ArchiveError::store("read", key, &error))?;
        if bytes.len() as u64 == range.end - range.start {
            return Ok(bytes);
        }
        Err(ArchiveError::Unreachable { message: format!("{key}: got {} bytes of {range:?}", bytes.len()) })
    }
}

fn is_child(path: &[u8], dir: &[u8]) -> bool {
    is_below(path, dir) && path.ends_with(child(path, dir)) && {
        let depth = if dir.is_empty() { 0 } else { dir.len() + 1 };
        path.len() - depth == child(path, dir).len()
    }
}

/// Finds the entry in the stream of its frame and passes its data on.
fn send_file(pieces: Pieces, entry: &ArchivedFile, chunks: &mpsc::Sender<Result<Bytes>>) -> Result<()> {
    let failed = |_| ArchiveError::corrupted("a frame is damaged");
    let mut decoder = zstd::Decoder::new(pieces).map_err(failed)?;
    decoder.window_log_max(MAX_WINDOW_LOG).map_err(failed)?;
    let mut stream = BufReader::with_capacity(CHUNK, decoder);
    let skip = entry.offset % FRAME as u64;
    let skipped = std::io::copy(&mut stream.by_ref().take(skip), &mut std::io::sink()).map_err(failed)?;
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
