//! The home transfer port for homes on the engine's volumes: a helper container packs or unpacks, its stream
//! goes through CodeHub, and only CodeHub talks to the store. So the store's credentials are never
//! inside a container, and the engine may be on another machine.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use codehub_domain::VolumeKey;
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
    homes::{HomeTransfer, Packing, Transfer, Unpacking},
};
use codehub_archive::{ArchiveError, ArchiveMeta, PackSummary, Packed, UnpackSummary, hex};

type Result<T> = std::result::Result<T, ArchiveError>;

/// How long a job may take to say its first word.
const FIRST_WORD: Duration = Duration::from_secs(60);
const PIECE: usize = 256 * 1024;

/// Packs and unpacks the engine's volumes with helper containers, compressing at `level`.
pub struct DockerTransfer {
    jobs: Jobs,
    level: i32,
}

impl DockerTransfer {
    /// Jobs run on the engine that has the volumes.
    pub fn new(jobs: Jobs, level: i32) -> Self {
        Self { jobs, level }
    }
}

impl From<RuntimeError> for ArchiveError {
    fn from(error: RuntimeError) -> Self {
        match error {
            RuntimeError::Unreachable(message) => Self::Unreachable { message },
            RuntimeError::NoCapacity(message) => Self::NoSpace { message },
            RuntimeError::ImagePull(text) | RuntimeError::Failed(text) => {
                Self::Io { context: "the storage job failed".to_owned(), source: std::io::Error::other(text) }
            }
        }
    }
}

#[async_trait]
impl HomeTransfer for DockerTransfer {
    async fn pack(&self, volume: &VolumeKey, packed: Packed, transfer: &Transfer) -> Result<Packing> {
        self.jobs.check_volume(volume).await?;
        let level = self.level;
        let (task, known) = match packed {
            Packed::Whole => (Job::Pack { level }, Bytes::new()),
            Packed::Without(known) => (Job::PackChunks { level, known: known.len() as u64 }, known),
        };
        let mut job = self.jobs.start(task, volume, None, &transfer.fence).await?;
        let mut input = job.input();
        let tell = async {
            // A job that ends early is heard; that its input is gone says nothing more.
            if let Some(input) = &mut input {
                let _ = input.write_all(&known).await;
                let _ = input.flush().await;
            }
            std::future::pending::<()>().await;
        };
        let total = tokio::select! {
            total = tokio::time::timeout(FIRST_WORD, job.total()) => total,
            // It never ends.
            () = tell => Ok(Ok(0)),
        };
        let total = total.map_err(|_| ArchiveError::Unreachable {
            message: "the storage job says nothing".to_owned(),
        })??;
        let (sender, pieces) = Running::pieces();
        let (told, summary) = oneshot::channel();
        let progress = transfer.progress.clone();
        let beside = async move {
            let outcome = tokio::select! {
                outcome = job.stream(&progress, &sender) => outcome,
                // The other end has given up, for a reason of its own.
                () = sender.closed() => Err(nobody_listens()),
            };
            drop(sender);
            // Open until here, so that the job does not take its end for that of the server; and no longer, because the
            // engine removes no container to whose output nobody listens and nobody has let go.
            drop(input);
            drop(told.send(outcome));
            Ok(job.end().await?)
        };
        Ok(Packing {
            total,
            write: Box::new(move |sink| receive(pieces, summary, sink)),
            beside: Box::pin(beside),
        })
    }

    async fn unpack(&self, volume: &VolumeKey, meta: &ArchiveMeta, transfer: &Transfer) -> Result<Unpacking> {
        self.jobs.check_volume(volume).await?;
        let ArchiveMeta { size, uncompressed, entries, .. } = *meta;
        let task = match meta.is_chunked() {
            true => Job::UnpackTar { uncompressed, entries },
            false => Job::Unpack { size, uncompressed, entries },
        };
        let mut job = self.jobs.start(task, volume, None, &transfer.fence).await?;
        let Some(mut input) = job.input() else {
            return Err(ArchiveError::Unreachable { message: "the storage job takes no input".to_owned() });
        };
        let (sender, mut pieces) = Running::pieces();
        let (told, summary) = oneshot::channel();
        let progress = transfer.progress.clone();
        let beside = async move {
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
                // The engine goes on taking the input of a job that has ended, until it is full: nothing comes
                // of it.
                tokio::select! {
                    () = write => {}
                    () = heard.cancelled() => {}
                }
                // Not read any more: whoever sends notices at once.
                pieces.close();
            };
            let listen = async {
                let outcome = job.result_or_end(&progress).await;
                heard.cancel();
                drop(told.send(outcome));
            };
            tokio::join!(feed, listen);
            Ok(job.end().await?)
        };
        Ok(Unpacking {
            read: Box::new(move |stream, _| send(stream, sender, summary)),
            beside: Box::pin(beside),
        })
    }
}

fn nobody_listens() -> ArchiveError {
    ArchiveError::Unreachable { message: "nobody takes what the storage job sends".to_owned() }
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
        format: said.format,
        parts: said.parts,
    })
}

/// Gives the job what the store holds, and returns what the job made of it.
fn send(
    mut stream: impl std::io::Read,
    to: mpsc::Sender<Bytes>,
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
    // A job that waits for more hears that there is none, and fails.
    drop(to);
    let Summary { size, sha256, uncompressed, entries, .. } = told(summary)?;
    Ok(UnpackSummary { size, sha256, uncompressed, entries })
}

fn broken(error: impl std::fmt::Display) -> ArchiveError {
    ArchiveError::Unreachable { message: format!("the archive's stream broke: {error}") }
}
