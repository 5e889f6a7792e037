//! What is in an archive and where: written along with it, so that one file
//! can be found without reading the rest.
//!
//! The manifest is written in pieces while the home is walked, because a home
//! may have more files than memory. The index at the end tells where each
//! piece is and from which path to which it goes, and where each frame is.
//! Paths are in walk order: a directory before what is in it, names by their
//! bytes.
//!
//! Everything read here comes from a store and is checked like it: numbers
//! that lead nowhere are corruption, and no number decides about memory.

use std::cmp::Ordering;

use super::error::{ArchiveError, Result};

/// Raw bytes after which a piece ends.
const PIECE: usize = 256 * 1024;

/// A pax tar stream in zstd frames, with a manifest and an index in skippable
/// ones. Format 1 was the same stream in one frame.
pub(super) const TAR_FORMAT: u32 = 2;
/// Chunks in zstd frames, as far as no earlier archive has them, and a manifest
/// that says where each is.
pub(super) const CHUNKED_FORMAT: u32 = 3;

/// Begins and ends an archive of format 2.
pub(super) const MAGIC: &[u8; 8] = b"CODEHUB2";
/// Begins and ends an archive of format 3.
pub(super) const CHUNKED_MAGIC: &[u8; 8] = b"CODEHUB3";
pub(super) const TRAILER: usize = 16;

/// Largest piece or index that is believed.
pub(super) const MAX_RAW: usize = 256 * 1024 * 1024;

/// What an entry of an archive is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A directory.
    Directory,
    /// A file with bytes of its own.
    File,
    /// A symbolic link; `target` is what it says.
    Symlink,
    /// Another name of a file; `target` is its first.
    HardLink,
}

/// An entry of the manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchivedFile {
    /// Relative to the home; empty for the home itself.
    pub path: Vec<u8>,
    /// What it is.
    pub kind: FileKind,
    /// Bytes of a file, holes included; 0 for everything else.
    pub size: u64,
    /// Permission bits with setuid, setgid and sticky.
    pub mode: u32,
    /// Seconds since 1970; negative before.
    pub mtime_seconds: i64,
    /// Below a second.
    pub mtime_nanoseconds: u32,
    /// Of links.
    pub target: Vec<u8>,
    /// Of the entry's first header in the tar stream.
    pub(super) offset: u64,
}

/// From which path to which a piece goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) first: Vec<u8>,
    pub(super) last: Vec<u8>,
}

pub(super) struct Piece {
    pub(super) bytes: Vec<u8>,
    pub(super) span: Span,
}

/// Collects entries into pieces.
#[derive(Default)]
pub(super) struct Manifest {
    bytes: Vec<u8>,
    span: Span,
}

impl Manifest {
    /// Adds an entry; returns a piece when one is full.
    pub(super) fn add(&mut self, entry: &ArchivedFile) -> Option<Piece> {
        if self.bytes.is_empty() {
            self.span.first.clone_from(&entry.path);
            self.span.last.clear();
        }
        let shared = self.span.last.iter().zip(&entry.path).take_while(|(a, b)| a == b).count();
        let out = &mut self.bytes;
        out.push(entry.kind as u8);
        put(out, shared as u64);
        put_bytes(out, &entry.path[shared..]);
        put(out, entry.size);
        put(out, entry.mode.into());
        put(out, zigzag(entry.mtime_seconds));
        put(out, entry.mtime_nanoseconds.into());
        put(out, entry.offset);
        if matches!(entry.kind, FileKind::Symlink | FileKind::HardLink) {
            put_bytes(out, &entry.target);
        }
        self.span.last.clone_from(&entry.path);
        if self.bytes.len() >= PIECE { self.rest() } else { None }
    }

    /// What is not in a piece yet.
    pub(super) fn rest(&mut self) -> Option<Piece> {
        if self.bytes.is_empty() {
            return None;
        }
        Some(Piece { bytes: std::mem::take(&mut self.bytes), span: self.span.clone() })
    }
}

/// Reads the entries of a piece, in order.
pub(super) fn read_piece(
    mut bytes: &[u8],
    visit: &mut dyn FnMut(ArchivedFile) -> Result<bool>,
) -> Result<()> {
    let mut path: Vec<u8> = Vec::new();
    while let Some((kind, rest)) = bytes.split_first() {
        bytes = rest;
        let kind = match kind {
            0 => FileKind::Directory,
            1 => FileKind::File,
            2 => FileKind::Symlink,
            3 => FileKind::HardLink,
            _ => return Err(damaged()),
        };
        let shared = usize::try_from(take(&mut bytes)?).map_err(|_| damaged())?;
        if shared > path.len() {
            return Err(damaged());
        }
        path.truncate(shared);
        path.extend_from_slice(take_bytes(&mut bytes)?);
        let size = take(&mut bytes)?;
        let mode = u32::try_from(take(&mut bytes)?).map_err(|_| damaged())?;
        let mtime_seconds = unzigzag(take(&mut bytes)?);
        let mtime_nanoseconds = u32::try_from(take(&mut bytes)?).map_err(|_| damaged())?;
        let offset = take(&mut bytes)?;
        let target = match kind {
            FileKind::Directory | FileKind::File => Vec::new(),
            FileKind::Symlink | FileKind::HardLink => take_bytes(&mut bytes)?.to_vec(),
        };
        let path = path.clone();
        let entry = ArchivedFile { path, kind, size, mode, mtime_seconds, mtime_nanoseconds, target, offset };
        if !visit(entry)? {
            return Ok(());
        }
    }
    Ok(())
}

/// Where everything is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Index {
    /// Start and length of each frame, in order.
    pub(super) frames: Vec<(u64, u32)>,
    /// Start, length and span of each piece of the manifest.
    pub(super) pieces: Vec<(u64, u32, Span)>,
    /// SHA-256 of each frame and of each piece as they are stored, in order; none in archives from before they had them.
    pub(super) frame_digests: Vec<[u8; 32]>,
    pub(super) piece_digests: Vec<[u8; 32]>,
    /// Of format 3 only.
    pub(super) chunked: Option<Chunked>,
}

/// What the index of format 3 says beyond that of format 2.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Chunked {
    /// Bytes of chunks in this object, before compression.
    pub(super) raw: u64,
    /// Start, length and digest of each piece of the table of its chunks.
    pub(super) tables: Vec<(u64, u32)>,
    pub(super) table_digests: Vec<[u8; 32]>,
    /// Other archives' objects that this one refers to. In extents they are 1 and up; 0 is the object itself.
    pub(super) parts: Vec<Part>,
}

/// An object of an earlier archive, and how much of it is still needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// The operation that made it.
    pub(super) op: Vec<u8>,
    /// Its stored bytes.
    pub(super) size: u64,
    /// Of its index, as in [`super::ArchiveMeta::index_sha256`].
    pub(super) index_sha256: [u8; 32],
    /// Bytes of chunks that extents refer to, before compression; what is referred to twice counts twice.
    pub(super) live: u64,
}

impl Index {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put(&mut out, self.frames.len() as u64);
        for (start, len) in &self.frames {
            put(&mut out, *start);
            put(&mut out, (*len).into());
        }
        put(&mut out, self.pieces.len() as u64);
        for (start, len, span) in &self.pieces {
            put(&mut out, *start);
            put(&mut out, (*len).into());
            put_bytes(&mut out, &span.first);
            put_bytes(&mut out, &span.last);
        }
        let mut tables: &[[u8; 32]] = &[];
        if let Some(chunked) = &self.chunked {
            chunked.encode(&mut out);
            tables = &chunked.table_digests;
        }
        for digest in self.frame_digests.iter().chain(&self.piece_digests).chain(tables) {
            out.extend_from_slice(digest);
        }
        out
    }

    /// Of an object that ended with this mark ([`Index::read_trailer`]).
    pub(super) fn decode(mut bytes: &[u8], magic: [u8; 8]) -> Result<Self> {
        let bytes = &mut bytes;
        let mut index = Self::default();
        let short = |bytes: &mut &[u8]| u32::try_from(take(bytes)?).map_err(|_| damaged());
        for _ in 0..take(bytes)? {
            index.frames.push((take(bytes)?, short(bytes)?));
        }
        for _ in 0..take(bytes)? {
            let (start, len) = (take(bytes)?, short(bytes)?);
            let span = Span { first: take_bytes(bytes)?.to_vec(), last: take_bytes(bytes)?.to_vec() };
            index.pieces.push((start, len, span));
        }
        if magic == *CHUNKED_MAGIC {
            index.chunked = Some(Chunked::decode(bytes)?);
        } else if bytes.is_empty() {
            return Ok(index);
        }
        let tables = index.chunked.as_ref().map_or(0, |chunked| chunked.tables.len());
        let (digests, rest) = bytes.as_chunks::<32>();
        if !rest.is_empty() || digests.len() != index.frames.len() + index.pieces.len() + tables {
            return Err(damaged());
        }
        let (frames, digests) = digests.split_at(index.frames.len());
        let (pieces, tables) = digests.split_at(index.pieces.len());
        (index.frame_digests, index.piece_digests) = (frames.to_vec(), pieces.to_vec());
        if let Some(chunked) = &mut index.chunked {
            chunked.table_digests = tables.to_vec();
        }
        Ok(index)
    }

    fn magic(&self) -> &'static [u8; 8] {
        if self.chunked.is_some() { CHUNKED_MAGIC } else { MAGIC }
    }

    /// Ends the object: where the index begins.
    pub(super) fn trailer(&self, at: u64) -> [u8; TRAILER] {
        let mut trailer = [0; TRAILER];
        trailer[..8].copy_from_slice(&at.to_le_bytes());
        trailer[8..].copy_from_slice(self.magic());
        trailer
    }

    /// Where the index begins, and which format's it is.
    pub(super) fn read_trailer(trailer: &[u8]) -> Result<(u64, [u8; 8])> {
        let (at, magic) = trailer.split_at_checked(8).ok_or_else(damaged)?;
        let magic: [u8; 8] = magic.try_into().map_err(|_| damaged())?;
        if magic != *MAGIC && magic != *CHUNKED_MAGIC {
            return Err(damaged());
        }
        Ok((u64::from_le_bytes(at.try_into().map_err(|_| damaged())?), magic))
    }
}

impl Chunked {
    /// Everything but the digests.
    fn encode(&self, out: &mut Vec<u8>) {
        put(out, self.raw);
        put(out, self.tables.len() as u64);
        for (start, len) in &self.tables {
            put(out, *start);
            put(out, (*len).into());
        }
        put(out, self.parts.len() as u64);
        for part in &self.parts {
            put_bytes(out, &part.op);
            put(out, part.size);
            out.extend_from_slice(&part.index_sha256);
            put(out, part.live);
        }
    }

    fn decode(bytes: &mut &[u8]) -> Result<Self> {
        let mut chunked = Self { raw: take(bytes)?, ..Self::default() };
        for _ in 0..take(bytes)? {
            let (start, len) = (take(bytes)?, u32::try_from(take(bytes)?).map_err(|_| damaged())?);
            chunked.tables.push((start, len));
        }
        for _ in 0..take(bytes)? {
            let (op, size) = (take_bytes(bytes)?.to_vec(), take(bytes)?);
            let index_sha256 = take_digest(bytes)?;
            chunked.parts.push(Part { op, size, index_sha256, live: take(bytes)? });
        }
        Ok(chunked)
    }
}

/// The order of the walk.
pub(super) fn walk_order(a: &[u8], b: &[u8]) -> Ordering {
    let names = |path: &'_ [u8]| -> Vec<Vec<u8>> {
        if path.is_empty() {
            Vec::new()
        } else {
            path.split(|byte| *byte == b'/').map(<[u8]>::to_vec).collect()
        }
    };
    names(a).cmp(&names(b))
}

/// Whether `path` is below the directory `dir` (the home is empty).
pub(super) fn is_below(path: &[u8], dir: &[u8]) -> bool {
    match path.strip_prefix(dir) {
        Some(rest) if dir.is_empty() => !rest.is_empty(),
        Some(rest) => rest.starts_with(b"/"),
        None => false,
    }
}

/// The name in `dir` under which `path`, which is below it, is found.
pub(super) fn child<'a>(path: &'a [u8], dir: &[u8]) -> &'a [u8] {
    let rest = &path[if dir.is_empty() { 0 } else { dir.len() + 1 }..];
    rest.split(|byte| *byte == b'/').next().unwrap_or(rest)
}

pub(super) fn damaged() -> ArchiveError {
    ArchiveError::corrupted("its list of files is damaged")
}

pub(super) fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

pub(super) fn take(bytes: &mut &[u8]) -> Result<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first().ok_or_else(damaged)?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(damaged())
}

pub(super) fn take_bytes<'a>(bytes: &mut &'a [u8]) -> Result<&'a [u8]> {
    let len = usize::try_from(take(bytes)?).map_err(|_| damaged())?;
    let (taken, rest) = bytes.split_at_checked(len).ok_or_else(damaged)?;
    *bytes = rest;
    Ok(taken)
}

pub(super) fn take_digest(bytes: &mut &[u8]) -> Result<[u8; 32]> {
    let (digest, rest) = bytes.split_first_chunk().ok_or_else(damaged)?;
    *bytes = rest;
    Ok(*digest)
}

pub(super) fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}

pub(super) fn unzigzag(number: u64) -> i64 {
    ((number >> 1) as i64) ^ -((number & 1) as i64)
}
