//! Hashes and counts what passes through a reader or writer.

use std::io::{self, Read, Write};

use sha2::{Digest, Sha256};

/// Lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The digest of bytes that are all there.
pub(super) fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

pub(super) struct Hashed<T> {
    inner: T,
    sha256: Sha256,
    size: u64,
}

impl<T> Hashed<T> {
    pub(super) fn new(inner: T) -> Self {
        Self { inner, sha256: Sha256::new(), size: 0 }
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Lower-case hexadecimal.
    pub(super) fn sha256(self) -> String {
        hex(&self.sha256.finalize())
    }

    fn passed(&mut self, bytes: &[u8]) {
        self.sha256.update(bytes);
        self.size += bytes.len() as u64;
    }
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.passed(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.inner.read(buffer)?;
        self.passed(&buffer[..got]);
        Ok(got)
    }
}
