//! The manifest of format 3: every entry with all its metadata, and where its
//! bytes are.
//!
//! A file's bytes are a row of extents: stretches of the chunks that an object
//! holds, of this archive or of an earlier one. What an entry is in a tar
//! stream is made of it again ([`ChunkedEntry::head`]), so a restore is the
//! same as from any other format.

use std::collections::HashMap;

use super::error::{ArchiveError, Result};
use super::header::{self, Header, MAX_XATTRS, Mtime, TarKind, Xattr};
use super::manifest::{
    ArchivedFile, FileKind, Piece, Span, damaged, put, put_bytes, take, take_bytes, unzigzag, zigzag,
};
use super::sparse::{self, MAX_READ_SEGMENTS, Segment};

/// Raw bytes after which a piece ends.
const PIECE: usize = 256 * 1024;

/// A stretch of the chunks of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    /// 0: the archive's own object; else one of [`super::manifest::Chunked::parts`].
    pub(super) part: u32,
    /// In the object's chunks, one after the other and not compressed.
    pub(super) offset: u64,
    pub(super) len: u64,
}

/// An entry of the manifest, whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChunkedEntry {
    pub(super) file: ArchivedFile,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) xattrs: Vec<Xattr>,
    /// Where a file with holes has data.
    pub(super) segments: Option<Vec<Segment>>,
    pub(super) extents: Vec<Extent>,
}

impl ChunkedEntry {
    /// Everything that precedes its bytes in a tar stream.
    pub(super) fn head(&self) -> Result<Vec<u8>> {
        let file = &self.file;
        let kind = match (&file.kind, &self.segments) {
            (FileKind::Directory, _) => TarKind::Directory,
            (FileKind::Symlink, _) => TarKind::Symlink { target: &file.target },
            (FileKind::HardLink, _) => TarKind::HardLink { target: &file.target },
            (FileKind::File, None) => TarKind::File { size: file.size },
            (FileKind::File, Some(segments)) => TarKind::Sparse { size: file.size, segments },
        };
        let header = Header {
            path: &file.path,
            kind,
            mode: file.mode,
            uid: self.uid,
            gid: self.gid,
            mtime: Mtime { seconds: file.mtime_seconds, nanoseconds: file.mtime_nanoseconds },
            xattrs: &self.xattrs,
        };
        let mut out = Vec::with_capacity(3 * header::BLOCK);
        header::encode(&header, &mut out).ok_or_else(damaged)?;
        Ok(out)
    }

    /// Bytes that it has in a tar stream after its head, without padding.
    pub(super) fn stored(&self) -> u64 {
        self.extents.iter().map(|extent| extent.len).sum()
    }

    /// Bytes that it should have there.
    fn data(&self) -> u64 {
        match (&self.file.kind, &self.segments) {
            (FileKind::File, None) => self.file.size,
            (FileKind::File, Some(segments)) => segments.iter().map(|segment| segment.len).sum(),
            _ => 0,
        }
    }
}

/// Collects entries into pieces.
#[derive(Default)]
pub(super) struct ChunkedManifest {
    bytes: Vec<u8>,
    span: Span,
    ends: Ends,
}

/// Where the last extent of each part ended in a piece: most go on from there.
#[derive(Default)]
struct Ends(HashMap<u32, u64>);

impl Ends {
    fn of(&mut self, part: u32) -> &mut u64 {
        self.0.entry(part).or_default()
    }
}

impl ChunkedManifest {
    /// Adds an entry; returns a piece when one is full.
    pub(super) fn add(&mut self, entry: &ChunkedEntry) -> Option<Piece> {
        let file = &entry.file;
        if self.bytes.is_empty() {
            self.span.first.clone_from(&file.path);
            self.span.last.clear();
            self.ends = Ends::default();
        }
        let shared = self.span.last.iter().zip(&file.path).take_while(|(a, b)| a == b).count();
        let out = &mut self.bytes;
        out.push(file.kind as u8);
        put(out, shared as u64);
        put_bytes(out, &file.path[shared..]);
        put(out, file.mode.into());
        put(out, zigzag(file.mtime_seconds));
        put(out, file.mtime_nanoseconds.into());
        put(out, entry.uid.into());
        put(out, entry.gid.into());
        put(out, entry.xattrs.len() as u64);
        for xattr in &entry.xattrs {
            put_bytes(out, &xattr.name);
            put_bytes(out, &xattr.value);
        }
        put(out, file.size);
        match file.kind {
            FileKind::Directory => {}
            FileKind::Symlink | FileKind::HardLink => put_bytes(out, &file.target),
            FileKind::File => {
                match &entry.segments {
                    None => put(out, 0),
                    Some(segments) => {
                        put(out, segments.len() as u64 + 1);
                        for segment in segments {
                            put(out, segment.offset);
                            put(out, segment.len);
                        }
                    }
                }
                put(out, entry.extents.len() as u64);
                for extent in &entry.extents {
                    let end = self.ends.of(extent.part);
                    put(out, extent.part.into());
                    put(out, zigzag(extent.offset.wrapping_sub(*end).cast_signed()));
                    put(out, extent.len);
                    *end = extent.offset + extent.len;
                }
            }
        }
        self.span.last.clone_from(&file.path);
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

/// Reads the entries of a piece, in order. Extents are checked for adding up, not for being there.
pub(super) fn read_chunked_piece(
    mut bytes: &[u8],
    visit: &mut dyn FnMut(ChunkedEntry) -> Result<bool>,
) -> Result<()> {
    let mut path: Vec<u8> = Vec::new();
    let mut ends = Ends::default();
    let bytes = &mut bytes;
    let short = |bytes: &mut &[u8]| u32::try_from(take(bytes)?).map_err(|_| damaged());
    while let Some((kind, rest)) = bytes.split_first() {
        *bytes = rest;
        let kind = match kind {
            0 => FileKind::Directory,
            1 => FileKind::File,
            2 => FileKind::Symlink,
            3 => FileKind::HardLink,
            _ => return Err(damaged()),
        };
        let shared = usize::try_from(take(bytes)?).map_err(|_| damaged())?;
        if shared > path.len() {
            return Err(damaged());
        }
        path.truncate(shared);
        path.extend_from_slice(take_bytes(bytes)?);
        let mode = short(bytes)?;
        let mtime_seconds = unzigzag(take(bytes)?);
        let mtime_nanoseconds = short(bytes)?;
        let (uid, gid) = (short(bytes)?, short(bytes)?);
        let mut xattrs = Vec::new();
        for _ in 0..take(bytes)? {
            if xattrs.len() == MAX_XATTRS {
                return Err(ArchiveError::refused("too many extended attributes"));
            }
            let (name, value) = (take_bytes(bytes)?.to_vec(), take_bytes(bytes)?.to_vec());
            xattrs.push(Xattr { name, value });
        }
        let size = take(bytes)?;
        let mut file = ArchivedFile {
            path: path.clone(),
            kind,
            size,
            mode,
            mtime_seconds,
            mtime_nanoseconds,
            target: Vec::new(),
            offset: 0,
        };
        let (mut segments, mut extents) = (None, Vec::new());
        match kind {
            FileKind::Directory => {}
            FileKind::Symlink | FileKind::HardLink => file.target = take_bytes(bytes)?.to_vec(),
            FileKind::File => {
                segments = read_segments(bytes)?;
                for _ in 0..take(bytes)? {
                    let part = short(bytes)?;
                    let end = ends.of(part);
                    let offset = end.wrapping_add_signed(unzigzag(take(bytes)?));
                    let len = take(bytes)?;
                    *end = offset.checked_add(len).ok_or_else(damaged)?;
                    extents.push(Extent { part, offset, len });
                }
            }
        }
        let entry = ChunkedEntry { file, uid, gid, xattrs, segments, extents };
        entry.check()?;
        if !visit(entry)? {
            return Ok(());
        }
    }
    Ok(())
}

fn read_segments(bytes: &mut &[u8]) -> Result<Option<Vec<Segment>>> {
    let Some(count) = take(bytes)?.checked_sub(1) else { return Ok(None) };
    if count > MAX_READ_SEGMENTS as u64 {
        return Err(ArchiveError::refused("a file with too many holes"));
    }
    let segments = (0..count).map(|_| Ok(Segment { offset: take(bytes)?, len: take(bytes)? }));
    segments.collect::<Result<_>>().map(Some)
}

impl ChunkedEntry {
    /// Whether what was read makes sense in itself.
    fn check(&self) -> Result<()> {
        let mut stored = 0_u64;
        for extent in &self.extents {
            stored = stored.checked_add(extent.len).ok_or_else(damaged)?;
        }
        if let Some(segments) = &self.segments {
            sparse::check(segments, self.file.size, stored).map_err(ArchiveError::corrupted)?;
        }
        if stored == self.data() { Ok(()) } else { Err(damaged()) }
    }
}
