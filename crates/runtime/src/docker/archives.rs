//! The archives port for homes on the engine's volumes: a helper container packs or unpacks, its stream
//! goes through CodeHub, and only CodeHub talks to the store. So the store's credentials are never
//! inside a container, and the engine may be on another machine.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use codehub_domain::{ArchiveKey, ArchiveRecord, VolumeKey, WorkspaceId};
use sha2::{Digest as _, Sha256};
use tokio::{
    io::AsyncWriteExt as _,
    sync::{mpsc, oneshot},
};
use tokio_util::sync::CancellationToken;

use super::{
    job_main::Summary,
    jobs::{Job, Jobs, Running},
};
use crate::{
    RuntimeError,
    archives::{Archives, ListedArchive, VolumeArchives},
    volumes::Volumes,
};
use codehub_archive::{
    ArchiveError, ArchiveMeta, ArchivedFile, Expected, FilePage, FileStream, ObjectArchives, PackSummary,
    Progress, UnpackSummary, hex,
};

type Result<T> = std::result::Result<T, ArchiveError>;

/// How long a job may take to say its first word.
const FIRST_WORD: Duration = Duration::from_secs(60);
const PIECE: usize = 256 * 1024;

/// Archives of Docker volumes: packed and unpacked by jobs in containers.
pub struct DockerArchives {
    /// Everything that does not touch a volume.
    plain: VolumeArchives,
    objects: ObjectArchives,
    jobs: Jobs,
    level: i32,
}

impl DockerArchives {
    /// Jobs run on the engine that has the volumes.
    pub fn new(
        kind: &'static str,
        objects: ObjectArchives,
        volumes: Arc<dyn Volumes>,
        jobs: Jobs,
        level: i32,
    ) -> Self {
        let plain = VolumeArchives::new(kind, objects.clone(), volumes);
        Self { plain, objects, jobs, level }
    }
}

impl From<RuntimeError> for ArchiveError {
    fn from(error: RuntimeError) -> Self {
        match error {
            RuntimeError::Unreachable(message) => Self::Unreachable { message },
            RuntimeError::ImagePull(text) | RuntimeError::Failed(text) => {
                Self::Io { context: "the storage job failed".to_owned(), source: std::io::Error::other(text) }
            }
        }
    }
}

#[async_trait]
impl Archives for DockerArchives {
    fn kind(&self) -> &'static str {
        self.plain.kind()
    }

    async fn ping(&self) -> Result<()> {
        self.plain.ping().await
    }

    async fn put(
        &self,
        key: &ArchiveKey,
        volume: &VolumeKey,
        progress: &Progress,
        cancel: &CancellationToken,
    ) -> Result<ArchiveMeta> {
        let name = key.to_string();
        let mut job = self.jobs.start(Job::Pack { level: self.level }, volume, None).await?;
        let total = tokio::time::timeout(FIRST_WORD, job.total()).await;
        let total = total.map_err(|_| ArchiveError::Unreachable {
            message: "the storage job says nothing".to_owned(),
        })??;
        progress.start(total);
        let (sender, pieces) = Running::pieces();
        let (told, summary) = oneshot::channel();
        let pump = async {
            let outcome = job.stream(progress, &sender).await;
            drop(sender);
            // The other end only listens while it has no reason of its own to give up.
            drop(told.send(outcome));
            job
        };
        let stored =
            self.objects.put_with(&name, total, progress, cancel, move |sink| receive(pieces, summary, sink));
        let (job, stored) = tokio::join!(pump, stored);
        let ended = job.end().await;
        let meta = stored?;
        ended?;
        Ok(meta)
    }

    async fn put_empty(&self, key: &ArchiveKey) -> Result<ArchiveMeta> {
        self.plain.put_empty(key).await
    }

    async fn fetch(
        &self,
        key: &ArchiveKey,
        volume: &VolumeKey,
        progress: &Progress,
        cancel: &CancellationToken,
    ) -> Result<ArchiveMeta> {
        let name = key.to_string();
        let Some(meta) = self.objects.head(&name).await? else {
            return Err(ArchiveError::NotFound { key: name });
        };
        let task = Job::Unpack { size: meta.size, uncompressed: meta.uncompressed, entries: meta.entries };
        let mut job = self.jobs.start(task, volume, None).await?;
        let Some(mut input) = job.input() else {
            return Err(ArchiveError::Unreachable { message: "the storage job takes no input".to_owned() });
        };
        progress.start(meta.uncompressed);
        let (sender, mut pieces) = Running::pieces();
        let (told, summary) = oneshot::channel();
        let heard = CancellationToken::new();
        let feed = async {
            let write = async {
                // A job that ends early is heard below; that its input is gone says nothing more.
                while let Some(piece) = pieces.recv().await {
                    if input.write_all(&piece).await.is_err() {
                        break;
                    }
                }
                let _ = input.flush().await;
                let _ = input.shutdown().await;
            };
            // The engine goes on taking the input of a job that has ended, until it is full: nothing comes of it.
            tokio::select! {
                () = write => {}
                () = heard.cancelled() => {}
            }
            // Not read any more: whoever sends notices at once.
            pieces.close();
        };
        let listen = async {
            let outcome = job.result_or_end(progress).await;
            heard.cancel();
            drop(told.send(outcome));
            job
        };
        let read = self.objects.fetch_with(&name, cancel, move |stream| send(stream, &sender, summary));
        let ((), job, fetched) = tokio::join!(feed, listen, read);
        let ended = job.end().await;
        let meta = fetched?;
        ended?;
        Ok(meta)
    }

    async fn head(&self, key: &ArchiveKey) -> Result<Option<ArchiveMeta>> {
        self.plain.head(key).await
    }

    async fn describe(&self, key: &ArchiveKey) -> Result<Option<Expected>> {
        self.plain.describe(key).await
    }

    async fn list(&self) -> Result<Vec<ListedArchive>> {
        self.plain.list().await
    }

    async fn list_of(&self, workspace: WorkspaceId) -> Result<Vec<ListedArchive>> {
        self.plain.list_of(workspace).await
    }

    async fn files(
        &self,
        archive: &ArchiveRecord,
        dir: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Option<FilePage>> {
        self.plain.files(archive, dir, after, limit).await
    }

    async fn file(
        &self,
        archive: &ArchiveRecord,
        path: &[u8],
    ) -> Result<Option<(ArchivedFile, Option<FileStream>)>> {
        self.plain.file(archive, path).await
    }

    async fn delete(&self, key: &ArchiveKey) -> Result<()> {
        self.plain.delete(key).await
    }

    async fn sweep(&self) -> Result<u64> {
        self.plain.sweep().await
    }
}

type SummaryReceiver = oneshot::Receiver<Result<Summary>>;

fn told(summary: SummaryReceiver) -> Result<Summary> {
    summary.blocking_recv().unwrap_or_else(|_| {
        Err(ArchiveError::Unreachable { message: "the storage job's result never came".to_owned() })
    })
}

/// Writes what the job sends to the store. Counts only when both ends agree on every byte.
fn receive(
    mut pieces: mpsc::Receiver<Bytes>,
    summary: SummaryReceiver,
    sink: &mut dyn std::io::Write,
) -> Result<PackSummary> {
    let mut digest = Sha256::new();
    let mut size = 0;
    while let Some(piece) = pieces.blocking_recv() {
        digest.update(&piece);
        size += piece.len() as u64;
        sink.write_all(&piece).map_err(broken)?;
    }
    let said = told(summary)?;
    let sha256 = hex(&digest.finalize());
    if (said.size, &said.sha256) != (size, &sha256) {
        let message =
            format!("the storage job sent {} bytes, {size} arrived, or not the same ones", said.size);
        return Err(ArchiveError::Unreachable { message });
    }
    sink.flush().map_err(broken)?;
    Ok(PackSummary {
        size,
        sha256,
        uncompressed: said.uncompressed,
        entries: said.entries,
        skipped: said.skipped,
        index_sha256: said.index_sha256,
    })
}

/// Gives the job what the store holds, and returns what the job made of it.
fn send(
    mut stream: impl std::io::Read,
    to: &mpsc::Sender<Bytes>,
    summary: SummaryReceiver,
) -> Result<UnpackSummary> {
    loop {
        let mut piece = vec![0; PIECE];
        let got = stream.read(&mut piece).map_err(broken)?;
        if got == 0 {
            break;
        }
        piece.truncate(got);
        // A job that takes no more has said why.
        if to.blocking_send(piece.into()).is_err() {
            break;
        }
    }
    let Summary { size, sha256, uncompressed, entries, .. } = told(summary)?;
    Ok(UnpackSummary { size, sha256, uncompressed, entries })
}

fn broken(error: impl std::fmt::Display) -> ArchiveError {
    ArchiveError::Unreachable { message: format!("the archive's stream broke: {error}") }
}
