//! Writes tar entry headers: ustar blocks, with pax records where ustar
//! cannot say it.
//!
//! Own code rather than a library's, because what a home needs is exactly
//! what libraries leave out: nanosecond times, extended attributes, sparse
//! files, names that are not UTF-8. Everything written here is read by GNU
//! tar. Nothing depends on the clock, the process or the machine, so the same
//! entry always gives the same bytes.

use std::io::Write;

use super::sparse::Segment;

pub(super) const BLOCK: usize = 512;

/// Largest pax header written and accepted: several maximal extended
/// attributes, but no way to make the reader hold a home in memory.
pub(super) const MAX_PAX: usize = 4 * 1024 * 1024;

/// More names than the kernel can list.
pub(super) const MAX_XATTRS: usize = 10_000;

pub(super) const XATTR_PREFIX: &[u8] = b"SCHILY.xattr.";

/// Seconds and nanoseconds since 1970; before it, seconds are negative and
/// nanoseconds still count forward.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mtime {
    pub(super) seconds: i64,
    pub(super) nanoseconds: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Xattr {
    pub(super) name: Vec<u8>,
    pub(super) value: Vec<u8>,
}

pub(super) struct Header<'a> {
    pub(super) path: &'a [u8],
    pub(super) kind: TarKind<'a>,
    /// Permission bits with setuid, setgid and sticky.
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) mtime: Mtime,
    pub(super) xattrs: &'a [Xattr],
}

#[derive(Clone, Copy)]
pub(super) enum TarKind<'a> {
    Directory,
    File { size: u64 },
    Sparse { size: u64, segments: &'a [Segment] },
    Symlink { target: &'a [u8] },
    HardLink { target: &'a [u8] },
}

/// Appends everything that precedes the entry's data; `None` when its
/// attributes are larger than an archive may hold.
pub(super) fn encode(header: &Header<'_>, out: &mut Vec<u8>) -> Option<()> {
    let mut pax = Vec::new();
    let mut name = header.path.to_vec();
    let mut link: &[u8] = b"";
    let mut map = Vec::new();
    let (flag, size) = match header.kind {
        TarKind::Directory => {
            name.push(b'/');
            if header.path.is_empty() {
                name = b"./".to_vec();
            }
            (b'5', 0)
        }
        TarKind::File { size } => (b'0', size),
        TarKind::Sparse { size, segments } => {
            map = sparse_map(size, segments);
            record(&mut pax, b"GNU.sparse.major", b"1");
            record(&mut pax, b"GNU.sparse.minor", b"0");
            record(&mut pax, b"GNU.sparse.name", &name);
            record(&mut pax, b"GNU.sparse.realsize", text(size).as_bytes());
            name = labelled(b"GNUSparseFile.0/", &name);
            let data: u64 = segments.iter().map(|s| s.len).sum();
            (b'0', map.len() as u64 + data)
        }
        TarKind::Symlink { target } => {
            link = target;
            (b'2', 0)
        }
        TarKind::HardLink { target } => {
            link = target;
            (b'1', 0)
        }
    };

    // A hard link is only a name; what it names carries the metadata.
    let mtime = match header.kind {
        TarKind::HardLink { .. } => Mtime::default(),
        _ => header.mtime,
    };
    if name.len() > 100 {
        record(&mut pax, b"path", &name);
    }
    if link.len() > 100 {
        record(&mut pax, b"linkpath", link);
    }
    if octal_max(12) < size {
        record(&mut pax, b"size", text(size).as_bytes());
    }
    for (key, id) in [(b"uid", header.uid), (b"gid", header.gid)] {
        if octal_max(8) < u64::from(id) {
            record(&mut pax, key, text(id.into()).as_bytes());
        }
    }
    let whole_seconds = u64::try_from(mtime.seconds).ok();
    let plain_mtime = whole_seconds.filter(|s| mtime.nanoseconds == 0 && *s <= octal_max(12));
    if plain_mtime.is_none() {
        record(&mut pax, b"mtime", decimal(mtime).as_bytes());
    }
    for xattr in header.xattrs {
        record(&mut pax, &xattr_key(&xattr.name), &xattr.value);
    }
    if pax.len() > MAX_PAX || header.xattrs.len() > MAX_XATTRS {
        return None;
    }

    if !pax.is_empty() {
        let label = labelled(b"PaxHeaders.0/", header.path);
        let block =
            Block { name: &label, mode: 0o644, size: pax.len() as u64, flag: b'x', ..Block::default() };
        out.extend_from_slice(&block.encode());
        out.extend_from_slice(&pax);
        pad(out);
    }
    let block = Block {
        name: &name,
        mode: header.mode,
        uid: header.uid.into(),
        gid: header.gid.into(),
        size,
        mtime: whole_seconds.unwrap_or(0),
        flag,
        link,
    };
    out.extend_from_slice(&block.encode());
    out.extend_from_slice(&map);
    Some(())
}

/// The two zero blocks that end a tar stream.
pub(super) const END: [u8; 2 * BLOCK] = [0; 2 * BLOCK];

/// Zero bytes that follow `size` bytes of data.
pub(super) fn padding(size: u64) -> usize {
    let over = usize::try_from(size % BLOCK as u64).unwrap_or(0);
    (BLOCK - over) % BLOCK
}

fn pad(out: &mut Vec<u8>) {
    let missing = padding(out.len() as u64);
    out.resize(out.len() + missing, 0);
}

#[derive(Default)]
struct Block<'a> {
    name: &'a [u8],
    mode: u32,
    uid: u64,
    gid: u64,
    size: u64,
    mtime: u64,
    flag: u8,
    link: &'a [u8],
}

impl Block<'_> {
    fn encode(&self) -> [u8; BLOCK] {
        let mut block = [0; BLOCK];
        bytes(&mut block[0..100], self.name);
        octal(&mut block[100..108], self.mode.into());
        octal(&mut block[108..116], self.uid);
        octal(&mut block[116..124], self.gid);
        octal(&mut block[124..136], self.size);
        octal(&mut block[136..148], self.mtime);
        block[148..156].fill(b' ');
        block[156] = self.flag;
        bytes(&mut block[157..257], self.link);
        block[257..265].copy_from_slice(b"ustar\x0000");
        octal(&mut block[329..337], 0);
        octal(&mut block[337..345], 0);
        let sum: u64 = block.iter().map(|byte| u64::from(*byte)).sum();
        octal(&mut block[148..155], sum);
        block
    }
}

fn bytes(field: &mut [u8], value: &[u8]) {
    let len = value.len().min(field.len());
    field[..len].copy_from_slice(&value[..len]);
}

/// Largest number an octal field of `width` bytes holds, its NUL included.
fn octal_max(width: u32) -> u64 {
    (1 << (3 * (width - 1))) - 1
}

/// Zero-filled octal with a NUL; zero where it does not fit, because then a
/// pax record says it.
fn octal(field: &mut [u8], value: u64) {
    let digits = field.len() - 1;
    let fits = value >> (3 * digits) == 0;
    let mut rest = if fits { value } else { 0 };
    for digit in field[..digits].iter_mut().rev() {
        *digit = b'0' + (rest & 7) as u8;
        rest >>= 3;
    }
}

fn text(number: u64) -> String {
    number.to_string()
}

/// `1.25`, `-0.5`: decimal seconds, exact.
fn decimal(time: Mtime) -> String {
    let total = i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanoseconds);
    let sign = if total < 0 { "-" } else { "" };
    let (seconds, nanos) = (total.abs() / 1_000_000_000, total.abs() % 1_000_000_000);
    if nanos == 0 {
        return format!("{sign}{seconds}");
    }
    let fraction = format!("{nanos:09}");
    format!("{sign}{seconds}.{}", fraction.trim_end_matches('0'))
}

/// A placeholder name for readers that do not know the pax records.
fn labelled(label: &[u8], path: &[u8]) -> Vec<u8> {
    let base = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    let room = 100 - label.len();
    [label, &base[..base.len().min(room)]].concat()
}

/// `=` ends a pax keyword, so GNU tar escapes it in attribute names.
fn xattr_key(name: &[u8]) -> Vec<u8> {
    let mut key = XATTR_PREFIX.to_vec();
    for byte in name {
        match byte {
            b'=' => key.extend_from_slice(b"%3D"),
            b'%' => key.extend_from_slice(b"%25"),
            _ => key.push(*byte),
        }
    }
    key
}

/// One pax record: its own length, which counts itself, then `key=value`.
pub(super) fn record(out: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    let body = key.len() + value.len() + 3;
    let mut len = body + 1;
    while body + text(len as u64).len() != len {
        len = body + text(len as u64).len();
    }
    out.extend_from_slice(text(len as u64).as_bytes());
    out.push(b' ');
    out.extend_from_slice(key);
    out.push(b'=');
    out.extend_from_slice(value);
    out.push(b'\n');
}

/// GNU sparse format 1.0: decimal numbers, one a line, at the head of the
/// data. An empty last segment tells how far a closing hole reaches.
fn sparse_map(size: u64, segments: &[Segment]) -> Vec<u8> {
    let closing = match segments.last() {
        Some(last) if last.offset + last.len == size => None,
        _ => Some(Segment { offset: size, len: 0 }),
    };
    let all = segments.iter().copied().chain(closing);
    let mut map = Vec::new();
    // Writing to a Vec cannot fail.
    let _ = writeln!(map, "{}", segments.len() + closing.iter().len());
    for segment in all {
        let _ = writeln!(map, "{}\n{}", segment.offset, segment.len);
    }
    pad(&mut map);
    map
}
