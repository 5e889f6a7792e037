//! The one implementation of the archives port: the object store, and a backend's way between it and volumes.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use codehub_domain::{ArchiveKey, ArchiveRecord, VolumeKey, WorkspaceId};

use codehub_archive::{
    ArchiveError, ArchiveMeta, ArchivedFile, Expected, FilePage, FileStream, ListedObject, ObjectArchives,
};

use super::{Archives, ListedArchive, Result, record};
use crate::homes::{HomeTransfer, Packing, Transfer, Unpacking};

/// An upload is given up for dead when nothing came after it for so long.
const ABANDONED: Duration = Duration::from_secs(24 * 3600);

/// Homes of any backend in any object store.
pub struct StoredArchives {
    kind: &'static str,
    objects: ObjectArchives,
    homes: Arc<dyn HomeTransfer>,
}

impl StoredArchives {
    /// `kind` is what [`Archives::kind`] answers.
    pub fn new(kind: &'static str, objects: ObjectArchives, homes: Arc<dyn HomeTransfer>) -> Self {
        Self { kind, objects, homes }
    }
}

#[async_trait]
impl Archives for StoredArchives {
    fn kind(&self) -> &'static str {
        self.kind
    }

    async fn ping(&self) -> Result<()> {
        // Asking for something that cannot exist shows that the store answers.
        let nothing = ObjectArchives::key("00000000-0000-0000-0000-000000000000", "none");
        self.objects.head(&nothing).await.map(|_| ())
    }

    async fn put(&self, key: &ArchiveKey, volume: &VolumeKey, transfer: &Transfer) -> Result<ArchiveMeta> {
        let (name, progress) = (key.to_string(), &transfer.progress);
        // Whoever drops this also ends what reads the home on a thread of its own.
        let stop = transfer.cancel.child_token();
        let _stop_when_dropped = stop.clone().drop_guard();
        let transfer = Transfer { cancel: stop.clone(), ..transfer.clone() };
        let base = transfer.base.as_ref().map(|base| (base.key.to_string(), record::expected(base)));
        let base = base.as_ref().map(|(key, expected)| (key.as_str(), expected));
        let packed = self.objects.packed_as(&name, base).await?;
        let Packing { total, write, beside } = self.homes.pack(volume, packed, &transfer).await?;
        progress.start(total);
        let stored = self.objects.put_with(&name, total, progress, &stop, write);
        let (stored, beside) = tokio::join!(stored, beside);
        let meta = stored?;
        beside?;
        Ok(meta)
    }

    async fn put_empty(&self, key: &ArchiveKey) -> Result<ArchiveMeta> {
        self.objects.put_empty(&key.to_string()).await
    }

    async fn fetch(&self, key: &ArchiveKey, volume: &VolumeKey, transfer: &Transfer) -> Result<ArchiveMeta> {
        let name = key.to_string();
        let Some(meta) = self.objects.head(&name).await? else {
            return Err(ArchiveError::NotFound { key: name });
        };
        let Unpacking { read, beside } = self.homes.unpack(volume, &meta, transfer).await?;
        transfer.progress.start(meta.uncompressed);
        let fetched = self.objects.fetch_with(&name, &meta, &transfer.cancel, read);
        let (fetched, beside) = tokio::join!(fetched, beside);
        fetched?;
        beside?;
        Ok(meta)
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

    async fn delete_mark(&self, key: &ArchiveKey) -> Result<()> {
        self.objects.delete_mark(&key.to_string()).await
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
