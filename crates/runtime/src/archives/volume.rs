//! The archives port for volumes that are directories on this machine: the engine reads and writes
//! them in place.

use std::{path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use codehub_domain::{ArchiveKey, ArchiveRecord, VolumeKey, WorkspaceId};
use tokio_util::sync::CancellationToken;

use codehub_archive::{
    ArchiveError, ArchiveMeta, ArchivedFile, Expected, FilePage, FileStream, ListedObject, ObjectArchives,
    Progress,
};

use super::{Archives, ListedArchive, Result, record};
use crate::volumes::Volumes;

/// An upload is given up for dead when nothing came after it for so long.
const ABANDONED: Duration = Duration::from_secs(24 * 3600);

/// Archives of local volumes in any object store.
pub struct VolumeArchives {
    kind: &'static str,
    objects: ObjectArchives,
    volumes: Arc<dyn Volumes>,
}

impl VolumeArchives {
    /// `kind` is what [`Archives::kind`] answers.
    pub fn new(kind: &'static str, objects: ObjectArchives, volumes: Arc<dyn Volumes>) -> Self {
        Self { kind, objects, volumes }
    }

    fn path(&self, volume: &VolumeKey) -> Result<PathBuf> {
        self.volumes
            .path(volume)
            .ok_or_else(|| ArchiveError::Unreachable { message: format!("{volume} is not on this machine") })
    }
}

#[async_trait]
impl Archives for VolumeArchives {
    fn kind(&self) -> &'static str {
        self.kind
    }

    async fn ping(&self) -> Result<()> {
        // Asking for something that cannot exist shows that the store answers.
        let nothing = ObjectArchives::key("00000000-0000-0000-0000-000000000000", "none");
        self.objects.head(&nothing).await.map(|_| ())
    }

    async fn put(
        &self,
        key: &ArchiveKey,
        volume: &VolumeKey,
        progress: &Progress,
        cancel: &CancellationToken,
    ) -> Result<ArchiveMeta> {
        self.objects.put(&key.to_string(), &self.path(volume)?, progress, cancel).await
    }

    async fn put_empty(&self, key: &ArchiveKey) -> Result<ArchiveMeta> {
        self.objects.put_empty(&key.to_string()).await
    }

    async fn fetch(
        &self,
        key: &ArchiveKey,
        volume: &VolumeKey,
        progress: &Progress,
        cancel: &CancellationToken,
    ) -> Result<ArchiveMeta> {
        self.objects.fetch(&key.to_string(), &self.path(volume)?, progress, cancel).await
    }

    async fn head(&self, key: &ArchiveKey) -> Result<Option<ArchiveMeta>> {
        self.objects.head(&key.to_string()).await
    }

    async fn describe(&self, key: &ArchiveKey) -> Result<Option<Expected>> {
        self.objects.describe(&key.to_string()).await
    }

    async fn list(&self) -> Result<Vec<ListedArchive>> {
        Ok(ours(self.objects.list().await?))
    }

    async fn list_of(&self, workspace: WorkspaceId) -> Result<Vec<ListedArchive>> {
        Ok(ours(self.objects.list_of(&workspace.to_string()).await?))
    }

    async fn files(
        &self,
        archive: &ArchiveRecord,
        dir: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Option<FilePage>> {
        self.objects.files(&archive.key.to_string(), &record::expected(archive), dir, after, limit).await
    }

    async fn file(
        &self,
        archive: &ArchiveRecord,
        path: &[u8],
    ) -> Result<Option<(ArchivedFile, Option<FileStream>)>> {
        self.objects.file(&archive.key.to_string(), &record::expected(archive), path).await
    }

    async fn delete(&self, key: &ArchiveKey) -> Result<()> {
        self.objects.delete(&key.to_string()).await
    }

    async fn sweep(&self) -> Result<u64> {
        self.objects.sweep_unfinished(ABANDONED).await
    }
}

/// Whatever does not have the name of an archive is not ours to judge.
fn ours(listed: Vec<ListedObject>) -> Vec<ListedArchive> {
    let ours = listed.into_iter().filter_map(|object| {
        Some(ListedArchive {
            key: object.key.parse().ok()?,
            size: object.size,
            modified_at: object.last_modified,
            complete: object.complete,
        })
    });
    ours.collect()
}
