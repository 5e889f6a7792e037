//! The settings a home starts with, put there through the engine while its container is made and nothing
//! runs in it yet. What is there is never touched, and what is a link stays inside the container.

use std::{io, path::Path};

use bollard::{
    body_full,
    query_parameters::{ContainerArchiveInfoOptionsBuilder, UploadToContainerOptionsBuilder},
};
use jiff::Timestamp;

use super::engine::{Engine, found};
use crate::{Result, RuntimeError, ide::DefaultFile};

/// Whose home it is, and where it is in the container.
pub(super) struct Home<'a> {
    pub(super) container: &'a str,
    pub(super) path: &'a str,
    pub(super) owner: (u32, u32),
}

impl Home<'_> {
    /// Gives it each of these files that it does not have.
    pub(super) async fn write_default_files(&self, engine: &Engine, files: &[DefaultFile]) -> Result<()> {
        for file in files {
            if self.has(engine, file.path).await? {
                continue;
            }
            // Only what is missing is made: directories that are there keep their owners and modes.
            let mut there = "";
            for (slash, _) in file.path.match_indices('/') {
                if !self.has(engine, &file.path[..slash]).await? {
                    break;
                }
                there = &file.path[..slash];
            }
            let tar = self.layer(file, there).map_err(|error| RuntimeError::Failed(error.to_string()))?;
            let options = UploadToContainerOptionsBuilder::new()
                .path(&format!("{}/{there}", self.path))
                .no_overwrite_dir_non_dir("1")
                .build();
            let client = engine.client().await?;
            let put = client.upload_to_container(self.container, Some(options), body_full(tar.into())).await;
            put.map_err(engine.failed("put a file into a home"))?;
        }
        Ok(())
    }

    async fn has(&self, engine: &Engine, path: &str) -> Result<bool> {
        let options =
            ContainerArchiveInfoOptionsBuilder::new().path(&format!("{}/{path}", self.path)).build();
        let info = engine.client().await?.get_container_archive_info(self.container, Some(options)).await;
        Ok(found(info).map_err(engine.failed("look into a home"))?.is_some())
    }

    /// The file and the directories above it, below the one that is there.
    fn layer(&self, file: &DefaultFile, there: &str) -> io::Result<Vec<u8>> {
        let below = file.path.strip_prefix(there).unwrap_or(file.path).trim_start_matches('/');
        let mut tar = tar::Builder::new(Vec::new());
        for (slash, _) in below.match_indices('/') {
            let mut header = self.header(tar::EntryType::Directory, 0o755, 0);
            tar.append_data(&mut header, Path::new(&below[..=slash]), io::empty())?;
        }
        let mut header = self.header(tar::EntryType::Regular, 0o644, file.text.len() as u64);
        tar.append_data(&mut header, Path::new(below), file.text.as_bytes())?;
        tar.into_inner()
    }

    fn header(&self, kind: tar::EntryType, mode: u32, size: u64) -> tar::Header {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_uid(self.owner.0.into());
        header.set_gid(self.owner.1.into());
        header.set_size(size);
        header.set_mtime(Timestamp::now().as_second().unsigned_abs());
        header
    }
}
