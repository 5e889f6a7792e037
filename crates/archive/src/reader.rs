//! Reads tar entries: ours, and what GNU tar writes in any of its formats.
//!
//! Strict where readers are known to disagree: sizes on entries that have no
//! data, keywords given twice, missing end marks and anything after them are
//! errors, never guesses.

use std::io::BufRead;

use super::attrs::Attrs;
use super::error::{ArchiveError, Result, show};
use super::header::{BLOCK, MAX_PAX, Mtime, padding};
use super::pax::{Pax, Records, bad_map, number};
use super::sparse::{self, MAX_READ_SEGMENTS, Segment};

#[derive(Debug)]
pub(super) struct Entry {
    /// As stored: not yet known to be harmless.
    pub(super) path: Vec<u8>,
    pub(super) kind: EntryKind,
    pub(super) attrs: Attrs,
}

#[derive(Debug)]
pub(super) enum EntryKind {
    Directory,
    /// Data follows: the segments, one after the other, in a file of `size`.
    File {
        size: u64,
        segments: Vec<Segment>,
    },
    Symlink {
        target: Vec<u8>,
    },
    HardLink {
        target: Vec<u8>,
    },
}

pub(super) struct Reader<R> {
    input: R,
    /// Data of the current entry not read yet.
    left: u64,
    /// Zero bytes after it.
    padding: usize,
}

type Raw = [u8; BLOCK];

impl<R: BufRead> Reader<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input, left: 0, padding: 0 }
    }

    /// The next entry, or `None` after a proper end with nothing behind it.
    pub(super) fn next(&mut self) -> Result<Option<Entry>> {
        let mut pax = Pax::default();
        let (mut long_name, mut long_link) = (None, None);
        let mut announced = false;
        loop {
            self.end_data()?;
            let block = self.block()?;
            if block == [0; BLOCK] {
                if announced {
                    return Err(ArchiveError::corrupted("an entry is missing after its header"));
                }
                self.end()?;
                return Ok(None);
            }
            check_sum(&block)?;
            announced |= block[156] != b'g';
            let size = numeric(&block[124..136])?;
            match block[156] {
                b'x' => pax.read(&self.small(size)?)?,
                b'g' => harmless(&self.small(size)?)?,
                b'L' => long_name = Some(text(&self.small(size)?)),
                b'K' => long_link = Some(text(&self.small(size)?)),
                _ => return self.entry(&block, pax, long_name, long_link).map(Some),
            }
        }
    }

    fn entry(
        &mut self,
        block: &Raw,
        pax: Pax,
        long_name: Option<Vec<u8>>,
        long_link: Option<Vec<u8>>,
    ) -> Result<Entry> {
        let is_sparse = pax.sparse.size.is_some() || pax.sparse.major.is_some();
        let path = pax.path.or(long_name).unwrap_or_else(|| name(block));
        let path = pax.sparse.name.filter(|_| is_sparse).unwrap_or(path);
        let target = pax.link.or(long_link);
        let target = target.unwrap_or_else(|| text(&block[157..257]));
        let size = match pax.size {
            Some(size) => size,
            None => numeric(&block[124..136])?,
        };
        let is_directory = matches!(block[156], 0 | b'0') && path.ends_with(b"/");

        self.left = size;
        self.padding = padding(size);
        let kind = match block[156] {
            b'5' => EntryKind::Directory,
            _ if is_directory => EntryKind::Directory,
            b'1' => EntryKind::HardLink { target },
            b'2' => EntryKind::Symlink { target },
            b'S' => self.old_sparse(block)?,
            0 | b'0' | b'7' if is_sparse => {
                let real = pax.sparse.size.ok_or_else(bad_map)?;
                let segments = match (pax.sparse.major, pax.sparse.segments) {
                    (Some(1), None) => self.sparse_map()?,
                    (None | Some(0), Some(segments)) => segments,
                    _ => return Err(bad_map()),
                };
                self.sparse(real, segments)?
            }
            0 | b'0' | b'7' => EntryKind::File { size, segments: vec![Segment { offset: 0, len: size }] },
            b'3' | b'4' | b'6' => {
                let path = show(&path);
                return Err(ArchiveError::refused(format!("{path}: a device or FIFO")));
            }
            other => {
                let (path, other) = (show(&path), other.escape_ascii());
                return Err(ArchiveError::refused(format!("{path}: unknown entry type {other}")));
            }
        };
        if self.left > 0 && !matches!(kind, EntryKind::File { .. }) {
            let path = show(&path);
            return Err(ArchiveError::refused(format!("{path}: has unexpected data")));
        }

        let id = |pax: Option<u64>, field: &[u8]| {
            let id = pax.map_or_else(|| numeric(field), Ok)?;
            u32::try_from(id).map_err(|_| ArchiveError::refused("owner is out of range"))
        };
        let attrs = Attrs {
            mode: u32::try_from(numeric(&block[100..108])? & 0o7777).unwrap_or(0),
            uid: id(pax.uid, &block[108..116])?,
            gid: id(pax.gid, &block[116..124])?,
            mtime: match pax.mtime {
                Some(mtime) => mtime,
                None => Mtime { seconds: signed(&block[136..148])?, nanoseconds: 0 },
            },
            xattrs: pax.xattrs,
        };
        Ok(Entry { path, kind, attrs })
    }

    /// Passes the next `len` bytes of data on, piece by piece.
    pub(super) fn data(&mut self, len: u64, sink: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut wanted = len;
        while wanted > 0 {
            let piece = self.input.fill_buf().map_err(|_| cut_off())?;
            if piece.is_empty() || wanted > self.left {
                return Err(cut_off());
            }
            let take = usize::try_from(wanted).map_or(piece.len(), |w| w.min(piece.len()));
            sink(&piece[..take])?;
            self.input.consume(take);
            wanted -= take as u64;
            self.left -= take as u64;
        }
        Ok(())
    }

    /// Moves to the next header. All data must have been asked for.
    fn end_data(&mut self) -> Result<()> {
        if self.left > 0 {
            return Err(ArchiveError::corrupted("an entry has more data than said"));
        }
        let mut rest = [0; BLOCK];
        let rest = &mut rest[..std::mem::take(&mut self.padding)];
        self.input.read_exact(rest).map_err(|_| cut_off())
    }

    /// After the first zero block: another one, then zeros to the end.
    fn end(&mut self) -> Result<()> {
        if self.block()? != [0; BLOCK] {
            return Err(ArchiveError::corrupted("a header is missing"));
        }
        loop {
            let rest = self.input.fill_buf().map_err(|_| cut_off())?;
            if rest.is_empty() {
                return Ok(());
            }
            if rest.iter().any(|byte| *byte != 0) {
                return Err(ArchiveError::corrupted("bytes follow the last entry"));
            }
            let len = rest.len();
            self.input.consume(len);
        }
    }

    fn block(&mut self) -> Result<Raw> {
        let mut block = [0; BLOCK];
        self.input.read_exact(&mut block).map_err(|_| cut_off())?;
        Ok(block)
    }

    /// Reads a whole header extension.
    fn small(&mut self, size: u64) -> Result<Vec<u8>> {
        if size > MAX_PAX as u64 {
            return Err(ArchiveError::refused("a header extension is too large"));
        }
        self.left = size;
        self.padding = padding(size);
        let mut bytes = Vec::new();
        self.data(size, &mut |piece| {
            bytes.extend_from_slice(piece);
            Ok(())
        })?;
        Ok(bytes)
    }

    fn sparse(&self, size: u64, segments: Vec<Segment>) -> Result<EntryKind> {
        sparse::check(&segments, size, self.left).map_err(ArchiveError::refused)?;
        Ok(EntryKind::File { size, segments })
    }

    /// The map at the head of the data (GNU sparse 1.0).
    fn sparse_map(&mut self) -> Result<Vec<Segment>> {
        let mut blocks = Vec::new();
        let mut at = 0;
        let count = usize::try_from(self.map_number(&mut blocks, &mut at)?).unwrap_or(usize::MAX);
        if count > MAX_READ_SEGMENTS {
            return Err(ArchiveError::refused("sparse map is too long"));
        }
        let mut segments = Vec::new();
        for _ in 0..count {
            segments.push(Segment {
                offset: self.map_number(&mut blocks, &mut at)?,
                len: self.map_number(&mut blocks, &mut at)?,
            });
        }
        Ok(segments)
    }

    fn map_number(&mut self, blocks: &mut Vec<u8>, at: &mut usize) -> Result<u64> {
        loop {
            if let Some(len) = blocks[*at..].iter().position(|byte| *byte == b'\n') {
                let value = number(&blocks[*at..*at + len])?;
                *at += len + 1;
                return Ok(value);
            }
            if blocks.len() - *at > 20 || self.left < BLOCK as u64 {
                return Err(bad_map());
            }
            blocks.drain(..std::mem::take(at));
            self.left -= BLOCK as u64;
            blocks.extend_from_slice(&self.block()?);
        }
    }

    /// The map in the header and in blocks after it (old GNU format).
    fn old_sparse(&mut self, block: &Raw) -> Result<EntryKind> {
        let size = numeric(&block[483..495])?;
        let mut segments = old_segments(&block[386..482])?;
        let mut more = block[482] != 0;
        while more {
            let next = self.block()?;
            segments.extend(old_segments(&next[..504])?);
            more = next[504] != 0;
            if segments.len() > MAX_READ_SEGMENTS {
                return Err(ArchiveError::refused("sparse map is too long"));
            }
        }
        self.sparse(size, segments)
    }
}

fn old_segments(fields: &[u8]) -> Result<Vec<Segment>> {
    let used = fields.chunks_exact(24).take_while(|pair| pair[0] != 0);
    used.map(|pair| Ok(Segment { offset: numeric(&pair[..12])?, len: numeric(&pair[12..])? })).collect()
}

fn cut_off() -> ArchiveError {
    ArchiveError::corrupted("the stream ends in the middle")
}

/// Global records would change every later entry; only remarks may.
fn harmless(records: &[u8]) -> Result<()> {
    for record in Records(records) {
        if record?.0 != b"comment" {
            return Err(ArchiveError::refused("a global pax header"));
        }
    }
    Ok(())
}

fn check_sum(block: &Raw) -> Result<()> {
    let blank = |at: usize, byte: u8| if (148..156).contains(&at) { b' ' } else { byte };
    let bytes = block.iter().enumerate().map(|(at, byte)| blank(at, *byte));
    let sum: u64 = bytes.map(u64::from).sum();
    if numeric(&block[148..156])? != sum {
        return Err(ArchiveError::corrupted("a header has a wrong checksum"));
    }
    Ok(())
}

/// Bytes up to the first NUL.
fn text(field: &[u8]) -> Vec<u8> {
    let end = field.iter().position(|byte| *byte == 0);
    field[..end.unwrap_or(field.len())].to_vec()
}

/// Name and prefix; only true ustar has a prefix there.
fn name(block: &Raw) -> Vec<u8> {
    let name = text(&block[..100]);
    let prefix = text(&block[345..500]);
    if &block[257..263] != b"ustar\0" || prefix.is_empty() {
        return name;
    }
    [&prefix[..], b"/", &name].concat()
}

/// Octal with spaces and NULs around it, or GNU's base 256.
fn numeric(field: &[u8]) -> Result<u64> {
    u64::try_from(signed(field)?).map_err(|_| ArchiveError::corrupted("a number in a header is negative"))
}

fn signed(field: &[u8]) -> Result<i64> {
    let unreadable = || ArchiveError::corrupted("a number in a header is unreadable");
    if let Some(first) = field.first().filter(|byte| **byte >= 0x80) {
        let start = if *first == 0xff { -1 } else { i128::from(first & 0x7f) };
        let value = field[1..]
            .iter()
            .try_fold(start, |value: i128, byte| value.checked_mul(256).map(|v| v + i128::from(*byte)));
        return value.and_then(|value| i64::try_from(value).ok()).ok_or_else(unreadable);
    }
    let digits = field.trim_ascii();
    let end = digits.iter().position(|byte| matches!(byte, 0 | b' '));
    let digits = &digits[..end.unwrap_or(digits.len())];
    digits.iter().try_fold(0_i64, |value, byte| match byte {
        b'0'..=b'7' => value.checked_mul(8).map(|v| v + i64::from(byte - b'0')).ok_or_else(unreadable),
        _ => Err(unreadable()),
    })
}
