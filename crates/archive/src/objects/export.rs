//! Archives for people without a CodeHub that runs: as the tar stream they stand for, or only read.

use std::io::{self, Read, Write};

use tokio_util::sync::CancellationToken;

use super::ObjectArchives;
use super::transfer::read_through;
use crate::error::{ArchiveError, Result};
use crate::meta::ArchiveMeta;
use crate::progress::Progress;
use crate::source::MAX_WINDOW_LOG;

impl ObjectArchives {
    /// Writes the home in an archive to `sink`, as a tar stream. It is whole only when this succeeds. What is stored is
    /// held against the archive's own word: there is no record of it here.
    pub async fn export(
        &self,
        key: &str,
        cancel: &CancellationToken,
        mut sink: impl Write + Send + 'static,
    ) -> Result<ArchiveMeta> {
        let Some(meta) = self.head(key).await? else {
            return Err(ArchiveError::NotFound { key: key.into() });
        };
        let written = if meta.is_chunked() {
            self.chunked_tar(key, &meta, cancel, move |mut tar, _| copy(&mut tar, &mut sink)).await?
        } else {
            self.check_content(key, &meta, &Progress::new(), cancel).await?;
            let data = self.data(key)?;
            let size = meta.size;
            read_through(&self.store, &data, 0..size, cancel, move |stream, _| {
                let failed = |e: io::Error| ArchiveError::corrupted(format!("cannot decompress: {e}"));
                let mut decoder = zstd::Decoder::new(stream).map_err(failed)?;
                decoder.window_log_max(MAX_WINDOW_LOG).map_err(failed)?;
                copy(&mut decoder, &mut sink)
            })
            .await?
        };
        if written != meta.uncompressed {
            let message = format!("{key}: holds {written} bytes, should hold {}", meta.uncompressed);
            return Err(ArchiveError::Corrupted { message });
        }
        Ok(meta)
    }

    /// Reads all of an archive, and of what it refers to as much as it needs; every byte must be what its own word says.
    pub async fn verify(&self, key: &str, cancel: &CancellationToken) -> Result<ArchiveMeta> {
        let meta = self.export(key, cancel, io::sink()).await?;
        if meta.is_chunked() {
            self.check_content(key, &meta, &Progress::new(), cancel).await?;
        }
        Ok(meta)
    }
}

fn copy(from: &mut impl Read, to: &mut impl Write) -> Result<u64> {
    let mut buffer = vec![0; 256 * 1024];
    let mut written = 0;
    loop {
        let got = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(got) => got,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(ArchiveError::corrupted(format!("cannot read the archive: {error}"))),
        };
        to.write_all(&buffer[..got]).map_err(|e| ArchiveError::local("cannot write the home", e))?;
        written += got as u64;
    }
    to.flush().map_err(|e| ArchiveError::local("cannot write the home", e))?;
    Ok(written)
}
