//! The volumes port: where homes live while they are not archived.

pub mod directory;
mod purge;

use std::path::PathBuf;

use async_trait::async_trait;
use codehub_domain::{ErrorReason, Failure, UserId, VolumeKey, WorkspaceId};

/// Why something with a volume did not work. Never means "is not there".
#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    /// The backend did not answer: it is tried again without end.
    #[error("{0}")]
    Unreachable(String),
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

/// Where homes are while they are used. Every call is idempotent, and an error means "could not", never "is not
/// there".
#[async_trait]
pub trait Volumes: Send + Sync + 'static {
    /// `directory`, `docker`: saved with the workspace.
    fn kind(&self) -> &'static str;
    async fn ping(&self) -> Result<()>;
    /// Makes an empty volume, durable before it returns; succeeds where it already exists.
    async fn create(&self, key: &VolumeKey) -> Result<()>;
    /// Removes it with all that is in it; succeeds where there is none. A volume that is half
    /// deleted does not exist any more: a crash in between never leaves one that looks whole.
    async fn delete(&self, key: &VolumeKey) -> Result<()>;
    /// Complete for its scope, or an error.
    async fn list(&self, scope: Scope<'_>) -> Result<Vec<VolumeKey>>;
    /// Where the volume is on this machine, for backends that have such a place.
    fn path(&self, key: &VolumeKey) -> Option<PathBuf>;
}
