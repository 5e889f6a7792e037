//! Homes that are directories of this machine: the archive engine reads and writes them in place.

use std::path::PathBuf;

use async_trait::async_trait;
use codehub_archive::{
    ArchiveError, ArchiveMeta, Limits, PackOptions, Packed, estimate_home, pack, pack_chunked, unpack,
    unpack_tar,
};
use codehub_domain::VolumeKey;

use super::{HomeTransfer, Packing, Result, Transfer, Unpacking, nothing_beside};
use crate::volumes::directory::home_dir;

/// Packs and unpacks the volumes of [`crate::volumes::directory::DirectoryVolumes`].
#[derive(Debug, Clone)]
pub struct DirectoryTransfer {
    data_dir: PathBuf,
    options: PackOptions,
}

impl DirectoryTransfer {
    /// For the volumes in this data directory, packed with these options.
    pub fn new(data_dir: impl Into<PathBuf>, options: PackOptions) -> Self {
        Self { data_dir: data_dir.into(), options }
    }
}

#[async_trait]
impl HomeTransfer for DirectoryTransfer {
    async fn pack(&self, volume: &VolumeKey, packed: Packed, transfer: &Transfer) -> Result<Packing> {
        transfer.fence.check().await?;
        let home = home_dir(&self.data_dir, volume);
        let (at, cancel) = (home.clone(), transfer.cancel.clone());
        let estimated = tokio::task::spawn_blocking(move || estimate_home(&at, &cancel)).await;
        let total = estimated.unwrap_or_else(|error| {
            let context = "an archive thread ended early".to_owned();
            Err(ArchiveError::Io { context, source: std::io::Error::other(error) })
        })?;
        let (options, Transfer { progress, cancel, .. }) = (self.options, transfer.clone());
        Ok(Packing {
            total,
            write: Box::new(move |sink| match packed {
                Packed::Whole => pack(&home, sink, options, &progress, &cancel),
                Packed::Without(known) => pack_chunked(&home, &known, sink, options, &progress, &cancel),
            }),
            beside: nothing_beside(),
        })
    }

    async fn unpack(&self, volume: &VolumeKey, meta: &ArchiveMeta, transfer: &Transfer) -> Result<Unpacking> {
        transfer.fence.check().await?;
        let target = home_dir(&self.data_dir, volume);
        let limits = Limits { uncompressed: meta.uncompressed, entries: meta.entries };
        let (progress, chunked) = (transfer.progress.clone(), meta.is_chunked());
        Ok(Unpacking {
            read: Box::new(move |stream, cancel| match chunked {
                true => unpack_tar(stream, &target, limits, &progress, cancel),
                false => unpack(stream, &target, limits, &progress, cancel),
            }),
            beside: nothing_beside(),
        })
    }
}
