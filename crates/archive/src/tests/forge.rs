//! Tar streams as only an attacker writes them.

use super::super::header::{self, Header, Mtime, TarKind, record};

/// Builds tar streams that no honest program writes.
#[derive(Default)]
pub(super) struct Forge(pub(super) Vec<u8>);

impl Forge {
    pub(super) fn entry(mut self, path: &str, kind: TarKind<'_>) -> Self {
        let header = Header {
            path: path.as_bytes(),
            kind,
            mode: 0o755,
            uid: 0,
            gid: 0,
            mtime: Mtime::default(),
            xattrs: &[],
        };
        header::encode(&header, &mut self.0).unwrap();
        self
    }

    pub(super) fn dir(self, path: &str) -> Self {
        self.entry(path, TarKind::Directory)
    }

    pub(super) fn file(self, path: &str, data: &[u8]) -> Self {
        let size = data.len() as u64;
        self.entry(path, TarKind::File { size }).raw(data)
    }

    pub(super) fn symlink(self, path: &str, target: &str) -> Self {
        let target = target.as_bytes();
        self.entry(path, TarKind::Symlink { target })
    }

    pub(super) fn link(self, path: &str, target: &str) -> Self {
        let target = target.as_bytes();
        self.entry(path, TarKind::HardLink { target })
    }

    /// Bytes, filled up to a whole block.
    pub(super) fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    /// Changes the last header and mends its checksum.
    pub(super) fn patch(mut self, at: usize, bytes: &[u8]) -> Self {
        let start = self.0.len() - 512;
        let block = &mut self.0[start..];
        block[at..at + bytes.len()].copy_from_slice(bytes);
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|b| u32::from(*b)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self
    }

    /// An extended header before whatever comes next.
    pub(super) fn pax(self, flag: u8, records: &[(&str, &[u8])]) -> Self {
        let mut body = Vec::new();
        for (key, value) in records {
            record(&mut body, key.as_bytes(), value);
        }
        let size = format!("{:011o}\0", body.len());
        self.entry("pax", TarKind::File { size: 0 })
            .patch(124, size.as_bytes())
            .patch(156, &[flag])
            .raw(&body)
    }

    pub(super) fn typed(self, path: &str, flag: u8) -> Self {
        self.entry(path, TarKind::File { size: 0 }).patch(156, &[flag])
    }

    pub(super) fn end(mut self) -> Vec<u8> {
        self.0.extend_from_slice(&header::END);
        self.0
    }
}

/// A sparse entry for a file of 1,000 bytes.
pub(super) fn sparse(map: &[u8], stored: u64) -> Vec<u8> {
    let records: [(&str, &[u8]); 4] = [
        ("GNU.sparse.major", b"1"),
        ("GNU.sparse.minor", b"0"),
        ("GNU.sparse.name", b"s"),
        ("GNU.sparse.realsize", b"1000"),
    ];
    let kind = TarKind::File { size: stored };
    let forge = Forge::default().pax(b'x', &records).entry("s", kind);
    forge.raw(map).raw(&[1; 16]).end()
}
