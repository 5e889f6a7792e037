//! What each archive of ours is, to hold against whatever the store of archives gives back.

use std::collections::{BTreeMap, BTreeSet};

use codehub_domain::{ArchiveKey, ArchiveRecord, Epoch, OpId, WorkspaceId, audit::Act};

use super::theme;
use crate::Result;

/// What became of the wish to take an archive for ours as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Adopted {
    /// From now on it is held against this.
    Adopted,
    /// It has a record already, which stays.
    Known(ArchiveRecord),
    /// It is being deleted.
    BeingDeleted,
    /// No workspace ever had such an archive.
    NoWorkspace,
    /// The collector does not lead any more: stop everything.
    Fenced,
}

theme! {
    /// The records of archives. They are made with the key that becomes a home
    /// ([`super::Reconciling::workspace_save_archived`]) and end when the archive is claimed for deletion
    /// ([`super::Garbage::gc_claim`]).
    ArchiveRecords, archive_records {
        /// `None`: nothing under this key is known to be ours.
        async fn archive_record(&self, key: ArchiveKey) -> Result<Option<ArchiveRecord>>;
        /// Every key that has a record, in order.
        async fn archive_keys(&self) -> Result<Vec<ArchiveKey>>;
        /// Of every archive with a record that is not whole in itself: the operations whose objects hold parts of it.
        async fn archive_parts(&self) -> Result<BTreeMap<ArchiveKey, BTreeSet<OpId>>>;
        /// How large the homes of these workspaces were when they were last archived, in bytes before compression;
        /// without those that have no archive on record.
        async fn home_sizes(&self, ids: &[WorkspaceId]) -> Result<BTreeMap<WorkspaceId, u64>>;
        /// Records an archive from before there were records, and that this was done. `epoch` is the leader's;
        /// `None` where an operator asks. Never changes a record that is there.
        async fn archive_adopt(&self, by: &Act, epoch: Option<Epoch>, record: &ArchiveRecord) -> Result<Adopted>;
    }
}
