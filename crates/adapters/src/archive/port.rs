//! The archives port. How bytes are laid out is nobody's business but the implementation's.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use async_trait::async_trait;
use codehub_domain::{ArchiveKey, ErrorReason, Failure, Timestamp, VolumeKey};
use tokio_util::sync::CancellationToken;

#[derive(Debug, thiserror::Error)]
pub enum ArchivesError {
    /// Definitely not there (or only half of it).
    #[error("{0}")]
    NotFound(String),
    /// What is stored is not what was written.
    #[error("{0}")]
    Corrupted(String),
    #[error("{0}")]
    Unreachable(String),
    /// Anything else: no space left, an unreadable home.
    #[error("{0}")]
    Failed(String),
    #[error("cancelled")]
    Cancelled,
}

pub type Result<T> = std::result::Result<T, ArchivesError>;

impl From<ArchivesError> for Failure {
    fn from(error: ArchivesError) -> Self {
        let reason = match &error {
            ArchivesError::NotFound(_) => ErrorReason::DataLost,
            ArchivesError::Corrupted(_) => ErrorReason::ArchiveCorrupted,
            ArchivesError::Unreachable(_) => ErrorReason::Unreachable,
            ArchivesError::Failed(_) | ArchivesError::Cancelled => ErrorReason::ActionFailed,
        };
        Self::new(reason, error.to_string())
    }
}

/// A finished archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveInfo {
    /// Stored bytes.
    pub size: u64,
    /// Bytes of the home it holds.
    pub uncompressed: u64,
    pub entries: u64,
    pub created_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedArchive {
    pub key: ArchiveKey,
    /// Stored bytes.
    pub size: u64,
    pub modified_at: Timestamp,
    /// Data and meta are both there; otherwise an upload that did not finish, or a half deletion.
    pub complete: bool,
}

/// Bytes done of bytes to do, shared between the one who works and the one who watches.
#[derive(Debug, Clone, Default)]
pub struct Meter(Arc<(AtomicU64, AtomicU64)>);

impl Meter {
    pub fn add(&self, bytes: u64) {
        self.0.0.fetch_add(bytes, Relaxed);
    }

    pub fn set_total(&self, bytes: u64) {
        self.0.1.store(bytes, Relaxed);
    }

    /// `(done, total)`
    pub fn read(&self) -> (u64, u64) {
        (self.0.0.load(Relaxed), self.0.1.load(Relaxed))
    }
}

#[async_trait]
pub trait Archives: Send + Sync + 'static {
    fn kind(&self) -> &'static str;
    async fn ping(&self) -> Result<()>;
    /// Packs the volume and stores it: data, then meta, then both verified. Finds its own finished
    /// work of an earlier try and keeps it; never overwrites a finished archive.
    async fn put(
        &self,
        key: &ArchiveKey,
        volume: &VolumeKey,
        meter: &Meter,
        cancel: &CancellationToken,
    ) -> Result<ArchiveInfo>;
    /// Stores the archive of an empty home.
    async fn put_empty(&self, key: &ArchiveKey) -> Result<ArchiveInfo>;
    /// Unpacks into the (existing, empty) volume. `Ok` means: all of it, checked against its
    /// checksum, and durable.
    async fn fetch(
        &self,
        key: &ArchiveKey,
        volume: &VolumeKey,
        meter: &Meter,
        cancel: &CancellationToken,
    ) -> Result<ArchiveInfo>;
    /// `None`: data or meta is definitely not there.
    async fn head(&self, key: &ArchiveKey) -> Result<Option<ArchiveInfo>>;
    /// Complete, or an error.
    async fn list(&self) -> Result<Vec<ListedArchive>>;
    async fn list_of(&self, workspace: codehub_domain::WorkspaceId) -> Result<Vec<ListedArchive>>;
    /// Meta first, then data; succeeds where there is none.
    async fn delete(&self, key: &ArchiveKey) -> Result<()>;
    /// Removes the remains of uploads that never finished and are older than a day.
    async fn sweep(&self) -> Result<u64>;
}
