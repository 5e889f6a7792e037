//! A home as one object of format 3: its chunks, as far as no earlier archive
//! of the same home has them, and a manifest of everything.
//!
//! A chunk is a small file, or a stretch of a larger one between two places
//! that its content decides on (FastCDC), so that an insertion moves no other
//! chunk. Chunks are known by their SHA-256. Those that are new are written
//! one after the other, in the order of the walk, into the frames of
//! [`super::frames`]; a table of them follows, for the next archive to find
//! them by. Every byte of the home is read; only what is new is compressed
//! and stored.
//!
//! Guarantees, like [`super::pack`]: the same home and the same [`Known`]
//! chunks give the same bytes; whatever changes or cannot be read on the way
//! is an error; memory is bounded, but for what is known: some 48 bytes per
//! chunk of the earlier archive.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use fastcdc::v2020::FastCDC;
use tokio_util::sync::CancellationToken;

use super::chunked_manifest::{ChunkedEntry, ChunkedManifest, Extent};
use super::error::{ArchiveError, Result};
use super::frames::{Frames, PackOptions, compress, writing};
use super::gather::{Batch, Bytes, Entry, Item, Rest, SMALL, check_unchanged, gather, size_of};
use super::hash::sha256;
use super::header;
use super::manifest::{FileKind, Part, put, put_bytes, take, take_bytes, take_digest};
use super::meta::CHUNKED_FORMAT;
use super::pack::{Links, PackSummary};
use super::progress::Progress;
use super::sparse::Segment;

/// Bounds and aim of a chunk's length, in files larger than [`SMALL`]. Changing them makes the next archive of every
/// home a whole one, and breaks nothing.
const MIN_CHUNK: usize = 16 * 1024;
const AVERAGE_CHUNK: usize = 64 * 1024;
const MAX_CHUNK: usize = 256 * 1024;

/// What a home has twice is stored once from this size on: below, one more place to read from costs a restore more.
const MIN_SHARED: usize = MIN_CHUNK;

/// Of a larger file in memory at once.
const WINDOW: usize = 1024 * 1024;

/// Raw bytes after which a piece of the table ends.
const TABLE_PIECE: usize = 256 * 1024;

/// An object of an earlier archive that the next one may refer to.
pub(super) struct KnownPart {
    pub(super) part: Part,
    /// The pieces of its table, decoded.
    pub(super) table: Vec<u8>,
}

/// What [`pack_chunked`] takes for its known chunks.
pub(super) fn encode_known(parts: &[KnownPart]) -> Vec<u8> {
    let mut out = Vec::new();
    put(&mut out, parts.len() as u64);
    for KnownPart { part, table } in parts {
        put_bytes(&mut out, &part.op);
        put(&mut out, part.size);
        out.extend_from_slice(&part.index_sha256);
        put_bytes(&mut out, table);
    }
    out
}

struct KnownChunk {
    digest: [u8; 32],
    part: u32,
    len: u32,
    offset: u64,
}

/// The chunks that need not be stored again.
#[derive(Default)]
struct Known {
    parts: Vec<Part>,
    /// By digest.
    chunks: Vec<KnownChunk>,
}

impl Known {
    fn decode(mut bytes: &[u8]) -> Result<Self> {
        let bytes = &mut bytes;
        let mut known = Self::default();
        if bytes.is_empty() {
            return Ok(known);
        }
        for number in 1..=take(bytes)? {
            let (op, size) = (take_bytes(bytes)?.to_vec(), take(bytes)?);
            let index_sha256 = take_digest(bytes)?;
            let mut table = take_bytes(bytes)?;
            let part = u32::try_from(number).map_err(|_| too_much())?;
            let mut offset = 0_u64;
            while !table.is_empty() {
                let len = u32::try_from(take(&mut table)?).map_err(|_| too_much())?;
                known.chunks.push(KnownChunk { digest: take_digest(&mut table)?, part, len, offset });
                offset = offset.checked_add(len.into()).ok_or_else(too_much)?;
            }
            known.parts.push(Part { op, size, index_sha256, live: 0 });
        }
        known.chunks.sort_unstable_by_key(|chunk| (chunk.digest, chunk.part, chunk.offset));
        Ok(known)
    }

    /// Where a chunk is: right behind `end` if it is there, too, so that what lay together is read together.
    fn find(&self, digest: &[u8; 32], len: usize, end: (u32, u64)) -> Option<(u32, u64)> {
        let first = self.chunks.partition_point(|chunk| chunk.digest < *digest);
        let all = self.chunks[first..].iter().take_while(|chunk| chunk.digest == *digest);
        let places = all.filter(|chunk| chunk.len as usize == len).map(|chunk| (chunk.part, chunk.offset));
        // What comes after it, in the same object, is nearer than what comes before.
        places.min_by_key(|(part, offset)| match (*part == end.0, offset.checked_sub(end.1)) {
            (true, Some(ahead)) => (0, ahead),
            (true, None) => (1, end.1 - offset),
            (false, _) => (2, u64::from(u32::MAX - *part)),
        })
    }
}

fn too_much() -> ArchiveError {
    ArchiveError::corrupted("what is known of earlier archives is unreadable")
}

/// Writes the home at `root` to `sink`, without the chunks in `known` (made by the store of the archives; empty: all
/// are new). Blocks; run it on a thread of its own. On an error the sink has received an unfinished object.
pub fn pack_chunked(
    root: &Path,
    known: &[u8],
    sink: impl Write,
    options: PackOptions,
    progress: &Progress,
    cancel: &CancellationToken,
) -> Result<PackSummary> {
    let known = Known::decode(known)?;
    let (packed, stored, index_sha256) = compress(sink, options, true, |frames| {
        let mut packer = Packer::new(frames, known, progress, cancel);
        gather(root, Bytes::Contents, cancel, &mut |batch| packer.add(batch))?;
        packer.finish()
    })?;
    progress.finish();
    let Packed { uncompressed, entries, skipped, parts } = packed;
    let (size, sha256) = (stored.size(), stored.sha256());
    let format = CHUNKED_FORMAT;
    Ok(PackSummary { size, sha256, uncompressed, entries, skipped, index_sha256, format, parts })
}

struct Packed {
    uncompressed: u64,
    entries: u64,
    skipped: u64,
    parts: Vec<String>,
}

struct Packer<'a> {
    out: &'a mut Frames,
    known: Known,
    /// New ones that are worth finding again: where in the object.
    shared: HashMap<[u8; 32], u64>,
    /// Bytes of new chunks.
    raw: u64,
    table: Vec<u8>,
    /// Where the last chunk ended.
    end: (u32, u64),
    manifest: ChunkedManifest,
    links: Links,
    window: Vec<u8>,
    uncompressed: u64,
    entries: u64,
    skipped: u64,
    progress: &'a Progress,
    cancel: &'a CancellationToken,
}

impl<'a> Packer<'a> {
    fn new(out: &'a mut Frames, known: Known, progress: &'a Progress, cancel: &'a CancellationToken) -> Self {
        Self {
            out,
            known,
            shared: HashMap::new(),
            raw: 0,
            table: Vec::new(),
            end: (0, 0),
            manifest: ChunkedManifest::default(),
            links: Links::default(),
            window: Vec::new(),
            uncompressed: 0,
            entries: 0,
            skipped: 0,
            progress,
            cancel,
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
                    self.add_entry(entry, own)?;
                }
            }
        }
        Ok(())
    }

    fn add_entry(&mut self, entry: Entry, bytes: &[u8]) -> Result<()> {
        let Entry { stat, mut file, digest, xattrs, rest, .. } = entry;
        let (uid, gid) = (stat.st_uid, stat.st_gid);
        if let Some(target) = self.links.first_name(&stat, &file) {
            (file.kind, file.size, file.target) = (FileKind::HardLink, size_of(&stat), target);
            let link =
                ChunkedEntry { file, uid, gid, xattrs: Vec::new(), segments: None, extents: Vec::new() };
            return self.list(&link);
        }
        let (mut segments, mut extents) = (None, Vec::new());
        if let Some(digest) = digest {
            self.add_chunk(bytes, digest, &mut extents)?;
        }
        if let Some(rest) = rest {
            self.add_rest(&file.path, file.size, &rest, &mut extents)?;
            check_unchanged(&file.path, &stat, &rest.file)?;
            let whole = [Segment { offset: 0, len: file.size }];
            segments = (rest.segments != whole).then_some(rest.segments);
        }
        self.list(&ChunkedEntry { file, uid, gid, xattrs, segments, extents })
    }

    fn add_rest(&mut self, path: &[u8], size: u64, rest: &Rest, extents: &mut Vec<Extent>) -> Result<()> {
        let mut window = std::mem::take(&mut self.window);
        window.resize(WINDOW, 0);
        for segment in &rest.segments {
            // As it would be had there been room to read it ahead.
            let one_chunk = size <= SMALL && segment.len == size;
            self.add_segment(path, &rest.file, *segment, one_chunk, &mut window, extents)?;
        }
        self.window = window;
        Ok(())
    }

    fn add_segment(
        &mut self,
        path: &[u8],
        file: &File,
        segment: Segment,
        one_chunk: bool,
        window: &mut [u8],
        extents: &mut Vec<Extent>,
    ) -> Result<()> {
        let (mut at, end) = (segment.offset, segment.offset + segment.len);
        let mut filled = 0;
        while at < end || filled > 0 {
            if self.cancel.is_cancelled() {
                return Err(ArchiveError::Cancelled);
            }
            while at < end && filled < window.len() {
                let room = window.len() - filled;
                let want = usize::try_from(end - at).map_or(room, |left| left.min(room));
                match file.read_at(&mut window[filled..filled + want], at) {
                    Ok(0) => return Err(ArchiveError::changed(path, "shrank")),
                    Ok(got) => (filled, at) = (filled + got, at + got as u64),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(ArchiveError::reading(path, error)),
                }
            }
            let mut used = 0;
            if one_chunk {
                self.add_chunk(&window[..filled], sha256(&window[..filled]), extents)?;
                used = filled;
            } else {
                for chunk in FastCDC::new(&window[..filled], MIN_CHUNK, AVERAGE_CHUNK, MAX_CHUNK) {
                    // Near the end of the window it may be cut by that end and not by its content.
                    if at < end && filled - chunk.offset < MAX_CHUNK {
                        break;
                    }
                    let bytes = &window[chunk.offset..chunk.offset + chunk.length];
                    self.add_chunk(bytes, sha256(bytes), extents)?;
                    used = chunk.offset + chunk.length;
                }
            }
            window.copy_within(used..filled, 0);
            filled -= used;
        }
        Ok(())
    }

    /// Makes sure that a chunk is somewhere, and says where.
    fn add_chunk(&mut self, bytes: &[u8], digest: [u8; 32], extents: &mut Vec<Extent>) -> Result<()> {
        let len = bytes.len();
        if len == 0 {
            return Ok(());
        }
        let own = || self.shared.get(&digest).map(|offset| (0, *offset));
        let (part, offset) = match self.known.find(&digest, len, self.end).or_else(own) {
            Some(place) => place,
            None => {
                let offset = self.raw;
                self.out.write_all(bytes).map_err(writing)?;
                self.raw += len as u64;
                put(&mut self.table, len as u64);
                self.table.extend_from_slice(&digest);
                if self.table.len() >= TABLE_PIECE {
                    self.out.attach_chunks(&self.table).map_err(writing)?;
                    self.table.clear();
                }
                if len >= MIN_SHARED {
                    self.shared.insert(digest, offset);
                }
                (0, offset)
            }
        };
        let len = len as u64;
        self.count(len);
        if let Some(known) = (part as usize).checked_sub(1).and_then(|at| self.known.parts.get_mut(at)) {
            known.live += len;
        }
        self.end = (part, offset + len);
        match extents.last_mut() {
            Some(last) if (last.part, last.offset + last.len) == (part, offset) => last.len += len,
            _ => extents.push(Extent { part, offset, len }),
        }
        Ok(())
    }

    fn list(&mut self, entry: &ChunkedEntry) -> Result<()> {
        let head = entry.head().map_err(|_| {
            let too_large = io::Error::other("its name and extended attributes are too large");
            ArchiveError::reading(&entry.file.path, too_large)
        })?;
        let data = entry.stored();
        self.count((head.len() + header::padding(data)) as u64);
        self.entries += 1;
        match self.manifest.add(entry) {
            Some(piece) => self.out.attach(piece).map_err(writing),
            None => Ok(()),
        }
    }

    fn count(&mut self, bytes: u64) {
        self.uncompressed += bytes;
        self.progress.advance(bytes);
    }

    fn finish(mut self) -> Result<Packed> {
        self.count(header::END.len() as u64);
        self.out.flush().map_err(writing)?;
        if !self.table.is_empty() {
            self.out.attach_chunks(&self.table).map_err(writing)?;
        }
        if let Some(piece) = self.manifest.rest() {
            self.out.attach(piece).map_err(writing)?;
        }
        let used = self.known.parts.iter().filter(|part| part.live > 0);
        let parts = used.map(|part| String::from_utf8_lossy(&part.op).into_owned()).collect();
        self.out.describe_chunks(self.raw, self.known.parts);
        let (uncompressed, entries, skipped) = (self.uncompressed, self.entries, self.skipped);
        Ok(Packed { uncompressed, entries, skipped, parts })
    }
}
