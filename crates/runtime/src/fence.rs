//! The fence: whether the process that asked for something still leads.

use std::{fmt, sync::Arc};

use codehub_archive::ArchiveError;
use futures::future::BoxFuture;

use crate::{RuntimeError, volumes::VolumeError};

type Question = dyn Fn() -> BoxFuture<'static, Result<(), Fenced>> + Send + Sync;

/// Asked by a backend between preparing something and doing it, as late as it can: a leader that was
/// replaced meanwhile then changes nothing any more. Cheap to clone.
#[derive(Clone, Default)]
pub struct Fence(Option<Arc<Question>>);

/// The work was not done: another process leads, or nobody can tell which one does.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Fenced(pub String);

impl Fence {
    /// Lets everything pass: for tools and tests that are alone by construction.
    pub fn open() -> Self {
        Self(None)
    }

    /// Asks `question` each time.
    pub fn new(
        question: impl Fn() -> BoxFuture<'static, Result<(), Fenced>> + Send + Sync + 'static,
    ) -> Self {
        Self(Some(Arc::new(question)))
    }

    /// Asks whether to go on.
    ///
    /// # Errors
    /// Another process leads, or nobody can tell.
    pub async fn check(&self) -> Result<(), Fenced> {
        match &self.0 {
            Some(question) => question().await,
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Fence" } else { "Fence(open)" })
    }
}

// Retried without end, by whoever leads then: nothing is wrong with the workspace.

impl From<Fenced> for RuntimeError {
    fn from(Fenced(message): Fenced) -> Self {
        Self::Unreachable(message)
    }
}

impl From<Fenced> for VolumeError {
    fn from(Fenced(message): Fenced) -> Self {
        Self::Unreachable(message)
    }
}

impl From<Fenced> for ArchiveError {
    fn from(Fenced(message): Fenced) -> Self {
        Self::Unreachable { message }
    }
}
