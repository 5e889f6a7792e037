//! Archives of format 3 in the store: an object of new chunks and a manifest
//! that refers to objects of earlier archives of the same home.
//!
//! An archive is opened by its index, whose digest the caller knows; the index
//! has a digest of each of its frames and pieces, and of the index of every
//! other object that is referred to, which in turn has those of its frames. So
//! whatever is read is what was archived, or an error.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use futures::stream::{self, StreamExt, TryStreamExt};
use object_store::ObjectStore;
use object_store::path::Path as Location;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::browse::{decoded, held};
use super::pair::blocking;
use super::transfer::{joined, read_range};
use super::{DATA_NAME, FileStream, ObjectArchives};
use crate::chunked_manifest::{ChunkedEntry, Extent, read_chunked_piece};
use crate::chunked_pack::{KnownPart, encode_known};
use crate::chunked_tar::{ChunkedTar, Event, FrameCache, FrameId, Outcome, frames_of};
use crate::error::{ArchiveError, Result};
use crate::frames::FRAME;
use crate::hash::{hex, sha256};
use crate::manifest::{Chunked, Index, Part, damaged};
use crate::meta::{ArchiveMeta, CHUNKED_FORMAT, Expected};
use crate::sparse::Segment;
use crate::unpack::UnpackSummary;

/// An archive refers to at most so many others: each is another place to read from.
const MOST_PARTS: usize = 24;

/// Objects looked at side by side.
const OPENED_AT_ONCE: usize = 8;

/// Frames on their way, fetched and decompressed ahead.
const FRAMES_AHEAD: usize = 4;

/// How a home is to be packed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packed {
    /// Whole, as one stream of format 2 ([`crate::pack`]).
    Whole,
    /// In format 3 ([`crate::pack_chunked`]), without these chunks.
    Without(Bytes),
}

/// An object opened for its frames.
struct OpenPart {
    location: Location,
    index: Index,
    chunked: Chunked,
}

/// An archive opened for reading.
struct OpenArchive {
    key: String,
    own: Index,
    parts: BTreeMap<u32, Arc<OpenPart>>,
}

impl ObjectArchives {
    /// How the home that becomes `key` is to be packed, where its last archive is `base`: what is still good of that
    /// one and of those it refers to need not be stored again. A base that is damaged or gone is no reason not to
    /// archive: the home is there, and is packed whole.
    pub async fn packed_as(&self, key: &str, base: Option<(&str, &Expected)>) -> Result<Packed> {
        if self.format != CHUNKED_FORMAT {
            return Ok(Packed::Whole);
        }
        let usable = base.filter(|(name, expected)| {
            *name != key && expected.format == CHUNKED_FORMAT && owner_of(name) == owner_of(key)
        });
        let Some((base, expected)) = usable else { return Ok(Packed::Without(Bytes::new())) };
        match self.known(base, expected).await {
            Ok(known) => Ok(Packed::Without(known.into())),
            Err(error) if error.is_corrupted() || matches!(error, ArchiveError::NotFound { .. }) => {
                tracing::warn!(%error, base, key, "the last archive cannot be built upon: this one is whole");
                Ok(Packed::Without(Bytes::new()))
            }
            Err(error) => Err(error),
        }
    }

    /// The chunks of an archive and of what it refers to. An object of which less than half is needed is left out: what
    /// is needed of it becomes part of the next archive, and it can go when the archives before that have gone.
    async fn known(&self, key: &str, expected: &Expected) -> Result<Vec<u8>> {
        let Some(meta) = self.head(key).await? else {
            return Err(ArchiveError::NotFound { key: key.into() });
        };
        meta.hold_against(key, expected)?;
        let opened = self.open_chunked(key, &meta).await?;
        let own = opened.parts.get(&0).ok_or_else(damaged)?;
        let mut all = vec![(own.clone(), self.own_part(key, &meta, own.chunked.raw)?)];
        for (number, part) in (1..).zip(&own.chunked.parts) {
            if let Some(open) = opened.parts.get(&number) {
                all.push((open.clone(), part.clone()));
            }
        }
        all.retain(|(open, part)| part.live.saturating_mul(2) >= open.chunked.raw && part.live > 0);
        all.sort_by(|(_, a), (_, b)| (b.live, &b.op).cmp(&(a.live, &a.op)));
        all.truncate(MOST_PARTS);
        // The newest first: what lies together in it is read together.
        all.sort_by(|(_, a), (_, b)| b.op.cmp(&a.op));
        let mut known = Vec::new();
        for (open, part) in all {
            let mut table = Vec::new();
            let pieces = open.chunked.tables.iter().zip(&open.chunked.table_digests);
            for ((start, len), digest) in pieces {
                let range = *start..start.checked_add((*len).into()).ok_or_else(damaged)?;
                let stored = read_range(&self.store, &open.location, range).await?;
                table.extend(decoded(held(stored, digest, key)?.as_ref())?);
            }
            known.push(KnownPart { part, table });
        }
        Ok(encode_known(&known))
    }

    fn own_part(&self, key: &str, meta: &ArchiveMeta, raw: u64) -> Result<Part> {
        let digest = meta.index_sha256.as_deref().and_then(unhex).ok_or_else(damaged)?;
        let op = key.split('/').nth(1).ok_or_else(damaged)?;
        Ok(Part { op: op.into(), size: meta.size, index_sha256: digest, live: raw })
    }

    /// Opens an archive and everything it refers to, all of which must be there.
    async fn open_chunked(&self, key: &str, meta: &ArchiveMeta) -> Result<OpenArchive> {
        let digest = meta.index_sha256.as_deref().ok_or(ArchiveError::NotListed)?;
        let own = self.open_part(key, meta.size, digest).await?;
        let mut opening = Vec::new();
        for (number, part) in (1..).zip(own.chunked.parts.clone()) {
            if part.live > 0 {
                let (archives, key) = (self.clone(), key.to_owned());
                let open = async move { archives.open_other(&key, &part).await.map(|open| (number, open)) };
                opening.push(open.boxed());
            }
        }
        let mut parts: BTreeMap<u32, Arc<OpenPart>> =
            stream::iter(opening).buffered(OPENED_AT_ONCE).try_collect().await?;
        let index = own.index.clone();
        parts.insert(0, Arc::new(own));
        Ok(OpenArchive { key: key.into(), own: index, parts })
    }

    /// Opens an object that the archive `key` refers to.
    async fn open_other(&self, key: &str, part: &Part) -> Result<Arc<OpenPart>> {
        let op = std::str::from_utf8(&part.op).map_err(|_| damaged())?;
        let other = format!("{}/{op}/{DATA_NAME}", owner_of(key));
        let missing = |what: &str| {
            let message = format!("{key}: a part of it, {other}, {what}");
            ArchiveError::Corrupted { message }
        };
        match self.data_size(&other).await? {
            Some(size) if size == part.size => {}
            Some(size) => return Err(missing(&format!("has {size} bytes, not {}", part.size))),
            None => return Err(missing("is missing")),
        }
        match self.open_part(&other, part.size, &hex(&part.index_sha256)).await {
            Err(ArchiveError::NotFound { .. }) => Err(missing("is missing")),
            opened => opened.map(Arc::new),
        }
    }

    async fn open_part(&self, key: &str, size: u64, digest: &str) -> Result<OpenPart> {
        let (index, _) = self.index_of(key, size, digest).await?;
        let chunked = index.chunked.clone().ok_or_else(damaged)?;
        let whole = chunked.raw.div_ceil(FRAME as u64);
        if index.frames.len() as u64 != whole || index.frame_digests.len() as u64 != whole {
            return Err(damaged());
        }
        Ok(OpenPart { location: self.data(key)?, index, chunked })
    }

    /// That an archive about to be committed can be restored: it, and all it refers to.
    pub(super) async fn check_parts(&self, key: &str, meta: &ArchiveMeta) -> Result<()> {
        if !meta.is_chunked() {
            return Ok(());
        }
        let opened = self.open_chunked(key, meta).await?;
        let own = opened.parts.get(&0).ok_or_else(damaged)?;
        let used = own.chunked.parts.iter().filter(|part| part.live > 0);
        let used: Vec<_> = used.map(|part| String::from_utf8_lossy(&part.op).into_owned()).collect();
        if used == meta.parts { Ok(()) } else { Err(damaged()) }
    }

    /// Gives the tar stream of an archive to `consume`, and checks what it made of it.
    pub(super) async fn read_chunked(
        &self,
        key: &str,
        meta: &ArchiveMeta,
        cancel: &CancellationToken,
        consume: impl FnOnce(ChunkedTar, CancellationToken) -> Result<UnpackSummary> + Send + 'static,
    ) -> Result<()> {
        let outcome = Outcome::default();
        let found = self.consumed(key, meta, cancel, &outcome, consume).await?;
        let expected = outcome.whole().map(|(size, sha256)| (sha256, size, meta.uncompressed, meta.entries));
        let actual = Some((found.sha256, found.size, found.uncompressed, found.entries));
        if actual != expected {
            let message = format!("{key}: restored {actual:?}, should be {expected:?}");
            return Err(ArchiveError::Corrupted { message });
        }
        Ok(())
    }

    /// Gives the tar stream of an archive to `consume`.
    pub(super) async fn chunked_tar<T: Send + 'static>(
        &self,
        key: &str,
        meta: &ArchiveMeta,
        cancel: &CancellationToken,
        consume: impl FnOnce(ChunkedTar, CancellationToken) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.consumed(key, meta, cancel, &Outcome::default(), consume).await
    }

    async fn consumed<T: Send + 'static>(
        &self,
        key: &str,
        meta: &ArchiveMeta,
        cancel: &CancellationToken,
        outcome: &Outcome,
        consume: impl FnOnce(ChunkedTar, CancellationToken) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let opened = self.open_chunked(key, meta).await?;
        let stop = cancel.child_token();
        let _stop_when_dropped = stop.clone().drop_guard();
        let (sender, receiver) = mpsc::channel(FRAMES_AHEAD);
        let tar = ChunkedTar::new(receiver, Handle::current(), outcome.clone());
        let consumer = blocking({
            let stop = stop.clone();
            move || consume(tar, stop)
        });
        let sent = tokio::select! {
            sent = self.send_events(&opened, sender) => sent,
            () = stop.cancelled() => Err(ArchiveError::Cancelled),
        };
        if sent.is_err() {
            stop.cancel();
        }
        let consumed = joined(consumer.await);
        sent?;
        if let Some(failure) = outcome.failure().filter(|error| !matches!(error, ArchiveError::Cancelled)) {
            return Err(failure);
        }
        consumed
    }

    /// Everything a [`ChunkedTar`] needs, in the order in which it does. Ends early where nobody listens any more.
    async fn send_events(&self, opened: &OpenArchive, events: mpsc::Sender<Event>) -> Result<()> {
        let mut cache = FrameCache::new();
        for at in 0..opened.own.pieces.len() {
            let entries = self.entries(opened, at).await?;
            let extents: Vec<Extent> = entries.iter().flat_map(|entry| entry.extents.clone()).collect();
            if events.send(Event::Entries(entries)).await.is_err() {
                return Ok(());
            }
            for (id, _) in extents.into_iter().flat_map(frames_of) {
                if cache.get(id).is_some() {
                    continue;
                }
                cache.put(id, ());
                // The place is there before the frame is fetched, so no more are on their way than there are places.
                let Ok(place) = events.reserve().await else { return Ok(()) };
                let frame = fetch_frame(self.store.clone(), opened.part(id.0)?, id);
                place.send(Event::Frame(id, tokio::spawn(frame)));
            }
        }
        // Whoever does not listen any more has a reason of its own.
        let _ = events.send(Event::End).await;
        Ok(())
    }

    /// The entries of a piece of the manifest; whatever they refer to is there.
    async fn entries(&self, opened: &OpenArchive, at: usize) -> Result<Vec<ChunkedEntry>> {
        let own = opened.part(0)?;
        let (start, len, _) = opened.own.pieces.get(at).ok_or_else(damaged)?;
        let digest = opened.own.piece_digests.get(at).ok_or_else(damaged)?;
        let range = *start..start.checked_add((*len).into()).ok_or_else(damaged)?;
        let stored = read_range(&self.store, &own.location, range).await?;
        let bytes = decoded(held(stored, digest, &opened.key)?.as_ref())?;
        let mut entries = Vec::new();
        read_chunked_piece(&bytes, &mut |entry| {
            opened.check(&entry)?;
            entries.push(entry);
            Ok(true)
        })?;
        Ok(entries)
    }

    /// One file's bytes, holes and all, in order.
    pub(super) async fn stream_chunked(
        &self,
        key: &str,
        meta: &ArchiveMeta,
        entry: ChunkedEntry,
    ) -> Result<FileStream> {
        let opened = self.open_chunked(key, meta).await?;
        opened.check(&entry)?;
        let size = entry.file.size;
        let segments = entry.segments.unwrap_or_else(|| vec![Segment { offset: 0, len: size }]);
        let mut steps = Vec::new();
        let mut pieces = entry.extents.into_iter().flat_map(frames_of);
        let (mut end, mut piece) = (0, None);
        for segment in segments {
            steps.push(FileStep::Zeros(segment.offset - end));
            let mut left = segment.len;
            while left > 0 {
                let (id, range) = match piece.take() {
                    Some(piece) => piece,
                    None => pieces.next().ok_or_else(damaged)?,
                };
                let here = usize::try_from(left).map_or(range.len(), |left| left.min(range.len()));
                let middle = range.start + here;
                steps.push(FileStep::Piece(opened.part(id.0)?, id, range.start..middle));
                if middle < range.end {
                    piece = Some((id, middle..range.end));
                }
                left -= here as u64;
            }
            end = segment.offset + segment.len;
        }
        steps.push(FileStep::Zeros(size - end));
        let store = self.store.clone();
        let pieces = stream::iter(steps).map(move |step| file_step(store.clone(), step)).buffered(FILE_AHEAD);
        Ok(pieces.flat_map(stream::iter).boxed())
    }
}

/// Frames of a download on their way.
const FILE_AHEAD: usize = 2;

/// Zeros of a hole that are sent at once.
const ZEROS: &[u8] = &[0; 64 * 1024];

enum FileStep {
    /// A hole may be larger than any memory.
    Zeros(u64),
    Piece(Arc<OpenPart>, FrameId, std::ops::Range<usize>),
}

/// What a step amounts to: one piece, or zeros as long as somebody wants them.
async fn file_step(
    store: Arc<dyn ObjectStore>,
    step: FileStep,
) -> Box<dyn Iterator<Item = Result<Bytes>> + Send> {
    match step {
        FileStep::Zeros(mut left) => Box::new(std::iter::from_fn(move || {
            let here = usize::try_from(left).map_or(ZEROS.len(), |left| left.min(ZEROS.len()));
            left -= here as u64;
            (here > 0).then(|| Ok(Bytes::from_static(ZEROS).slice(..here)))
        })),
        FileStep::Piece(part, id, range) => {
            let piece = fetch_frame(store, part, id).await.and_then(|frame| {
                if range.end > frame.len() { Err(damaged()) } else { Ok(frame.slice(range)) }
            });
            Box::new(std::iter::once(piece))
        }
    }
}

impl OpenArchive {
    fn part(&self, number: u32) -> Result<Arc<OpenPart>> {
        self.parts.get(&number).cloned().ok_or_else(damaged)
    }

    /// Whether the bytes of an entry lie in objects that were opened, and not behind their ends.
    fn check(&self, entry: &ChunkedEntry) -> Result<()> {
        for extent in &entry.extents {
            let raw = self.parts.get(&extent.part).ok_or_else(damaged)?.chunked.raw;
            if extent.offset.checked_add(extent.len).is_none_or(|end| end > raw) {
                return Err(damaged());
            }
        }
        Ok(())
    }
}

/// Fetches and decompresses a frame; what it must be is known from the index.
async fn fetch_frame(
    store: Arc<dyn ObjectStore>,
    part: Arc<OpenPart>,
    (_, number): FrameId,
) -> Result<Bytes> {
    let at = usize::try_from(number).map_err(|_| damaged())?;
    let (start, len) = *part.index.frames.get(at).ok_or_else(damaged)?;
    let digest = *part.index.frame_digests.get(at).ok_or_else(damaged)?;
    let range = start..start.checked_add(len.into()).ok_or_else(damaged)?;
    let stored = read_range(&store, &part.location, range).await?;
    let raw = part.chunked.raw.saturating_sub(number * FRAME as u64);
    let raw = usize::try_from(raw).map_or(FRAME, |raw| raw.min(FRAME));
    let name = part.location.to_string();
    let decode = blocking(move || {
        if sha256(&stored) != digest {
            return Err(ArchiveError::corrupted(format!("{name}: a frame is not what was archived")));
        }
        let bytes = zstd::bulk::decompress(&stored, FRAME)
            .map_err(|error| ArchiveError::corrupted(format!("{name}: cannot decompress: {error}")))?;
        match bytes.len() == raw {
            true => Ok(Bytes::from(bytes)),
            false => Err(damaged()),
        }
    });
    joined(decode.await)
}

/// Whose archive it is: archives refer only to those of the same workspace.
fn owner_of(key: &str) -> &str {
    key.split('/').next().unwrap_or(key)
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    let mut digest = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (at, byte) in digest.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(digest)
}
