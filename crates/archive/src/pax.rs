//! Reads pax records: what a ustar block cannot say about an entry.

use super::error::{ArchiveError, Result};
use super::header::{MAX_XATTRS, Mtime, XATTR_PREFIX, Xattr};
use super::sparse::Segment;

/// Everything a pax header said that matters here. Unknown keywords are
/// ignored, as the standard asks; a keyword given twice is refused, because
/// readers disagree about which one counts.
#[derive(Debug, Default)]
pub(super) struct Pax {
    pub(super) path: Option<Vec<u8>>,
    pub(super) link: Option<Vec<u8>>,
    pub(super) size: Option<u64>,
    pub(super) uid: Option<u64>,
    pub(super) gid: Option<u64>,
    pub(super) mtime: Option<Mtime>,
    pub(super) xattrs: Vec<Xattr>,
    pub(super) sparse: Sparse,
}

/// The three ways GNU tar has had of saying it in pax records.
#[derive(Debug, Default)]
pub(super) struct Sparse {
    /// 1 for the map in the data; otherwise it is in the records.
    pub(super) major: Option<u64>,
    pub(super) name: Option<Vec<u8>>,
    pub(super) size: Option<u64>,
    pub(super) segments: Option<Vec<Segment>>,
    offset: Option<u64>,
}

impl Pax {
    /// Reads the records of one extended header.
    pub(super) fn read(&mut self, records: &[u8]) -> Result<()> {
        for record in Records(records) {
            let (key, value) = record?;
            match key {
                b"path" => once(&mut self.path, key, value.to_vec())?,
                b"linkpath" => once(&mut self.link, key, value.to_vec())?,
                b"size" => once(&mut self.size, key, number(value)?)?,
                b"uid" => once(&mut self.uid, key, number(value)?)?,
                b"gid" => once(&mut self.gid, key, number(value)?)?,
                b"mtime" => once(&mut self.mtime, key, time(value)?)?,
                _ => {
                    if let Some(key) = key.strip_prefix(XATTR_PREFIX) {
                        self.xattr(key, value)?;
                    } else if let Some(key) = key.strip_prefix(b"GNU.sparse.") {
                        self.sparse.read(key, value)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn xattr(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if self.xattrs.len() == MAX_XATTRS {
            return Err(ArchiveError::refused("too many extended attributes"));
        }
        let name = unescape(key);
        if name.is_empty() || self.xattrs.iter().any(|x| x.name == name) {
            return Err(ArchiveError::refused("extended attribute given twice"));
        }
        self.xattrs.push(Xattr { name, value: value.to_vec() });
        Ok(())
    }
}

impl Sparse {
    fn read(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        match key {
            b"major" => once(&mut self.major, key, number(value)?),
            b"name" => once(&mut self.name, key, value.to_vec()),
            b"realsize" | b"size" => once(&mut self.size, key, number(value)?),
            b"offset" => {
                self.offset = Some(number(value)?);
                Ok(())
            }
            b"numbytes" => {
                let offset = self.offset.take().ok_or_else(bad_map)?;
                let len = number(value)?;
                let segments = self.segments.get_or_insert_default();
                segments.push(Segment { offset, len });
                Ok(())
            }
            b"map" => {
                let numbers: Vec<u64> =
                    value.split(|byte| *byte == b',').map(number).collect::<Result<_>>()?;
                if !numbers.len().is_multiple_of(2) {
                    return Err(bad_map());
                }
                let pairs = numbers.chunks_exact(2);
                let segments = pairs.map(|pair| Segment { offset: pair[0], len: pair[1] });
                once(&mut self.segments, key, segments.collect())
            }
            _ => Ok(()),
        }
    }
}

fn once<T>(slot: &mut Option<T>, key: &[u8], value: T) -> Result<()> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(ArchiveError::refused(format!("pax keyword {} given twice", key.escape_ascii()))),
    }
}

pub(super) fn bad_map() -> ArchiveError {
    ArchiveError::corrupted("sparse map is unreadable")
}

/// Iterates `length key=value\n` records.
pub(super) struct Records<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for Records<'a> {
    type Item = Result<(&'a [u8], &'a [u8])>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let parsed = self.parse();
        if parsed.is_none() {
            self.0 = b"";
        }
        Some(parsed.ok_or_else(|| ArchiveError::corrupted("pax header is unreadable")))
    }
}

impl<'a> Records<'a> {
    fn parse(&mut self) -> Option<(&'a [u8], &'a [u8])> {
        let space = self.0.iter().take(20).position(|byte| *byte == b' ')?;
        let len = usize::try_from(number(&self.0[..space]).ok()?).ok()?;
        let (record, rest) = self.0.split_at_checked(len)?;
        let body = record.get(space + 1..)?.strip_suffix(b"\n")?;
        let equals = body.iter().position(|byte| *byte == b'=')?;
        self.0 = rest;
        Some((&body[..equals], &body[equals + 1..]))
    }
}

/// Decimal digits, nothing else.
pub(super) fn number(digits: &[u8]) -> Result<u64> {
    std::str::from_utf8(digits)
        .ok()
        .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| ArchiveError::corrupted("a number in a pax header is unreadable"))
}

/// Decimal seconds, with any number of places; beyond nanoseconds they are
/// cut off.
fn time(value: &[u8]) -> Result<Mtime> {
    let (negative, digits) = match value.strip_prefix(b"-") {
        Some(digits) => (true, digits),
        None => (false, value),
    };
    let mut parts = digits.splitn(2, |byte| *byte == b'.');
    let seconds = number(parts.next().unwrap_or_default())?;
    let mut fraction = parts.next().unwrap_or_default().to_vec();
    fraction.resize(9, b'0');
    let nanos = number(&fraction)?;
    let total = i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
    let total = if negative { -total } else { total };
    let seconds = i64::try_from(total.div_euclid(1_000_000_000))
        .map_err(|_| ArchiveError::corrupted("a time in a pax header is out of range"))?;
    Ok(Mtime { seconds, nanoseconds: u32::try_from(total.rem_euclid(1_000_000_000)).unwrap_or(0) })
}

/// Undoes what GNU tar does to `=` and `%` in attribute names.
fn unescape(key: &[u8]) -> Vec<u8> {
    let mut name = Vec::with_capacity(key.len());
    let mut rest = key;
    while let Some((byte, tail)) = rest.split_first() {
        (name, rest) = match (rest.strip_prefix(b"%3D"), rest.strip_prefix(b"%25")) {
            (Some(tail), _) => (push(name, b'='), tail),
            (_, Some(tail)) => (push(name, b'%'), tail),
            _ => (push(name, *byte), tail),
        };
    }
    name
}

fn push(mut name: Vec<u8>, byte: u8) -> Vec<u8> {
    name.push(byte);
    name
}
