//! The archives port. How bytes are laid out is nobody's business but the implementation's.
//!
//! Read-your-writes: what a call that returned has stored or deleted is seen so by every later call, from
//! whatever process: `head` and both lists after `put` show it, after `delete` they do not.

pub mod record;
#[cfg(test)]
mod record_tests;
mod stored;

use async_trait::async_trait;
use codehub_domain::{ArchiveKey, ArchiveRecord, ErrorReason, Failure, Timestamp, VolumeKey, WorkspaceId};

use codehub_archive::{ArchiveError, ArchiveMeta, ArchivedFile, Expected, FilePage, FileStream};

pub use stored::StoredArchives;

use crate::homes::Transfer;

type Result<T> = std::result::Result<T, ArchiveError>;

/// What an archive's error means for the workspace it happened to.
pub fn failure(error: &ArchiveError) -> Failure {
    let reason = match error {
        ArchiveError::NotFound { .. } => ErrorReason::DataLost,
        ArchiveError::Corrupted { .. } | ArchiveError::Refused { .. } => ErrorReason::ArchiveCorrupted,
        ArchiveError::Unreachable { .. } => ErrorReason::Unreachable,
        ArchiveError::Unsupported { .. }
        | ArchiveError::NotListed
        | ArchiveError::NoSpace { .. }
        | ArchiveError::Changed { .. }
        | ArchiveError::Io { .. }
        | ArchiveError::Cancelled => ErrorReason::ActionFailed,
    };
    Failure::new(reason, error.to_string())
}

/// An archive in the store, finished or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedArchive {
    /// Which archive.
    pub key: ArchiveKey,
    /// Stored bytes.
    pub size: u64,
    /// When the store last wrote it.
    pub modified_at: Timestamp,
    /// Data and meta are both there; otherwise an upload that did not finish, or a half deletion.
    pub complete: bool,
}

/// Where homes are packed away, and the way of a home there and back. An error means "could not", never "is not
/// there".
#[async_trait]
pub trait Archives: Send + Sync + 'static {
    /// `files`, `s3`: for people.
    fn kind(&self) -> &'static str;
    /// Whether the store answers; what to fix if it does not.
    async fn ping(&self) -> Result<()>;
    /// Packs the volume and stores it: data, then meta, then both verified. Keeps the finished work of an earlier
    /// try where that is what the volume is packed to (anything else is `Corrupted`); never overwrites a finished
    /// archive. What it returns was computed here, not read from the store. Where `transfer.base` says what the
    /// volume's home was, only what is new since then need be stored; what of it the new archive then refers to is
    /// there, and must stay ([`ArchiveMeta::parts`]).
    async fn put(&self, key: &ArchiveKey, volume: &VolumeKey, transfer: &Transfer) -> Result<ArchiveMeta>;
    /// Stores the archive of an empty home.
    async fn put_empty(&self, key: &ArchiveKey) -> Result<ArchiveMeta>;
    /// Unpacks into the (existing, empty) volume. `Ok` means: all of it, checked against its
    /// checksum, and durable.
    async fn fetch(&self, key: &ArchiveKey, volume: &VolumeKey, transfer: &Transfer) -> Result<ArchiveMeta>;
    /// `None`: data or meta is definitely not there.
    async fn head(&self, key: &ArchiveKey) -> Result<Option<ArchiveMeta>>;
    /// What an archive is that nothing was recorded about yet: its own word. `None` as in [`Archives::head`].
    async fn describe(&self, key: &ArchiveKey) -> Result<Option<Expected>> {
        Ok(self.head(key).await?.map(|meta| meta.expected()))
    }
    /// Everything of this deployment. Complete, or an error.
    async fn list(&self) -> Result<Vec<ListedArchive>>;
    /// Those of one workspace. Complete, or an error.
    async fn list_of(&self, workspace: WorkspaceId) -> Result<Vec<ListedArchive>>;
    /// What is in the directory `dir` of an archive (empty: the home), names after `after`, without
    /// restoring it; `None` when it has no such directory. Held against the record: meta, index, and what is read.
    async fn files(
        &self,
        _archive: &ArchiveRecord,
        _dir: &[u8],
        _after: Option<&[u8]>,
        _limit: usize,
    ) -> Result<Option<FilePage>> {
        Err(ArchiveError::NotListed)
    }
    /// One file of an archive; `None` when there is no such path, no stream when it is not a file. Held against the
    /// record like a listing.
    async fn file(
        &self,
        _archive: &ArchiveRecord,
        _path: &[u8],
    ) -> Result<Option<(ArchivedFile, Option<FileStream>)>> {
        Err(ArchiveError::NotListed)
    }
    /// Meta first, then data; succeeds where there is none.
    async fn delete(&self, key: &ArchiveKey) -> Result<()>;
    /// Only the meta: nothing can be restored from it any more, but what others refer to in it is there. Succeeds where
    /// there is none.
    async fn delete_mark(&self, key: &ArchiveKey) -> Result<()>;
    /// Removes the remains of uploads that never finished and are older than a day; how many.
    async fn sweep(&self) -> Result<u64>;
}

#[cfg(test)]
mod tests {
    use codehub_domain::ArchiveKey;

    #[test]
    fn keys_and_stored_archives_have_the_same_file_name() {
        assert_eq!(ArchiveKey::FILE, codehub_archive::DATA_NAME);
    }
}
