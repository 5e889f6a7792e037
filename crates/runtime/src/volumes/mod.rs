//! The volumes port: where homes live while they are not archived.
//!
//! Read-your-writes: a volume that `create` returned for is in every later `list`, and one that `delete`
//! returned for is in none, from whatever process they are asked.

pub mod directory;
mod purge;

use async_trait::async_trait;
use codehub_domain::{ErrorReason, Failure, UserId, VolumeKey, WorkspaceId};

use crate::Fence;

/// Why something with a volume did not work. Never means "is not there".
#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    /// The backend did not answer: it is tried again without end.
    #[error("{0}")]
    Unreachable(String),
    /// There is no room for it now: it is tried again without end.
    #[error("{0}")]
    NoCapacity(String),
    /// The backend answered, and refused or failed.
    #[error("{0}")]
    Failed(String),
}

/// What the calls of [`Volumes`] answer.
pub type Result<T> = std::result::Result<T, VolumeError>;

impl From<VolumeError> for Failure {
    fn from(error: VolumeError) -> Self {
        let reason = match &error {
            VolumeError::Unreachable(_) => ErrorReason::Unreachable,
            VolumeError::NoCapacity(_) => ErrorReason::NoCapacity,
            VolumeError::Failed(_) => ErrorReason::ActionFailed,
        };
        Self::new(reason, error.to_string())
    }
}

/// Which volumes a listing looks at.
#[derive(Debug, Clone, Copy)]
pub enum Scope<'a> {
    /// All of this deployment.
    All,
    /// Those of these workspaces only.
    Of(&'a [(UserId, WorkspaceId)]),
}

/// One volume of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedVolume {
    /// Which volume.
    pub key: VolumeKey,
    /// What is wrong with it, if anything, in words for people. It exists all the same: what is on it is not lost,
    /// but nothing is started on it or packed from it.
    pub trouble: Option<String>,
}

impl From<VolumeKey> for ListedVolume {
    fn from(key: VolumeKey) -> Self {
        Self { key, trouble: None }
    }
}

/// Where homes are while they are used. Every call is idempotent, and an error means "could not", never "is not
/// there".
#[async_trait]
pub trait Volumes: Send + Sync + 'static {
    /// `directory`, `docker`: saved with the workspace.
    fn kind(&self) -> &'static str;
    /// Whether the backend answers; what to fix if it does not.
    async fn ping(&self) -> Result<()>;
    /// Makes an empty volume with room for at least so many bytes, durable before it returns; succeeds where it
    /// already exists. Where volumes have no size of their own, the disk they share must have that room now.
    ///
    /// # Errors
    /// [`VolumeError::NoCapacity`] where there is no room; then no volume is left.
    async fn create(&self, key: &VolumeKey, at_least: u64) -> Result<()>;
    /// Removes it with all that is in it; succeeds where there is none. A volume that is half
    /// deleted does not exist any more: a crash in between never leaves one that looks whole.
    /// Refuses what is in use, and what is not this deployment's. The fence is asked last.
    async fn delete(&self, key: &VolumeKey, fence: &Fence) -> Result<()>;
    /// Complete for its scope, or an error. What is there and cannot be used is listed, with what is wrong.
    async fn list(&self, scope: Scope<'_>) -> Result<Vec<ListedVolume>>;
}
